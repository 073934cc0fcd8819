"""Arguments of a caller's program: right ones pass as they are, wrong ones are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core import option as check
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.images.pixel_options import Limits, PixelOptions
from transforms.labels.shards import SplitAssigner, Splits
from transforms.stage_images import given_image, join_given


def test_what_is_right() -> None:
    assert check.path_text("a", Path("b/c")) == "b/c"
    assert check.path_texts("a", (each for each in ("b", Path("c")))) == ("b", "c")
    assert check.class_texts("a", None) is None
    assert check.whole_number("a", 3, 1, 3) == 3
    assert check.truth("a", False) is False


@cases(
    (check.path_text, (3,), TypeError, "a is a path, a str or an os.PathLike, not the int 3"),
    (check.path_text, (None,), TypeError, "not None"),
    (check.path_text, (b"x",), TypeError, "not the bytes b'x'"),
    (check.path_text, (" ",), ValueError, "a is empty: give a path"),
    (check.path_text, (Path("gs://b/c"),), ValueError, "'gs:/b/c' is a URL that a Path cannot"),
    (check.path_texts, ("*.jpg",), TypeError, "a is a sequence: write ['*.jpg']"),
    (check.path_texts, (Path("x"),), TypeError, "a is a sequence: write ["),
    (check.path_texts, ({"x": 1},), TypeError, "a is a sequence, not the dict"),
    (check.path_texts, (None,), TypeError, "a is a sequence, not None"),
    (check.path_texts, ([],), ValueError, "a is empty: give at least one"),
    (check.path_texts, (["x", 3],), TypeError, "a[1] is a path"),
    (check.class_texts, ("cat",), TypeError, "a is a sequence: write ['cat']"),
    (check.class_texts, ([],), ValueError, "a is empty"),
    (check.class_texts, (["cat", "cat"],), ValueError, "a[1] 'cat' is given twice"),
    (check.class_texts, (["cat", " "],), ValueError, "a[1] ' ' is empty"),
    (check.class_texts, ([1, 2],), TypeError, "a[0] is a str, not the int 1"),
    (check.whole_number, (0, 1), ValueError, "a is at least 1, not 0"),
    (check.whole_number, (4, 1, 3), ValueError, "a is at least 1 and at most 3, not 4"),
    (check.whole_number, (1.0, 1), TypeError, "a is an int, not the float 1.0"),
    (check.whole_number, (True, 1), TypeError, "a is an int, not the bool True"),
    (check.truth, ("no",), TypeError, "a is True or False, not the str 'no'"),
    (lambda _, *given: Limits(*given), (0, 1), ValueError, "max_pixels is at least 1"),
    (lambda _, *given: Limits(*given), (1, "1MB"), TypeError, "max_bytes is an int, not the str"),
)
def test_what_is_wrong_is_named(
    check: Any, arguments: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as raised:
        check("a", *arguments)
    assert says in str(raised.value)
    assert "--" not in str(raised.value)


@cases(
    ({"transcode": "jpg"}, "--transcode 'jpg' is not one of keep, auto, jpeg, png; did you"),
    ({"color": "blue"}, "--color 'blue' is not one of keep, rgb, gray"),
    ({"color": "gray", "quality": 0}, "--quality '0' is not a whole number above 0"),
    ({"exif_orientation": "yes"}, "--exif_orientation 'yes' is not one of keep, apply"),
    ({"depth": 12}, "--depth '12' is neither 8 nor 16"),
)
def test_options_of_pixels_that_no_flag_gives(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PixelOptions(**options)


def test_limits_are_a_tuple_and_flags_become_arguments() -> None:
    assert tuple(Limits(max_pixels=2, max_bytes=3)) == (2, 3)
    assert check.own_words("give --label_key N or a --layout") == "give label_key N or a layout"
    assert check.own_words("a--b, -- c") == "a--b, -- c"


# Images from memory: the check of elements, and the join of their names.

ASSIGNER = SplitAssigner(Splits((("train", 0.5), ("test", 0.5))), seed=0, split_from="csv")


def test_labels_are_plain_texts_without_empty_and_repeated_ones() -> None:
    assert given_image(("a", b"x")).labels == ()
    assert given_image(("a", b"x", ["b", None, 7.0, "b", " ", float("nan")])).labels == ("b", "7")
    assert given_image(("a", b"x", {"b", "a"})).labels == ("a", "b")
    assert given_image(("a", bytearray(b"x"), 0, "TRAIN")) == ("a", b"x", ("0",), "train")
    # Names that are packed must be: others come back as bytes.
    key, _, labels, split = given_image((np.str_("a"), b"x", np.str_("cat"), np.str_("test")))
    assert {type(each) for each in (key, *labels, split)} == {str}


@cases(
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
