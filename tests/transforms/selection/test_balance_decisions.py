"""What the block "Decided" says about stratified splits."""

from __future__ import annotations

from collections import Counter

from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import ANY_LABELS
from transforms.selection.hash_cuts import stratified_decisions

OPTIONS = {"stratify": "label", "splits": {"train": 0.8, "validation": 0.1, "test": 0.1}}


def said(
    labels: dict[str, int],
    images: int,
    counts: dict[str, dict[str, int]] | None = None,
    **changed: object,
) -> list[tuple[str, str, str]]:
    totals = PlanTotals(Counter(train=images), labels=Counter(labels))
    vocabulary = ANY_LABELS.vocabulary(labels, "text")
    found = stratified_decisions({**OPTIONS, **changed}, totals, vocabulary, counts or {})
    assert all(each.flag == "--stratify" for each in found)
    return [each[:3] for each in found]


def test_how_near_classes_are_and_what_moves() -> None:
    bound = "each within one image of its shares; a further image moves at most "
    assert said({"cat": 5, "dog": 3}, 8) == [("stratified", "2 classes", f"{bound}2 others")]
    halves = {"train": 0.5, "test": 0.5}
    assert said({"cat": 5}, 5, splits=halves) == [("stratified", "1 class", f"{bound}1 other")]
    of_groups = "by the classes of each group; groups stay whole"
    assert said({"cat": 5}, 5, group_by="who") == [("stratified", "1 class", of_groups)]


def test_several_labels_and_small_classes() -> None:
    [several, small] = said({"": 5, "cat": 5, "dog": 2, "ant": 1, "fox": 2, "owl": 1}, 5)
    by_rarest = "by the rarest class of each image; those with one class make up for the others"
    assert several == ("stratified", "5 classes", by_rarest)
    shown = "'ant', 'dog', 'fox' and 1 more: fewer images than the 3 splits, so some have none"
    assert small == ("small classes", "4 classes", shown)


def test_images_without_labels_do_not_hide_those_with_several() -> None:
    """Of eight images, three have both labels: fewer labels than images."""
    [found] = said({"": 8, "cat": 3, "dog": 3}, 8)
    by_rarest = "by the rarest class of each image; those with one class make up for the others"
    assert found == ("stratified", "2 classes", by_rarest)
    # With one class, no image has several.
    [found] = said({"": 8, "cat": 3}, 8)
    bound = "each within one image of its shares; a further image moves at most 2 others"
    assert found == ("stratified", "1 class", bound)


def test_how_far_classes_are_from_their_shares() -> None:
    """Of 20 images of a class, 16, 2 and 2 are its shares."""
    counts = {
        "train": {"cat": 15, "dog": 16, "fox": 15, "": 9},
        "validation": {"cat": 3, "dog": 2, "fox": 4},
        "test": {"cat": 2, "dog": 2, "fox": 1},
    }
    labels = {"cat": 20, "dog": 20, "fox": 20}
    [_, one] = said(labels, 60, counts)
    off = "is off its share by more than one image: 'fox' by 2 (validation)"
    assert one == ("class shares", "1 of 3 classes", off)
    counts["test"]["dog"] = 5
    [_, two] = said(labels, 63, counts)
    # 23 images: 18.4 in train.
    off = "are off their share by more than one image, the furthest 'dog' by 2.7 (test)"
    assert two == ("class shares", "2 of 3 classes", off)
    counts["test"]["dog"], counts["validation"]["fox"], counts["test"]["fox"] = 2, 3, 2
    assert len(said(labels, 60, counts)) == 1


def test_a_distance_just_above_one_is_not_rounded_to_one() -> None:
    shares = {"train": 0.52, "test": 0.48}
    [_, off] = said({"cat": 2}, 2, {"train": {}, "test": {"cat": 2}}, splits=shares)
    assert off[2] == "is off its share by more than one image: 'cat' by 1.1 (train)"


def test_nothing_without_the_flag() -> None:
    assert said({"cat": 1}, 1, stratify=None) == []
