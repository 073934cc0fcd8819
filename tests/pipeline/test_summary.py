"""What the summary lists of classes."""

from __future__ import annotations

from pipeline.summary import _class_lines
from transforms.core.report.report_tables import class_table


def test_classes_that_are_integers_are_listed_as_numbers() -> None:
    splits = {"train": {"classes": {"100": 3, "9": 1}}, "test": {"classes": {"10": 2, "": 1}}}
    names = [line.split()[0] for line in _class_lines(splits)]
    assert names == ["class", "9", "10", "100"]
    assert [row.name for row in class_table(splits, 1).rows] == ["9", "10", "100"]


def test_the_first_classes_are_the_smallest_numbers() -> None:
    classes = {str(number): 1 for number in range(1000)}
    names = [line.split()[0] for line in _class_lines({"train": {"classes": classes}})]
    assert names == ["class", *map(str, range(20)), "..."]
