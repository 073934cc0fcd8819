"""The charts of the report: bars of histograms, ribbons of flows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Bins of `statistics.json` per octave: bin b holds values from 2**(b/4) up to 2**((b+1)/4).
_BINS_OF_OCTAVE = 4

_MAX_BARS = 24

# Steps of the axis of counts.
_MAX_STEPS = 3

# Heights of a flow in pixels: of the input, the minimum of a target, and the gap between targets.
_FLOW = 110
_SLOT = 34
_GAP = 8


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar: its label, its count, and its size in percent of the axis, or of the sum."""

    label: str
    count: int
    percent: float


@dataclasses.dataclass(frozen=True)
class HistogramChart:
    """The histogram of a number over the images.

    Attributes:
        title: what is measured.
        low: the smallest value.
        mean: the mean.
        high: the largest value.
        bars: in the order of the values, without gaps.
        ticks: round counts at equal distances on the axis of the bars, from the top down to 0.
    """

    title: str
    low: str
    mean: str
    high: str
    bars: tuple[Bar, ...]
    ticks: tuple[int, ...]


def histogram(
    title: str, counted: Mapping[str, Any], images: int, shown: Callable[[float], str]
) -> HistogramChart:
    """The histogram of one number.

    Args:
        title: what is measured.
        counted: `min`, `max`, `sum` and `bins`, as `statistics.json` has them.
        images: how many were counted.
        shown: formats a value.
    """
    bins = {int(bin_): int(count) for bin_, count in counted["bins"].items()}
    first, last = min(bins), max(bins)
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64) if last // s - first // s < _MAX_BARS)
    counts = [0] * (last // step - first // step + 1)
    for bin_, count in bins.items():
        counts[bin_ // step - first // step] += count
    low, high = float(counted["min"]), float(counted["max"])
    bars, ticks = [], count_ticks(max(counts))
    for at, count in enumerate(counts):
        left, right = (_edge((first // step + end) * step) for end in (at, at + 1))
        label = f"{shown(max(left, low))} to {shown(min(right, high))}"
        bars.append(Bar(label, count, percent(count, ticks[0])))
    mean = shown(float(counted["sum"]) / images) if images else ""
    return HistogramChart(title, shown(low), mean, shown(high), tuple(bars), ticks)


def count_ticks(highest: int) -> tuple[int, ...]:
    """Up to four round counts at equal distances, from at least `highest` down to 0.

    >>> count_ticks(1), count_ticks(37), count_ticks(2_900_000)
    ((1, 0), (40, 20, 0), (3000000, 2000000, 1000000, 0))
    """
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if _MAX_STEPS * step >= highest)
    return tuple(range(max(1, math.ceil(highest / step)) * step, -1, -step))


def _edge(bin_: int) -> float:
    return float(2 ** (bin_ / _BINS_OF_OCTAVE))


def percent(part: float, whole: float) -> float:
    """`part` of `whole` in percent, rounded; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0


def shares(counts: Mapping[str, int]) -> tuple[Bar, ...]:
    """A bar for each count, the largest first; the percentage is that of the sum."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Bar(name, count, percent(count, total)) for name, count in ordered)


@dataclasses.dataclass(frozen=True)
class FlowTarget:
    """A target of a part of a flow.

    Attributes:
        label: its name.
        count: its size.
        percent: the same, of the whole.
        kind: `kept` or `left_out`.
        height: pixels.
        path: the outline of its ribbon in an SVG that is 100 units wide.
    """

    label: str
    count: int
    percent: float
    kind: str
    height: float
    path: str


@dataclasses.dataclass(frozen=True)
class Flow:
    """A flow from an input to its targets.

    Attributes:
        label: what went in.
        count: how many.
        height: pixels of the whole.
        targets: from the top down; their counts add up to that of the flow.
    """

    label: str
    count: int
    height: float
    targets: tuple[FlowTarget, ...]


def flow(label: str, parts: Sequence[tuple[str, int, str]]) -> Flow | None:
    """The flow to some parts; None if they add up to 0.

    Args:
        label: what went in.
        parts: name, count and kind of each; empty parts are left out.
    """
    parts = [part for part in parts if part[1] > 0]
    total = sum(count for _, count, _ in parts)
    if not total:
        return None
    thick = [max(2.0, _FLOW * count / total) for _, count, _ in parts]
    slots = [max(_SLOT, each) + _GAP for each in thick]
    height = sum(slots)
    targets = []
    source, top = (height - sum(thick)) / 2, 0.0
    for (name, count, kind), size, slot in zip(parts, thick, slots, strict=True):
        middle = top + slot / 2
        outline = _ribbon(source, middle - size / 2, size)
        targets.append(
            FlowTarget(name, count, percent(count, total), kind, round(slot, 1), outline)
        )
        source, top = source + size, top + slot
    return Flow(label, total, round(height, 1), tuple(targets))


def _ribbon(left: float, right: float, size: float) -> str:
    """An S-shaped band of `size` pixels from y `left` to y `right`, 100 units wide."""
    return (
        f"M0 {left:.1f}C50 {left:.1f} 50 {right:.1f} 100 {right:.1f}V{right + size:.1f}"
        f"C50 {right + size:.1f} 50 {left + size:.1f} 0 {left + size:.1f}Z"
    )
