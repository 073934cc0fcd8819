"""Images from memory: the check of elements, and the join of their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels.shards import SplitAssigner, Splits
from transforms.stage_images import given_image, join_given

ASSIGNER = SplitAssigner(Splits((("train", 0.5), ("test", 0.5))), seed=0, split_from="csv")


def test_labels_are_texts_without_empty_and_repeated_ones() -> None:
    assert given_image(("a", b"x")).labels == ()
    assert given_image(("a", b"x", ["b", None, 7.0, "b", " ", float("nan")])).labels == ("b", "7")
    assert given_image(("a", b"x", {"b", "a"})).labels == ("a", "b")
    assert given_image(("a", bytearray(b"x"), 0, "TRAIN")) == ("a", b"x", ("0",), "train")


def test_strings_of_numpy_become_plain_ones() -> None:
    """Names that are packed must be: others come back as bytes."""
    key, _, labels, split = given_image((np.str_("a"), b"x", np.str_("cat"), np.str_("test")))
    assert {type(each) for each in (key, *labels, split)} == {str}


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ("a.jpg", r"an image is a tuple \(key, bytes\).*, not the str 'a.jpg'"),
        (("a",), r"an image is a tuple .*, not the tuple \('a',\)"),
        ((1, b"x"), "the key of an image is a str, not the int 1"),
        ((Path("a"), b"x"), "the key of an image is a str, not the PosixPath"),
        ((" ", b"x"), "the key of an image is empty"),
        (("a", "cat"), r"image 'a' is the str 'cat', not bytes.*LabelImages takes paths"),
        (("a", None, "cat"), "the image 'a' is None, not bytes"),
        (("a", b"x", b"cat"), "a label of 'a' is a str or a number, not the bytes b'cat'"),
        (("a", b"x", {"cat": 1}), "a label of 'a' is a str or a number, not the dict"),
        (("a", b"x", ["cat", ["dog"]]), "a label of 'a' is a str or a number, not the list"),
        (("a", b"x", "cat", 3), "the split of 'a' is a str or None, not the int 3"),
    ],
)
def test_an_element_of_another_form_is_refused_in_one_line(element: object, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as raised:
        given_image(element)
    assert "\n" not in str(raised.value)


SIDES = st.builds(
    JoinSide,
    path=st.sampled_from(["a", "a "]),
    size=st.just(1),
    version=st.sampled_from([1, 2]),
    label=st.sampled_from(["", "cat", "dog"]),
    where=st.just(""),
    split=st.sampled_from(["", "train", "../x"]),
    kind=st.just(Kind.IMAGE),
    record=st.just(()),
)


@given(sides=st.lists(SIDES, min_size=1, max_size=6), is_labelled=st.booleans(), data=st.data())
def test_every_image_is_accounted_for_in_any_order(
    sides: list[JoinSide], is_labelled: bool, data: st.DataObject
) -> None:
    def joined(group: list[JoinSide]) -> tuple[list[object], int, int]:
        results = list(join_given("a", group, assigner=ASSIGNER, is_labelled=is_labelled))
        counts = [r for r in results if isinstance(r, Count)]
        again = sum(r.value for r in counts if r.name == "images_found_again")
        left = [r for r in results if not isinstance(r, Count)]
        return left, again, sum(isinstance(r, PlannedImage) for r in left)

    left, again, written = joined(sides)
    assert len(left) + again == len(sides)
    assert written <= 1 and (not written or len(left) == 1)
    assert all(isinstance(r, PlannedImage | Rejection) for r in left)
    assert joined(data.draw(st.permutations(sides))) == (left, again, written)
