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
from transforms import find_holdouts
from transforms.core.messages import LabelsError, TransientError
from transforms.core.records import HeldPart
from transforms.find_holdouts import (
    HoldoutFingerprints,
    HoldoutImages,
    HoldoutIndexes,
    listed_indexes,
    read_holdout_index,
)
from transforms.packing import SpreadElements
from transforms.selection.equal_images import Holdout

HOLDOUT = Holdout("gs://bucket/bench", "", "", 1)


def test_a_holdout_that_is_gone_ends_the_run_unless_it_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    def read() -> None:
        with pytest.raises(LabelsError, match=r"^cannot read --holdout gs://bucket/bench: .*'x'$"):
            listed_indexes(HOLDOUT)
        with pytest.raises(LabelsError, match=r"^cannot read --holdout gs://bucket/bench: .*'x'$"):
            read_holdout_index(HOLDOUT, {"file": "x"})

    monkeypatch.setattr(find_holdouts, "read_manifest", fail)
    monkeypatch.setattr(find_holdouts, "read_listed_index", fail)
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
    read()
    error = OSError(errno.ETIMEDOUT, "timed out", "x")
    with pytest.raises(TransientError):
        listed_indexes(HOLDOUT)
    with pytest.raises(TransientError):
        read_holdout_index(HOLDOUT, {"file": "x"})


def test_a_holdout_is_a_source_of_the_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_holdouts, "listed_indexes", lambda _: [])
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | HoldoutFingerprints((HOLDOUT,), 8)
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
    monkeypatch.setattr(find_holdouts, "read_manifest", lambda _: manifest)
    holdout = Holdout(str(tmp_path), "", manifest["digest"], 12)

    def read() -> dict[str, list[Any]]:
        def construct(pipeline: beam.Pipeline) -> dict[str, beam.PCollection[Any]]:
            return {
                "indexes": pipeline | "Indexes" >> HoldoutIndexes((holdout,)),
                "prints": pipeline | "Prints" >> HoldoutFingerprints((holdout,), 2),
                "images": pipeline | "Images" >> HoldoutImages((holdout,)),
            }

        return collect(construct)

    here = read()
    assert len(here["indexes"]) == len(indexes)
    assert len(here["images"]) == 12
    spread: list[type] = []
    monkeypatch.setattr(find_holdouts, "runs_in_process", lambda _: False)
    monkeypatch.setattr(
        find_holdouts, "SpreadElements", lambda: spread.append(HeldPart) or SpreadElements()
    )
    assert read() == here
    assert len(spread) == 3
