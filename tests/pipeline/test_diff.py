"""`diff` says what differs between two datasets, and in one line why it cannot say so."""

import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import ROOT, Dataset, check_ended, make_dataset, plan, run
from tests.pipeline.many_records import RECORDS, write_many
from tests.pipeline.reusing import flip, write_manifest

pytestmark = pytest.mark.slow


diff = functools.partial(run, "diff")


def make(folder: Path, labels: dict[str, str], **flags: Any) -> Dataset:
    """A dataset of the photos in `folder/in` with these labels."""
    rows = "\n".join(f"{stem},{label}" for stem, label in labels.items())
    (folder / "labels.csv").write_text(f"id,label\n{rows}\n")
    return make_dataset(
        folder / str(flags.pop("name", "new")),
        images=f"{folder}/in/*.jpg",
        labels=folder / "labels.csv",
        **flags,
    )


LABELS = {"a": "cat", "b": "cat", "c": "dog", "d": "dog"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, and the dataset `old` of them."""
    folder = tmp_path_factory.mktemp("made")
    for at, stem in enumerate(LABELS):
        draw(folder / "in" / f"{stem}.jpg", seed=at)
    make(folder, LABELS, name="old")
    return folder


@pytest.fixture
def old(made: Path, tmp_path: Path) -> Dataset:
    """A dataset of four photos, which are in `tmp_path/in`."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Dataset(tmp_path / "old")


def test_all_kinds_of_differences(old: Dataset, tmp_path: Path) -> None:
    draw(tmp_path / "in" / "b.jpg", seed=9)
    draw(tmp_path / "in" / "e.jpg", seed=10)
    (tmp_path / "in" / "d.jpg").unlink()
    labels = {"a": "fox", "b": "cat", "c": "dog", "e": "ant"}
    new = make(tmp_path, labels, splits="test=1", seed=3)
    ran = diff(old.folder, f"{new.folder}/")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "records     4 -> 4, 3 in both",
        "added       1: 'e'",
        "removed     1: 'd'",
        "relabelled  1 with another label: 'a' from 'cat' to 'fox'",
        "moved       3 in another split: 'a' from 'train' to 'test', 'b' from 'train' to 'test', "
        "'c' from 'train' to 'test'",
        "pixels      1 with another stored image: 'b'",
        "originals   1 made from another file",
        "class ids   4: 'ant' from none to 0, 'cat' from 0 to 1, 'dog' from 1 to 2, ...",
        "options     2: --seed from 0 to 3, --splits from train=1 to test=1",
        "files       0 with other features, such as boxes and cells, or with images without hashes",
        f"different: {old.folder} and {new.folder}/: 1 added, 1 removed, 1 relabelled, 3 moved, "
        "1 pixels, 1 originals, 4 class ids, 2 options",
    ]
    assert ran.err == ""
    as_json = diff(old.folder, new.folder, "--json")
    lines = [json.loads(line) for line in as_json.out.splitlines()]
    assert (as_json.code, as_json.err) == (1, "")
    assert lines[0] == {"change": "added", "key": "e", "split": "test", "label": "ant"}
    assert lines[-1]["records"] == [4, 4] and not lines[-1]["equal"]
    quiet = diff(old.folder, f"{new.folder}/", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (1, ran.out.splitlines(True)[-1], "")


def test_a_class_without_images_keeps_its_id(old: Dataset, tmp_path: Path) -> None:
    labels = dict.fromkeys("abcd", "dog")
    new = make(tmp_path, labels, class_names=old.folder)
    assert "class ids   0" in diff(old.folder, new.folder).out.splitlines()
    flags = {"images": f"{tmp_path}/in/*.jpg", "labels": tmp_path / "labels.csv"}
    more = {"class_names": old.folder, "reuse": old.folder, "output": tmp_path / "planned"}
    assert "  class ids   0" in plan(**flags, **more).out.splitlines()
    fewer = make(tmp_path, labels, name="fewer")
    lost = "class ids   2: 'cat' from 0 to none, 'dog' from 1 to 0"
    assert lost in diff(old.folder, fewer.folder).out.splitlines()


def test_equal_datasets(old: Dataset, tmp_path: Path) -> None:
    again = make(tmp_path, LABELS)
    ran = diff(old.folder, again.folder)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == (
        f"equal: {old.folder} and {again.folder} hold the same 4 records"
    )
    assert json.loads(diff(old.folder, again.folder, "--json").out)["equal"] is True


def _index(folder: Path) -> Path:
    (path,) = (folder / "index").iterdir()
    return path


def _unfinished(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / ".staging").mkdir()
    (folder / ".staging" / "probe.1").touch()


def _without_indexes(folder: Path) -> None:
    write_manifest(Dataset(folder), {**Dataset(folder).manifest, "index": []})


def _of_version_1(folder: Path) -> None:
    write_manifest(Dataset(folder), {**Dataset(folder).manifest, "format_version": 1})


def _longer(folder: Path) -> None:
    _index(folder).write_bytes(_index(folder).read_bytes() + b"?")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "holds no dataset: there is no such folder"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(),
        "holds no dataset: there are TFRecords but no"),
    "half written": (_unfinished, "holds no dataset: a run is still writing it"),
    "no indexes": (_without_indexes, ""),
    "a missing index": (lambda folder: _index(folder).unlink(), "cannot read the index "),
    "a flipped byte": (lambda folder: flip(_index(folder), -9),
        " is damaged, or was replaced by another run: its checksum is not that of the manifest"),
    "a longer index": (_longer, " is damaged, or was replaced by another run"),
    "another format": (_of_version_1, "has format version 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_dataset_that_cannot_be_compared(name: str, made: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(made / "old", tmp_path / "damaged")
    damage, says = DAMAGE[name]
    damage(damaged)
    for words in ((made / "old", damaged), (damaged, made / "old")):
        ran = diff(*words, "--json")
        assert (ran.code, ran.out) == (2, "")
        assert says in ran.error() and str(damaged) in ran.error()


def test_rows_without_images_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("id,x\na,1\n")
    table = make_dataset(tmp_path / "out", labels=tmp_path / "table.csv", layout="rows")
    check_ended(diff(table.folder, table.folder), 2, "holds rows without images")


def test_records_are_compared_in_little_memory(tmp_path: Path) -> None:
    """A process takes 130 MB, and 350 bytes for each record; a dict of records would take 1 KB."""
    write_many(tmp_path, RECORDS)
    command = [sys.executable, "-m", "tests.pipeline.many_records", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < (180 << 20) + 500 * RECORDS
