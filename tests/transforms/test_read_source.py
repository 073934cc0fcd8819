"""What the manifest and the index of a dataset may say: they are untrusted, and may be replaced."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.indexed_shards import table
from tests.transforms.test_read_base import COLUMNS, SHARD
from transforms.core.messages import LabelsError, TransientError
from transforms.core.records import Count
from transforms.dataset.manifest import content_digest
from transforms.dataset.output_names import index_file
from transforms.labels.vocabulary import LabelCells
from transforms.records import other_datasets
from transforms.records.other_datasets import ImageRecordReader, OtherDataset
from transforms.records.record_index import read_index

VALUES = {**COLUMNS, "split": "train", "label": "7", "label_id": 0}


def read(
    monkeypatch: pytest.MonkeyPatch,
    *,
    digest: str = "",
    label_from: str = "records",
    read_index_of: Callable[..., Any] | None = None,
    **row: Any,
) -> list[Any]:
    """What is listed of a dataset with two records alike."""
    columns = {name: [value] * 2 for name, value in {**VALUES, **row}.items()}
    index: pa.Table = read_index(table({**columns, "record": range(2)}, 2), "x")
    shard = {"file": SHARD, "bytes": 1000, "records": 2, "crc32c": "00000000"}
    manifest: dict[str, Any] = {
        "splits": {"train": {"shards": [shard]}},
        "index": [{"file": index_file(SHARD), "records": 2}],
    }
    manifest["digest"] = content_digest(manifest)
    source = OtherDataset("out", digest or manifest["digest"], "image")
    monkeypatch.setattr(other_datasets, "read_manifest", lambda _: manifest)
    read_listed = read_index_of or (lambda _, entry, columns: index.select(columns))
    monkeypatch.setattr(other_datasets, "read_listed_index", read_listed)
    return list(ImageRecordReader((source,), label_from=label_from).read(0))


def test_all_records_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    *images, count, cells = read(monkeypatch)
    assert [(key, side.split, side.cells) for key, side in images] == [
        ("a.jpg", "train", '["7"]')
    ] * 2
    assert (count, cells) == (Count("images_found", 2), LabelCells(integers=2))


@pytest.mark.parametrize("label_from", ["csv", "none"])
def test_labels_that_are_not_used_are_not_counted(
    label_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *images, _, cells = read(monkeypatch, label_from=label_from)
    assert cells == LabelCells()
    assert images[0][1].cells == ('["7"]' if label_from == "csv" else "[]")


def test_an_index_that_is_gone_ends_the_run_unless_it_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "out/index/x")
    with pytest.raises(LabelsError, match=r"^cannot read --images out: .*'out/index/x'$"):
        read(monkeypatch, read_index_of=fail)
    error = OSError(errno.ETIMEDOUT, "timed out", "out/index/x")
    with pytest.raises(TransientError):
        read(monkeypatch, read_index_of=fail)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"digest": "other"}, "it was replaced since this run began"),
        ({"offset": 900}, "names records that the dataset does not have"),
        ({"offset": -16}, "names records that the dataset does not have"),
        ({"length": -5}, "names records that the dataset does not have"),
        ({"shard": "test-00000-of-00001.tfrecord"}, "names records that the dataset does not have"),
        ({"shard": "../x/y"}, "names records that the dataset does not have"),
        ({"offset": None}, "is not the index of images in uncompressed files"),
        ({"key": None}, "is not the index of images in uncompressed files"),
    ],
)
def test_what_does_not_fit_ends_the_run(
    changed: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabelsError, match=problem):
        read(monkeypatch, **changed)
