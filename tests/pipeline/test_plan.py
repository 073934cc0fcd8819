"""The dry run: it writes nothing, and tells what `convert` then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import (
    Dataset,
    Ran,
    convert,
    make_dataset,
    plan,
    snapshot,
    write_layout,
)
from tests.pipeline.decided_table import block
from transforms import packing

# The dry run: it writes nothing, and tells what `convert` then does.


def table(ran: Ran) -> dict[str, list[str]]:
    """The words of each line of a plan, by the first."""
    assert (ran.code, ran.err) == (0, "")
    return {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()}


def test_plan_of_the_sample_is_what_convert_makes(sample: Path, tmp_path: Path) -> None:
    flags: dict[str, Any] = {
        "images": f"{sample}/images/*/*",
        "labels": sample / "labels.csv",
        "splits": "train=0.7,validation=0.2,test=0.1",
        "num_shards": 3,
    }
    before = snapshot(tmp_path), snapshot(sample)
    ran = plan(output=tmp_path / "out", **flags)
    assert (snapshot(tmp_path), snapshot(sample)) == before
    planned = table(ran)
    dataset = make_dataset(tmp_path / "out", max_rejected="20%", **flags)

    at_convert = [line for line in dataset.rejected if line["reason"] != "no_label"]
    lost = {line["path"] for line in at_convert if line["subject"] == "image"}
    total = 0
    for split, made in dataset.manifest["splits"].items():
        images, shards, *_ = planned[split]
        total += int(images)
        assert int(images) >= made["records"]
        assert int(shards) == len(made["shards"])
    assert total == dataset.ledger["records_written"] + len(lost) == 51
    assert planned["train"][1] != "1"

    lines = ran.out.splitlines()
    decided = {line[:15].strip(): line[15:].split("  ")[0].strip() for line in block(ran)}
    assert decided == {
        "labels from": "csv",
        "key column": "'id'",
        "label column": "'label'",
        "key": "stem",
        "splits from": "hash of the key",
        "root": f"{sample}/images the folder that all of --images share [--root]",
        "labels": "text, 4 classes",
        "class ids": "0 to 3",
    }
    assert "images   52 matched = 51 to convert + 1 rejected" in lines
    assert "rows     52 read = 51 used + 0 repeated + 1 without an image + 0 rejected" in lines
    assert sum(line.startswith("        1 ") for line in lines) == 2
    assert lines[-1] == f"nothing written; convert would write {tmp_path / 'out'}"


def test_plan_leaves_a_finished_dataset_alone(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*.jpg"}
    dataset = make_dataset(tmp_path / "out", **flags)
    before = snapshot(tmp_path)
    compared = plan(output=dataset.folder, **flags)
    assert compared.code == 0 and compared.out.splitlines()[-1] == (
        f"nothing written; convert would compare the dataset in {dataset.folder} with this plan, "
        "and replace it only with --overwrite"
    )
    replaced = plan(output=dataset.folder, overwrite=True, seed=3, **flags)
    assert replaced.code == 0
    assert replaced.out.endswith(f"convert would replace the dataset in {dataset.folder}\n")
    assert plan(output=dataset.folder, seed=3, **flags).code == 2
    assert snapshot(tmp_path) == before


def test_plan_needs_no_writable_output(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "file" / "out"}
    assert plan(**flags).code == 0


def test_plan_is_the_same_on_several_machines(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: dict[str, Any] = {
        "images": f"{sample}/images/*/*",
        "labels": sample / "labels.csv",
        "splits": "train=0.7,validation=0.2,test=0.1",
        "num_shards": 3,
        "output": tmp_path / "out",
    }
    here = plan(**flags)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert plan(**flags) == here
    assert here.code == 0


def test_cells_that_reject_are_shown(tmp_path: Path) -> None:
    rows = [f"row{number},{number if number % 3 else 'x'}" for number in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(["id,size", *rows]))
    (tmp_path / "layout.yaml").write_text(
        "features:\n  size: {source: csv.size, type: int64}\n  id: csv.id\n"
    )
    flags: dict[str, Any] = {
        "labels": tmp_path / "table.csv",
        "layout": tmp_path / "layout.yaml",
        "label_key": "id",
        "output": tmp_path / "out",
    }
    here = plan(**flags)
    assert "14 bad_cell: " in here.out
    assert here.out.count("'x' is not of type int64") == 3


def test_plan_elsewhere_needs_a_folder_for_its_result(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out"}
    ran = plan("--runner=DataflowRunner", "--project=vision", **flags)
    assert ran.code == 2
    assert "plan needs --temp_location with this --runner: a folder for results" in ran.error()


# `plan` says which cells will be rejected, and `convert` rejects them.

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
