"""Serializes an image's rows: the labels and cells that pass through the join.

Cells are small JSON texts that are not parsed before the shard is written:

- of one row, in `JoinSide`: `["cell", ...]`, in the order of `RowRequirements.columns`;
- of an image, in `LabelledImage`: `[["CSV:LINE", ["label", ...], ["cell", ...]], ...]`;
- of an image of a shard, in `ShardImage`: the same with `[id, "text"]` for each label.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from transforms.core.records import JoinSide, ShardImage
from transforms.core.rejections import Reason, RejectedImageError

# `json.dumps` makes an encoder for each call.
_to_text: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


# The place of labels that no row gave.
_GIVEN = "given:1"


class RowRequirements(NamedTuple):
    """What a layout needs of the rows.

    Attributes:
        columns: the columns whose cells it needs.
        needs_rows: whether it needs more from the rows than one label.
        many: whether the rows of an image may differ; otherwise they must be identical.
        many_labels: whether an image may have several labels.
        separator: between the labels in one cell; empty when a cell is one label.
        has_label: whether there is a column of labels.
        boxes: which of the columns hold boxes: a row without them needs no label.
        are_optional: whether an image without a row has no objects, instead of being rejected.
    """

    columns: tuple[str, ...] = ()
    needs_rows: bool = False
    many: bool = False
    many_labels: bool = False
    separator: str = ""
    has_label: bool = True
    boxes: tuple[int, ...] = ()
    are_optional: bool = False


ONE_LABEL = RowRequirements()


def cells_text(cells: Sequence[str]) -> str:
    """The cells of one row in the form for `JoinSide`."""
    return _to_text(list(cells))


def rows_text(rows: Iterable[JoinSide], requirements: RowRequirements) -> str:
    """The rows of one image in the form for `LabelledImage`, in the order of their files."""
    # The cells are already JSON.
    texts = (
        f"[{_to_text(row.where)},{_to_text(_labels(row, requirements))},{row.cells}]"
        for row in rows
    )
    return f"[{','.join(texts)}]"


def labels_cells(labels: Sequence[str]) -> str:
    """Several labels of an image without rows, in the form for `LabelledImage`.

    >>> labels_cells(["cat", "dog"])
    '[["given:1",["cat","dog"],[]]]'
    """
    return _to_text([[_GIVEN, list(labels), []]])


def has_rows(cells: str) -> bool:
    """Whether rows of a CSV gave an image its cells.

    >>> has_rows(labels_cells(["cat"])), has_rows(""), has_rows('[["a.csv:1",["cat"],["1"]]]')
    (False, False, True)
    >>> has_rows(NO_ROWS)
    False
    """
    rows = parsed_rows(cells) if cells else []
    return bool(rows) and rows[0][0] != _GIVEN


NO_ROWS = "[]"
"""The rows of an image that has none."""


def lists_no_object(row: JoinSide, boxes: Sequence[int]) -> bool:
    """Whether a row without a label has no box either: it lists an image without objects.

    >>> lists_no_object(JoinSide("", 0, 0, "", "a.csv:2", cells='["1",""]'), [1])
    True
    """
    if not boxes or not row.cells:
        return False
    cells = json.loads(row.cells)
    return not any(cells[at] for at in boxes)


def row_place(row: JoinSide) -> tuple[str, int]:
    """The file and the line of a row, to sort by.

    >>> row_place(JoinSide("", 0, 0, "cat", "a.csv:12"))
    ('a.csv', 12)
    """
    path, _, line = row.where.rpartition(":")
    return path, int(line)


def _labels(row: JoinSide, requirements: RowRequirements) -> list[str]:
    parts = row.label.split(requirements.separator) if requirements.separator else [row.label]
    return [part.strip() for part in parts if part.strip()]


@functools.lru_cache(maxsize=64)
def parsed_rows(cells: str) -> list[Any]:
    """The rows of an image of a shard, to be read only.

    The counts of a shard and its Examples ask for the rows of an image one after the other: they
    are decoded once. An embedding takes 16 images together.
    """
    rows: list[Any] = json.loads(cells)
    return rows


def row_labels(rows: str) -> tuple[int, list[str]]:
    """The number of rows in a `rows_text`, and all of their labels."""
    parsed = json.loads(rows)
    return len(parsed), [label for _, labels, _ in parsed for label in labels]


def with_ids(
    rows: str,
    id_of: Callable[[str], int | None],
    text_of: Callable[[str], str],
    unknown: str = "is not in --class_names",
) -> str:
    """The rows in the form for `ShardImage`: every label with its id.

    Args:
        rows: the result of `rows_text`.
        id_of: a label's id, None for an unknown label.
        text_of: a label's text.
        unknown: the problem with an unknown label.

    Raises:
        RejectedImageError: with reason `UNKNOWN_LABEL`.
    """
    parsed = json.loads(rows)
    for row in parsed:
        path, _, line = row[0].rpartition(":")
        # The folder of a CSV must not change the output.
        row[0] = f"{os.path.basename(path)}:{line}"
        for at, label in enumerate(row[1]):
            label_id = id_of(label)
            if label_id is None:
                detail = f"the label {label!r} ({row[0]}) {unknown}"
                raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
            row[1][at] = [label_id, text_of(label)]
    return _to_text(parsed)


def class_texts(image: ShardImage) -> list[str]:
    """The classes that an image counts for: its label, or all labels of its rows, each once."""
    if not image.cells:
        return [image.label]
    texts = dict.fromkeys(text for _, labels, _ in parsed_rows(image.cells) for _, text in labels)
    return list(texts) or [""]
