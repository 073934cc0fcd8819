"""`plan` says which cells will be rejected, and `convert` rejects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, plan, write_layout

CSV = "id,label,age\na,cat,41\nb,cat,NA\nc,dog,x\nd,dog,\ne,cat,7\n"
FEATURES = "  age: {source: csv.age, type: int64}\n"


@pytest.mark.parametrize("of_rows", rest_slow([True, False]))
def test_cells_that_will_be_rejected_are_counted_and_shown(of_rows: bool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    features = FEATURES if of_rows else f"{FEATURES}  image: image.bytes\n"
    flags = {
        "labels": tmp_path / "a.csv",
        "layout": write_layout(tmp_path, features),
        "output": tmp_path / "out",
        "max_rejected": "100%",
    }
    if not of_rows:
        flags["images"] = f"{tmp_path}/p/*.jpg"
        for seed, stem in enumerate("abcde"):
            draw(tmp_path / "p" / f"{stem}.jpg", seed=seed)
    ran = plan(**flags)
    assert ran.code == 0, ran.err
    lines = [line.strip() for line in ran.out.splitlines()]
    details = [
        "a.csv:3, column 'age': 'NA' is a missing value; give it a default",
        "a.csv:4, column 'age': 'x' is not of type int64",
        "a.csv:5, column 'age': the cell is empty; give it a default",
    ]
    assert [line for line in lines if line.startswith("a.csv:")] == details
    assert any(line.startswith("3 bad_cell: ") for line in lines)
    assert any("2 to convert + 3 rejected" in line for line in lines)
    ran = convert(**flags)
    assert ran.code == 0, ran.err
    dataset = Dataset(tmp_path / "out")
    assert sorted(line["detail"] for line in dataset.rejected) == details
    assert dataset.ledger["records_written"] == 2


def test_missing_cells_are_the_default(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,name\n41,x\nNA,y\n,z\n")
    layout = write_layout(tmp_path, "  age: {source: csv.age, default: -1}\n")
    ran = plan(labels=tmp_path / "a.csv", layout=layout, output=tmp_path / "out")
    assert ran.code == 0 and "bad_cell" not in ran.out
    assert "2 of 3 cells missing: read as '-1' [--layout]" in ran.out


@pytest.mark.parametrize("of_rows", rest_slow([True, False]))
def test_a_cell_that_decides_the_type_of_thousands(of_rows: bool, tmp_path: Path) -> None:
    cells = ["inf", *(f"{number}.5" for number in range(1000))]
    rows = "".join(f"{number},{cell}\n" for number, cell in enumerate(cells))
    (tmp_path / "a.csv").write_text(f"id,age\n{rows}")
    flags = {"labels": tmp_path / "a.csv", "layout": "rows", "output": tmp_path / "out"}
    if not of_rows:
        draw(tmp_path / "p" / "7.jpg")
        layout = write_layout(tmp_path, "  age: csv.age\n  image: image.bytes\n")
        flags |= {"images": f"{tmp_path}/p/*.jpg", "layout": layout}
    ran = plan(**flags)
    assert (
        "\nwarning  1 of 1001 cells of column 'age' makes it bytes, not float: 'inf' (line 2) is "
        "not finite; correct it, or give the type in a layout file\n"
    ) in ran.out
