"""What the block "Decided" says about stratified splits."""

from __future__ import annotations

from collections import Counter

from transforms.core.balance.balance_decisions import stratified_decisions
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.labels.label_rules import ANY_LABELS

OPTIONS = {"stratify": "label", "splits": {"train": 0.8, "validation": 0.1, "test": 0.1}}


def said(labels: dict[str, int], images: int, **changed: object) -> list[tuple[str, str, str]]:
    totals = PlanTotals(Counter(train=images), labels=Counter(labels))
    vocabulary = ANY_LABELS.vocabulary(labels, "text")
    found = stratified_decisions({**OPTIONS, **changed}, totals, vocabulary)
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


def test_nothing_without_the_flag() -> None:
    assert said({"cat": 1}, 1, stratify=None) == []
