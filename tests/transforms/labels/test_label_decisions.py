"""What the block "Decided" says of labels predicts their ids."""

from __future__ import annotations

import pytest

from transforms.core.messages import Decision
from transforms.labels.label_rules import LabelRules, label_decisions
from transforms.labels.vocabulary import LabelCells, Vocabulary

ODD = (("a.csv", 3, "cat"), ("a.csv", 4, "dog"))


@pytest.mark.parametrize(
    ("labels", "cells", "rules", "kind", "ids"),
    [
        (
            ["7", "100000.0"],
            LabelCells(3),
            LabelRules(),
            "integers, 2 classes|all 3 labels are integers|--label_kind",
            "7 to 100000|the labels themselves; 99999 numbers below are unused|--dense_labels",
        ),
        (
            ["1", "0"],
            LabelCells(2),
            LabelRules(),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "0 to 1|the labels themselves|--dense_labels",
        ),
        (
            ["-3", "7"],
            LabelCells(2),
            LabelRules(),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "-3 to 7|the labels themselves; labels.txt is empty: it has no lines for such ids"
            "|--dense_labels",
        ),
        (
            ["7", "100000"],
            LabelCells(2),
            LabelRules(dense=True),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "0 to 1|count the integers in their order|--dense_labels",
        ),
        (
            ["cat", "dog", "1"],
            LabelCells(1, 2, odd=ODD),
            LabelRules(),
            "text, 3 classes|'cat' is not an integer|--label_kind",
            "0 to 2|count the sorted labels|--class_names",
        ),
        (
            ["7"],
            LabelCells(1),
            LabelRules("text"),
            "text, 1 class|given|--label_kind",
            "0|count the sorted labels|--class_names",
        ),
        (
            ["cat", "1"],
            LabelCells(1, 1, odd=ODD),
            LabelRules(class_names=("dog", "cat")),
            "text, 2 classes|the lines of the file|--class_names",
            "0 to 1|count the lines; labels are names or these numbers|--class_names",
        ),
        (
            ["cat"],
            LabelCells(0, 1, odd=ODD),
            LabelRules("text", class_names=("dog", "cat"), known_ids=True),
            "text, 2 classes|the known classes|--class_names",
            "0 to 1|count the known classes; labels are names|--class_names",
        ),
    ],
)
def test_kind_and_ids(
    labels: list[str], cells: LabelCells, rules: LabelRules, kind: str, ids: str
) -> None:
    vocabulary = rules.vocabulary(labels, rules.decide(cells))
    counted = dict.fromkeys(labels, 1)
    assert label_decisions(vocabulary, counted, cells, rules) == [
        Decision("labels", *kind.split("|")),
        Decision("class ids", *ids.split("|")),
    ]


def test_missing_labels_are_counted() -> None:
    cells = LabelCells(2, 0, 3, spellings=("", "nan"))
    assert label_decisions(Vocabulary.build(["1", "2"]), {}, cells, LabelRules())[2:] == [
        Decision(
            "missing labels",
            "3 cells",
            "empty, 'nan': not classes; their images are rejected",
            "--label_kind",
        )
    ]


def test_without_labels_nothing_is_decided() -> None:
    assert label_decisions(Vocabulary.build([]), {}, LabelCells(), LabelRules()) == []


def test_labels_that_nobody_counted() -> None:
    kinds = [
        label_decisions(Vocabulary.build(labels), {}, LabelCells(), LabelRules())[0].because
        for labels in (["1"], ["1", "x"])
    ]
    assert kinds == ["all are", "'x' is not an integer"]


@pytest.mark.parametrize(
    ("rules", "value", "because", "flag"),
    [
        (
            LabelRules("integer"),
            "8 of 12",
            "'a', 'b', 'x' and 1 more are not integers: their images are rejected",
            "--label_kind",
        ),
        (
            LabelRules(class_names=("7", "cat", "b", "a", "dog")),
            "7 of 12",
            "'+3.0', '007', 'x' and 1 more are not in the file: their images are rejected",
            "--class_names",
        ),
        (
            LabelRules("text", class_names=("7", "cat", "b", "a", "dog"), known_ids=True),
            "7 of 12",
            "'+3.0', '007', 'x' and 1 more are not in --class_names: their images are rejected",
            "--class_names",
        ),
    ],
)
def test_labels_without_an_id_are_counted(
    rules: LabelRules, value: str, because: str, flag: str
) -> None:
    labels = {"007": 3, "+3.0": 1, "x": 2, "b": 4, "a": 1, "": 9, "z": 1}
    vocabulary = rules.vocabulary(labels, "integer")
    (*_, unknown) = label_decisions(vocabulary, labels, LabelCells(4, 8), rules)
    assert unknown == Decision("unknown labels", value, because, flag)


def test_one_label_without_an_id() -> None:
    (_, _, unknown) = label_decisions(
        Vocabulary.build(["1"]), {"1": 2, "x" * 50: 1}, LabelCells(2, 1), LabelRules("integer")
    )
    assert unknown.because == f"{'x' * 40!r} is not an integer: its image is rejected"


def test_nothing_but_labels_that_reject_is_said_too() -> None:
    rules = LabelRules("integer")
    found = label_decisions(
        rules.vocabulary(["x"], "integer"), {"x": 3}, LabelCells(0, 3, 1, ODD, ("NA",)), rules
    )
    assert [(each.what, each.value) for each in found] == [
        ("labels", "integers, 0 classes"),
        ("missing labels", "1 cell"),
        ("unknown labels", "3 of 3"),
    ]


def test_missing_labels_are_said_without_any_other() -> None:
    (missing,) = label_decisions(
        Vocabulary.build([]), {}, LabelCells(missing=2, spellings=("NA",)), LabelRules()
    )
    assert (missing.what, missing.value) == ("missing labels", "2 cells")


def test_new_classes_are_named() -> None:
    rules = LabelRules(class_names=("dog",), new_classes="append")
    labels = {"dog": 3, "e": 1, "d": 1, "c": 1, "b": 2, "7": 1}
    *_, new, unknown = label_decisions(
        rules.vocabulary(labels, "text"), labels, LabelCells(1, 8, odd=ODD), rules
    )
    because = "'b', 'c', 'd' and 1 more: after the known ones, sorted"
    assert new == Decision("new classes", "4 classes", because, "--new_classes")
    because = "'7' cannot be a new class: its image is rejected"
    assert unknown == Decision("unknown labels", "1 of 9", because, "--class_names")
    rules = LabelRules("text", ("dog",), class_ids=(7,), known_ids=True)
    kind, ids, unknown = label_decisions(
        rules.vocabulary(labels, "text"), {"e": 1}, LabelCells(1), rules
    )
    assert (kind.because, ids[1:3]) == ("the known classes", ("7", "those of the known classes"))
    assert unknown.because == "'e' is not in --class_names: its image is rejected"
    assert rules.unknown == "is not in --class_names"


def test_known_classes_without_new_ones() -> None:
    rules = LabelRules(class_names=("dog",), new_classes="append")
    known = {"dog": 3}
    *_, new = label_decisions(rules.vocabulary(known, "text"), known, LabelCells(0, 3), rules)
    assert new[1:3] == ("0 classes", "all labels are known")
