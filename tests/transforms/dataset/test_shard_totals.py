"""Totals of shards are the same in any order, and small enough for one element."""

from __future__ import annotations

import functools
import pickle
import random
from collections import Counter
from collections.abc import Sequence

from tests.transforms.added import added_to
from transforms.dataset.image_statistics import Sample, Statistics
from transforms.dataset.ledger import MAX_CLASSES, ShardSummary, ShardTotals

ELEMENT_BYTES = 100_000_000
"""Beam's limit."""


def summary(number: int, classes: int = 40) -> ShardSummary:
    """A shard of the split train or test whose images have some of the classes."""
    rng = random.Random(number)
    split = "train" if number % 5 else "test"
    file = f"{split}-{number:05d}-of-99999.tfrecord"
    statistics, labels = Statistics(), Counter[str]()
    for record in range(30):
        label = f"class {rng.randrange(classes):07d}"
        labels[label] += 1
        width, height = rng.randrange(1, 4000), rng.randrange(1, 4000)
        size, turn = rng.randrange(1, 10**6), rng.randrange(9)
        statistics.add("jpeg", height=height, width=width, size=size, orientation=turn)
        statistics.samples.add(label, Sample(rng.getrandbits(63), file, record))
    statistics.samples.shrink()
    pixels = {"resized": rng.randrange(5)}
    written = statistics.to_json()
    return ShardSummary(file, "0" * 32, labels=labels, pixels=pixels, statistics=written)


def content(totals: ShardTotals) -> object:
    return totals.split_classes(("train", "test")), totals.changes, totals.statistics.to_json()


def merged(groups: Sequence[Sequence[ShardSummary]]) -> ShardTotals:
    """The totals of shards that are added in groups, and then merged."""
    totals = ShardTotals()
    for group in groups:
        # Each crosses a shuffle.
        totals.merge(pickle.loads(pickle.dumps(added_to(ShardTotals(), group))))
    return totals


def test_any_order_and_any_grouping_gives_the_same() -> None:
    shards = [summary(number) for number in range(60)]
    whole = content(added_to(ShardTotals(), shards))
    rng = random.Random(20)
    for _ in range(10):
        rng.shuffle(shards)
        cuts = [0, *sorted(rng.sample(range(1, 60), 4)), 60]
        groups = [shards[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
        assert content(merged(groups)) == whole
        assert content(merged([*reversed(groups), []])) == whole


def test_totals_are_one_element() -> None:
    """Also with as many labels as there may be, in two splits; samples are bounded."""
    totals = functools.reduce(_grown, range(300), ShardTotals())
    samples = totals.statistics.samples.classes
    assert sum(len(each) for each in samples.values()) <= 600
    labels = sum(len(each) for each in totals.labels.values())
    assert labels > 7000
    each = len(pickle.dumps(totals)) / labels
    assert 2 * MAX_CLASSES * each < ELEMENT_BYTES


def _grown(totals: ShardTotals, number: int) -> ShardTotals:
    totals.merge(added_to(ShardTotals(), [summary(number, classes=10**6)]))
    return totals


def test_classes_are_in_order() -> None:
    totals = added_to(
        ShardTotals(),
        [
            ShardSummary("test-00000-of-00001.tfrecord", ""),
            ShardSummary("train-00001-of-00002.tfrecord", "", labels={"a": 3, "10": 1, "-1": 1}),
            ShardSummary("train-00000-of-00002.tfrecord", "", labels={"b": 1, "a": 2, "9": 1}),
        ],
    )
    classes = totals.split_classes(("train", "none", "test"))
    assert classes == {"train": {"-1": 1, "9": 1, "10": 1, "a": 5, "b": 1}, "test": {}}
    assert list(classes) == ["train", "test"]
    assert list(classes["train"]) == ["-1", "9", "10", "a", "b"]
