"""The objects in an image: boxes and further columns of its rows, as values of features."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.core.features.boxes import FORMS, SIDES, Box, BoxError, BoxRules, located
from transforms.core.features.cells import LARGEST_FLOAT
from transforms.core.features.feature_sources import Role, source_of
from transforms.core.images.pixel_options import Original
from transforms.core.rejections import Reason, RejectedImageError

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

    def values(
        self, rows: Sequence[Row], original: Original, *, tagged: int, stored: tuple[int, int]
    ) -> dict[str, list[Any]]:
        """Lists by source, with a value for each object.

        A row without a label, a box and further values lists an image without objects.

        Args:
            rows: of the image.
            original: size and rotation of its pixels.
            tagged: EXIF orientation of the file, 1 to 8.
            stored: height and width of the pixels in the dataset.

        Raises:
            RejectedImageError: with reason `BAD_BOX` or `BAD_CELL`, or see `object_mask`; the
                detail names the row.
        """
        objects = [row for row in rows if row[1] or any(row[2][at] for at in self._cells)]
        boxes = [self._box(where, cells, original, tagged) for where, _, cells in objects]
        sources: dict[str, list[Any]] = {
            f"box.{side}": [getattr(box, side) for box in boxes] for side in SIDES
        }
        for source, column in self._rules.further:
            at = self._at[column]
            if source_of(source).role is Role.OBJECT_MASK:
                sources[source] = self._masks(objects, column, original, tagged, stored)
                continue
            sources[source] = []
            for (where, _, cells), box in zip(objects, boxes, strict=True):
                try:
                    if source_of(source).dtype == "bytes":
                        value: float | bytes = cells[at].encode()
                    elif source_of(source).role is Role.MARK:
                        value = parse_mark(cells[at])
                    else:
                        value = self._area(cells[at], box, original) * math.prod(stored)
                except ValueError as error:
                    detail = f"{where}, column {column!r}: {cells[at][:40]!r} {error}"
                    raise RejectedImageError(Reason.BAD_CELL, detail) from None
                sources[source].append(value)
        return sources

    def _masks(
        self,
        objects: Sequence[Row],
        column: str,
        original: Original,
        tagged: int,
        stored: tuple[int, int],
    ) -> list[bytes]:
        # This imports Pillow, which other layouts do not need.
        from transforms.core.features.segmentations import MAX_MASKS, object_mask
        from transforms.core.images.masks import MaskFrame

        height, width, applied = original
        frame = MaskFrame(height, width, tagged, applied != 1, stored, False)
        is_upright = self._rules.orientation == "upright"
        masks: list[bytes] = []
        held = 0
        for where, _, cells in objects:
            try:
                mask = object_mask(cells[self._at[column]], frame, is_upright=is_upright)
            except RejectedImageError as error:
                detail = f"{where}, column {column!r}: {error.detail}"
                raise RejectedImageError(error.reason, detail) from None
            masks.append(mask)
            held += len(mask)
            if held > MAX_MASKS:
                detail = f"the masks of its objects have more than {MAX_MASKS} bytes"
                raise RejectedImageError(Reason.TOO_COSTLY, detail)
        return masks

    def _box(self, where: str, cells: Sequence[str], original: Original, tagged: int) -> Box:
        numbers = []
        for part, column in zip(FORMS[self._rules.form], self._rules.columns, strict=True):
            text = cells[self._at[column]]
            try:
                numbers.append(float(text))
            except ValueError:
                problem = f"{text[:40]!r} is not a number" if text else "the cell is empty"
                detail = f"{where}, column {column!r} ({part}): {problem}"
                raise RejectedImageError(Reason.BAD_BOX, detail) from None

        def place(rules: BoxRules) -> Box:
            height, width, applied = original
            return located(
                numbers, rules, height=height, width=width, tagged=tagged, applied=applied
            )

        try:
            return place(self._rules)
        except BoxError as error:
            hint = ""
            if tagged > 4 and self._rules.units == "pixel":
                other = "upright" if self._rules.orientation == "stored" else "stored"
                with contextlib.suppress(BoxError):
                    place(self._rules._replace(orientation=other))
                    hint = f"; EXIF turns this image, and --box_orientation {other} puts it inside"
            raise RejectedImageError(Reason.BAD_BOX, f"{where}: {error}{hint}") from None

    def _area(self, text: str, box: Box, original: Original) -> float:
        """The area of an object as a fraction of its image's; for an empty cell, that of its box.

        Raises:
            ValueError: the cell is not a number from 0.
        """
        if not text:
            return (box.xmax - box.xmin) * (box.ymax - box.ymin)
        try:
            area = float(text)
        except ValueError:
            area = math.nan
        if not 0 <= area <= LARGEST_FLOAT:
            raise ValueError("is not an area, a number from 0")
        if self._rules.units == "normalized" and area <= 1:
            return area
        return area / (original.height * original.width)


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
