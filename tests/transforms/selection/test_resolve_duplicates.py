"""Of exact duplicates the smallest key stays; of contradictory ones, and of holdouts, none."""

import itertools
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.transforms.selection.test_equal_images import FILES, IMAGES, Drawn, found_in, placed
from transforms.core.records import PlannedImage
from transforms.selection.duplicates import (
    CONTENT,
    MAX_DISTANCE,
    MAX_IMAGES,
    ContentGroup,
    Equal,
    decide,
    find_near,
    held_file,
    held_image,
    is_held,
    split_of,
)

MD5 = "0" * 32


def image(key: str, label: str = "cat", split: str = "train", cells: str = "") -> PlannedImage:
    return PlannedImage(0, key, f"{key}.jpg", 9, 0, label, split=split, rows=1, cells=cells)


def group_of(*images: PlannedImage) -> ContentGroup:
    group = ContentGroup()
    for each in images:
        group.add(each)
    return group


ROW = {"key": "h", "path": "h.jpg", "size": 5, "record": 0, "split": "test"}
MARK = held_image("bench", ROW, bytes(16), ["cat"])
A, B, C = image("a"), image("b"), image("c", split="test")
DOG = image("b", "dog")
HELD = "an exact duplicate of 'h.jpg' in --holdout bench, split test"
IS_A = "an exact duplicate of 'a.jpg', which is kept"


@cases(([A], False), ([MARK], False), ([A, B], True), ([A, MARK], True))
def test_several_images_are_decided_about(images: list[PlannedImage], has_several: bool) -> None:
    assert group_of(*images).has_several == has_several


@cases(
    ([C, A, B], "a", "duplicate_image", IS_A, (1, 3, 1, 0, 2)),
    ([A, DOG, C], "", "conflicting_labels", "labelled 'cat', 'dog'", (1, 3, 1, 1, 0)),
    # All images with the content of a holdout are dropped, whatever their labels.
    ([A, MARK], "", "holdout_image", HELD, (1, 1, 0, 0, 1)),
    ([A, DOG, MARK], "", "holdout_image", HELD, (1, 2, 0, 0, 2)),
)
def test_which_image_stays(
    images: list[PlannedImage], kept: str, reason: str, detail: str, equal: tuple[int, ...]
) -> None:
    for each in itertools.permutations(images):
        verdict, found = decide(group_of(*each), md5=f"{CONTENT}00" if MARK in images else MD5)
        assert (verdict.kept, verdict.reason) == (kept, reason)
        assert detail in verdict.detail
        assert found[:5] == equal
        assert found.held == images.count(MARK)
        for one in (one for one in images if one != MARK):
            rejection = verdict.rejection(one)
            assert (rejection is None) == (one.key == kept)
            assert rejection is None or (rejection.key, rejection.reason) == (one.key, reason)
        if MARK in images:
            assert found.listed[0]["images"][-1]["dataset"] == "bench"


DRAWN = st.tuples(st.integers(0, 60), st.sampled_from(["cat", "dog"]), st.sampled_from("ab"))


@given(
    st.lists(DRAWN, min_size=2, max_size=50, unique_by=lambda drawn: drawn[0]),
    st.booleans(),
    st.lists(st.integers(0, 3), min_size=51, max_size=51),
)
def test_a_group_is_added_up_in_any_parts(
    drawn: list[tuple[int, str, str]], has_mark: bool, places: list[int]
) -> None:
    images = [image(f"{number:02}", label, split) for number, label, split in drawn]
    images += [MARK] * has_mark
    merged = ContentGroup()
    for at in range(4):
        own = [each for each, place in zip(images, places, strict=False) if place == at]
        merged.merge(group_of(*own))
    assert decide(merged, md5=MD5) == decide(group_of(*images), md5=MD5)
    assert merged.images == len(drawn)
    assert len(merged.first) <= MAX_IMAGES


@cases(('[["a.csv:3",["cat"],[]],["a.csv:4",["dog"],[]]]', "a"), ('[["a.csv:5",["cat"],[]]]', ""))
def test_the_labels_of_rows_are_compared_as_sets(other: str, kept: str) -> None:
    one = image("a", "", cells='[["a.csv:2",["dog","cat"],[]]]')
    assert decide(group_of(one, image("b", "", cells=other)), md5=MD5)[0].kept == kept


# Images of holdouts are compared like those of further splits, and are no images of the run.

HELD_FILES = [held_file(1, file) for file in FILES]


def totals(found: Iterable[Any], name: str) -> int:
    return sum(getattr(Equal(*each.equal), name) for each in found)


@given(IMAGES, IMAGES)
def test_pairs_are_those_of_all_with_all(images: list[Drawn], others: list[Drawn]) -> None:
    # Equal files have equal pixels.
    hashes = {image.content: image.perceptual_hash for image in (*images, *others)}
    images = [each._replace(perceptual_hash=hashes[each.content]) for each in images]
    held = [
        each._replace(file=held_file(1, each.file), perceptual_hash=hashes[each.content])
        for each in others
    ]
    found = found_in([*images, *held], [*FILES, *HELD_FILES])
    alone = found_in(images, [*FILES, *HELD_FILES])
    contents = {image.content for image in held}
    assert totals(found, "held") == len({each.content for each in images} & contents)
    # Counts of the new images are those without holdouts, but for groups of one.
    for name in ("across_splits", "conflicts", "dropped"):
        assert totals(found, name) == totals(alone, name)
    for group in itertools.chain.from_iterable(Equal(*each.equal).listed for each in found):
        files = [file for file, _ in group["images"]]
        assert not is_held(files[0])
        assert any(map(is_held, files)) == ("held" in group)
    near = find_near(found, images=len(images))
    before = find_near(alone, images=len(images))
    own = (near.pairs, near.across_splits, near.compared, near.listed[: len(before.listed)])
    assert own == (before.pairs, before.across_splits, before.compared, before.listed)
    # One image of each content and split represents all of them.
    places = placed([*images, *held])
    pairs = {
        (split_of(one.file), one.content, split_of(other.file), other.content)
        for one, other in itertools.product(images, held)
        if one.content != other.content
        and one.perceptual_hash is not None
        and other.perceptual_hash is not None
        and (one.perceptual_hash ^ other.perceptual_hash).bit_count() <= MAX_DISTANCE
    }
    assert near.held == len(pairs)
    for _, mine, theirs in near.listed[len(before.listed) :]:
        assert not is_held(mine[0])
        assert is_held(theirs[0])
        assert places[mine].content != places[theirs].content
