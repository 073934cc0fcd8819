"""Of exact duplicates the smallest key stays; of contradictory ones none."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import PlannedImage
from transforms.selection.duplicates import MAX_IMAGES, ContentGroup, decide

MD5 = "0" * 32


def image(key: str, label: str = "cat", split: str = "train", cells: str = "") -> PlannedImage:
    return PlannedImage(0, key, f"{key}.jpg", 9, 0, label, split=split, rows=1, cells=cells)


def group_of(images: Iterable[PlannedImage]) -> ContentGroup:
    group = ContentGroup()
    for each in images:
        group.add(each)
    return group


def test_only_several_images_are_decided_about() -> None:
    assert not group_of([image("a")]).has_several
    assert group_of([image("a"), image("b")]).has_several


@given(st.permutations([image("c", split="test"), image("a"), image("b")]))
def test_the_smallest_key_stays(images: list[PlannedImage]) -> None:
    verdict, equal = decide(group_of(images), md5=MD5)
    assert verdict.kept == "a"
    assert verdict.rejection(image("a")) is None
    for key in ("b", "c"):
        rejection = verdict.rejection(image(key))
        assert rejection is not None
        assert (rejection.key, rejection.reason) == (key, "duplicate_image")
        assert rejection.detail == "an exact duplicate of 'a.jpg', which is kept"
    assert equal[:5] == (1, 3, 1, 0, 2)


@given(st.permutations([image("a"), image("b", "dog"), image("c")]))
def test_different_labels_reject_all(images: list[PlannedImage]) -> None:
    verdict, equal = decide(group_of(images), md5=MD5)
    assert verdict.kept == ""
    rejections = [verdict.rejection(each) for each in images]
    assert [each and each.reason for each in rejections] == ["conflicting_labels"] * 3
    assert "labelled 'cat', 'dog'" in verdict.detail
    assert equal[:5] == (1, 3, 0, 1, 0)


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
    assert decide(merged, md5=MD5) == decide(group_of(images), md5=MD5)
    assert len(merged.first) <= MAX_IMAGES


def test_the_labels_of_rows_are_compared_as_sets() -> None:
    one = '[["a.csv:2",["dog","cat"],[]]]'
    other = '[["a.csv:3",["cat"],[]],["a.csv:4",["dog"],[]]]'
    same = group_of([image("a", "", cells=one), image("b", "", cells=other)])
    assert decide(same, md5=MD5)[0].kept == "a"
    third = '[["a.csv:5",["cat"],[]]]'
    others = group_of([image("a", "", cells=one), image("c", "", cells=third)])
    assert decide(others, md5=MD5)[0].kept == ""
