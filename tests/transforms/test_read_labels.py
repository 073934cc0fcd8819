"""Label files are read row by row, and what cannot be used is rejected with its line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from transforms.core.messages import LabelsError
from transforms.core.records import Count, JoinSide
from transforms.core.rejections import Rejection
from transforms.input_readers import RowReader
from transforms.labels.label_rows import Column, CsvColumns
from transforms.labels.vocabulary import LabelCells

COLUMNS = CsvColumns(Column(0, "id"), Column(1, "label"), 2)


def read(
    *paths: Path, key: str = "stem", encoding: str = "utf-8", **options: Any
) -> dict[str, list[Any]]:
    reader = RowReader(COLUMNS, key=key, encoding=encoding, **options)
    results = [result for path in paths for result in reader.read(str(path))]
    return {
        "rejections": [result for result in results if isinstance(result, Rejection)],
        "counts": sorted(result for result in results if isinstance(result, Count)),
        "labels": [result for result in results if isinstance(result, LabelCells)],
        "rows": [r for r in results if not isinstance(r, (Rejection, Count, LabelCells))],
    }


def test_rows_of_several_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv.gz"
    one.write_text('id,label\nphotos/1.jpg,cat\n\n2,"a, quoted\nlabel"\n')
    two.write_bytes(gzip.compress("\ufeffid,label\ne\u0301,한강\n".encode()))
    found = read(one, two)
    assert found == {
        "rows": [
            ("1", JoinSide("", 0, 0, "cat", f"{one}:2")),
            ("2", JoinSide("", 0, 0, "a, quoted label", f"{one}:4")),
            ("\xe9", JoinSide("", 0, 0, "한강", f"{two}:2")),
        ],
        "rejections": [],
        "counts": [Count("rows_read", 1), Count("rows_read", 2)],
        "labels": [
            LabelCells(others=2, odd=((str(one), 2, "cat"), (str(one), 4, "a, quoted label"))),
            LabelCells(others=1, odd=((str(two), 2, "한강"),)),
        ],
    }


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,\n,cat\nfolder/,dog\n2,cat,more\n3,cat\n")
    found = read(path)
    assert [(key, side.label) for key, side in found["rows"]] == [("1", ""), ("3", "cat")]
    rejections: list[Rejection] = found["rejections"]
    assert {(r.subject, r.reason) for r in rejections} == {("row", "malformed_row")}
    assert sorted((r.path, r.key) for r in rejections) == [
        (f"{path}:3", ""),
        (f"{path}:4", "folder/"),
        (f"{path}:5", "2"),
    ]
    assert next(r.detail for r in rejections if r.key == "folder/") == "'folder/' names no file"
    assert found["counts"] == [Count("rows_read", 5)]


def test_missing_labels_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,nan\n2,7.0\n3,\n4,NA\n5,x\n")
    found = read(path)
    assert [side.label for _, side in found["rows"]] == ["", "7.0", "", "", "x"]
    odd = ((str(path), 6, "x"),)
    assert found["labels"] == [LabelCells(1, 1, 3, odd, ("", "NA", "nan"))]
    found = read(path, missing=frozenset())
    assert [side.label for _, side in found["rows"]] == ["nan", "7.0", "", "NA", "x"]


def test_missing_labels_among_several_of_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,cat|nan| |dog\n2,nan|\n")
    found = read(path, separator="|")
    assert [side.label for _, side in found["rows"]] == ["cat|dog", ""]
    assert found["labels"][0][1:3] == (2, 1)


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("id,label\n1,한강\n".encode("cp949"))
    [(_, row)] = read(path, encoding="cp949")["rows"]
    assert row.label == "한강"
    with pytest.raises(LabelsError, match="labels.csv"):
        read(path)
