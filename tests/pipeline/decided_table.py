"""A row of the table of `test_decided.py`: inputs, flags, and what is printed and comes out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from tests.conftest import draw
from tests.pipeline.commands import Dataset, Ran

SLIM = ("image/filename", "image/class/label", "image/class/text")


class Row(NamedTuple):
    """Odd inputs, and what the tool makes of them.

    Attributes:
        name: of the case.
        images: paths, separated by spaces; a small picture is drawn for each.
        csvs: text of other files, by path.
        flags: as on a command line; `--output` is added.
        decided: the block that `plan` and `convert` print, without its title.
        records: a line `SPLIT VALUE VALUE ...` for each record, sorted.
        shown: the features whose values these lines have.
        features: lines `NAME TYPE` of some features, as the manifest lists them.
        warnings: a line for each warning that is printed below the block.
        refused: the message when both commands end with exit code 2 before a job; there is no
            block then, and nothing comes out.
    """

    name: str
    images: str
    csvs: Mapping[str, str]
    flags: str
    decided: str
    records: str
    shown: tuple[str, ...] = SLIM
    features: str = ""
    warnings: str = ""
    refused: str = ""


def write_row(row: Row, folder: Path) -> None:
    """Writes the inputs of a row."""
    for seed, name in enumerate(row.images.split()):
        draw(folder / name, seed=seed)
    for name, text in row.csvs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def words(row: Row) -> list[str]:
    """The flags of a row as words."""
    return shlex.split(row.flags)


def block(ran: Ran) -> list[str]:
    """The lines of all blocks "Decided" that a command printed, stripped."""
    found: list[str] = []
    is_inside = False
    for line in ran.out.splitlines():
        is_inside = line == "Decided" or (is_inside and line.startswith("  "))
        if is_inside and line != "Decided":
            found.append(line.strip())
    return found


def warnings(ran: Ran) -> list[str]:
    """The texts of the warnings that a command printed."""
    return [line[9:] for line in ran.out.splitlines() if line.startswith("warning  ")]


def lines_of(text: str) -> list[str]:
    """The lines of an indented text of the table, stripped."""
    return [line.strip() for line in text.strip().splitlines()]


def records(dataset: Dataset, shown: Iterable[str]) -> list[str]:
    """A line `SPLIT VALUE ...` for each record of a dataset, sorted."""
    return sorted(
        " ".join([split, *(_text(example, name) for name in shown)])
        for split in dataset.manifest["splits"]
        for example in _examples(dataset, split)
    )


def _examples(dataset: Dataset, split: str) -> list[tf.train.Example]:
    paths = [str(dataset.folder / name) for name in dataset.shards(split)]
    return [
        tf.train.Example.FromString(text)
        for text in tf.data.TFRecordDataset(paths).as_numpy_iterator()
    ]


def _text(example: tf.train.Example, name: str) -> str:
    """The values of a feature; `-` when there is none."""
    if name not in example.features.feature:
        return "-"
    feature = example.features.feature[name]
    kind = feature.WhichOneof("kind")
    values: list[Any] = [] if kind is None else list(getattr(feature, kind).value)
    texts = (
        value.decode()
        if isinstance(value, bytes)
        else f"{value:.6g}"
        if kind == "float_list"
        else str(value)
        for value in values
    )
    return ",".join(texts) or "-"


def features(dataset: Dataset) -> set[str]:
    """Lines `NAME TYPE` of all features of a dataset."""
    return {f"{each['name']} {each['dtype']}" for each in dataset.manifest["features"]}
