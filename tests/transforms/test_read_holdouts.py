"""The indexes of holdouts: what cannot be read ends the run, and what is read is reported."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import Lineage

from tests.transforms.beam import collect
from tests.transforms.indexed_shards import write_dataset
from transforms import drop_duplicates, packing
from transforms.core.messages import LabelsError, TransientError
from transforms.core.records import FingerprintBatch, IndexPart, PlannedImage
from transforms.drop_duplicates import HoldoutIndexes, held_fingerprints, held_images
from transforms.packing import SpreadElements
from transforms.records import other_datasets
from transforms.records.other_datasets import DatasetReader, OtherDataset

HOLDOUT = OtherDataset("gs://bucket/bench", "")
READER = DatasetReader([HOLDOUT])
PART = IndexPart("--holdout", 0, {"file": "x"}, ())
PRINTS: Any = tuple[int, FingerprintBatch]


def test_a_holdout_that_is_gone_ends_the_run_unless_it_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    def read() -> None:
        with pytest.raises(LabelsError, match=r"^cannot read --holdout gs://bucket/bench: .*'x'$"):
            list(READER.parts(0))
        with pytest.raises(LabelsError, match=r"^cannot read --holdout gs://bucket/bench: .*'x'$"):
            READER.table(PART)

    monkeypatch.setattr(other_datasets, "read_manifest", fail)
    monkeypatch.setattr(other_datasets, "read_listed_index", fail)
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
    read()
    error = OSError(errno.ETIMEDOUT, "timed out", "x")
    with pytest.raises(TransientError):
        list(READER.parts(0))
    with pytest.raises(TransientError):
        READER.table(PART)


def test_a_holdout_is_a_source_of_the_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatasetReader, "parts", lambda *_: [])
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | HoldoutIndexes(READER)
    result = pipeline.run()
    result.wait_until_finish()
    assert set(Lineage.query(result.metrics(), Lineage.SOURCE)) == {"gcs:bucket.bench"}


def test_a_holdout_is_read_index_by_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = [
        {"key": [f"{shard}-{at}" for at in range(3)], "path": "x", "size": 9, "split": "train"}
        | {"content": [bytes([shard, at] * 8) for at in range(3)], "perceptual_hash": bytes(8)}
        for shard in range(4)
    ]
    manifest = write_dataset(tmp_path, indexes)
    monkeypatch.setattr(other_datasets, "read_manifest", lambda _: manifest)
    reader = DatasetReader([OtherDataset(str(tmp_path), manifest["digest"], records=12)])

    def read() -> dict[str, list[Any]]:
        def construct(pipeline: beam.Pipeline) -> dict[str, beam.PCollection[Any]]:
            parts = pipeline | "Indexes" >> HoldoutIndexes(reader)
            prints = beam.FlatMap(held_fingerprints, reader, 2).with_output_types(PRINTS)
            images = beam.FlatMap(held_images, reader).with_output_types(PlannedImage)
            return {
                "indexes": parts,
                "prints": parts | "Prints" >> prints,
                "images": parts | "Images" >> images,
            }

        return collect(construct)

    here = read()
    assert len(here["indexes"]) == len(indexes)
    assert len(here["images"]) == 12
    spread: list[type] = []
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr(
        drop_duplicates, "SpreadElements", lambda: spread.append(IndexPart) or SpreadElements()
    )
    assert read() == here
    assert len(spread) == 1
