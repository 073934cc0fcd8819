"""Equal and near images are those that a comparison of all with all finds, in any order."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.records.tables import IndexedImage, index_of
from transforms.core.records import BucketDuplicates, FingerprintBatch
from transforms.records.record_index import content_hash
from transforms.selection import duplicates as equal_images
from transforms.selection.duplicates import (
    BUCKETS,
    FINGERPRINT,
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

pytestmark = pytest.mark.slow


class Drawn(NamedTuple):
    """An image: its shard, content, perceptual hash and class."""

    file: str
    content: int
    perceptual_hash: int | None
    label: str = ""


def content(number: int) -> int:
    """128 bits as a hash has them: all parts differ."""
    return number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


FILES = [
    f"{split}-0000{number}-of-00002.tfrecord" for split in ("test", "train") for number in (0, 1)
]
# Few contents and hashes, so that many are equal or near.
HASH = st.integers(0, 7).map(lambda number: number * 0x0101_0101_0101_0101 ^ (number >> 1))
CONTENT = st.integers(0, 9).map(content)
LABEL = st.sampled_from(["cat", "dog"])
IMAGES = st.lists(
    st.builds(Drawn, st.sampled_from(FILES), CONTENT, st.none() | HASH, LABEL), max_size=25
)


def batches(
    images: list[Drawn], number: int = BUCKETS, files: Sequence[str] = FILES
) -> list[tuple[int, FingerprintBatch]]:
    found = []
    for file in files:
        rows = [
            IndexedImage(
                classes=[image.label],
                content=f"{image.content:032x}",
                perceptual_hash=image.perceptual_hash,
            )
            for image in images
            if image.file == file
        ]
        # That of a shard which is held out has a number before it.
        index = index_of(rows, file.rpartition(":")[2])
        found += list(fingerprint_batches(index, file, number))
    return found


def buckets(
    images: list[Drawn], number: int = BUCKETS, files: Sequence[str] = FILES
) -> list[list[FingerprintBatch]]:
    grouped: dict[int, list[FingerprintBatch]] = {}
    for bucket, batch in batches(images, number, files):
        grouped.setdefault(bucket, []).append(batch)
    return list(grouped.values())


def found_in(images: list[Drawn], files: Sequence[str] = FILES) -> list[BucketDuplicates]:
    return [find_equal(bucket) for bucket in buckets(images, files=files)]


def merged(found: Sequence[BucketDuplicates]) -> Equal:
    return merge_equal(each.equal for each in found)


def placed(images: list[Drawn]) -> dict[Record, Drawn]:
    numbers: Counter[str] = Counter()
    places = {}
    for image in images:
        places[image.file, numbers[image.file]] = image
        numbers[image.file] += 1
    return places


def split_of(place: Record) -> str:
    return place[0].split("-")[0]


@given(IMAGES)
def test_equal_images_as_by_hand(images: list[Drawn]) -> None:
    equal = merged(found_in(images))
    groups: dict[int, list[Record]] = {}
    places = placed(images)
    for place, image in places.items():
        groups.setdefault(image.content, []).append(place)
    several = [sorted(group) for group in groups.values() if len(group) > 1]
    listed = [[(file, number) for file, number in group["images"]] for group in equal.listed]
    assert sorted(listed) == sorted(several)
    assert (equal.groups, equal.images) == (len(several), sum(map(len, several)))
    assert equal.conflicts == sum(len({places[at].label for at in g}) > 1 for g in several)
    assert equal.across_splits == sum(len({*map(split_of, g)}) > 1 for g in several)
    urgency = [(not group["conflict"], not group["across_splits"]) for group in equal.listed]
    assert urgency == sorted(urgency)


def by_hand(images: list[Drawn]) -> set[tuple[int, Record, Record]]:
    """All pairs of near-duplicates among the first image of each content in each split."""
    first: dict[tuple[int, str], tuple[Record, int]] = {}
    for place, image in sorted(placed(images).items()):
        if image.perceptual_hash is not None:
            first.setdefault((image.content, split_of(place)), (place, image.perceptual_hash))
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
    across = [split_of(one) != split_of(other) for _, one, other in near.listed]
    assert near.across_splits == sum(across)
    order = [(not is_so, listed[0]) for is_so, listed in zip(across, near.listed, strict=True)]
    assert order == sorted(order)


@given(IMAGES, st.data(), st.integers(1, 30))
def test_neither_the_order_nor_buckets_nor_an_early_sample_change_anything(
    images: list[Drawn], data: st.DataObject, compared: int
) -> None:
    count = len(images)
    in_order = found_in(images)
    shuffled = [find_equal(data.draw(st.permutations(bucket))) for bucket in buckets(images)]
    assert shuffled == in_order
    other = data.draw(st.permutations(in_order))
    assert merged(other) == merged(in_order)
    assert find_near(other, images=count) == find_near(in_order, images=count)
    many = buckets(images, MANY_BUCKETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_images, "MAX_COMPARED", compared)
        sampled = [find_equal(bucket, images=count) for bucket in many]
        assert merged(sampled) == merged(in_order)
        assert find_near(sampled, images=count) == find_near(in_order, images=count)


@given(IMAGES, st.integers(2, 4))
def test_images_left_out_of_the_shuffle_are_counted(drawn: list[Drawn], limit: int) -> None:
    # Images with the same content have the same hash, or all of them none.
    hashes: dict[int, int | None] = {}
    images = [
        each._replace(perceptual_hash=hashes.setdefault(each.content, each.perceptual_hash))
        for each in drawn
    ]
    whole = found_in(images)
    equal, near = merged(whole), find_near(whole, images=len(images))
    with pytest.MonkeyPatch.context() as patch:
        # Few images of each group are too many.
        patch.setattr(equal_images, "MAX_IMAGES", limit)
        shuffled = buckets(images)
        bounded = [find_equal(bucket) for bucket in shuffled]
        short = merged(bounded)
    per_content = Counter(
        (row["content"].item(), batch.file)
        for bucket in shuffled
        for batch in bucket
        for row in np.frombuffer(batch.rows, FINGERPRINT)
    )
    assert max(per_content.values(), default=0) <= limit + 1  # for all others
    assert short[:5] == equal[:5]
    listed = sorted((group["images"][:limit] for group in equal.listed), key=str)
    assert sorted((group["images"] for group in short.listed), key=str) == listed
    assert find_near(bounded, images=len(images)) == near


def test_what_crosses_the_shuffle_is_bounded_for_equal_images() -> None:
    files = [f"train-{number:05d}-of-00030.tfrecord" for number in range(30)]
    labels = ["dog", *["cat"] * 5_999]
    images = [Drawn(files[at % 30], content(1), 5, label) for at, label in enumerate(labels)]
    [bucket] = buckets(images, MANY_BUCKETS, files)
    # 50 bytes for each of 20 fingerprints, and the name of the shard.
    assert max(sum(map(len, batch)) for batch in bucket) < 20 * 50 + 100
    found = find_equal(bucket, images=len(images))
    equal = Equal(*found.equal)
    assert (equal.groups, equal.images, equal.conflicts) == (1, 6_000, 1)
    assert len(equal.listed[0]["images"]) == MAX_IMAGES
    assert find_near([found], images=len(images)).compared == 6_000
    assert sum(map(len, found)) < 2_000


def test_of_too_many_images_a_fair_sample_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publishing worker gets only the sample."""
    images = [Drawn(FILES[number % 4], content(number), number) for number in range(2000)]
    monkeypatch.setattr(equal_images, "MAX_COMPARED", 500)
    near = find_near(found_in(images), images=2000)
    assert 400 < near.compared < 600
    assert near == find_near(found_in(images)[::-1], images=2000)
    many = buckets(images, MANY_BUCKETS)
    monkeypatch.setattr(equal_images, "MAX_COMPARED", 100)
    hashes = [find_equal(bucket, images=2000).hashes for bucket in many]
    # 28 bytes for each, as text.
    assert sum(map(len, hashes)) < 150 * 28 * 4 / 3 + 4 * len(hashes)


@pytest.mark.parametrize("count", range(1, 5))
def test_every_pair_within_the_distance_is_found(count: int) -> None:
    for bits in itertools.combinations(range(0, 64, 7), count):
        images = [
            Drawn(FILES[0], content(1), 0),
            Drawn(FILES[2], content(2), sum(1 << bit for bit in bits)),
        ]
        near = find_near(found_in(images, FILES[::2]), images=2)
        assert near.pairs == (count <= MAX_DISTANCE), bits


def test_what_is_listed_is_bounded() -> None:
    images = [Drawn(FILES[0], content(number // 2), number) for number in range(1, 401)]
    images += [Drawn(FILES[1], content(1000), 5) for _ in range(50)]
    images += [Drawn(FILES[0], content(2000), 5), Drawn(FILES[2], content(2000), 5)]
    equal = merged(found_in(images))
    assert len(equal.listed) == MAX_GROUPS
    assert equal.listed[0]["across_splits"]
    assert max(len(group["images"]) for group in equal.listed) <= MAX_IMAGES
    near = find_near(found_in(images), images=len(images))
    assert len(near.listed) == MAX_PAIRS < near.pairs


def test_nothing_to_compare_and_contents_that_differ_by_one_bit() -> None:
    assert find_near([], images=0) == Near(0, 0, 0, 0, ())
    assert merge_equal([]).groups == 0
    assert list(fingerprint_batches(index_of([IndexedImage()], FILES[0]), FILES[0])) == []
    assert content_hash(b"a" * 1000) != content_hash(b"a" * 999 + b"b")
    assert content_hash(b"") == "99aa06d3014798d86001c324468d497f"  # XXH3's own test vector


def test_another_label_among_many_equal_images_is_a_conflict() -> None:
    labels = ["cat"] * (MAX_IMAGES + 5) + ["dog"] + ["cat"] * 3
    images = [Drawn(FILES[0], content(1), None, label) for label in labels]
    assert merged(found_in(images)).conflicts == 1


# Fingerprints come back from indexes and shuffles as they were.

TEXTS = st.text(max_size=5)
HEX = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
HASHES = st.none() | st.integers(0, 2**64 - 1)
CLASSES = st.lists(TEXTS, min_size=1, max_size=2)


@given(st.lists(st.builds(IndexedImage, TEXTS, TEXTS, CLASSES, HEX, HASHES)))
def test_all_fingerprints_move(rows: list[IndexedImage]) -> None:
    found: dict[int, Any] = {}
    for bucket, batch in fingerprint_batches(index_of(rows, FILES[0]), FILES[0]):
        assert batch.file == FILES[0]
        assert 0 <= bucket < BUCKETS
        for row in np.frombuffer(batch.rows, FINGERPRINT):
            assert row["content"] % BUCKETS == bucket
            both = row["content"].tobytes() + row["content2"].tobytes()
            perceptual_hash = int(row["hash"]) if row["has_hash"] else None
            found[int(row["record"])] = (both.hex(), perceptual_hash)
    assert found == {at: (row.content, row.perceptual_hash) for at, row in enumerate(rows)}
