"""Datasets in `--images` and `--holdout`: their indexes are untrusted, and may be replaced."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.metrics.metric import Lineage

from tests.marks import cases
from tests.transforms.beam import collect
from tests.transforms.indexed_shards import BARE, table, write_dataset
from tests.transforms.test_read_base import COLUMNS, SHARD, two_rows
from transforms import drop_duplicates, packing
from transforms.core.messages import LabelsError, TransientError
from transforms.core.records import Count, FingerprintBatch, IndexPart, PlannedImage
from transforms.dataset.manifest import content_digest
from transforms.dataset.output_names import index_file
from transforms.drop_duplicates import held_fingerprints, held_images, read_holdouts
from transforms.input_readers import ImageFinder
from transforms.join_labels import ReadInputs
from transforms.labels.label_rules import PathRules
from transforms.labels.vocabulary import LabelCells, merge_cells
from transforms.packing import SpreadElements
from transforms.records import other_datasets
from transforms.records.other_datasets import DatasetReader, ImageRecordReader, OtherDataset
from transforms.records.record_index import read_index

VALUES = {**COLUMNS, "split": "train", "label": "7", "label_id": 0}

Read = Callable[..., list[Any]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Gives what is listed of a dataset with two records alike."""

    def listed(*, digest: str = "", label_from: str = "records", **row: Any) -> list[Any]:
        columns = two_rows({**VALUES, **row})
        index: pa.Table = read_index(table({**columns, "record": range(2)}, 2), "x")
        shard = {"file": SHARD, "bytes": 1000, "records": 2, "crc32c": "00000000"}
        manifest: dict[str, Any] = {
            **BARE,
            "splits": {"train": {"shards": [shard]}},
            "index": [{"file": index_file(SHARD), "records": 2}],
        }
        manifest["digest"] = content_digest(manifest)
        source = OtherDataset("out", digest or manifest["digest"], "image")
        monkeypatch.setattr(other_datasets, "read_manifest", lambda *_, **__: manifest)
        monkeypatch.setattr(
            other_datasets, "read_listed_index", lambda _, __, columns, **___: index.select(columns)
        )
        return list(ImageRecordReader((source,), label_from=label_from).read(0))

    return listed


@cases(
    ("records", '["7"]', LabelCells(integers=2)),
    # Those that are not used are not counted.
    ("csv", '["7"]', LabelCells()),
    ("none", "[]", LabelCells()),
)
def test_records_are_listed(label_from: str, cells: str, counted: LabelCells, read: Read) -> None:
    *images, count, found = read(label_from=label_from)
    assert [(key, side.split, side.cells) for key, side in images] == [
        ("a.jpg", "train", cells)
    ] * 2
    assert (count, found) == (Count("images_found", 2), counted)


@cases(
    ({"digest": "other"}, "it was replaced since this run began"),
    *(
        (changed, "names records that the dataset does not have")
        for changed in (
            {"offset": 900},
            {"offset": -16},
            # Any number of rows could name the same bytes.
            {"offset": 0},
            {"length": -5},
            {"shard": "test-00000-of-00001.tfrecord"},
            {"shard": "../x/y"},
        )
    ),
    ({"offset": None}, "is not the index of images in uncompressed files"),
)
def test_what_does_not_fit_ends_the_run(changed: dict[str, Any], problem: str, read: Read) -> None:
    with pytest.raises(LabelsError, match=problem):
        read(**changed)


HOLDOUT = DatasetReader([OtherDataset("gs://bucket/bench", "")])
GONE: list[Callable[[], object]] = [
    lambda: list(HOLDOUT.parts(0)),
    lambda: HOLDOUT.table(IndexPart("--holdout", 0, {"file": "x"}, ())),
    lambda: list(ImageRecordReader((OtherDataset("out", "", "image"),)).read(0)),
]


@pytest.mark.parametrize("reading", GONE)
def test_a_dataset_that_is_gone_ends_the_run_unless_it_may_come_back(
    reading: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(other_datasets, "read_manifest", fail)
    monkeypatch.setattr(other_datasets, "read_listed_index", fail)
    error: OSError = FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
    gone = r"^cannot read --(holdout gs://bucket/bench|images out): .*'x'$"
    with pytest.raises(LabelsError, match=gone):
        reading()
    error = OSError(errno.ETIMEDOUT, "timed out", "x")
    with pytest.raises(TransientError):
        reading()


def test_a_holdout_is_a_source_of_the_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatasetReader, "parts", lambda *_: [])
    pipeline = beam.Pipeline(runner="FnApiRunner")
    read_holdouts(pipeline, HOLDOUT, held_images, PlannedImage)
    result = pipeline.run()
    result.wait_until_finish()
    assert set(Lineage.query(result.metrics(), Lineage.SOURCE)) == {"gcs:bucket.bench"}


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OtherDataset:
    """One with four indexes of three records."""
    indexes = [
        {
            **COLUMNS,
            "key": [f"{shard}-{record}" for record in range(3)],
            "path": [f"{9 - shard}-{record}.jpg" for record in range(3)],
            "offset": [0, 106, 212],
            "content": [bytes([shard, record] * 8) for record in range(3)],
            "perceptual_hash": bytes(8),
            "split": "train",
            "label": ["7", "b", "c"],
            "label_id": 0,
        }
        for shard in range(4)
    ]
    manifest = write_dataset(tmp_path, indexes)
    monkeypatch.setattr(other_datasets, "read_manifest", lambda *_, **__: manifest)
    return OtherDataset(str(tmp_path), manifest["digest"], "image", records=12)


def test_elsewhere_indexes_are_read(dataset: OtherDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ImageRecordReader([dataset])
    finder = ImageFinder(root="", key="path", rules=PathRules())

    def read() -> tuple[list[Any], int, Any]:
        inputs = ReadInputs([], finder, [], None, datasets=[reader])
        found = collect(lambda pipeline: (pipeline | "Read" >> inputs)._asdict())
        counts = sum(each.value for each in found["counts"])
        return found["sides"], counts, merge_cells(found["labels"])

    assert len(list(reader.parts(0))) == 4
    here = read()
    assert len(here[0]) == here[1] == 12
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    # No worker reads the whole dataset.
    monkeypatch.delattr(DatasetReader, "read")
    assert read() == here


def test_elsewhere_a_holdout_is_read_index_by_index(
    dataset: OtherDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = DatasetReader([dataset])
    prints: Any = tuple[int, FingerprintBatch]

    def construct(pipeline: beam.Pipeline) -> dict[str, beam.PCollection[Any]]:
        def of_prints(part: IndexPart, reader: DatasetReader) -> Any:
            return held_fingerprints(part, reader, 2)

        steps: Any = beam.ptransform_fn(read_holdouts)
        return {
            "prints": pipeline | "Prints" >> steps(reader, of_prints, prints),
            "images": pipeline | "Images" >> steps(reader, held_images, PlannedImage),
        }

    here = collect(construct)
    assert (len(here["prints"]), len(here["images"])) == (4, 12)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    spread = Mock(wraps=SpreadElements)
    monkeypatch.setattr(drop_duplicates, "SpreadElements", spread)
    assert collect(construct) == here
    assert spread.call_count == 2


def test_an_index_that_is_replaced_after_it_was_listed_ends_the_run(
    dataset: OtherDataset, tmp_path: Path
) -> None:
    reader = ImageRecordReader([dataset])
    part = list(reader.parts(0))[2]
    [index] = (tmp_path / "index").glob("train-00002-*")
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    with pytest.raises(LabelsError, match=r"--images .*00002.* was changed since"):
        list(reader.read_part(part))
