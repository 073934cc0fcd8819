"""Every class gets its share of every split, and a further image moves few others."""

from __future__ import annotations

import dataclasses
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.core.balance.dividing import divide
from transforms.core.balance import class_lines
from transforms.core.balance.class_lines import (
    Classes,
    ClassLines,
    image_labels,
    least_of_set,
    split_ranks,
)
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_rules import ANY_LABELS, LabelRules
from transforms.core.planning.row_cells import labels_cells
from transforms.core.planning.splits import Splits
from transforms.core.records import LabelledImage

SHARES = st.sampled_from(
    [
        (("train", 0.8), ("validation", 0.1), ("test", 0.1)),
        (("train", 1 / 3), ("test", 2 / 3)),
        (("a", 0.005), ("b", 0.99), ("c", 0.005)),
        tuple((f"fold_{number}", 0.2) for number in range(5)),
    ]
)
LABELS = st.lists(st.sampled_from(["cat", "dog", "fox", ""]), max_size=60)


def image(number: int, *labels: str) -> LabelledImage:
    cells = labels_cells(labels) if len(labels) > 1 else ""
    label = labels[0] if len(labels) == 1 else ""
    return LabelledImage("", 0, f"{number}", f"{number}.jpg", 1, 1, label, 0, cells)


def stratified(
    images: list[LabelledImage], splits: Splits, rules: LabelRules = ANY_LABELS, seed: int = 0
) -> dict[str, str]:
    """The split of each image, by its key."""
    lines, totals, sets = ClassLines(splits, seed=seed), PlanTotals(), Counter[str]()
    for each in images:
        totals.add(each)
    classes = Classes.of(totals, rules, splits)
    for each in images:
        sets[classes.set_line(image_labels(each))] += 1
    least = least_of_set(splits, classes.images)
    sets = Counter({line: count for line, count in sets.items() if line and count >= least})
    lines.prepare(dataclasses.replace(classes, sets=sets))
    draws = {each.key: lines.draw(image_labels(each), each.key, 1) for each in images}
    cuts = divide(draws.values(), lines.ranks, lines.bins)
    return {key: lines.split(draw, cuts) for key, draw in draws.items()}


@given(LABELS, SHARES, st.integers(-5, 5))
def test_each_class_has_its_share_of_each_split_within_one_image(
    labels: list[str], shares: tuple[tuple[str, float], ...], seed: int
) -> None:
    splits = stratified(
        [image(at, each) for at, each in enumerate(labels)], Splits(shares), seed=seed
    )
    for name, size in Counter(labels).items():
        found = Counter(split for key, split in splits.items() if labels[int(key)] == name)
        for split, share in shares:
            # The shares are rounded to 64 bits.
            assert abs(found[split] - Fraction(share) * size) < 1 + Fraction(1, 2**50)


@given(LABELS, st.sampled_from(["cat", "ant"]), SHARES)
def test_a_further_image_moves_one_of_its_class_for_each_end_of_a_split(
    labels: list[str], further: str, shares: tuple[tuple[str, float], ...]
) -> None:
    """And so does one that is removed: the two differ in their order alone."""
    images = [image(at, each) for at, each in enumerate(labels)]
    before = stratified(images, Splits(shares))
    after = stratified([*images, image(len(labels), further)], Splits(shares))
    moved = [key for key, split in before.items() if after[key] != split]
    assert {labels[int(key)] for key in moved} <= {further}
    assert len(moved) <= len(shares) - 1


@given(st.integers(0, 10**9), SHARES, st.integers(0, 2**64 - 1))
def test_shares_are_rounded_up_or_down(
    records: int, shares: tuple[tuple[str, float], ...], offset: int
) -> None:
    splits = Splits(shares)
    ends = [0, *split_ranks(splits, records, offset), records]
    assert ends == sorted(ends)
    uppers = [0, *(split.upper for split in splits.bounds)]
    for at in range(len(shares)):
        exact = Fraction((uppers[at + 1] - uppers[at]) * records, 2**64)
        assert abs(ends[at + 1] - ends[at] - exact) < 1


def test_small_classes_together_have_the_shares_too() -> None:
    splits = Splits((("train", 0.8), ("test", 0.2)))
    one_each = stratified([image(number, f"class {number}") for number in range(2000)], splits)
    assert 320 < Counter(one_each.values())["test"] < 480


def test_an_image_with_a_rare_set_of_classes_counts_for_its_rarest_class() -> None:
    many = [image(at, "person") for at in range(90)]
    few = [image(at, "person", "kite") for at in range(90, 100)]
    for seed in range(10):
        splits = stratified([*many, *few], Splits((("train", 0.9), ("test", 0.1))), seed=seed)
        assert Counter(splits[each.key] for each in few) == {"train": 9, "test": 1}
        assert Counter(splits[each.key] for each in many) == {"train": 81, "test": 9}


@given(st.lists(st.sets(st.sampled_from("abc"), min_size=1), max_size=80), st.integers(0, 9))
def test_sets_that_many_images_have_are_within_one_image_of_their_shares(
    labels: list[set[str]], seed: int
) -> None:
    splits = Splits((("train", 0.5), ("test", 0.5)))
    images = [image(at, *sorted(each)) for at, each in enumerate(labels)]
    found = stratified(images, splits, seed=seed)
    sizes = Counter(map(frozenset, labels))
    for own, size in sizes.items():
        if size >= 4 and len(own) > 1:
            train = sum(found[f"{at}"] == "train" for at, each in enumerate(labels) if each == own)
            assert abs(train - size / 2) < 1
    # So is the rest, by rarest class.
    classes = Counter(name for each in labels for name in each)
    rest: dict[str, list[int]] = {}
    for at, each in enumerate(labels):
        if len(each) == 1 or sizes[frozenset(each)] < 4:
            rest.setdefault(min(each, key=lambda name: (classes[name], name)), []).append(at)
    for places in rest.values():
        train = sum(found[f"{at}"] == "train" for at in places)
        assert abs(train - len(places) / 2) < 1


def test_spellings_of_an_integer_are_one_class() -> None:
    images = [image(at, "9" if at % 2 else "9.0") for at in range(6)]
    halves = Splits((("train", 0.5), ("test", 0.5)))
    for seed in range(10):
        found = stratified(images, halves, LabelRules("integer"), seed=seed)
        assert Counter(found.values()) == {"train": 3, "test": 3}


def test_too_many_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_lines, "MAX_CLASSES", 2)
    splits = Splits((("train", 0.5), ("test", 0.5)))
    stratified([image(1, "a"), image(2, "b")], splits)
    with pytest.raises(LabelsError, match="--stratify label: 3 classes are more than 2"):
        stratified([image(1, "a"), image(2, "b"), image(3, "c")], splits)


def test_more_splits_leave_room_for_fewer_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker merges where the splits of all classes and sets begin, about 800 bytes each."""
    monkeypatch.setattr(class_lines, "MAX_ENDS", 18)
    tenths = Splits([(f"fold_{number}", 0.1) for number in range(10)])
    stratified([image(1, "a"), image(2, "b")], tenths)
    with pytest.raises(LabelsError, match="3 classes are more than 2, since .* their 10 splits"):
        stratified([image(1, "a"), image(2, "b"), image(3, "c")], tenths)
    # Two sets of 50 images are lines, four of 25 are not.
    assert least_of_set(tenths, 100) == 50
