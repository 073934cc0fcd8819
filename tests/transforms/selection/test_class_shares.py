"""Which classes are off their shares, and by how much."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.labels.splits import Splits
from transforms.selection.hash_cuts import ClassShares, class_shares

SPLITS = Splits((("train", 0.8), ("validation", 0.1), ("test", 0.1)))


def counted(**classes: tuple[int, int, int]) -> dict[str, dict[str, int]]:
    """The counts of classes by split, from their counts in train, validation and test."""
    return {
        split: {name: counts[at] for name, counts in classes.items() if counts[at]}
        for at, split in enumerate(SPLITS.names)
    }


def test_shares_within_one_image_are_exact_enough() -> None:
    # 20 images: 16, 2 and 2; one more or less is within one.
    counts = counted(cat=(16, 2, 2), dog=(15, 3, 2), fox=(17, 1, 2), ant=(7, 0, 0))
    found = class_shares(counts, SPLITS)
    assert found._replace(images=0) == ClassShares(4, 1, "ant", 0, "train")
    assert found.images == pytest.approx(1.4)
    del counts["train"]["ant"]
    assert class_shares(counts, SPLITS) == ClassShares(3)


def test_the_furthest_class_is_named_and_the_unnamed_one_is_none() -> None:
    counts = counted(cat=(10, 5, 5), dog=(14, 4, 2))
    counts["test"][""] = 50
    found = class_shares(counts, SPLITS)
    assert found._replace(images=0) == ClassShares(2, 2, "cat", 0, "train")
    assert found.images == pytest.approx(6)
    # A split without records is in no count.
    del counts["test"]
    assert class_shares(counts, SPLITS).classes == 2


def test_nothing_to_compare() -> None:
    assert class_shares({}, SPLITS) == ClassShares(0)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9), max_size=3))
def test_exact_shares_are_not_off(sizes: dict[str, int]) -> None:
    tenths = {"train": 8, "validation": 1, "test": 1}
    counts = {
        split: Counter({name: size * part for name, size in sizes.items()})
        for split, part in tenths.items()
    }
    assert class_shares(counts, SPLITS).off == 0
