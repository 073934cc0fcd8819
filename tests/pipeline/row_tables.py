"""Converts a table without images."""

from pathlib import Path
from typing import Any

from tests.pipeline.commands import Dataset, Ran, check_sound, convert, show


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
    check_sound(dataset.folder)
    shown = show(dataset.folder)
    assert shown.code == 0, shown.err
    return dataset
