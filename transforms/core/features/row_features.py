"""Features from the rows of an image."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from transforms.core.features.boxes import BoxRules
from transforms.core.features.cells import cell_values, in_shape, parse_again, parse_cell
from transforms.core.features.layouts import Feature
from transforms.core.features.objects import ObjectValues
from transforms.core.images.pixel_options import Original
from transforms.core.planning.row_cells import RowRequirements, has_rows, parsed_rows
from transforms.core.records import ShardImage
from transforms.core.rejections import Reason, RejectedImageError

Values = dict[str, Any]
"""The values from rows: a feature's name to its value, or to the list of its values."""


def row_requirements(
    features: Iterable[Feature], *, boxes: BoxRules | None = None, separator: str = ""
) -> RowRequirements:
    """The requirements of a layout's features for rows.

    Args:
        features: of the layout.
        boxes: the columns of boxes, when there are any.
        separator: of the labels in a cell.
    """
    rows = [feature for feature in features if feature.from_rows]
    single_label = any(f.from_label and not f.from_rows for f in features)
    columns = dict.fromkeys(f.column for f in rows if f.column is not None)
    of_boxes = boxes.all_columns if boxes else ()
    asked = tuple(dict.fromkeys([*columns, *of_boxes]))
    return RowRequirements(
        columns=asked,
        boxes=tuple(asked.index(name) for name in of_boxes),
        needs_rows=bool(rows),
        many=any(f.holds_many and not f.separator for f in rows),
        many_labels=not single_label and bool(rows),
        separator=separator,
    )


class RowValues:
    """Computes the values of a layout's features from the rows of an image.

    Picklable.
    """

    def __init__(
        self,
        features: Iterable[Feature],
        requirements: RowRequirements,
        *,
        boxes: BoxRules | None = None,
    ) -> None:
        """Sets the layout.

        Args:
            features: of the layout.
            requirements: the result of `row_requirements` for them.
            boxes: the meaning of the box columns, if there are any.
        """
        self._features = tuple(feature for feature in features if feature.from_rows)
        self._at = {name: at for at, name in enumerate(requirements.columns)}
        self._singles = [
            (
                feature,
                self._at[feature.column],
                feature.type or feature.dtype,
                # Floats are seldom repeated.
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
            original: size and rotation of the pixels, for boxes.
            tagged: EXIF orientation of the file, 1 to 8, for boxes.
            stored: height and width of the pixels in the dataset, for areas; None when they are
                those of the original.

        Raises:
            RejectedImageError: with reason `BAD_CELL`, `BAD_BOX` or `ROW_CONFLICT`; the detail
                names row and column.
        """
        if not self._features:
            return {}
        rows = parsed_rows(image.cells)
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
            cells: in the order of `RowRequirements.columns`.

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
                # That function handles defaults and error messages.
                values[feature.name] = self._cells(feature, [(_where(place), [], cells)])
        for feature in self._others:
            values[feature.name] = self._cells(feature, [(_where(place), [], cells)])
        return values

    def check_cells(self, image: ShardImage) -> None:
        """Checks the cells of an image, before it is opened.

        Raises:
            RejectedImageError: with reason `BAD_CELL` or `ROW_CONFLICT`.
        """
        # Without rows, a record of another dataset has the values.
        rows = parsed_rows(image.cells) if has_rows(image.cells) else []
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
    """A row for messages, without the folder of its CSV, which must not change the output."""
    return f"{os.path.basename(place[0])}:{place[1]}"
