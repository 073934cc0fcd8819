"""Of exact duplicates the smallest key stays; of contradictory ones none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import LabelledImage
from transforms.records.fingerprints import MAX_IMAGES
from transforms.selection.duplicates import ContentGroup, Decision, decide, resolve_duplicates

MD5 = "0" * 32


def image(key: str, label: str = "cat", split: str = "train", cells: str = "") -> LabelledImage:
    return LabelledImage(split, 0, key, f"{key}.jpg", 9, 0, label, 1, cells)


def test_a_single_image_stays() -> None:
    assert resolve_duplicates([image("a")], md5=MD5) == Decision(image("a"))


def test_partners_of_dropped_images_are_counted() -> None:
    found = [image(key)._replace(partners='[["a.png",1,2],["b.png",3,4]]') for key in "abc"]
    assert resolve_duplicates(found, md5=MD5).partners == 4


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


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(["cat", "dog"]), st.sampled_from("ab")),
        min_size=2,
        max_size=50,
        unique_by=lambda drawn: drawn[0],
    ),
    st.lists(st.integers(0, 3), min_size=50, max_size=50),
)
def test_a_group_is_added_up_in_any_parts(
    drawn: list[tuple[int, str, str]], places: list[int]
) -> None:
    images = [image(f"{number:02}", label, split) for number, label, split in drawn]
    groups = [ContentGroup() for _ in range(4)]
    for each, place in zip(images, places, strict=False):
        groups[place].add(each)
    merged = ContentGroup()
    for group in groups:
        merged.merge(group)
    decision = resolve_duplicates(images, md5=MD5)
    verdict, equal = decide(merged, md5=MD5)
    assert equal == decision.equal
    in_order = sorted(images, key=lambda each: each.key)
    assert tuple(filter(None, map(verdict.rejection, in_order))) == decision.rejections
    assert len(merged.first) <= MAX_IMAGES


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
