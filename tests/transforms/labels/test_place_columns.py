"""The columns that decide where an image goes."""

from __future__ import annotations

import io
from typing import Any

import pytest

from transforms.core.messages import LabelsError
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_options import SplitOptions
from transforms.labels.label_rows import NO_COLUMN, Column, CsvColumns
from transforms.labels.label_tables import first_rows

ROWS = b"id,label,split,who\n1,cat,train,a\n2,dog,,b\n"


def place(rows: bytes = ROWS, **asked: Any) -> CsvColumns:
    first = first_rows(io.BytesIO(rows), 20, encoding="utf-8", path="a.csv")
    splits = SplitOptions(**asked)
    return resolve_columns(first, key="id", label="label", splits=splits, path="a.csv")


def test_columns_are_found_by_name_number_or_by_themselves() -> None:
    assert place().split == NO_COLUMN
    assert place(split_from="csv").split.name == "split"
    assert place(split_column="split").split.at == 2
    placed = place(split_column="3", group_by="4")
    assert (placed.split, placed.group) == (Column(2, "split", "given"), Column(3, "who", "given"))


@pytest.mark.parametrize(
    ("rows", "asked", "says"),
    [
        (b"id,label\n1,cat\n", {"split_from": "csv"}, "no column 'split': name the one"),
        (ROWS, {"split_column": "set"}, "no column 'set'"),
        (ROWS, {"group_by": "5"}, "no column 5, only 4"),
        (ROWS, {"split_column": "1"}, "has values such as '1', which cannot be splits"),
    ],
)
def test_columns_that_are_none(rows: bytes, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        place(rows, **asked)


def test_the_only_other_column_is_not_both_the_split_and_the_label() -> None:
    first = first_rows(io.BytesIO(b"id,split\na,test\n"), 5, encoding="utf-8", path="a.csv")
    asked = SplitOptions(split_column="split")
    with pytest.raises(LabelsError, match=r"^a.csv has no column of labels, only keys and"):
        resolve_columns(first, key=None, label=None, splits=asked, path="a.csv")
    given = resolve_columns(first, key=None, label="split", splits=asked, path="a.csv")
    assert given.split.at == 1
