"""Features that rows give: labels, columns and objects."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transforms.core.records import ShardImage
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.boxes import FORMS, Box, BoxError, BoxRules, box_values, located
from transforms.examples.columns import (
    LARGEST_FLOAT,
    cell_values,
    in_shape,
    parse_again,
    parse_cell,
)
from transforms.examples.layouts import Feature, Role, source_of
from transforms.images.pixel_options import Frame
from transforms.labels.joins import RowRequirements, has_rows, parsed_rows

# The objects in an image: boxes and further columns of its rows, as values of features.

Row = Sequence[Any]
"""A row of an image: its place, its labels, and its cells."""

_FALSE = re.compile(r"|-1|0|0[.]0|false|no|n", re.IGNORECASE)
_TRUE = re.compile(r"1|1[.]0|true|yes|y", re.IGNORECASE)


class ObjectValues:
    """Makes the values of `box.*` and of the sources with columns from the rows of an image."""

    def __init__(self, rules: BoxRules, at: Mapping[str, int]) -> None:
        """Sets the columns.

        Args:
            rules: of the boxes.
            at: the index of each column among the cells.
        """
        self._rules = rules
        self._at = at
        self._cells = [at[column] for column in rules.all_columns]

    def values(self, rows: Sequence[Row], frame: Frame) -> dict[str, list[Any]]:
        """Lists by source, with a value for each object.

        A row without a label, a box and further values lists an image without objects.

        Args:
            rows: of the image.
            frame: of the image.

        Raises:
            RejectedImageError: with reason `BAD_BOX` or `BAD_CELL`, or see `object_mask`; the
                detail names the row.
        """
        objects = [row for row in rows if row[1] or any(row[2][at] for at in self._cells)]
        boxes = [self._box(where, cells, frame) for where, _, cells in objects]
        sources: dict[str, list[Any]] = {**box_values(boxes)}
        for source, column in self._rules.further:
            at = self._at[column]
            if source_of(source).role is Role.OBJECT_MASK:
                sources[source] = self._masks(objects, column, frame)
                continue
            sources[source] = []
            for (where, _, cells), box in zip(objects, boxes, strict=True):
                try:
                    if source_of(source).dtype == "bytes":
                        value: float | bytes = cells[at].encode()
                    elif source_of(source).role is Role.MARK:
                        value = parse_mark(cells[at])
                    else:
                        value = self._area(cells[at], box, frame) * math.prod(frame.stored)
                except ValueError as error:
                    detail = f"{where}, column {column!r}: {cells[at][:40]!r} {error}"
                    raise RejectedImageError(Reason.BAD_CELL, detail) from None
                sources[source].append(value)
        return sources

    def _masks(self, objects: Sequence[Row], column: str, frame: Frame) -> list[bytes]:
        # This imports Pillow, which other layouts do not need.
        from transforms.images.masks import ObjectMasks

        made = ObjectMasks(frame, is_upright=self._rules.orientation == "upright")
        texts = [cells[self._at[column]] for _, _, cells in objects]
        # Before the first of them is drawn.
        made.check_cost(len({*texts} - {""}))
        masks: list[bytes] = []
        for (where, _, _), text in zip(objects, texts, strict=True):
            try:
                masks.append(made.mask(text))
            except RejectedImageError as error:
                if error.reason is Reason.TOO_COSTLY:
                    # It says something about all of them.
                    raise
                detail = f"{where}, column {column!r}: {error.detail}"
                raise RejectedImageError(error.reason, detail) from None
        return masks

    def _box(self, where: str, cells: Sequence[str], frame: Frame) -> Box:
        numbers = []
        for part, column in zip(FORMS[self._rules.form], self._rules.columns, strict=True):
            text = cells[self._at[column]]
            try:
                numbers.append(float(text))
            except ValueError:
                problem = f"{text[:40]!r} is not a number" if text else "the cell is empty"
                detail = f"{where}, column {column!r} ({part}): {problem}"
                raise RejectedImageError(Reason.BAD_BOX, detail) from None
        try:
            return located(numbers, self._rules, frame)
        except BoxError as error:
            hint = ""
            if frame.tag > 4 and self._rules.units == "pixel":
                other = "upright" if self._rules.orientation == "stored" else "stored"
                with contextlib.suppress(BoxError):
                    located(numbers, self._rules._replace(orientation=other), frame)
                    hint = f"; EXIF turns this image, and --box_orientation {other} puts it inside"
            raise RejectedImageError(Reason.BAD_BOX, f"{where}: {error}{hint}") from None

    def _area(self, text: str, box: Box, frame: Frame) -> float:
        """The area of an object as a fraction of its image's; for an empty cell, that of its box.

        Raises:
            ValueError: the cell is not a number from 0.
        """
        if not text:
            return box.area
        try:
            area = float(text)
        except ValueError:
            area = math.nan
        if not 0 <= area <= LARGEST_FLOAT:
            raise ValueError("is not an area, a number from 0")
        if self._rules.units == "normalized" and area <= 1:
            return area
        return area / (frame.height * frame.width)


def parse_mark(text: str) -> int:
    """The flag of an object in a cell, such as crowd: 1 if true, 0 if false or unknown.

    Open Images writes -1 for unknown.

    Raises:
        ValueError: it is not a flag.

    >>> [parse_mark(text) for text in ("1", "0.0", "-1", "", "True")]
    [1, 0, 0, 0, 1]
    """
    if _FALSE.fullmatch(text):
        return 0
    if _TRUE.fullmatch(text):
        return 1
    raise ValueError("is neither 0 nor 1")


# Features from the rows of an image.

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
    columns = [feature.column for feature in rows if feature.column is not None]
    of_boxes = boxes.all_columns if boxes else ()
    return RowRequirements(
        columns=tuple(dict.fromkeys([*columns, *of_boxes])),
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

    def of(self, image: ShardImage, frame: Frame) -> Values:
        """The values of the features that rows fill.

        Args:
            image: with its rows.
            frame: of the image, for boxes.

        Raises:
            RejectedImageError: with reason `BAD_CELL`, `BAD_BOX` or `ROW_CONFLICT`; the detail
                names row and column.
        """
        if not self._features:
            return {}
        rows = parsed_rows(image.cells)
        sources: dict[str, list[Any]] = {}
        if self._objects is not None:
            sources |= self._objects.values(rows, frame)
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
