"""What the block "Decided" says of labels predicts their ids."""

from __future__ import annotations

import json

import pytest

from transforms.core.decisions import Decision
from transforms.core.label_decisions import label_decisions
from transforms.core.label_kinds import LabelCells
from transforms.core.vocabulary import LabelRules, Vocabulary

ODD = json.dumps([["a.csv", 3, "cat"], ["a.csv", 4, "dog"]])


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
            "-3 to 7|the labels themselves; labels.txt is empty, it has no lines of these numbers"
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
            "text, 3 classes|'cat' is no integer|--label_kind",
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
    ],
)
def test_kind_and_ids(
    labels: list[str], cells: LabelCells, rules: LabelRules, kind: str, ids: str
) -> None:
    vocabulary = rules.vocabulary(labels, rules.decide(cells))
    assert label_decisions(vocabulary, cells, rules) == [
        Decision("labels", *kind.split("|")),
        Decision("class ids", *ids.split("|")),
    ]


def test_missing_labels_are_counted() -> None:
    cells = LabelCells(2, 0, 3, spellings=json.dumps(["", "nan"]))
    assert label_decisions(Vocabulary.build(["1", "2"]), cells, LabelRules())[2:] == [
        Decision(
            "missing labels",
            "3 cells",
            "empty, 'nan': no class, their images are rejected",
            "--label_kind",
        )
    ]


def test_without_labels_nothing_is_decided() -> None:
    assert label_decisions(Vocabulary.build([]), LabelCells(), LabelRules()) == []


def test_labels_that_nobody_counted() -> None:
    kinds = [
        label_decisions(Vocabulary.build(labels), LabelCells(), LabelRules())[0].because
        for labels in (["1"], ["1", "x"])
    ]
    assert kinds == ["all are", "'x' is no integer"]
