"""What the block "Decided" says about stratified splits, and which classes are off their shares."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.shards import Splits
from transforms.selection.hash_cuts import class_shares, stratified_decisions

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
SPLITS = Splits([*SHARES.items()])
HALVES = {"train": 0.5, "test": 0.5}


def said(
    labels: dict[str, int],
    images: int,
    counts: dict[str, dict[str, int]] | None = None,
    **changed: object,
) -> list[tuple[str, str, str]]:
    totals = PlanTotals(Counter(train=images), labels=Counter(labels))
    vocabulary = ANY_LABELS.vocabulary(labels, "text")
    options = {"stratify": "label", "splits": SHARES, **changed}
    found = stratified_decisions(options, totals, vocabulary, counts or {})
    assert all(each.flag == "--stratify" for each in found)
    return [each[:3] for each in found]


BOUND = "each within one image of its shares; a further image moves at most "
BY_RAREST = "by the rarest class of each image; those with one class make up for the others"
OF_GROUPS = "by the classes of each group; groups stay whole"
SMALL = "'ant', 'dog', 'fox' and 1 more: fewer images than the 3 splits, so some have none"


@pytest.mark.parametrize(
    ("labels", "images", "changed", "decisions"),
    [
        ({"cat": 5, "dog": 3}, 8, {}, [("stratified", "2 classes", f"{BOUND}2 others")]),
        ({"cat": 5}, 5, {"splits": HALVES}, [("stratified", "1 class", f"{BOUND}1 other")]),
        ({"cat": 5}, 5, {"group_by": "who"}, [("stratified", "1 class", OF_GROUPS)]),
        (
            {"": 5, "cat": 5, "dog": 2, "ant": 1, "fox": 2, "owl": 1},
            5,
            {},
            [("stratified", "5 classes", BY_RAREST), ("small classes", "4 classes", SMALL)],
        ),
        # Of eight images, three have both labels: fewer labels than images.
        ({"": 8, "cat": 3, "dog": 3}, 8, {}, [("stratified", "2 classes", BY_RAREST)]),
        # With one class, no image has several.
        ({"": 8, "cat": 3}, 8, {}, [("stratified", "1 class", f"{BOUND}2 others")]),
        ({"cat": 1}, 1, {"stratify": None}, []),
    ],
)
def test_how_near_classes_are_and_what_moves(
    labels: dict[str, int], images: int, changed: dict[str, Any], decisions: list[Any]
) -> None:
    assert said(labels, images, **changed) == decisions


def counted(classes: dict[str, tuple[int, ...]]) -> dict[str, dict[str, int]]:
    """The counts of classes by split; a split without records is in none."""
    counts = {
        split: {name: held[at] for name, held in classes.items() if held[at]}
        for at, split in enumerate(SPLITS.names)
    }
    return {split: each for split, each in counts.items() if each}


ONE = "is off its share by more than one image: "
SEVERAL = "are off their share by more than one image, the furthest "


@pytest.mark.parametrize(
    ("classes", "value", "because"),
    [
        # Of 20 images 16, 2 and 2 are the shares; one more or less is exact enough.
        ({"cat": (16, 2, 2), "dog": (15, 3, 2), "fox": (17, 1, 2)}, "", ""),
        ({"cat": (16, 2, 2), "ant": (7, 0, 0)}, "1 of 2 classes", f"{ONE}'ant' by 1.4 (train)"),
        (
            {"cat": (15, 3, 2), "dog": (16, 2, 2), "fox": (15, 4, 1), "": (9, 0, 0)},
            "1 of 3 classes",
            f"{ONE}'fox' by 2 (validation)",
        ),
        # 23 images: 18.4 in train.
        (
            {"cat": (15, 3, 2), "dog": (16, 2, 5), "fox": (15, 4, 1)},
            "2 of 3 classes",
            f"{SEVERAL}'dog' by 2.7 (test)",
        ),
        (
            {"cat": (10, 5, 5), "dog": (14, 4, 2), "": (0, 0, 50)},
            "2 of 2 classes",
            f"{SEVERAL}'cat' by 6 (train)",
        ),
        ({}, "", ""),
    ],
)
def test_classes_off_shares(classes: dict[str, tuple[int, ...]], value: str, because: str) -> None:
    counts = counted(classes)
    found = [each for each in said({}, 0, counts) if each[0] == "class shares"]
    assert found == ([("class shares", value, because)] if value else [])
    assert set(class_shares(counts, SPLITS)) == {*classes} - {""}


def test_a_distance_just_above_one_is_not_rounded_to_one() -> None:
    shares = {"train": 0.52, "test": 0.48}
    [_, off] = said({"cat": 2}, 2, {"train": {}, "test": {"cat": 2}}, splits=shares)
    assert off[2] == f"{ONE}'cat' by 1.1 (train)"


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9), max_size=3))
def test_exact_shares_are_not_off(sizes: dict[str, int]) -> None:
    counts = counted({name: (8 * size, size, size) for name, size in sizes.items()})
    assert not any(each[0] == "class shares" for each in said({}, 0, counts))
