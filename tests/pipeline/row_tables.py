"""Converts a table without images, and reads the records back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

import pipeline.show
import pipeline.verify
from tests.pipeline.commands import Dataset, Ran, convert, run_here

FLOATS = tf.io.FixedLenFeature([], tf.float32)
NUMBER = tf.io.FixedLenFeature([], tf.int64)
TEXT = tf.io.FixedLenFeature([], tf.string)


def of_table(folder: Path, text: str, output: str = "out", **flags: Any) -> Ran:
    """How `convert` ends for a table."""
    (folder / "table.csv").write_text(text, "utf-8")
    given = {"labels": folder / "table.csv", "layout": "rows", "output": folder / output}
    return convert(**{**given, **flags})


def made(folder: Path, text: str, output: str = "out", **flags: Any) -> Dataset:
    """The dataset of a table, which `verify` and `show` accept."""
    ran = of_table(folder, text, output, **flags)
    assert ran.code == 0, ran.err
    dataset = Dataset(folder / output)
    for command in (pipeline.verify, pipeline.show):
        done = run_here(command.main, command.__name__, [str(dataset.folder)])
        assert done.code == 0, done.out + done.err
    return dataset


def read(dataset: Dataset, features: dict[str, Any], split: str = "*") -> list[dict[str, Any]]:
    """All records of a split in their order."""
    paths = [str(dataset.folder / name) for name in dataset.shards(split)]
    records = tf.data.TFRecordDataset(paths)
    parsed = records.map(lambda record: tf.io.parse_single_example(record, features))
    return list(parsed.as_numpy_iterator())
