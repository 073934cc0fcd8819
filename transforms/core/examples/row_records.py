"""Rows that become records: a CSV without images.

Rows travel in batches of one file, each a JSON text, `[path, [row, ...]]`: one element for each row
would cost more than its processing. A row is `[split, order, key, line, cells]`,
as in `ShardRow`, and has no split once it is planned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from transforms.core.features.feature_sources import COLUMN
from transforms.core.features.layouts import Feature
from transforms.core.features.row_features import RowValues
from transforms.core.images.check import ImageInfo
from transforms.core.images.checked_image import CheckedImage
from transforms.core.images.pixel_options import Original
from transforms.core.label_errors import LabelsError
from transforms.core.planning.keys import full_uri
from transforms.core.records import ShardRow
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.core.tables.csv_rows import find_column

BATCH_ROWS = 2048
"""The number of rows in a batch."""

# Approximate overhead in bytes: of TFRecord per Example, and of an Example per feature.
_RECORD_BYTES = 20
_FEATURE_BYTES = 10

_NO_IMAGE = (b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))


def table_features(header: Sequence[str], but: str | None, *, path: str) -> tuple[Feature, ...]:
    """A feature for each column, with the type still open.

    Args:
        header: the names of the columns.
        but: a column to leave out, or None.
        path: the name of the file for messages.

    Raises:
        LabelsError: a column has no name, or the same name as another.
    """
    for at, name in enumerate(header, 1):
        if not name:
            raise LabelsError(
                f"{path}: column {at} has no name: name it in the first line, or leave it out "
                "with a layout of your own (docs/layouts.md)"
            )
        find_column(header, name, path=path)
    names = (name for name in header if name != but)
    return tuple(Feature(name, COLUMN + name, "") for name in names)


def row_bytes(features: Iterable[Feature]) -> int:
    """The approximate size of a record without the text of its cells, in bytes."""
    return _RECORD_BYTES + sum(len(f.name.encode()) + _FEATURE_BYTES for f in features)


def to_batch(path: str, rows: Sequence[Sequence[Any]]) -> str:
    """Serializes rows of one file as a batch."""
    return json.dumps([path, rows], ensure_ascii=False, separators=(",", ":"))


def from_batch(batch: str) -> tuple[str, list[list[Any]]]:
    """Reads the result of `to_batch`."""
    path, rows = json.loads(batch)
    return path, rows


def planned_rows(batches: Iterable[str]) -> list[ShardRow]:
    """The rows of one shard, unordered."""
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
            values: makes features from cells.
            root: common folder of the files.
        """
        self._values = values
        self._root = root

    def check(self, row: ShardRow) -> CheckedImage | Rejection:
        """A row whose cells all fit their types, or its rejection."""
        try:
            values = self._values.of_row((row.path, row.line), row.cells.split("\0"))
        except RejectedImageError as error:
            where = f"{full_uri(self._root, row.path)}:{row.line}"
            key = row.key or f"{row.path}:{row.line}"
            return Rejection("row", error.reason.value, error.detail, where, key)
        return CheckedImage(*_NO_IMAGE, values=values, row=row)
