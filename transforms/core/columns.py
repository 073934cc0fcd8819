"""The rows of an image: the cells they carry through the join, and the features they become.

Cells travel as small JSON texts, which nothing looks into before the shard is written:

- of one row, in `JoinSide`: `["cell", ...]`, in the order of `RowUse.columns`;
- of an image, in `LabelledImage`: `[["CSV:LINE", ["label", ...], ["cell", ...]], ...]`;
- of an image of a shard, in `ShardImage`: the same with `[id, "text"]` for each label.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from transforms.core.boxes import BoxRules
from transforms.core.cells import cell_values, in_shape, parse_again, parse_cell
from transforms.core.layouts import Feature
from transforms.core.objects import ObjectValues
from transforms.core.pixel_options import Original
from transforms.core.records import JoinSide, ShardImage
from transforms.core.rejections import Reason, RejectedImageError

Values = dict[str, Any]
"""What rows fill: a feature's name to its value, or to the list of its values."""


class RowUse(NamedTuple):
    """What a layout asks of the rows.

    Attributes:
        columns: the columns whose cells it needs.
        is_asked: whether it needs anything of the rows besides one label.
        many: whether the rows of an image may differ; otherwise they must say the same.
        many_labels: whether an image may have several labels.
        separator: between the labels in one cell; empty when a cell is one label.
        has_label: whether there is a column of labels.
        boxes: which of the columns hold boxes: a row without them needs no label.
    """

    columns: tuple[str, ...] = ()
    is_asked: bool = False
    many: bool = False
    many_labels: bool = False
    separator: str = ""
    has_label: bool = True
    boxes: tuple[int, ...] = ()


ONE_LABEL = RowUse()


def row_use(
    features: Iterable[Feature], *, boxes: BoxRules | None = None, separator: str = ""
) -> RowUse:
    """What the features of a layout ask of the rows.

    Args:
        features: of the layout.
        boxes: the columns of boxes, when there are any.
        separator: of the labels in a cell.
    """
    rows = [feature for feature in features if feature.from_rows]
    single_label = any(f.source in ("label.id", "label.text") for f in features)
    columns = dict.fromkeys(f.column for f in rows if f.column is not None)
    of_boxes = boxes.all_columns if boxes else ()
    asked = tuple(dict.fromkeys([*columns, *of_boxes]))
    return RowUse(
        columns=asked,
        boxes=tuple(asked.index(name) for name in of_boxes),
        is_asked=bool(rows),
        many=any(f.holds_many and not f.separator for f in rows),
        many_labels=not single_label and bool(rows),
        separator=separator,
    )


def cells_text(cells: Sequence[str]) -> str:
    """The cells of one row as `JoinSide` carries them."""
    return _to_text(list(cells))


def rows_text(rows: Iterable[JoinSide], use: RowUse) -> str:
    """The rows of one image as `LabelledImage` carries them, in the order of their files."""
    return _to_text([[row.where, _labels(row, use), json.loads(row.cells)] for row in rows])


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


def _labels(row: JoinSide, use: RowUse) -> list[str]:
    parts = row.label.split(use.separator) if use.separator else [row.label]
    return [part.strip() for part in parts if part.strip()]


def row_labels(rows: str) -> tuple[int, list[str]]:
    """How many rows `rows_text` holds, and all of their labels."""
    parsed = json.loads(rows)
    return len(parsed), [label for _, labels, _ in parsed for label in labels]


def with_ids(
    rows: str,
    id_of: Callable[[str], int | None],
    text_of: Callable[[str], str],
    unknown: str = "is not in --class_names",
) -> str:
    """The rows as `ShardImage` carries them: every label with its id.

    Args:
        rows: what `rows_text` gave.
        id_of: a label's id, None for an unknown label.
        text_of: a label's text.
        unknown: what is wrong with an unknown label.

    Raises:
        RejectedImageError: with reason `UNKNOWN_LABEL`.
    """
    parsed = json.loads(rows)
    for row in parsed:
        path, _, line = row[0].rpartition(":")
        # The folder of a CSV does not change what is written.
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
    texts = dict.fromkeys(text for _, labels, _ in json.loads(image.cells) for _, text in labels)
    return list(texts) or [""]


class RowValues:
    """Makes the values of a layout's features from the rows of an image.

    Picklable.
    """

    def __init__(
        self,
        features: Iterable[Feature],
        use: RowUse,
        *,
        boxes: BoxRules | None = None,
    ) -> None:
        """Takes a layout.

        Args:
            features: of the layout.
            use: what `row_use` gave for them.
            boxes: what the columns of boxes hold, when there are any.
        """
        self._features = tuple(feature for feature in features if feature.from_rows)
        self._at = {name: at for at, name in enumerate(use.columns)}
        self._singles = [
            (
                feature,
                self._at[feature.column],
                feature.type or feature.dtype,
                # Numbers with a point are seldom there twice.
                parse_cell if feature.dtype == "float" else parse_again,
            )
            for feature in self._features
            if feature.column is not None and _is_plain(feature)
        ]
        self._others = [feature for feature in self._features if not _is_plain(feature)]
        self._objects = ObjectValues(boxes, self._at) if boxes else None

    def of(
        self,
        image: ShardImage,
        original: Original,
        *,
        tagged: int = 1,
        stored: tuple[int, int] | None = None,
    ) -> Values:
        """The values of the features that rows fill.

        Args:
            image: with its rows.
            original: size and turn of the pixels, for boxes.
            tagged: EXIF orientation of the file, 1 to 8, for boxes.
            stored: height and width of the pixels in the dataset, for areas; None when they are
                those of the original.

        Raises:
            RejectedImageError: with reason `BAD_CELL`, `BAD_BOX` or `ROW_CONFLICT`; the detail
                names row and column.
        """
        if not self._features:
            return {}
        rows = json.loads(image.cells)
        sources: dict[str, list[Any]] = {}
        if self._objects is not None:
            size = stored or (original.height, original.width)
            sources |= self._objects.values(rows, original, tagged=tagged, stored=size)
        labels = [tuple(label) for _, labels, _ in rows for label in labels]
        classes = dict.fromkeys(labels)
        sources["object.ids"] = [label_id for label_id, _ in labels]
        sources["object.texts"] = [text.encode() for _, text in labels]
        sources["label.ids"] = [label_id for label_id, _ in classes]
        sources["label.texts"] = [text.encode() for _, text in classes]
        return {
            feature.name: sources[feature.source]
            if feature.source in sources
            else self._cells(feature, rows)
            for feature in self._features
        }

    def of_row(self, place: tuple[str, int], cells: list[str]) -> Values:
        """The values of one row without an image, for a layout of columns alone.

        Args:
            place: the file and the line of the row.
            cells: in the order of `RowUse.columns`.

        Raises:
            RejectedImageError: with reason `BAD_CELL`; the detail names row and column.
        """
        values: Values = {}
        for feature, at, type_, parse in self._singles:
            try:
                if not cells[at]:
                    raise ValueError("the cell is empty")
                values[feature.name] = parse(cells[at], type_)
            except ValueError:
                # It knows of defaults, and how to say what is wrong.
                values[feature.name] = self._cells(feature, [(_where(place), [], cells)])
        for feature in self._others:
            values[feature.name] = self._cells(feature, [(_where(place), [], cells)])
        return values

    def check_cells(self, image: ShardImage) -> None:
        """Checks the cells of an image, before it is opened.

        Raises:
            RejectedImageError: with reason `BAD_CELL` or `ROW_CONFLICT`.
        """
        rows = json.loads(image.cells) if image.cells else []
        for feature in self._features if rows else ():
            if feature.column is not None:
                self._cells(feature, rows)

    def _cells(self, feature: Feature, rows: list[Any]) -> Any:
        at = self._at[feature.column or ""]
        lists = [cell_values(feature, where, cells[at]) for where, _, cells in rows]
        if feature.holds_many and not feature.separator:
            values = [value for values in lists for value in values]
            return in_shape(feature, values, f"{len(rows)} rows from {rows[0][0]}")
        for (where, _, cells), values in zip(rows, lists, strict=True):
            if values != lists[0]:
                detail = (
                    f"column {feature.column!r} is {rows[0][2][at][:40]!r} in {rows[0][0]}, "
                    f"but {cells[at][:40]!r} in {where}"
                )
                raise RejectedImageError(Reason.ROW_CONFLICT, detail)
        if not feature.holds_many:
            return lists[0][0]
        return in_shape(feature, lists[0], rows[0][0])


def _is_plain(feature: Feature) -> bool:
    """Whether a cell is one value, and is missing only if it is empty or does not fit."""
    return not feature.holds_many and (feature.dtype != "bytes" or feature.default is None)


def _where(place: tuple[str, int]) -> str:
    """A row for messages; the folder of a CSV does not change what is written."""
    return f"{os.path.basename(place[0])}:{place[1]}"


def _to_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
