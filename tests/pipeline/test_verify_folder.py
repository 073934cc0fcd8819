"""Folders that are not a whole dataset: each case has its own message."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import class_names
from pipeline.errors import UsageError
from tests.pipeline.commands import Dataset, convert, make_dataset, run_process, verify
from tests.servers.gcs import GcsServer


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two splits, two shards each, with names as TensorFlow reads them."""
    flags = {"images": f"{photos}/*/*.jpg", "splits": "train=0.5,test=0.5", "num_shards": 2}
    return make_dataset(tmp_path_factory.mktemp("folder") / "out", **flags).folder


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Dataset:
    """A copy that a test may damage."""
    return Dataset(Path(shutil.copytree(made, tmp_path / "dataset")))


def edit_manifest(dataset: Dataset, **changes: object) -> None:
    text = json.dumps({**dataset.manifest, **changes})
    (dataset.folder / "manifest.json").write_text(text)


def test_the_table_has_a_line_for_each_split(dataset: Dataset) -> None:
    ran = verify(dataset.folder)
    assert ran.code == 0, ran.err
    lines = [line.split() for line in ran.out.splitlines()]
    splits = dataset.manifest["splits"]
    for line, name in zip(lines[1:3], ("train", "test"), strict=True):
        assert line[:3] == [name, "2", str(splits[name]["records"])] and line[-1] == "ok"
    assert lines[3][:2] == ["other", "files"] and lines[3][-1] == "ok"
    assert ran.out.splitlines()[-1].endswith("4 shards, 18 records, every image decodes")


@pytest.mark.parametrize("words", [[], ["--full"], ["--fast"]])
def test_each_damage_is_reported_in_its_own_words(dataset: Dataset, words: list[str]) -> None:
    """All of them are found without decoding an image."""
    folder = dataset.folder
    first, second, third, fourth = (folder / name for name in dataset.shards())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-5])
    third.write_bytes(bytes([third.read_bytes()[0] ^ 1]) + third.read_bytes()[1:])
    fourth.write_bytes(fourth.read_bytes() + b"more")
    shutil.copy(third, folder / "backup.tfrecord")
    (folder / "labels.txt").write_text("cat\nwolf\nfox\n")
    (folder / "rejected.jsonl").unlink()
    edit_manifest(dataset, root="/elsewhere")
    ran = verify(folder, *words)
    assert ran.code == 1
    listed = {
        s["file"]: s["bytes"] for p in dataset.manifest["splits"].values() for s in p["shards"]
    }
    for expected in (
        "manifest.json: was edited since the dataset was written",
        "labels.txt: was changed since the dataset was written",
        "rejected.jsonl: the file is missing",
        "backup.tfrecord: is not a file of this dataset; remove it",
        f"{first.name}: the file is missing",
        f"{second.name}: is truncated: {listed[second.name] - 5} of {listed[second.name]} bytes",
        f"{third.name}: its bytes differ: the file's CRC32C is ",
        f"{fourth.name}: is longer than the {listed[fourth.name]} bytes in the manifest",
    ):
        assert f"\n{expected}" in ran.out, expected
    assert ran.out.count("2 of 2 damaged") == 2
    assert f"3 of {len(dataset.manifest['files']) + 1} damaged" in ran.out
    assert ran.error().startswith(f"verify: {folder} differs from its manifest: ")


def test_fast_decodes_nothing(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("an image was decoded")

    monkeypatch.setattr("transforms.dataset.record_checks.check_image", fail)
    ran = verify(dataset.folder, "--fast")
    assert ran.code == 0, ran.err
    assert "18 records, sizes, checksums and counts agree (--fast" in ran.out


@pytest.mark.slow
def test_beam_runs_it_in_other_processes(dataset: Dataset) -> None:
    (dataset.folder / dataset.shards("test")[0]).unlink()
    words = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    ran = run_process("pipeline.verify", str(dataset.folder), *words)
    assert ran.code == 1
    assert "test-00000-of-00002.tfrecord: the file is missing" in ran.out
    assert "1 of 2 damaged" in ran.out


def test_a_remote_runner_needs_a_place_for_what_it_finds(dataset: Dataset) -> None:
    ran = verify(dataset.folder, "--runner=FlinkRunner")
    assert ran.code == 2 and "verify needs --temp_location" in ran.error()


def test_half_a_dataset(photos: Path, tmp_path: Path) -> None:
    """A run that did not publish left its shards staged."""
    (tmp_path / "photos").mkdir()
    shutil.copy(photos / "cat" / "cat-0.jpg", tmp_path / "photos")
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"broken")
    flags = {"images": f"{tmp_path}/photos/*.jpg", "label_from": "none", "max_rejected": "0"}
    assert convert(output=tmp_path / "out", **flags).code == 3
    ran = verify(tmp_path / "out")
    assert ran.code == 2
    assert "a run is still writing it" in ran.error()
    assert "run the same command again" in ran.error()


@pytest.mark.parametrize("name", ["ledger", "features", "splits", "files", "options"])
@pytest.mark.parametrize("value", [{}, [1], {"a": {"b": 1}}, None])
def test_a_manifest_that_lost_its_shape(dataset: Dataset, name: str, value: object) -> None:
    edit_manifest(dataset, **{name: value})
    ran = verify(dataset.folder)
    assert ran.code in (1, 2)
    assert "was edited" in ran.out + ran.error()


def test_a_label_file_that_is_no_text(dataset: Dataset) -> None:
    (dataset.folder / "labels.txt").write_bytes(b"\xff\xfe")
    ran = verify(dataset.folder)
    assert ran.code == 1 and "labels.txt: was changed since" in ran.out


@pytest.fixture
def in_bucket(gcs: GcsServer, dataset: Dataset) -> GcsServer:
    """The dataset as `gs://datasets/out`."""
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "out/", dataset.folder)
    return gcs


def test_fast_downloads_no_shard_from_a_bucket(in_bucket: GcsServer) -> None:
    in_bucket.put("datasets", "out/train-00000-of-00002.tfrecord", b"other")
    whole = in_bucket.get("datasets", "out/train-00001-of-00002.tfrecord")
    in_bucket.put("datasets", "out/train-00001-of-00002.tfrecord", whole[::-1])
    in_bucket.reset()
    ran = verify("gs://datasets/out", "--fast")
    assert ran.code == 1
    assert "train-00000-of-00002.tfrecord: is truncated: 5 of " in ran.out
    assert "train-00001-of-00002.tfrecord: its bytes differ: " in ran.out
    assert ran.error().endswith("2 problems")
    assert not [name for name in in_bucket.media_gets() if name.endswith(".tfrecord")]


def test_a_cut_and_a_missing_shard_in_a_bucket(in_bucket: GcsServer) -> None:
    cut, gone = "train-00000-of-00002.tfrecord", "test-00001-of-00002.tfrecord"
    whole = in_bucket.get("datasets", f"out/{cut}")
    in_bucket.put("datasets", f"out/{cut}", whole[:-5])
    in_bucket.delete("datasets", f"out/{gone}")
    ran = verify("gs://datasets/out")
    assert ran.code == 1
    assert f"\n{cut}: is truncated: {len(whole) - 5} of {len(whole)} bytes are" in ran.out
    assert f"\n{gone}: the file is missing" in ran.out
    assert ran.out.count("1 of 2 damaged") == 2
    assert ran.error().startswith("verify: gs://datasets/out differs from its manifest: ")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "show"])
def test_start_up_brings_neither_tensorflow_nor_the_cloud(dataset: Dataset, command: str) -> None:
    """They would be most of the time that a small dataset takes."""
    code = (
        f"import sys; from pipeline.{command} import main; main([{str(dataset.folder)!r}])\n"
        "print({'tensorflow', 'pandas', 'google.cloud.storage'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("words", [[], ["--fast"]])
def test_a_folder_that_is_a_link_is_reported(dataset: Dataset, words: list[str]) -> None:
    """`convert --overwrite` refuses it, since it would replace files elsewhere."""
    index = dataset.folder / "index"
    index.rename(dataset.folder.with_name("elsewhere"))
    index.symlink_to(dataset.folder.with_name("elsewhere"))
    ran = verify(dataset.folder, *words)
    assert ran.code == 1
    assert f"{index} is a link: it must be a real folder; remove it" in ran.out + ran.err


def test_classes_of_a_dataset_without_their_file(dataset: Dataset) -> None:
    assert class_names(dataset.folder) == {0: "cat", 1: "dog", 2: "fox"}
    (dataset.folder / "labels.txt").unlink()
    with pytest.raises(UsageError, match=r"there is no .*labels.txt: the dataset is damaged"):
        class_names(dataset.folder)
