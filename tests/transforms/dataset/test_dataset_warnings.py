"""Warnings name what is wrong with splits, and only that."""

from collections.abc import Iterable
from fractions import Fraction
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core.messages import entries_of
from transforms.dataset.image_statistics import (
    DatasetWarning,
    split_warnings,
    strict_message,
    tail_bound,
    warning_lines,
    warnings_from_json,
)

HALVES = {"splits": {"train": 0.5, "test": 0.5}, "split_from": "hash", "group_by": None}


def warned(
    records: dict[str, int], classes: dict[str, dict[str, int]] | None = None, **options: Any
) -> list[DatasetWarning]:
    return split_warnings(records, classes or {}, planned=records, options={**HALVES, **options})


MOST = {"train": 6000, "test": 4000}


@cases(
    *(({"train": 20}, {}, []), ({"train": 0, "test": 0}, {}, [])),
    ({"train": 10, "test": 10}, {}, []),
    ({"train": 20, "test": 0}, {}, ["empty_split"]),
    ({"train": 4, "test": 0}, {}, ["empty_split", "tiny_split"]),
    ({"train": 20, "test": 9}, {}, ["tiny_split"]),
    ({"train": 5200, "test": 4800}, {}, []),
    (MOST, {}, ["share_differs", "share_differs"]),
    # Shares are compared only where they were asked for.
    (MOST, {"split_from": "csv"}, []),
    (MOST, {"splits": {"train": 0.6, "test": 0.4}}, []),
)
def test_split_sizes(records: dict[str, int], options: dict[str, Any], found: list[str]) -> None:
    assert [warning.code for warning in warned(records, **options)] == found


@cases(
    ([f"a photo of {at}" for at in range(20)], 1, True),
    ([f"a photo of {at}" for at in range(19)], 1, False),
    (map(str, range(20)), 1, True),
    (map(str, range(20)), 2, False),
    ([f"{at}.5" for at in range(-2, 18)], 9, True),
    ([f"{at}.5" for at in range(3)], 9, False),
)
def test_labels_that_may_be_no_classes(names: Iterable[str], each: int, is_warned: bool) -> None:
    counts = dict.fromkeys(names, each)
    found = warned({"train": sum(counts.values())}, {"train": counts})
    assert [warning.code for warning in found] == ["no_classes"] * is_warned


def test_groups_are_named_as_the_cause() -> None:
    [empty] = warned({"train": 0, "test": 20}, group_by="who")
    assert "the split 'train' is empty, of 20 images; --group_by who keeps" in empty.text
    off, _ = warned({"train": 60000, "test": 40000}, group_by="who")
    assert "60.0% instead of 50.0%" in off.text
    assert "less than once in 1,000,000 runs" in off.text
    assert off.text.endswith(": --group_by who may have few or large groups")


@cases(
    ({"cat": 10, "dog": 2, "": 3}, {"cat": 12}, "1 of 2 classes ('dog')"),
    ({"": 12}, {"": 12}, None),
    # Integers are in the order of numbers.
    ({"100": 4, "9": 4, "10": 4, "1": 4}, {"1": 12}, "3 of 4 classes ('9', '10', '100')"),
)
def test_a_class_is_missing(train: dict[str, int], test: dict[str, int], found: str | None) -> None:
    warnings = warned({"train": 16, "test": 12}, {"train": train, "test": test})
    text = f"the split 'test' has no image of {found}"
    assert warnings == ([("class_missing", text)] if found else [])


@pytest.mark.parametrize("splits", [["train"], ["train", "test"]])
def test_a_class_that_keeps_no_image(splits: list[str]) -> None:
    records = dict.fromkeys(splits, 12)
    classes = {split: {"cat": 10, "": 2} for split in splits}

    def found(*labelled: str, records: dict[str, int] = records) -> list[tuple[str, str]]:
        kept = classes if any(records.values()) else {}
        return list(
            map(tuple, split_warnings(records, kept, planned={}, options={}, labelled=labelled))
        )

    why = "rejected.jsonl says why each one was left out"
    assert found("cat") == [] == found("dog", records=dict.fromkeys(splits, 0))
    assert found("dog", "cat") == [("class_lost", f"1 of 2 classes keeps no image ('dog'): {why}")]
    assert found("10", "9", "cat", "x", "y") == [
        ("class_lost", f"4 of 5 classes keep no image ('9', '10', 'x', ...): {why}")
    ]


@given(st.integers(1, 60), st.data(), st.fractions(Fraction(1, 100), Fraction(99, 100)))
def test_no_bound_is_below_its_chance(total: int, data: st.DataObject, share: Fraction) -> None:
    count = data.draw(st.integers(0, total))
    weights = [comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(total + 1)]
    tail = sum(weights[: count + 1]) if count < total * share else sum(weights[count:])
    assert tail_bound(count, total, float(share)) >= min(1, float(tail)) * (1 - 1e-9)


def test_lines_and_the_manifest() -> None:
    warnings = [DatasetWarning("a", "one"), DatasetWarning("b", "two"), DatasetWarning("c", "3")]
    assert warning_lines(warnings[:2]) == ["warning  one", "warning  two"]
    assert warnings_from_json({"warnings": entries_of(warnings)}) == warnings
    assert warnings_from_json({}) == []
    assert strict_message(warnings) == "--strict: one (and 2 more warnings); nothing published"
    assert strict_message(warnings[:1]) == "--strict: one; nothing published"
