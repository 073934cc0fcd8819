"""Totals and statistics of shards add up in any order, in bins that hold their values."""

import functools
import json
import math
import pickle
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.added import added_to
from transforms.dataset.image_statistics import (
    MAX_SAMPLES,
    SAMPLES_OF_CLASS,
    Sample,
    Samples,
    Statistics,
    describe,
    quarter_octave,
)
from transforms.dataset.ledger import MAX_CLASSES, RunTotals, ShardSummary
from transforms.images.checked_images import ImageInfo

ELEMENT_BYTES = 100_000_000
"""Beam's limit."""


def counted(file: str, images: Sequence[tuple[int, Any]]) -> Statistics:
    """The statistics of one shard, as its sidecar brings them back."""
    statistics = Statistics()
    infos = [ImageInfo(*image[:3], 3) for _, image in images]
    statistics.add(infos, *([image[at] for _, image in images] for at in (3, 4)))
    for record, (order, image) in enumerate(images):
        statistics.samples.add(image[5], Sample(order, file, record))
    statistics.samples.shrink()
    return Statistics.from_json(json.loads(json.dumps(statistics.to_json())))


def summary(number: int, classes: int = 40) -> ShardSummary:
    """A shard of the split train or test whose images have some of the classes."""
    rng = random.Random(number)
    split = "train" if number % 5 else "test"
    file = f"{split}-{number:05d}-of-99999.tfrecord"
    images = []
    for _ in range(30):
        label = f"class {rng.randrange(classes):07d}"
        sides = rng.randrange(1, 4000), rng.randrange(1, 4000)
        image = ("jpeg", *sides, rng.randrange(1, 10**6), rng.randrange(9), label)
        images.append((rng.getrandbits(63), image))
    labels = Counter(image[-1] for _, image in images)
    written = counted(file, images).to_json()
    return ShardSummary(
        file, "0" * 32, labels=labels, pixels={"resized": rng.randrange(5)}, statistics=written
    )


def content(totals: RunTotals) -> object:
    return (
        totals.split_classes(("train", "test")),
        sorted(totals.pixels.items()),
        totals.statistics.to_json(),
    )


@given(st.permutations(range(20)), st.integers(0, 20), st.integers(0, 20))
def test_any_order_and_any_grouping_gives_the_same(order: list[int], one: int, other: int) -> None:
    first, last = sorted((one, other))
    totals = RunTotals()
    for group in (order[:first], order[first:last], order[last:]):
        # Each crosses a shuffle.
        added = added_to(RunTotals(), map(cached_summary, group))
        totals.merge(pickle.loads(pickle.dumps(added)))
    assert content(totals) == content(added_to(RunTotals(), map(cached_summary, range(20))))


cached_summary = functools.cache(summary)


def test_totals_are_one_element() -> None:
    """Also with as many labels as there may be, in two splits; samples are bounded."""
    totals = RunTotals()
    for number in range(300):
        totals.merge(added_to(RunTotals(), [summary(number, classes=10**6)]))
    assert sum(map(len, totals.statistics.samples.classes.values())) <= 600
    labels = sum(map(len, totals.labels.values()))
    assert labels > 7000
    assert 2 * MAX_CLASSES * len(pickle.dumps(totals)) / labels < ELEMENT_BYTES


def test_classes_are_in_order() -> None:
    shards = [
        ShardSummary("test-00000-of-00001.tfrecord", ""),
        ShardSummary("train-00001-of-00002.tfrecord", "", labels={"a": 3, "10": 1, "-1": 1}),
        ShardSummary("train-00000-of-00002.tfrecord", "", labels={"b": 1, "a": 2, "9": 1}),
    ]
    classes = added_to(RunTotals(), shards).split_classes(("train", "none", "test"))
    assert classes == {"train": {"-1": 1, "9": 1, "10": 1, "a": 5, "b": 1}, "test": {}}
    assert list(classes) == ["train", "test"]
    assert list(classes["train"]) == ["-1", "9", "10", "a", "b"]


IMAGE = st.tuples(
    st.sampled_from(["jpeg", "png"]),
    *(st.integers(1, most) for most in (70_000, 70_000, 10**9)),
    st.integers(0, 8),
    st.sampled_from(["cat", "dog", "fox"]),
)


@given(st.lists(IMAGE, max_size=30), st.data())
def test_statistics_do_not_depend_on_the_shards(images: list[Any], data: st.DataObject) -> None:
    numbered = list(enumerate(images))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(images)), max_size=4)))
    ends = zip([0, *cuts], [*cuts, len(images)], strict=True)
    merged = Statistics()
    for part in data.draw(st.permutations([numbered[start:end] for start, end in ends])):
        merged.merge(counted("train", part))
    whole = counted("train", numbered)
    for name in ("formats", "orientations", "width", "height", "bytes", "aspect"):
        assert getattr(merged, name) == getattr(whole, name)
    kept = (
        {name: [each.order for each in own] for name, own in found.samples.classes.items()}
        for found in (merged, whole)
    )
    assert next(kept) == next(kept)


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_a_bin_holds_its_values(numerator: int, denominator: int) -> None:
    bin_ = quarter_octave(numerator, denominator)
    ratio = numerator / denominator
    assert 2 ** (bin_ / 4) <= ratio * (1 + 1e-12)
    assert ratio < 2 ** ((bin_ + 1) / 4) * (1 + 1e-12)
    assert abs(bin_ - math.log2(ratio) * 4) <= 1 + 1e-9


def sampled(parts: Sequence[Sequence[tuple[str, int]]]) -> dict[str, list[int]]:
    """The samples that are kept of shards, each with a class and a number for each record."""
    merged = Samples()
    for part in parts:
        samples = Samples()
        for record, (class_, order) in enumerate(part):
            samples.add(class_, Sample(order, "a", record))
        samples.shrink()
        merged.merge(samples)
    return {name: [sample.order for sample in own] for name, own in merged.classes.items()}


@pytest.mark.parametrize("classes", [1, 100, 250, 600, 900])
def test_classes_share_the_samples(classes: int) -> None:
    kept = sampled(
        [
            [(f"{record % classes:04}", 10 * record + shard) for record in range(2 * classes)]
            for shard in range(4)
        ]
    )
    assert list(kept) == [f"{number:04}" for number in range(min(classes, MAX_SAMPLES))]
    each = min(SAMPLES_OF_CLASS, MAX_SAMPLES // min(classes, MAX_SAMPLES))
    assert {len(samples) for samples in kept.values()} == {each}
    first = sorted(10 * record + shard for shard in range(4) for record in (0, classes))
    assert kept["0000"] == first[:each]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_samples_are_of_the_smallest_numbers(order: tuple[int, int]) -> None:
    parts = [[(str(at), at) for at in range(first, 2 * MAX_SAMPLES, 2)] for first in order]
    assert list(sampled(parts)) == [str(number) for number in range(MAX_SAMPLES)]


def test_the_file_tells_numbers_of_the_images() -> None:
    images = [("jpeg", 100, 200, 5000, 6, "cat"), ("png", 300, 100, 70, 0, "dog")]
    statistics = counted("train", list(enumerate(images)))
    message = describe(statistics, records=2, samples=[], duplicates=None)
    assert (message["images"], message["duplicates"]) == (2, None)
    assert (message["formats"], message["orientations"]) == ({"jpeg": 1, "png": 1}, {"6": 1})
    assert message["width"] == {"min": 100, "max": 200, "sum": 300, "bins": {"26": 1, "30": 1}}
    assert message["bytes"]["sum"] == 5070
    assert (message["aspect"]["min"], message["aspect"]["max"]) == (0.333333, 2.0)
    assert message["aspect"]["bins"] == {"-7": 1, "4": 1}
