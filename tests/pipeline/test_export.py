"""`export` writes what other readers need: the index files of NVIDIA DALI."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pipeline import export
from tests.pipeline.commands import Dataset, Ran, make_dataset, run_here


def run(*words: object) -> Ran:
    return run_here(export.main, "export", [str(word) for word in words])


def rows_of_dali(path: Path) -> list[str]:
    """What DALI's `tfrecord2idx` prints: where a record begins, and how far the next one is."""
    rows = []
    with path.open("rb") as file:
        while start := file.read(8):
            begin = file.tell() - 8
            file.seek(4 + struct.unpack("<q", start)[0] + 4, 1)
            rows.append(f"{begin} {file.tell() - begin}")
    return rows


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("export") / "out"
    flags = {"images": f"{photos}/*/*", "label_from": "directory", "splits": "train=0.7,test=0.3"}
    return make_dataset(folder, **flags, num_shards=2)


def test_an_index_file_for_each_shard(made: Dataset, tmp_path: Path) -> None:
    ran = run(made.folder, "--dali", tmp_path / "new" / "idx")
    assert (ran.code, ran.out, ran.err) == (0, f"dali     {tmp_path}/new/idx, 4 index files\n", "")
    shards = sorted(made.folder.glob("*.tfrecord"))
    written = sorted((tmp_path / "new" / "idx").iterdir())
    assert [path.name for path in written] == [f"{shard.name}.idx" for shard in shards]
    for shard, path in zip(shards, written, strict=True):
        assert path.read_text().splitlines() == rows_of_dali(shard)
    assert sum(len(path.read_text().splitlines()) for path in written) == 18


def test_an_index_file_for_each_image(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/cat/*", "label_from": "none", "files": "per_image"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert run(dataset.folder, "--dali", tmp_path / "idx").code == 0
    for shard in dataset.folder.glob("train/*.tfrecord"):
        path = tmp_path / "idx" / "train" / f"{shard.name}.idx"
        assert path.read_text().splitlines() == rows_of_dali(shard) == [f"0 {shard.stat().st_size}"]


def test_mistakes_are_one_line(made: Dataset, photos: Path, tmp_path: Path) -> None:
    missing = run(tmp_path / "nope", "--dali", tmp_path / "idx")
    assert missing.code == 2 and "holds no dataset" in missing.error()
    without = run(made.folder)
    assert without.code == 2 and "--dali" in without.error()
    for folder in (made.folder, made.folder / "idx", made.folder.parent):
        inside = run(made.folder, "--dali", folder)
        assert inside.code == 2 and "must not contain each other" in inside.error()
    (tmp_path / "file").touch()
    blocked = run(made.folder, "--dali", tmp_path / "file")
    assert blocked.code == 1
    assert blocked.error().startswith(f"export: cannot write {tmp_path}/file/train-00000-of-00002")
    flags = {"images": f"{photos}/cat/*", "label_from": "none", "compression": "gzip"}
    zipped = make_dataset(tmp_path / "zipped", **flags)
    refused = run(zipped.folder, "--dali", tmp_path / "idx")
    assert refused.code == 2 and "has gzip shards" in refused.error()
    assert not (tmp_path / "idx").exists()


def test_a_damaged_index_is_one_line(made: Dataset, tmp_path: Path) -> None:
    path = made.folder / "index" / "test-00001-of-00002.parquet"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[1:])
        ran = run(made.folder, "--dali", tmp_path / "idx")
    finally:
        path.write_bytes(whole)
    assert ran.code == 1 and f"{path} is damaged" in ran.error()
