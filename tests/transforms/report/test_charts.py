"""Charts count everything, and draw it in proportion."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report_sources import histogram as counted
from transforms.report.page import count_ticks, flow, histogram, shares


@pytest.mark.parametrize("spread", [0.01, 0.5, 3, 12])
def test_a_histogram_counts_every_value_once(spread: float) -> None:
    values = [random.Random(at).lognormvariate(0, spread) for at in range(400)]
    chart = histogram("Width", counted(values), len(values), repr)
    assert sum(bar["count"] for bar in chart["bars"]) == 400
    assert 1 <= len(chart["bars"]) <= 24
    highest = max(bar["count"] for bar in chart["bars"])
    assert max(bar["percent"] for bar in chart["bars"]) == round(
        100 * highest / chart["ticks"][0], 2
    )
    assert chart["low"] == repr(min(values)) and chart["high"] == repr(max(values))
    assert float(chart["mean"]) == pytest.approx(sum(values) / 400)
    for bar in chart["bars"]:
        low, high = map(float, bar["label"].split(" to "))
        inside = sum(low <= value < high for value in values)
        assert bar["count"] - 1 <= inside <= bar["count"]


def test_one_value_is_one_bar() -> None:
    chart = histogram("Width", counted([224.0] * 5), 5, lambda value: f"{value:.0f}")
    [bar] = chart["bars"]
    assert (bar["label"], bar["count"], bar["percent"]) == ("224 to 224", 5, 83.33)
    assert chart["ticks"] == (6, 4, 2, 0)


@given(st.integers(1, 10**12))
def test_the_axis_of_counts_has_round_steps_and_room_for_the_highest_bar(highest: int) -> None:
    ticks = count_ticks(highest)
    assert 2 <= len(ticks) <= 4 and ticks[-1] == 0
    [step] = {upper - lower for upper, lower in itertools.pairwise(ticks)}
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert highest <= ticks[0] < highest + step


def test_shares_are_of_the_whole_and_the_largest_comes_first() -> None:
    bars = shares({"png": 1, "jpeg": 3})
    assert [(bar["label"], bar["percent"]) for bar in bars] == [("jpeg", 75), ("png", 25)]


def test_a_flow_gives_each_part_its_share() -> None:
    made = flow("images", [("train", 70, "kept"), ("none", 0, "kept"), ("bad", 30, "left_out")])
    assert made is not None
    assert [target["label"] for target in made["targets"]] == ["train", "bad"]
    assert [target["percent"] for target in made["targets"]] == [70, 30]
    assert made["height"] == pytest.approx(
        sum(target["height"] for target in made["targets"]), abs=0.2
    )
    # What comes in is in the middle of what goes out.
    start = re.match(r"M0 ([\d.]+)", made["targets"][0]["path"])
    assert start and float(start[1]) == pytest.approx((made["height"] - 110) / 2, abs=0.2)
    sizes = []
    for target in made["targets"]:
        _, top, bottom = re.findall(r"[M V]0? ?([\d.]+)", target["path"])[0:3] or ("", "", "")
        ends = re.search(r"100 ([\d.]+)V([\d.]+)", target["path"])
        assert ends
        sizes.append(float(ends[2]) - float(ends[1]))
    assert sizes[0] / sizes[1] == pytest.approx(7 / 3, rel=0.02)


def test_a_small_part_is_still_seen() -> None:
    made = flow("images", [("train", 1_000_000, "kept"), ("bad", 1, "left_out")])
    assert made is not None
    ends = re.search(r"100 ([\d.]+)V([\d.]+)", made["targets"][1]["path"])
    assert ends and float(ends[2]) - float(ends[1]) == pytest.approx(2)


def test_a_flow_of_nothing_is_none() -> None:
    assert flow("images", [("train", 0, "kept")]) is None
