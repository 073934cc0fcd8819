"""Finds the columns of a CSV with the split and the group of an image."""

from __future__ import annotations

from transforms.core.label_errors import LabelsError
from transforms.core.planning.splits import is_split_name, split_text
from transforms.core.tables.csv_rows import CsvColumns, FirstRows, find_column, header_names
from transforms.core.tables.label_columns import OTHER_COLUMN, find_further

# The default name of the column with the split.
_SPLIT_COLUMN = "split"


def with_place_columns(
    columns: CsvColumns,
    first: FirstRows,
    *,
    split_from: str | None,
    split_column: str | None,
    group_by: str | None,
    path: str,
) -> CsvColumns:
    """Adds the positions of split and group, if they are needed.

    Args:
        columns: the positions of key and label.
        first: the first rows of the file.
        split_from: the source of the split; None is `csv` with `split_column`.
        split_column: name or number of the column of splits; None finds it by its name.
        group_by: name or number of the column of groups, or None.
        path: the file.

    Raises:
        LabelsError: there is no such column, or the column's cells name no splits.
    """
    if split_from == "csv" or split_column is not None:
        at = _split_column(columns, first, split_column, path)
        if at == columns.label and columns.because[1] == OTHER_COLUMN:
            raise LabelsError(
                f"{path} has no column of labels, only keys and the splits of --split_column: add "
                "one, which --label_column names"
            )
        _check_cells(columns, first, at, path)
        columns = columns._replace(split=at, split_name=_column_name(columns, first, at))
    if group_by is not None:
        at = find_further(columns, first, group_by, "--group_by", path)
        columns = columns._replace(group=at, group_name=_column_name(columns, first, at))
    return columns


def _split_column(columns: CsvColumns, first: FirstRows, wanted: str | None, path: str) -> int:
    if wanted is not None:
        return find_further(columns, first, wanted, "--split_column", path)
    names = header_names(first.rows[0]) if columns.has_header else []
    at = find_column(names, _SPLIT_COLUMN, path=path)
    if at is None:
        raise LabelsError(
            f"{path} has no column {_SPLIT_COLUMN!r}: name the one that holds the splits with "
            "--split_column"
        )
    return at


def _check_cells(columns: CsvColumns, first: FirstRows, at: int, path: str) -> None:
    """Refuses a column if no cell in the first rows can be a split."""
    rows = first.rows[1:] if columns.has_header else first.rows
    said = [split_text(row[at]) for row in rows if at < len(row)]
    if said and not any(not name or is_split_name(name) for name in said):
        raise LabelsError(
            f"{path}: --split_column has values such as {said[0]!r}, which cannot be splits "
            "(a letter, then letters, digits and '_'): give the column that names the splits"
        )


def _column_name(columns: CsvColumns, first: FirstRows, at: int) -> str:
    return header_names(first.rows[0])[at] if columns.has_header else f"column {at + 1}"
