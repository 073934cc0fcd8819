"""Equal and near images are those that a comparison of all with all finds, in any order."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.records.tables import IndexedImage, index_of
from transforms.core.records import BucketDuplicates, FingerprintBatch
from transforms.selection import duplicates as equal_images
from transforms.selection.duplicates import (
    BUCKETS,
    MANY_BUCKETS,
    MAX_DISTANCE,
    MAX_GROUPS,
    MAX_IMAGES,
    MAX_PAIRS,
    Equal,
    Near,
    Record,
    find_equal,
    find_near,
    fingerprint_batches,
    merge_equal,
)


class Drawn(NamedTuple):
    """An image: its shard, content, perceptual hash and class."""

    file: str
    content: int
    perceptual_hash: int | None
    label: str


def content(number: int) -> int:
    """128 bits as a hash has them: all parts differ."""
    return number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


FILES = [
    f"{split}-0000{number}-of-00002.tfrecord" for split in ("test", "train") for number in (0, 1)
]
# Few contents and hashes, so that many are equal or near.
HASH = st.integers(0, 7).map(lambda number: number * 0x0101_0101_0101_0101 ^ (number >> 1))
IMAGES = st.lists(
    st.builds(
        Drawn,
        st.sampled_from(FILES),
        st.integers(0, 9).map(content),
        st.one_of(st.none(), HASH),
        st.sampled_from(["cat", "dog"]),
    ),
    max_size=25,
)


def batches(
    images: list[Drawn], number: int = BUCKETS, files: Sequence[str] = FILES
) -> list[tuple[int, FingerprintBatch]]:
    found = []
    for file in files:
        own = [image for image in images if image.file == file]
        index = index_of(
            [
                IndexedImage(
                    classes=[image.label],
                    content=f"{image.content:032x}",
                    perceptual_hash=image.perceptual_hash,
                )
                for image in own
            ],
            # That of a shard which is held out has a number before it.
            file.rpartition(":")[2],
        )
        found += list(fingerprint_batches(index, file, number))
    return found


def buckets(
    images: list[Drawn], number: int = BUCKETS, files: Sequence[str] = FILES
) -> list[list[FingerprintBatch]]:
    grouped: dict[int, list[FingerprintBatch]] = {}
    for bucket, batch in batches(images, number, files):
        grouped.setdefault(bucket, []).append(batch)
    return list(grouped.values())


def found_in(images: list[Drawn]) -> list[BucketDuplicates]:
    return [find_equal(bucket) for bucket in buckets(images)]


def placed(images: list[Drawn]) -> dict[Record, Drawn]:
    numbers: Counter[str] = Counter()
    places = {}
    for image in images:
        places[image.file, numbers[image.file]] = image
        numbers[image.file] += 1
    return places


@given(IMAGES)
def test_equal_images_as_by_hand(images: list[Drawn]) -> None:
    equal = merge_equal(found.equal for found in found_in(images))
    groups: dict[int, list[Record]] = {}
    places = placed(images)
    for place, image in places.items():
        groups.setdefault(image.content, []).append(place)
    several = [sorted(group) for group in groups.values() if len(group) > 1]
    listed = [[(file, number) for file, number in group["images"]] for group in equal.listed]
    assert sorted(listed) == sorted(several)
    assert (equal.groups, equal.images) == (len(several), sum(map(len, several)))
    assert equal.conflicts == sum(len({places[at].label for at in g}) > 1 for g in several)
    assert equal.across_splits == sum(len({f.split("-")[0] for f, _ in g}) > 1 for g in several)
    urgency = [(not group["conflict"], not group["across_splits"]) for group in equal.listed]
    assert urgency == sorted(urgency)


@given(IMAGES, st.data())
def test_the_order_of_arrival_makes_no_difference(images: list[Drawn], data: st.DataObject) -> None:
    in_order = found_in(images)
    shuffled = [find_equal(data.draw(st.permutations(bucket))) for bucket in buckets(images)]
    assert shuffled == in_order
    other = data.draw(st.permutations(in_order))
    assert merge_equal(each.equal for each in other) == merge_equal(each.equal for each in in_order)
    count = len(images)
    assert find_near(other, images=count) == find_near(in_order, images=count)


def by_hand(images: list[Drawn]) -> set[tuple[int, Record, Record]]:
    """All pairs of near-duplicates among the first image of each content in each split."""
    first: dict[tuple[int, str], tuple[Record, int]] = {}
    for place, image in sorted(placed(images).items()):
        if image.perceptual_hash is not None:
            first.setdefault(
                (image.content, place[0].split("-")[0]), (place, image.perceptual_hash)
            )
    pairs = set()
    for (one_key, one), (other_key, other) in itertools.combinations(sorted(first.items()), 2):
        distance = (one[1] ^ other[1]).bit_count()
        if one_key[0] != other_key[0] and distance <= MAX_DISTANCE:
            places = sorted([one[0], other[0]])
            pairs.add((distance, places[0], places[1]))
    return pairs


@given(IMAGES)
def test_near_images_as_by_hand(images: list[Drawn]) -> None:
    near = find_near(found_in(images), images=len(images))
    pairs = by_hand(images)
    assert near.pairs == len(pairs)
    assert set(near.listed) == pairs
    assert near.compared == sum(image.perceptual_hash is not None for image in images)
    across = [one[0].split("-")[0] != other[0].split("-")[0] for _, one, other in near.listed]
    assert near.across_splits == sum(across)
    order = [(not is_so, listed[0]) for is_so, listed in zip(across, near.listed, strict=True)]
    assert order == sorted(order)


def with_limit(number: int) -> pytest.MonkeyPatch:
    """Lists fewer images of each group, so that few images are too many."""
    patch = pytest.MonkeyPatch()
    patch.setattr(equal_images, "MAX_IMAGES", number)
    return patch


@given(IMAGES, st.integers(2, 4))
def test_images_that_are_left_out_of_the_shuffle_are_counted(
    drawn: list[Drawn], limit: int
) -> None:
    # Images with the same content have the same hash, or all of them none.
    hashes: dict[int, int | None] = {}
    images = [
        each._replace(perceptual_hash=hashes.setdefault(each.content, each.perceptual_hash))
        for each in drawn
    ]
    whole = found_in(images)
    equal, near = merge_equal(each.equal for each in whole), find_near(whole, images=len(images))
    patch = with_limit(limit)
    try:
        shuffled = buckets(images)
        bounded = [find_equal(bucket) for bucket in shuffled]
        short = merge_equal(each.equal for each in bounded)
    finally:
        patch.undo()
    per_content = Counter(
        (row["content"].item(), batch.file)
        for bucket in shuffled
        for batch in bucket
        for row in np.frombuffer(batch.rows, equal_images.FINGERPRINT)
    )
    assert max(per_content.values(), default=0) <= limit + 1  # for all others
    assert short[:5] == equal[:5]
    listed = sorted((group["images"][:limit] for group in equal.listed), key=str)
    assert sorted((group["images"] for group in short.listed), key=str) == listed
    assert find_near(bounded, images=len(images)) == near


@given(IMAGES, st.integers(1, 30))
def test_buckets_and_an_early_sample_change_nothing(images: list[Drawn], compared: int) -> None:
    whole = found_in(images)
    many = buckets(images, MANY_BUCKETS)
    sampled = [find_equal(bucket, images=len(images), max_compared=compared) for bucket in many]
    assert merge_equal(each.equal for each in sampled) == merge_equal(each.equal for each in whole)
    near = find_near(whole, images=len(images), max_compared=compared)
    assert find_near(sampled, images=len(images), max_compared=compared) == near


def test_what_crosses_the_shuffle_is_bounded_for_equal_images() -> None:
    files = [f"train-{number:05d}-of-00030.tfrecord" for number in range(30)]
    images = [
        Drawn(files[number % 30], content(1), 5, "cat" if number else "dog")
        for number in range(30_000)
    ]
    [bucket] = buckets(images, MANY_BUCKETS, files)
    # 50 bytes for each of 20 fingerprints, and the name of the shard.
    assert max(sum(map(len, batch)) for batch in bucket) < 20 * 50 + 100
    found = find_equal(bucket, images=len(images))
    equal = Equal(*found.equal)
    assert (equal.groups, equal.images, equal.conflicts) == (1, 30_000, 1)
    assert len(equal.listed[0]["images"]) == MAX_IMAGES
    assert find_near([found], images=len(images)).compared == 30_000
    assert sum(map(len, found)) < 2_000


def test_the_publishing_worker_gets_only_the_sample() -> None:
    images = [Drawn(FILES[number % 4], content(number), number, "") for number in range(2000)]
    many = buckets(images, MANY_BUCKETS)
    hashes = [find_equal(bucket, images=2000, max_compared=100).hashes for bucket in many]
    # 28 bytes for each, as text.
    assert sum(map(len, hashes)) < 150 * 28 * 4 / 3 + 4 * len(hashes)


def test_every_pair_within_the_distance_is_found() -> None:
    flips = [
        bits for count in range(1, 5) for bits in itertools.combinations(range(0, 64, 7), count)
    ]
    for bits in flips:
        perceptual_hash = sum(1 << bit for bit in bits)
        images = [
            Drawn(FILES[0], content(1), 0, ""),
            Drawn(FILES[2], content(2), perceptual_hash, ""),
        ]
        found = [find_equal(bucket) for bucket in buckets(images, files=FILES[::2])]
        near = find_near(found, images=2)
        assert near.pairs == (len(bits) <= MAX_DISTANCE), bits


def test_what_is_listed_is_bounded() -> None:
    images = [Drawn(FILES[0], content(number // 2), number, "") for number in range(1, 401)]
    images += [Drawn(FILES[1], content(1000), 5, "") for _ in range(50)]
    images += [Drawn(FILES[0], content(2000), 5, ""), Drawn(FILES[2], content(2000), 5, "")]
    equal = merge_equal(each.equal for each in found_in(images))
    assert len(equal.listed) == MAX_GROUPS
    assert equal.listed[0]["across_splits"]
    assert max(len(group["images"]) for group in equal.listed) <= MAX_IMAGES
    near = find_near(found_in(images), images=len(images))
    assert len(near.listed) == MAX_PAIRS < near.pairs


def test_of_too_many_images_a_fair_sample_is_compared() -> None:
    images = [Drawn(FILES[number % 4], content(number), number, "") for number in range(2000)]
    near = find_near(found_in(images), images=2000, max_compared=500)
    assert 400 < near.compared < 600
    assert near == find_near(found_in(images)[::-1], images=2000, max_compared=500)


def test_nothing_to_compare() -> None:
    assert find_near([], images=0) == Near(0, 0, 0, ())
    assert merge_equal([]).groups == 0


def test_another_label_among_many_equal_images_is_a_conflict() -> None:
    labels = ["cat"] * (MAX_IMAGES + 5) + ["dog"] + ["cat"] * 3
    images = [Drawn(FILES[0], content(1), None, label) for label in labels]
    assert merge_equal(each.equal for each in found_in(images)).conflicts == 1
