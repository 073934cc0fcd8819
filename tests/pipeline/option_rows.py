"""A row of the table of flags of `test_option_table.py`, and what two commands made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.pipeline.commands import Dataset, Ran
from tests.pipeline.reading import feature_names, filenames, read, shape


class Made(NamedTuple):
    """What one command made."""

    ran: Ran
    dataset: Dataset


Effect = Callable[[Made, Made], None]


class Row(NamedTuple):
    """A flag and its effect.

    Attributes:
        value: the flag's value in the second of two commands; a list repeats it.
        effect: gets what the first, without the flag, and the second made, and checks them.
        others: flags of both commands; `{in}` stands for the folder of the inputs.
        before: the flag's value in the first command, instead of none.
    """

    value: Any
    effect: Effect
    others: Mapping[str, Any] = {}
    before: Any = None


def turns(view: Callable[[Made], Any], before: Any, after: Any) -> Effect:
    """The effect that something of a dataset is one thing without the flag, and another with it."""

    def check(without: Made, made: Made) -> None:
        found = view(without), view(made)
        assert found == (before, after), found

    return check


def needed(says: str, view: Callable[[Made], Any], after: Any) -> Effect:
    """The effect that a command is not refused any more."""

    def check(without: Made, made: Made) -> None:
        assert without.ran.code == 2, without.ran
        assert says in without.ran.error(), without.ran
        assert view(made) == after, view(made)

    return check


def stems(made: Made) -> set[str]:
    """The names of the images in the dataset, without extensions."""
    return {Path(name).stem for name in filenames(made.dataset)}


def reasons(made: Made) -> list[str]:
    """Why images were rejected."""
    return [line["reason"] for line in made.dataset.rejected]


def places(made: Made) -> dict[str, set[str]]:
    """The names of the images of each split."""
    dataset = made.dataset
    return {
        split: {Path(name).stem for name in filenames(dataset, split)}
        for split in dataset.manifest["splits"]
    }


def shapes(made: Made) -> set[tuple[int, ...]]:
    """The shapes of the images."""
    return {shape(record["image/encoded"]) for record in read(made.dataset)}


def says(text: str) -> Callable[[Made], bool]:
    """Whether a command printed a text."""
    return lambda made: text in made.ran.out


def has(feature: str) -> Callable[[Made], bool]:
    """Whether records have a feature."""
    return lambda made: feature in feature_names(made.dataset)


def content(made: Made, name: str) -> dict[str, Any]:
    """A JSON file of the dataset."""
    found: dict[str, Any] = json.loads((made.dataset.folder / name).read_text("utf-8"))
    return found
