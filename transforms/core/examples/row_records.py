"""Rows that are records themselves: a CSV without images.

Rows travel in batches of one file, each a JSON text, `[path, [row, ...]]`: one element for each row
would cost more than everything that is done with it. A row is `[split, order, key, line, cells]`,
as in `ShardRow`, and has no split any more once it is planned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from transforms.core.examples.encoder import CheckedImage
from transforms.core.features.feature_sources import COLUMN
from transforms.core.features.layouts import Feature
from transforms.core.features.row_features import RowValues
from transforms.core.images.check import ImageInfo
from transforms.core.images.pixel_options import Original
from transforms.core.label_errors import LabelsError
from transforms.core.planning.keys import full_uri
from transforms.core.records import ShardImage, ShardRow
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.core.tables.csv_rows import find_column

BATCH_ROWS = 2048
"""Rows that travel together."""

# Bytes that TFRecord adds to an Example, and an Example to a feature's name and values; about.
_RECORD_BYTES = 20
_FEATURE_BYTES = 10

_NO_IMAGE = (ShardImage(0, "", "", 0, 0, "", 0), b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))


def table_features(header: Sequence[str], but: str | None, *, path: str) -> tuple[Feature, ...]:
    """A feature for each column, whose type is still to be told.

    Args:
        header: the names of the columns.
        but: the column that is none, or None.
        path: what to call the file in messages.

    Raises:
        LabelsError: a column has no name, or the name of another one.
    """
    for at, name in enumerate(header, 1):
        if not name:
            raise LabelsError(
                f"CSV {path}: column {at} has no name: name it in the first line, or leave it out "
                "with a layout of your own (docs/layouts.md)"
            )
        find_column(header, name, path=path)
    names = (name for name in header if name != but)
    return tuple(Feature(name, COLUMN + name, "") for name in names)


def row_bytes(features: Iterable[Feature]) -> int:
    """About how many bytes a record takes besides the text of its cells."""
    return _RECORD_BYTES + sum(len(f.name.encode()) + _FEATURE_BYTES for f in features)


def to_batch(path: str, rows: Sequence[Sequence[Any]]) -> str:
    """Rows of one file as they travel."""
    return json.dumps([path, rows], ensure_ascii=False, separators=(",", ":"))


def from_batch(batch: str) -> tuple[str, list[list[Any]]]:
    """Reads what `to_batch` gave."""
    path, rows = json.loads(batch)
    return path, rows


def planned_rows(batches: Iterable[str]) -> list[ShardRow]:
    """The rows of one shard, in no order."""
    return [
        ShardRow(order, key, path, line, cells)
        for path, rows in map(from_batch, batches)
        for order, key, line, cells in rows
    ]


class RowChecker:
    """Makes the values of records from rows; picklable."""

    def __init__(self, values: RowValues, *, root: str) -> None:
        """Describes the rows.

        Args:
            values: makes features of cells.
            root: common folder of the files.
        """
        self._values = values
        self._root = root

    def check(self, row: ShardRow) -> CheckedImage | Rejection:
        """A row whose cells all fit their types, or why it is left out."""
        try:
            values = self._values.of_row((row.path, row.line), row.cells.split("\0"))
        except RejectedImageError as error:
            where = f"{full_uri(self._root, row.path)}:{row.line}"
            key = row.key or f"{row.path}:{row.line}"
            return Rejection("row", error.reason.value, error.detail, where, key)
        return CheckedImage(*_NO_IMAGE, values=values)
