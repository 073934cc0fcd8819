"""A finished dataset is not replaced unasked: other options or inputs end with exit code 2."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, digests, snapshot
from tests.pipeline.right_command import check_usage, right_flags, write_inputs
from transforms.dataset.manifest import FORMAT_VERSION


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a command that is right, and the dataset that it made."""
    folder = tmp_path_factory.mktemp("finished")
    write_inputs(folder)
    assert convert(**right_flags(folder)).code == 0
    return folder


class TestFinishedDataset:
    @pytest.fixture
    def folder(self, finished: Path, tmp_path: Path) -> Path:
        """A copy of the files, time stamps and all."""
        return Path(shutil.copytree(finished, tmp_path / "copy"))

    @pytest.fixture
    def dataset(self, folder: Path) -> Dataset:
        """The dataset in the copy."""
        return Dataset(folder / "out")

    @pytest.mark.slow
    def test_a_copy_is_up_to_date(self, folder: Path) -> None:
        assert convert(**right_flags(folder)).out.startswith("up to date")

    @pytest.mark.usefixtures("finished", "no_run")
    @pytest.mark.parametrize(
        ("flags", "says"),
        [
            ({"seed": 1}, ("--seed is 1, was 0",)),
            ({"layout": "landmark"}, ("--layout is landmark, was slim",)),
            (
                {"num_shards": 4, "compression": "gzip"},
                ("--num_shards is 4, was not given", "--compression is gzip, was none"),
            ),
            ({"splits": "train=0.8,test=0.2"}, ("--splits is train=0.8,test=0.2, was train=1",)),
            ({"labels": None, "label_from": "directory"}, ("--label_from is directory",)),
        ],
    )
    def test_other_options(
        self, flags: dict[str, Any], says: tuple[str, ...], folder: Path
    ) -> None:
        before = snapshot(folder)
        ran = convert(**{**right_flags(folder), **flags})
        check_usage(ran, "made with other options", "--overwrite", *says)
        assert snapshot(folder) == before

    @pytest.mark.parametrize(
        "change", rest_slow(["rewritten", "relabelled", "added", "removed", "no_row"], 2)
    )
    def test_other_inputs(self, change: str, dataset: Dataset, folder: Path) -> None:
        cat, labels = folder / "photos" / "cat", folder / "labels.csv"
        if change == "added":
            draw(cat / "cat-2.jpg")
        elif change == "removed":
            (cat / "cat-1.jpg").unlink()
        elif change == "rewritten":
            (cat / "cat-1.jpg").write_bytes((cat / "cat-0.jpg").read_bytes())
        elif change == "relabelled":
            labels.write_text(labels.read_text().replace("cat-1,cat", "cat-1,dog"))
        else:
            labels.write_text(labels.read_text() + "\ngone,cat\n")
        before = snapshot(dataset.folder)
        ran = convert(**right_flags(folder))
        check_usage(
            ran, f"--output {dataset.folder} holds a dataset of other inputs", "--overwrite"
        )
        left = snapshot(dataset.folder)
        left.pop(".staging", None)
        assert left == before

    def test_a_shard_that_is_missing_or_cut(self, dataset: Dataset, folder: Path) -> None:
        (shard,) = dataset.shards()
        os.truncate(dataset.folder / shard, 100)
        check_usage(convert(**right_flags(folder)), "1 of its files", shard, "--overwrite")
        (dataset.folder / shard).unlink()
        before = digests(dataset.folder)
        check_usage(convert(**right_flags(folder)), "1 of its files", shard, "--overwrite")
        assert digests(dataset.folder) == before

    @pytest.mark.usefixtures("finished", "no_run")
    def test_a_manifest_that_is_cut(self, dataset: Dataset, folder: Path) -> None:
        os.truncate(dataset.folder / "manifest.json", 100)
        check_usage(convert(**right_flags(folder)), "manifest.json is not a manifest")

    @pytest.mark.usefixtures("finished", "no_run")
    def test_a_manifest_without_its_keys(self, dataset: Dataset, folder: Path) -> None:
        (dataset.folder / "manifest.json").write_text(
            json.dumps({"format_version": FORMAT_VERSION})
        )
        check_usage(convert(**right_flags(folder)), "manifest.json is not a manifest")
