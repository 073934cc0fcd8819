"""The flags about splits: who decides them, and in which columns of the CSV that stands."""

from __future__ import annotations

import argparse
import os

from pipeline.errors import UsageError
from pipeline.inputs.image_samples import ImageSample
from transforms.core.labels.path_labels import split_folder
from transforms.core.planning.image_lists import listed_path
from transforms.core.planning.splits import is_split_name, split_text
from transforms.core.tables.csv_rows import CsvColumns, FirstRows, find_column, header_names
from transforms.core.tables.label_columns import find_further

# The column that names the split when no flag says which.
_SPLIT_COLUMN = "split"


def split_source(flags: argparse.Namespace, sample: ImageSample, label_from: str) -> str:
    """What decides the split of an image: `hash`, `csv` or `directory`.

    Raises:
        UsageError: no folder names a split.
    """
    source = flags.split_from or ("csv" if flags.split_column is not None else "hash")
    if source == "directory":
        check_folders(sample, label_from)
    return str(source)


def check_folders(sample: ImageSample, label_from: str) -> None:
    """Checks that the first folder of a path can name a split.

    Raises:
        UsageError: no image is in such a folder, or the folders are those of the classes.
    """
    paths = [listed_path(uri, sample.root) for uri in sample.uris]
    below = f"below the common folder {sample.root or '.'!r}"
    if not any(is_split_name(split_folder(path) or "train") for path in paths):
        raise UsageError(
            "--split_from directory needs a folder for each split (train/, test/ ...) "
            f"{below} of --images, where an image lies like {paths[0]!r}"
        )
    if label_from == "directory" and not any(
        os.path.dirname(path.partition("/")[2]) for path in paths
    ):
        raise UsageError(
            "--split_from directory needs the folders of the splits above those of the classes, "
            f"as in train/cat/1.jpg; {below} of --images an image lies like {paths[0]!r}"
        )


def add_place_columns(
    columns: CsvColumns, first: FirstRows, flags: argparse.Namespace, path: str
) -> CsvColumns:
    """Adds where split and group stand, if flags ask for them.

    Args:
        columns: where key and label stand.
        first: the first rows of the file.
        flags: what `parse_flags` gives.
        path: the file.

    Raises:
        LabelsError: there is no such column.
        UsageError: the column's cells name no splits, or it is not told which it is.
    """
    if flags.split_from == "csv" or flags.split_column is not None:
        at = _split_column(columns, first, flags, path)
        _check_cells(columns, first, at, path)
        columns = columns._replace(split=at, split_name=_column_name(columns, first, at))
    if flags.group_by is not None:
        at = find_further(columns, first, flags.group_by, "--group_by", path)
        columns = columns._replace(group=at, group_name=_column_name(columns, first, at))
    return columns


def _split_column(
    columns: CsvColumns, first: FirstRows, flags: argparse.Namespace, path: str
) -> int:
    if flags.split_column is not None:
        return find_further(columns, first, flags.split_column, "--split_column", path)
    names = header_names(first.rows[0]) if columns.has_header else []
    at = find_column(names, _SPLIT_COLUMN, path=path)
    if at is None:
        raise UsageError(
            f"CSV {path} has no column {_SPLIT_COLUMN!r}: name the one that holds the splits with "
            "--split_column"
        )
    return at


def _check_cells(columns: CsvColumns, first: FirstRows, at: int, path: str) -> None:
    """Refuses a column of which no cell in the first rows could be a split."""
    rows = first.rows[1:] if columns.has_header else first.rows
    said = [split_text(row[at]) for row in rows if at < len(row)]
    if said and not any(not name or is_split_name(name) for name in said):
        raise UsageError(
            f"CSV {path}: no split is called {said[0]!r}, as --split_column has it: give the "
            "column that names them (a letter, then letters, digits and '_')"
        )


def _column_name(columns: CsvColumns, first: FirstRows, at: int) -> str:
    return header_names(first.rows[0])[at] if columns.has_header else f"column {at + 1}"
