"""Indexes of other datasets are read one by one on several machines, with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.transforms.beam import collect
from tests.transforms.indexed_shards import write_dataset
from tests.transforms.test_read_base import COLUMNS
from transforms import packing
from transforms.core.messages import LabelsError
from transforms.input_readers import ImageFinder
from transforms.join_labels import ReadInputs
from transforms.labels.label_rules import PathRules
from transforms.labels.vocabulary import merge_cells
from transforms.records import other_datasets
from transforms.records.other_datasets import DatasetReader, ImageRecordReader, OtherDataset

INDEXES = [
    {
        **COLUMNS,
        "key": [f"{shard}-{record}" for record in range(3)],
        "path": [f"{9 - shard}-{record}.jpg" for record in range(3)],
        "split": "train",
        "label": ["7", "b", "c"],
        "label_id": 0,
    }
    for shard in range(4)
]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageRecordReader:
    """Reads a dataset with four indexes of three records."""
    manifest = write_dataset(tmp_path, INDEXES)
    monkeypatch.setattr(other_datasets, "read_manifest", lambda _: manifest)
    return ImageRecordReader([OtherDataset(str(tmp_path), manifest["digest"], "image")])


def read(reader: ImageRecordReader) -> tuple[list[Any], int, Any]:
    """The sides, the number of records and what is counted of the labels, of all workers."""
    finder = ImageFinder(root="", key="path", rules=PathRules())
    inputs = ReadInputs([], finder, [], None, datasets=[reader])
    found = collect(lambda pipeline: (pipeline | "Read" >> inputs)._asdict())
    return found["sides"], sum(each.value for each in found["counts"]), merge_cells(found["labels"])


def test_a_dataset_is_read_index_by_index(
    reader: ImageRecordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = list(reader.parts(0))
    assert len(parts) == len(INDEXES)
    here = read(reader)
    assert len(here[0]) == here[1] == 12
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    # No worker reads the whole dataset.
    monkeypatch.delattr(DatasetReader, "read")
    assert read(reader) == here


def test_an_index_that_is_replaced_after_it_was_listed_ends_the_run(
    reader: ImageRecordReader, tmp_path: Path
) -> None:
    part = list(reader.parts(0))[2]
    [index] = (tmp_path / "index").glob("train-00002-*")
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    with pytest.raises(LabelsError, match=r"--images .*00002.* was changed since"):
        list(reader.read_part(part))
