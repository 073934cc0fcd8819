"""The dry run: it writes nothing, and tells what `convert` then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import Ran, make_dataset, plan, snapshot
from tests.pipeline.decided_table import block
from transforms import packing


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


@pytest.mark.parametrize("label_from", rest_slow(["directory", "none"]))
def test_plan_without_a_label_file(photos: Path, tmp_path: Path, label_from: str) -> None:
    flags: dict[str, Any] = {
        "images": f"{photos}/*/*.jpg",
        "label_from": label_from,
        "splits": "train=0.5,test=0.5",
        "num_shards": 3,
    }
    ran = plan(output=tmp_path / "out", **flags)
    planned = table(ran)
    assert not (tmp_path / "out").exists()
    dataset = make_dataset(tmp_path / "out", **flags)
    for split, made in dataset.manifest["splits"].items():
        assert planned[split][:2] == [str(made["records"]), str(len(made["shards"]))]
    classes = len(dataset.classes)
    decided = [" ".join(line.split()) for line in block(ran)]
    assert decided[0] == f"labels from {label_from} given [--label_from]"
    assert any(line.startswith(f"labels text, {classes} classes ") for line in decided) == (
        label_from == "directory"
    )
    assert "columns" not in planned and "rows" not in planned
    assert not any("column '" in line for line in decided)


@pytest.mark.slow
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
