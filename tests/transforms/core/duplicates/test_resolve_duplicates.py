"""Of exact duplicates the smallest key stays; of contradictory ones none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.duplicates.resolve_duplicates import resolve_duplicates
from transforms.core.records import LabelledImage

MD5 = "0" * 32


def image(key: str, label: str = "cat", split: str = "train", cells: str = "") -> LabelledImage:
    return LabelledImage(split, 0, key, f"{key}.jpg", 9, 0, label, 1, cells)


def test_a_single_image_stays() -> None:
    assert resolve_duplicates([image("a")], md5=MD5) == (image("a"), (), 0, None)


@given(st.permutations([image("c", split="test"), image("a"), image("b")]))
def test_the_smallest_key_stays(images: list[LabelledImage]) -> None:
    decision = resolve_duplicates(images, md5=MD5)
    assert decision.kept == image("a")
    assert [(r.key, r.reason, r.detail) for r in decision.rejections] == [
        (key, "duplicate_image", "an exact duplicate of 'a.jpg', which is kept")
        for key in ("b", "c")
    ]
    assert decision.rows == 2
    assert decision.equal is not None
    assert decision.equal.counts == (1, 3, 1, 0, 2)


@given(st.permutations([image("a"), image("b", "dog"), image("c")]))
def test_different_labels_reject_all(images: list[LabelledImage]) -> None:
    decision = resolve_duplicates(images, md5=MD5)
    assert decision.kept is None
    assert [(r.key, r.reason) for r in decision.rejections] == [
        (key, "conflicting_labels") for key in "abc"
    ]
    assert "labelled 'cat', 'dog'" in decision.rejections[0].detail
    assert decision.equal is not None
    assert decision.equal.counts == (1, 3, 0, 1, 0)


def test_the_labels_of_rows_are_compared_as_sets() -> None:
    one = '[["a.csv:2",["dog","cat"],[]]]'
    other = '[["a.csv:3",["cat"],[]],["a.csv:4",["dog"],[]]]'
    assert (
        resolve_duplicates([image("a", "", cells=one), image("b", "", cells=other)], md5=MD5).kept
        is not None
    )
    third = '[["a.csv:5",["cat"],[]]]'
    assert (
        resolve_duplicates([image("a", "", cells=one), image("c", "", cells=third)], md5=MD5).kept
        is None
    )
