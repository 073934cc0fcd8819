"""Every shard is published with its index, which `verify` compares with the records."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.marks import cases
from tests.pipeline.commands import ROOT, Dataset, check_ended, check_sound, make_dataset, verify
from tests.pipeline.reusing import edit_index, first, flip, with_column, write_manifest
from tests.test_docs import blocks
from transforms.dataset.manifest import crc32c_hex
from transforms.examples.decoder import decode_example
from transforms.examples.tfrecord import HEAD_BYTES
from transforms.records.record_index import content_hash, read_index, source_contents
from transforms.records.written_index import open_records

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "record_index.md"

DETECTION = "image,label,xmin,ymin,xmax,ymax\n" + "".join(
    f"cat/cat-{number}.jpg,{label},0.1,0.1,0.9,0.9\n" for number in range(3) for label in "xy"
)

CASES: dict[str, dict[str, Any]] = {
    "slim": {"splits": "train=0.5,test=0.5", "num_shards": 2},
    "changed pixels": {"resize": "shorter=20", "splits": "train=0.5,test=0.5"},
    "without hashes": {"dedupe": "off"},
    "gzip": {"compression": "gzip"},
    "per_image": {"files": "per_image", "splits": "train=0.5,test=0.5"},
    "per_image gzip": {"files": "per_image", "compression": "gzip"},
    "without labels": {"label_from": "none", "layout": "image.yaml"},
    "detection": {"layout": "detection", "labels": "boxes.csv", "label_from": None, "key": "path"},
    "rows": {"layout": "rows", "labels": "boxes.csv", "label_from": None, "images": None},
}


@pytest.fixture(scope="module")
def inputs(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, a CSV of boxes and a layout without labels."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "photos").symlink_to(photos)
    (folder / "boxes.csv").write_text(DETECTION)
    layout = "features:\n  image: {source: image.bytes}\n  name: {source: image.path}\n"
    (folder / "image.yaml").write_text(layout)
    return folder


def make(inputs: Path, output: Path, name: str) -> Dataset:
    """The dataset of a case, which `verify` accepts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inputs)
        given = {"images": "photos/*/*.jpg", "label_from": "directory", **CASES[name]}
        dataset = make_dataset(output, max_rejected="100%", **given)
    check_sound(dataset.folder)
    return dataset


def tables(dataset: Dataset) -> list[tuple[dict[str, Any], pa.Table]]:
    """The entries of the indexes in the manifest, with the indexes."""
    found = []
    for entry in dataset.manifest["index"]:
        data = (dataset.folder / entry["file"]).read_bytes()
        assert (len(data), crc32c_hex(data)) == (entry["bytes"], entry["crc32c"])
        found.append((entry, read_index(data, entry["file"], records=entry["records"])))
    return found


@pytest.mark.parametrize("name", list(CASES))
def test_each_row_finds_its_record(inputs: Path, tmp_path: Path, name: str) -> None:
    dataset = make(inputs, tmp_path / "out", name)
    manifest = dataset.manifest
    listed = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    records = []
    for shard in listed:
        with open_records(str(dataset.folder / shard["file"])) as stored:
            records += [(shard["file"], record) for record in stored]
    rows = [row for _, table in tables(dataset) for row in table.to_pylist()]
    assert len(rows) == len(records) == manifest["ledger"]["records_written"]
    for row, (file, record) in zip(rows, records, strict=True):
        assert row["length"] == len(record)
        if "gz" in file:
            assert row["offset"] is None
        else:
            data = (dataset.folder / file).read_bytes()
            start = row["offset"] + HEAD_BYTES
            assert data[start : start + row["length"]] == record
        example = decode_example(record)
        if "image/encoded" in example:
            stored_hash = content_hash(example["image/encoded"][0])
            assert row["content"] is None or row["content"].hex() == stored_hash
            assert row["height"] == example["image/height"][0]
    has_hashes = [row["content"] is not None for row in rows]
    assert has_hashes == [name not in ("without hashes", "rows")] * len(rows)
    if name == "slim":
        original = (inputs / "photos" / rows[0]["path"]).read_bytes()
        assert rows[0]["content"].hex() == content_hash(original)
    if name == "changed pixels":
        table = tables(dataset)[0][1]
        original = (inputs / "photos" / rows[0]["path"]).read_bytes()
        assert source_contents(table)[0] == bytes.fromhex(content_hash(original))
        assert {row["changes"] for row in rows} == {"resized"}
        assert table.schema.metadata[b"libraries"].startswith(b"pillow ")
    if name == "detection":
        assert {tuple(row["rows"]) for row in rows} == {
            (f"boxes.csv:{2 * number}", f"boxes.csv:{2 * number + 1}") for number in (1, 2, 3)
        }
        assert {tuple(zip(row["label"], row["label_id"], strict=True)) for row in rows} == {
            (("x", 1), ("y", 2))
        }


@pytest.fixture(scope="module")
def made(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make(inputs, tmp_path_factory.mktemp("made") / "out", "slim")


WRONG = {
    "content": b"0123456789abcdef",
    "length": 7,
    "offset": 7,
    "path": "another.jpg",
    "label": "wolf",
    "label_id": 9,
    "height": 3,
    "format": "png",
    "key": "another",
}


@pytest.mark.parametrize("column", list(WRONG))
def test_a_row_that_differs_from_its_record_is_a_problem(dataset: Dataset, column: str) -> None:
    edit_index(dataset, with_column(column, first(WRONG[column])))
    said = f"{dataset.shards()[-2]}: record 0: its {column} is "
    check_ended(verify(dataset.folder), 1, said, "the index says ", ": 1 problem\n")


@cases(
    *((column, "val-00000-of-00001.tfrecord") for column in ("shard", "split")),
    *(("changes", "resized"), ("source_content", bytes(16)), ("source_width", 5)),
)
def test_a_row_that_cannot_be_is_a_problem(column: str, value: Any, dataset: Dataset) -> None:
    name = edit_index(dataset, with_column(column, first(value)))
    said = f"\n{name}: was changed since the dataset was written"
    check_ended(verify(dataset.folder), 1, said, ": 1 problem\n")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (lambda path: flip(path, 50), "was changed since the dataset"),
    "missing": (lambda path: path.unlink(), "the file is missing"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 1), "was changed since the data"),
}


@pytest.mark.parametrize("words", [[], ["--fast"]])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_a_problem(dataset: Dataset, damage: str, words: list[str]) -> None:
    change, said = DAMAGES[damage]
    name = dataset.manifest["index"][0]["file"]
    change(dataset.folder / name)
    check_ended(verify(dataset.folder, *words), 1, f"\n{name}: {said}", ": 1 problem\n")


def test_an_index_of_nothing_and_too_few_rows_are_problems(dataset: Dataset) -> None:
    manifest = dataset.manifest
    path = dataset.folder / "index" / "old-00000-of-00001.parquet"
    shutil.copy(dataset.folder / manifest["index"][0]["file"], path)
    dropped = manifest["index"].pop()["file"]
    write_manifest(dataset, manifest)
    extra = "is not a file of this dataset; remove it"
    check_ended(
        verify(dataset.folder),
        1,
        *(f"{name}: {extra}" for name in (f"index/{path.name}", dropped)),
        "manifest.json: the indexes of split 'test' have ",
    )


def test_the_document_lists_every_column(made: Dataset) -> None:
    lines = DOCUMENT.read_text().splitlines()
    listed = [line.split("|")[1] for line in lines if line.startswith("| `")]
    names = [name.strip("` ") for cell in listed for name in cell.split(",")]
    assert names == tables(made)[0][1].column_names


def test_the_python_of_the_document_runs(made: Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/photos").symlink_to(made.folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    [block] = blocks("python", DOCUMENT)
    exec(compile(block, DOCUMENT.name, "exec"), names)
    assert len(names["records"]) == made.ledger["records_written"]
