"""Equal and near images are those that a comparison of all with all finds, in any order."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.duplicates.equal_images import (
    MAX_DISTANCE,
    MAX_GROUPS,
    MAX_IMAGES,
    MAX_PAIRS,
    Near,
    Record,
    equal_of,
    find_equal,
    find_near,
    merge_equal,
)
from transforms.core.duplicates.fingerprints import ShardIndex
from transforms.core.records import BucketDuplicates, FingerprintBatch


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


def batches(images: list[Drawn]) -> list[tuple[int, FingerprintBatch]]:
    found = []
    for file in FILES:
        own = [image for image in images if image.file == file]
        index = ShardIndex(
            keys=[""] * len(own),
            paths=[""] * len(own),
            classes=[[image.label] for image in own],
            lengths=[0] * len(own),
            contents=[f"{image.content:032x}" for image in own],
            perceptual_hashes=[
                "" if image.perceptual_hash is None else f"{image.perceptual_hash:016x}"
                for image in own
            ],
        )
        found += list(index.fingerprint_batches(file))
    return found


def buckets(images: list[Drawn]) -> list[list[FingerprintBatch]]:
    grouped: dict[int, list[FingerprintBatch]] = {}
    for bucket, batch in batches(images):
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
    equal = merge_equal(equal_of(found) for found in found_in(images))
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
    assert merge_equal(map(equal_of, other)) == merge_equal(map(equal_of, in_order))
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


def test_every_pair_within_the_distance_is_found() -> None:
    flips = [
        bits for count in range(1, 5) for bits in itertools.combinations(range(0, 64, 5), count)
    ]
    for bits in flips:
        perceptual_hash = sum(1 << bit for bit in bits)
        images = [
            Drawn(FILES[0], content(1), 0, ""),
            Drawn(FILES[2], content(2), perceptual_hash, ""),
        ]
        near = find_near(found_in(images), images=2)
        assert near.pairs == (len(bits) <= MAX_DISTANCE), bits


def test_what_is_listed_is_bounded() -> None:
    images = [Drawn(FILES[0], content(number // 2), number, "") for number in range(1, 401)]
    images += [Drawn(FILES[1], content(1000), 5, "") for _ in range(50)]
    images += [Drawn(FILES[0], content(2000), 5, ""), Drawn(FILES[2], content(2000), 5, "")]
    equal = merge_equal(map(equal_of, found_in(images)))
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
