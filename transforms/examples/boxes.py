"""Bounding boxes: from the numbers of a row to normalized coordinates that follow the pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from transforms.images.pixel_options import Frame

UNITS = ("pixel", "normalized")
SIDES = ("xmin", "xmax", "ymin", "ymax")
ORIENTATIONS = ("stored", "upright")

FORMS: dict[str, tuple[str, str, str, str]] = {
    "corners": ("xmin", "ymin", "xmax", "ymax"),
    "xywh": ("x", "y", "width", "height"),
    "center": ("center x", "center y", "width", "height"),
}
"""The forms of a box: two corners; the upper left corner and the size, as in COCO;
or the center and the size, as in YOLO."""

ROUNDING = {"pixel": 0.5, "normalized": 1e-6}
"""How far outside of the image a side may be because of rounding, by units."""

# The inverse of each orientation.
_UNDONE = {6: 8, 8: 6}


class Box(NamedTuple):
    """A box; `x` runs to the right and `y` down, from the upper left corner of the image."""

    xmin: float
    xmax: float
    ymin: float
    ymax: float


class BoxRules(NamedTuple):
    """The meaning of the box columns of a dataset.

    Attributes:
        columns: their names, in the order of the form.
        form: one of `FORMS`.
        units: one of `UNITS`; empty until the rows are known.
        orientation: `stored` if boxes refer to the pixels in the file, `upright` if they refer to
            the image after EXIF rotation.
        further: sources, each with the column that fills it.
    """

    columns: tuple[str, ...]
    form: str = "corners"
    units: str = ""
    orientation: str = "stored"
    further: tuple[tuple[str, str], ...] = ()

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The names of all columns, the four of the box first."""
        return (*self.columns, *(column for _, column in self.further))


class BoxError(ValueError):
    """A box is not in its image, or has no area; the message is one line."""


def normalized(box: Box, *, units: str, height: int, width: int) -> Box:
    """A box in normalized coordinates: 0 to 1, of the image's width and height.

    A side that is outside by at most `ROUNDING` is moved to the image's edge.

    Args:
        box: of the image in the file, before anything turns or scales it.
        units: `pixel` or `normalized`.
        height: of that image, in pixels.
        width: of that image, in pixels.

    Raises:
        BoxError: a side is not finite or further outside of the image, or there is no area.

    >>> normalized(Box(10, 20, 0, 50), units="pixel", height=100, width=40)
    Box(xmin=0.25, xmax=0.5, ymin=0.0, ymax=0.5)
    """
    across, down = (width, height) if units == "pixel" else (1, 1)
    slack = ROUNDING[units]
    for side, value in zip(SIDES, box, strict=True):
        most = across if side.startswith("x") else down
        if not math.isfinite(value):
            raise BoxError(f"{side} is {value}")
        if not -slack <= value <= most + slack:
            raise BoxError(f"{side} {value:g} is outside of the image, 0 to {most} ({units})")
    xmin, xmax = (min(max(side, 0), across) for side in (box.xmin, box.xmax))
    ymin, ymax = (min(max(side, 0), down) for side in (box.ymin, box.ymax))
    box = Box(xmin, xmax, ymin, ymax)
    for low, high in (("xmin", "xmax"), ("ymin", "ymax")):
        if getattr(box, low) >= getattr(box, high):
            raise BoxError(
                f"{low} {getattr(box, low):g} is not below {high} {getattr(box, high):g}"
            )
    return Box(box.xmin / across, box.xmax / across, box.ymin / down, box.ymax / down)


def turned(box: Box, orientation: int) -> Box:
    """A normalized box after an EXIF orientation was applied to the pixels.

    Args:
        box: in normalized coordinates of the image before it was turned.
        orientation: 1 (not turned) to 8, as `pixel_options.Original` has it.

    >>> turned(Box(0.0, 0.25, 0.0, 0.5), 6)
    Box(xmin=0.5, xmax=1.0, ymin=0.0, ymax=0.25)
    """
    # Orientations 5 to 8 exchange the axes; then each axis is mirrored or not.
    if orientation > 4:
        box = Box(box.ymin, box.ymax, box.xmin, box.xmax)
    if orientation in (2, 3, 6, 7):
        box = box._replace(xmin=1 - box.xmax, xmax=1 - box.xmin)
    if orientation in (3, 4, 7, 8):
        box = box._replace(ymin=1 - box.ymax, ymax=1 - box.ymin)
    return box


def box_of(numbers: Sequence[float], form: str) -> Box:
    """The box that four numbers describe, in their own units.

    >>> box_of((10, 20, 30, 40), "xywh")
    Box(xmin=10, xmax=40, ymin=20, ymax=60)
    """
    first, second, third, fourth = numbers
    if form == "corners":
        return Box(first, third, second, fourth)
    if form == "center":
        first, second = first - third / 2, second - fourth / 2
    return Box(first, first + third, second, second + fourth)


def located(numbers: Sequence[float], rules: BoxRules, frame: Frame) -> Box:
    """A box in the pixels stored in the dataset, in normalized coordinates.

    Args:
        numbers: of the box, in the order of the form.
        rules: their form, units and orientation.
        frame: of the image.

    Raises:
        BoxError: it is not in the image, or has no area.

    >>> rules = BoxRules((), units="normalized", orientation="upright")
    >>> located((0.5, 0, 1, 0.25), rules, Frame(30, 40, tag=6))
    Box(xmin=0.0, xmax=0.25, ymin=0.0, ymax=0.5)
    """
    height, width, applied, tag, _ = frame
    is_upright = rules.orientation == "upright"
    if is_upright and tag > 4:
        height, width = width, height
    box = box_of(numbers, rules.form)
    box = normalized(box, units=rules.units, height=height, width=width)
    if not is_upright:
        return turned(box, applied)
    return box if applied == tag else turned(box, _UNDONE.get(tag, tag))
