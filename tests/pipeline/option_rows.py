"""A row of the table of flags of `test_option_table.py`, and what two commands made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.pipeline.commands import Dataset, Ran
from tests.pipeline.reading import filenames


class Made(NamedTuple):
    """What one command made."""

    ran: Ran
    dataset: Dataset


class Row(NamedTuple):
    """A flag and its effect.

    Attributes:
        value: the flag's value in the second of two commands; a list repeats it.
        effect: gets what the first, without the flag, and the second made, and checks them.
        others: flags of both commands; `{in}` stands for the folder of the inputs.
        before: the flag's value in the first command, instead of none.
    """

    value: Any
    effect: Callable[[Made, Made], None]
    others: Mapping[str, Any] = {}
    before: Any = None


def stems(made: Made) -> set[str]:
    """The names of the images in the dataset, without extensions."""
    return {Path(name).stem for name in filenames(made.dataset)}


def reasons(made: Made) -> list[str]:
    """Why images were rejected."""
    return [line["reason"] for line in made.dataset.rejected]
