"""Images of holdouts are compared like those of further splits, and are no images of the run."""

from __future__ import annotations

import itertools

from hypothesis import given

from tests.transforms.selection.test_equal_images import FILES, IMAGES, Drawn, batches, placed
from transforms.core.records import BucketDuplicates, FingerprintBatch, PlannedImage
from transforms.selection.duplicates import (
    CONTENT,
    MAX_DISTANCE,
    ContentGroup,
    Equal,
    decide,
    find_equal,
    find_near,
    held_file,
    held_image,
    held_place,
    is_held,
    split_of,
)

HELD = [held_file(1, file) for file in FILES]


def found_in(images: list[Drawn], held: list[Drawn]) -> list[BucketDuplicates]:
    grouped: dict[int, list[FingerprintBatch]] = {}
    for bucket, batch in batches([*images, *held], files=[*FILES, *HELD]):
        grouped.setdefault(bucket, []).append(batch)
    return [find_equal(batch) for batch in grouped.values()]


@given(IMAGES, IMAGES)
def test_pairs_are_those_of_all_with_all(images: list[Drawn], others: list[Drawn]) -> None:
    # Equal files have equal pixels.
    hashes = {image.content: image.perceptual_hash for image in (*images, *others)}
    images = [each._replace(perceptual_hash=hashes[each.content]) for each in images]
    held = [
        each._replace(file=held_file(1, each.file), perceptual_hash=hashes[each.content])
        for each in others
    ]
    found, alone = found_in(images, held), found_in(images, [])
    contents = {image.content for image in held}
    equal = [Equal(*bucket.equal) for bucket in found]
    assert sum(each.held for each in equal) == len(
        {image.content for image in images if image.content in contents}
    )
    # Counts of the new images are those without holdouts, but for groups of one.
    for name in ("across_splits", "conflicts", "dropped"):
        totals = [
            sum(getattr(Equal(*each.equal), name) for each in these) for these in (found, alone)
        ]
        assert totals[0] == totals[1]
    for group in itertools.chain.from_iterable(each.listed for each in equal):
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


def image(key: str, split: str = "train", label: str = "cat") -> PlannedImage:
    return PlannedImage(0, key, f"{key}.jpg", 5, 1, label, split=split, rows=1)


ROW = {"key": "h", "path": "h.jpg", "size": 5, "record": 0, "split": "test"}
MARK = held_image("bench", ROW, bytes(16), ["cat"])


def test_all_images_with_the_content_of_a_holdout_are_dropped() -> None:
    assert held_place(MARK) == ("bench", "test", "0" * 32)
    for images in ([image("a")], [image("a"), image("b", label="dog")]):
        group = ContentGroup()
        for each in (*images, MARK):
            group.add(each)
        verdict, equal = decide(group, md5=f"{CONTENT}00")
        assert (verdict.kept, verdict.reason) == ("", "holdout_image")
        assert all(map(verdict.rejection, images))
        assert verdict.detail == "an exact duplicate of 'h.jpg' in --holdout bench, split test"
        assert (equal.dropped, equal.conflicts, equal.held) == (len(images), 0, 1)
        assert equal.listed[0]["images"][-1]["dataset"] == "bench"
    for one in (MARK, image("a")):
        group = ContentGroup()
        group.add(one)
        assert not group.has_several


def test_groups_merge_in_any_order() -> None:
    one, other = ContentGroup(), ContentGroup()
    one.add(image("a"))
    other.add(MARK)
    for group, more in ((one, other), (other, one)):
        merged = ContentGroup()
        merged.merge(group)
        merged.merge(more)
        verdict, _ = decide(merged, md5="x")
        assert (merged.images, verdict.reason) == (1, "holdout_image")
