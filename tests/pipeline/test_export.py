"""`export` writes what other readers need: the index files of NVIDIA DALI."""

import functools
import shutil
import struct
from pathlib import Path

import pytest

from tests.marks import cases
from tests.pipeline.commands import Dataset, make_dataset, run

export = functools.partial(run, "export")


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
    ran = export(made.folder, "--dali", tmp_path / "new" / "idx")
    assert (ran.code, ran.out, ran.err) == (0, f"dali     {tmp_path}/new/idx, 4 index files\n", "")
    written = {path.name: path.read_text() for path in (tmp_path / "new" / "idx").iterdir()}
    rows = {f"{name}.idx": rows_of_dali(made.folder / name) for name in made.shards()}
    assert {name: text.splitlines() for name, text in written.items()} == rows
    assert sum(map(len, rows.values())) == 18


def test_an_index_file_for_each_image(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/cat/*", "label_from": "none", "files": "per_image"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert export(dataset.folder, "--dali", tmp_path / "idx").code == 0
    for shard in dataset.folder.glob("train/*.tfrecord"):
        path = tmp_path / "idx" / "train" / f"{shard.name}.idx"
        assert path.read_text().splitlines() == rows_of_dali(shard) == [f"0 {shard.stat().st_size}"]


@cases(
    (["{tmp}/nope", "--dali", "{tmp}/idx"], 2, "holds no dataset"),
    (["{out}"], 2, "--dali"),
    *(
        (["{out}", "--dali", folder], 2, "must not contain each other")
        for folder in ("{out}", "{out}/idx", "{out}/..")
    ),
    (["{out}", "--dali", "{tmp}/file"], 1, "cannot write {tmp}/file/train-00000-of-00002"),
    (["{tmp}/gzip", "--dali", "{tmp}/idx"], 2, "has gzip shards"),
    (["{tmp}/bad", "--dali", "{tmp}/idx"], 1, "test-00001-of-00002.parquet is damaged"),
)
def test_a_mistake_is_one_line(
    words: list[str], code: int, says: str, made: Dataset, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    if "{tmp}/gzip" in words:
        flags = {"images": f"{photos}/cat/*", "label_from": "none", "compression": "gzip"}
        make_dataset(tmp_path / "gzip", **flags)
    index = shutil.copytree(made.folder, tmp_path / "bad") / "index" / "test-00001-of-00002.parquet"
    index.write_bytes(index.read_bytes()[1:])
    ran = export(*(word.format(tmp=tmp_path, out=made.folder) for word in words))
    assert ran.code == code and says.format(tmp=tmp_path) in ran.error()
    # What a flag can tell is said before anything is written.
    assert code == 1 or not (tmp_path / "idx").exists()
