"""Statistics of shards add up in any order, in bins that hold their values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.dataset.image_statistics import (
    MAX_SAMPLES,
    SAMPLES_OF_CLASS,
    Sample,
    Samples,
    Statistics,
    describe,
    quarter_octave,
)

IMAGES = st.lists(
    st.tuples(
        st.sampled_from(["jpeg", "png"]),
        st.integers(1, 70_000),
        st.integers(1, 70_000),
        st.integers(1, 10**9),
        st.integers(0, 8),
        st.sampled_from(["cat", "dog", "fox"]),
    ),
    max_size=30,
)
Shard = tuple[int, list[tuple[int, Any]]]


def counted(file: str, images: list[tuple[int, Any]]) -> Statistics:
    """The statistics of one shard, as its sidecar brings them back."""
    statistics = Statistics()
    for record, (order, image) in enumerate(images):
        format_, height, width, size, orientation, class_ = image
        statistics.add(format_, height=height, width=width, size=size, orientation=orientation)
        statistics.samples.add(class_, Sample(order, file, record))
    statistics.samples.shrink()
    return Statistics.from_json(json.loads(json.dumps(statistics.to_json())))


def merge_all(parts: Iterable[Statistics]) -> Statistics:
    merged = Statistics()
    for part in parts:
        merged.merge(part)
    return merged


def places(statistics: Statistics) -> dict[str, list[int]]:
    return {
        name: [sample.order for sample in samples]
        for name, samples in sorted(statistics.samples.classes.items())
    }


@given(IMAGES, st.data())
def test_shards_merge_in_any_order_and_grouping(images: list[Any], data: st.DataObject) -> None:
    numbered = list(enumerate(images))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(images)), max_size=4)))
    bounds = [0, *cuts, len(images)]
    shards = [
        counted(f"train-{number:05}", numbered[start:end])
        for number, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False))
    ]
    shuffled = data.draw(st.permutations(shards))
    at = data.draw(st.integers(0, len(shards)))
    nested = merge_all([merge_all(shuffled[:at]), merge_all(shuffled[at:])])
    assert nested == merge_all(shards)
    whole = counted("train", numbered)
    for name in ("formats", "orientations", "width", "height", "bytes", "aspect"):
        assert getattr(nested, name) == getattr(whole, name)
    assert places(nested) == places(whole)


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_a_bin_holds_its_values(numerator: int, denominator: int) -> None:
    bin_ = quarter_octave(numerator, denominator)
    ratio = numerator / denominator
    assert 2 ** (bin_ / 4) <= ratio * (1 + 1e-12)
    assert ratio < 2 ** ((bin_ + 1) / 4) * (1 + 1e-12)
    assert abs(bin_ - math.log2(ratio) * 4) <= 1 + 1e-9


@pytest.mark.parametrize("power", range(40))
def test_powers_of_two_begin_a_bin(power: int) -> None:
    assert quarter_octave(2**power) == 4 * power
    assert quarter_octave(2 ** (power + 3) - 1) == 4 * (power + 3) - 1
    assert quarter_octave(1, 2**power) == -4 * power


@pytest.mark.parametrize("classes", [1, 100, 250, 600, 900])
def test_classes_share_the_samples(classes: int) -> None:
    parts = []
    for shard in range(4):
        samples = Samples()
        for record in range(2 * classes):
            order = 10 * record + shard
            samples.add(f"{record % classes:04}", Sample(order, f"{shard}", record))
        samples.shrink()
        parts.append(samples)
    merged = Samples()
    for part in parts:
        merged.merge(part)
    kept = merged.classes
    assert list(kept) == [f"{number:04}" for number in range(min(classes, MAX_SAMPLES))]
    each = min(SAMPLES_OF_CLASS, MAX_SAMPLES // min(classes, MAX_SAMPLES))
    assert {len(samples) for samples in kept.values()} == {each}
    first = sorted(10 * record + shard for shard in range(4) for record in (0, classes))
    assert [sample.order for sample in kept["0000"]] == first[:each]


def test_samples_are_of_the_smallest_numbers_whatever_the_order_of_shards() -> None:
    parts = []
    for first in (0, 1):
        samples = Samples()
        for number in range(first, 2 * MAX_SAMPLES, 2):
            samples.add(str(number), Sample(number, "a", number))
        samples.shrink()
        parts.append(samples)
    for order in (parts, parts[::-1]):
        merged = Samples()
        for part in order:
            merged.merge(part)
        assert list(merged.classes) == [str(number) for number in range(MAX_SAMPLES)]


def test_the_file_tells_numbers_of_the_images() -> None:
    images = [("jpeg", 100, 200, 5000, 6, "cat"), ("png", 300, 100, 70, 0, "dog")]
    statistics = counted("train", list(enumerate(images)))
    message = describe(statistics, records=2, samples=[], duplicates=None)
    assert message["images"] == 2
    assert message["formats"] == {"jpeg": 1, "png": 1}
    assert message["orientations"] == {"6": 1}
    assert message["width"] == {"min": 100, "max": 200, "sum": 300, "bins": {"26": 1, "30": 1}}
    assert message["bytes"]["sum"] == 5070
    assert (message["aspect"]["min"], message["aspect"]["max"]) == (0.333333, 2.0)
    assert message["aspect"]["bins"] == {"-7": 1, "4": 1}
    assert message["duplicates"] is None
