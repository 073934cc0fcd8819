"""Rows without images: what is rejected, what is refused, and what `plan` says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import plan
from tests.pipeline.reading import NUMBER, read
from tests.pipeline.row_tables import made, of_table


def test_ragged_rows_are_rejected(tmp_path: Path) -> None:
    dataset = made(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8,\n", max_rejected=2)
    assert [(line["reason"], line["detail"], line["path"]) for line in dataset.rejected] == [
        ("malformed_row", "1 cells for 2 columns", f"{tmp_path}/table.csv:3"),
        (
            "malformed_row",
            "3 cells for 2 columns: quote a cell that holds the delimiter",
            f"{tmp_path}/table.csv:4",
        ),
    ]
    assert sorted(int(r["a"]) for r in read(dataset, {"a": NUMBER})) == [1, 7]


# Without a layout, the types are those of the first rows, so that the wrong ones come far below.
@pytest.mark.parametrize(("count", "layout"), rest_slow([(100, "my.yaml"), (20_000, "rows")]))
def test_too_many_rejected_rows_publish_nothing(count: int, layout: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("features:\n  a: {source: csv.a, type: int64}\n")
    rows = "".join(f"{n}\n" for n in range(count)) + "x\ny\n"
    flags = {"layout": tmp_path / layout if layout != "rows" else layout}
    ran = of_table(tmp_path, f"a\n{rows}", max_rejected=1, **flags)
    assert ran.code == 3
    assert f"2 of {count + 2} rows rejected, more than --max_rejected (1)" in ran.error()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert of_table(tmp_path, f"a\n{rows}", max_rejected=2, **flags).code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: give a file with rows to --labels"),
        ("\n\n", "is empty: give a file with rows to --labels"),
        ("a,b\n", "has no usable row: below the header, each row needs 2 cells"),
        ("a,b\n1\n", "has no usable row: below the header, each row needs 2 cells"),
        (",b\n1,2\n", "column 1 has no name"),
        ("a,a\n1,2\n", "has several columns 'a' (1 and 2): rename all but one"),
        ("a\n\0\n", "NUL byte"),
    ],
)
def test_a_table_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    ran = of_table(tmp_path, text)
    assert ran.code == 2
    assert message in ran.error()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("features:\n  x: csv.c\n", "has no column 'c', which --layout"),
        ("features:\n  x: {source: csv.a, type: int16}\n", "line 2: unknown type 'int16'"),
        (
            "features:\n  x: {source: csv.a, type: bool, default: 5}\n",
            "line 2: the default '5' is not of type bool",
        ),
    ],
)
def test_a_layout_that_cannot_be_used(yaml: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(yaml)
    ran = of_table(tmp_path, "a,b\n1,2\n", layout=tmp_path / "my.yaml")
    assert ran.code == 2
    assert message in ran.error()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"labels": None}, "--layout rows makes records from rows: give --labels CSV"),
        ({"images": "*.jpg"}, "leave out --images"),
        ({"resize": "shorter=9"}, "--resize cannot be used with --layout rows"),
        ({"label_column": "a"}, "--label_column cannot be used with --layout rows"),
        ({"files": "per_image"}, "--files cannot be used with --layout rows"),
        ({"quarantine": "q"}, "--quarantine cannot be used with --layout rows"),
        ({"split_from": "directory"}, "--split_from directory needs --images"),
        ({"label_key": "c"}, "has no column 'c' (--label_key)"),
        ({"split_column": "c"}, "has no column 'c' (--split_column)"),
    ],
)
def test_flags_that_do_not_go_with_rows(
    flags: dict[str, Any], message: str, tmp_path: Path
) -> None:
    ran = of_table(tmp_path, "a,b\n1,2\n", **flags)
    assert ran.code == 2
    assert message in ran.error()


def test_plan_tells_types_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,x\n2,y\n3\n")
    flags = {"labels": tmp_path / "table.csv", "layout": "rows", "splits": "train=0.5,test=0.5"}
    ran = plan(**flags, output=tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "columns  a int64, b bytes" in ran.out
    assert "rows     3 read = 2 to convert + 1 rejected" in ran.out
    assert not (tmp_path / "out").exists()
