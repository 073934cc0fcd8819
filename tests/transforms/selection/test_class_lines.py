"""Every class gets its share of every split, and a further image moves few others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.selection.dividing import divide
from transforms.core.messages import LabelsError
from transforms.core.records import PlannedImage
from transforms.dataset.ledger import PlanTotals
from transforms.labels.joins import labels_cells
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import Splits
from transforms.selection import hash_cuts as class_lines
from transforms.selection.hash_cuts import ROUNDS, Classes, ClassLines, Cuts, image_labels

SHARES = st.sampled_from(
    [
        (("train", 0.8), ("validation", 0.1), ("test", 0.1)),
        (("train", 1 / 3), ("test", 2 / 3)),
        (("a", 0.005), ("b", 0.99), ("c", 0.005)),
        tuple((f"fold_{number}", 0.2) for number in range(5)),
    ]
)
LABELS = st.lists(st.sampled_from(["cat", "dog", "fox", ""]), max_size=60)


def image(number: int, *labels: str) -> PlannedImage:
    cells = labels_cells(labels) if len(labels) > 1 else ""
    label = labels[0] if len(labels) == 1 else ""
    return PlannedImage(0, f"{number}", f"{number}.jpg", 1, 1, label, split="", cells=cells)


def stratified(
    images: list[PlannedImage], splits: Splits, rules: LabelRules = ANY_LABELS, seed: int = 0
) -> dict[str, str]:
    """The split of each image, by its key."""
    return stratified_groups({each.key: [each] for each in images}, splits, rules, seed)


def stratified_groups(
    groups: Mapping[str, list[PlannedImage]],
    splits: Splits,
    rules: LabelRules = ANY_LABELS,
    seed: int = 0,
) -> dict[str, str]:
    """The split of each group, by its name."""
    lines, totals = ClassLines(splits, seed, many_labels=True), PlanTotals()
    labels: dict[str, Counter[str]] = {}
    for name, images in groups.items():
        labels[name] = Counter(label for each in images for label in image_labels(each))
        for each in images:
            totals.add(each)
    classes, found = Classes.of(totals, rules, splits), dict[str, str]()
    rounds: list[Cuts] = []
    for number in range(ROUNDS):
        lines.prepare(classes, *rounds)
        draws = {
            name: lines.draw(own, name, len(groups[name]))
            for name, own in labels.items()
            if lines.round(own) == number
        }
        cuts = divide(draws.values(), lines.ranks, lines.bins)
        found |= {name: lines.split(draw, cuts) for name, draw in draws.items()}
        rounds.append(cuts)
    return found


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


@pytest.mark.parametrize(
    ("classes", "size", "at_least", "below"), [(2000, 1, 320, 480), (1000, 20, 160, 240)]
)
def test_small_classes_have_the_shares(classes: int, size: int, at_least: int, below: int) -> None:
    """16 is nearer to 20 than to 0, so the nearer end would put all groups into one split."""
    groups = {
        f"who {name}": [image(20 * name + at, f"class {name}") for at in range(size)]
        for name in range(classes)
    }
    found = Counter(stratified_groups(groups, Splits((("train", 0.8), ("test", 0.2)))).values())
    assert at_least < found["test"] < below


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30), SHARES)
def test_groups_of_a_class_are_within_their_largest_one_of_their_shares(
    sizes: list[tuple[str, int]], shares: tuple[tuple[str, float], ...]
) -> None:
    groups = {
        f"{at}": [image(100 * at + number, label) for number in range(size)]
        for at, (label, size) in enumerate(sizes)
    }
    found = stratified_groups(groups, Splits(shares))
    for label in {label for label, _ in sizes}:
        own = {name: images for name, images in groups.items() if images[0].label == label}
        total, most = sum(map(len, own.values())), max(map(len, own.values()))
        for split, share in shares:
            count = sum(len(images) for name, images in own.items() if found[name] == split)
            assert abs(count - Fraction(share) * total) < most + Fraction(1, 2**50)


def test_an_image_with_several_classes_counts_for_the_rarest() -> None:
    many = [image(at, "person") for at in range(90)]
    few = [image(at, "person", "kite") for at in range(90, 100)]
    for seed in range(10):
        splits = stratified([*many, *few], Splits((("train", 0.9), ("test", 0.1))), seed=seed)
        assert Counter(splits[each.key] for each in few) == {"train": 9, "test": 1}
        assert Counter(splits[each.key] for each in many) == {"train": 81, "test": 9}


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), max_size=80), SHARES, st.integers(0, 9)
)
def test_images_with_one_class_make_up_for_those_with_several(
    labels: list[set[str]], shares: tuple[tuple[str, float], ...], seed: int
) -> None:
    """Each class is within one image of its share, if enough images have it alone."""
    alone = [{name} for name in "abcdef" for _ in range(100)]
    images = [image(at, *sorted(each)) for at, each in enumerate([*labels, *alone])]
    found = stratified(images, Splits(shares), seed=seed)
    counts: dict[str, Counter[str]] = {split: Counter() for split, _ in shares}
    for each in images:
        counts[found[each.key]].update(image_labels(each))
    enough = min(share for _, share in shares) * 100 >= len(labels)
    sizes = sum(counts.values(), Counter())
    for name, size in sizes.items():
        for split, share in shares:
            if enough:
                assert abs(counts[split][name] - Fraction(share) * size) < 1 + Fraction(1, 2**50)


def test_classes_of_images_with_several_labels_are_near_their_shares() -> None:
    """Classes as unequal as in real data: 2,000 images with one to five of 40."""
    random = Random(5)
    weights = [1 / (number + 1) for number in range(40)]
    labels = [
        {f"{each}" for each in random.choices(range(40), weights, k=random.randint(1, 5))}
        for _ in range(2000)
    ]
    images = [image(at, *sorted(each)) for at, each in enumerate(labels)]
    splits = Splits((("train", 0.8), ("validation", 0.1), ("test", 0.1)))

    def distances(found: Mapping[str, str]) -> list[float]:
        sizes = Counter(name for each in labels for name in each)
        counts = Counter((found[f"{at}"], name) for at, own in enumerate(labels) for name in own)
        return [
            max(abs(counts["train", name] - 0.8 * size), abs(counts["test", name] - 0.1 * size))
            for name, size in sizes.items()
        ]

    # By the hash alone it is 3 images, and by the rarest class alone 2.
    found = distances(stratified(images, splits))
    assert sum(found) / len(found) < 0.8
    assert max(found) < 5


def test_spellings_of_an_integer_are_one_class() -> None:
    images = [image(at, "9" if at % 2 else "9.0") for at in range(6)]
    halves = Splits((("train", 0.5), ("test", 0.5)))
    for seed in range(10):
        found = stratified(images, halves, LabelRules("integer"), seed=seed)
        assert Counter(found.values()) == {"train": 3, "test": 3}


@pytest.mark.parametrize(
    ("limit", "most", "splits", "says"),
    [
        ("MAX_CLASSES", 2, 2, "--stratify label: 3 classes are more than 2"),
        # One worker merges where the splits of all classes begin, about 400 bytes each.
        ("MAX_ENDS", 18, 10, "3 classes are more than 2, since .* their 10 splits"),
    ],
)
def test_too_many_classes_are_refused(
    limit: str, most: int, splits: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_lines, limit, most)
    equal = Splits([(f"fold_{number}", 1 / splits) for number in range(splits)])
    stratified([image(1, "a"), image(2, "b")], equal)
    with pytest.raises(LabelsError, match=says):
        stratified([image(1, "a"), image(2, "b"), image(3, "c")], equal)
