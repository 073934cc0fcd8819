"""Which classes are off their shares, and by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.shards import Splits
from transforms.selection.hash_cuts import class_shares, stratified_decisions

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
SPLITS = Splits([*SHARES.items()])


def counted(**classes: tuple[int, int, int]) -> dict[str, dict[str, int]]:
    """The counts of classes by split, from their counts in train, validation and test."""
    return {
        split: {name: counts[at] for name, counts in classes.items() if counts[at]}
        for at, split in enumerate(SPLITS.names)
    }


def off(counts: Mapping[str, Mapping[str, int]]) -> tuple[str, str] | None:
    """What is decided about classes that are off their shares, without the split."""
    options = {"stratify": "label", "splits": SHARES}
    vocabulary = ANY_LABELS.vocabulary({}, "text")
    for found in stratified_decisions(options, PlanTotals(), vocabulary, counts):
        if found.what == "class shares":
            return found.value, found.because.rpartition(" (")[0]
    return None


def test_shares_within_one_image_are_exact_enough() -> None:
    # 20 images: 16, 2 and 2; one more or less is within one.
    counts = counted(cat=(16, 2, 2), dog=(15, 3, 2), fox=(17, 1, 2), ant=(7, 0, 0))
    assert class_shares(counts, SPLITS)["ant"] == (pytest.approx(1.4), "train")
    assert off(counts) == (
        "1 of 4 classes",
        "is off its share by more than one image: 'ant' by 1.4",
    )
    del counts["train"]["ant"]
    assert off(counts) is None and len(class_shares(counts, SPLITS)) == 3


def test_the_furthest_class_is_named_and_the_unnamed_one_is_none() -> None:
    counts = counted(cat=(10, 5, 5), dog=(14, 4, 2))
    counts["test"][""] = 50
    shares = class_shares(counts, SPLITS)
    assert shares["cat"] == (pytest.approx(6), "train") and shares["dog"][0] == pytest.approx(2)
    furthest = "are off their share by more than one image, the furthest 'cat' by 6"
    assert off(counts) == ("2 of 2 classes", furthest)
    # A split without records is in no count.
    del counts["test"]
    assert len(class_shares(counts, SPLITS)) == 2


def test_nothing_to_compare() -> None:
    assert class_shares({}, SPLITS) == {} and off({}) is None


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9), max_size=3))
def test_exact_shares_are_not_off(sizes: dict[str, int]) -> None:
    tenths = {"train": 8, "validation": 1, "test": 1}
    counts = {
        split: Counter({name: size * part for name, size in sizes.items()})
        for split, part in tenths.items()
    }
    assert off(counts) is None
