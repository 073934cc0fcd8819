"""Bounding boxes: from pixels to shares of the image, checked, and turned with the pixels."""

from __future__ import annotations

import math
from typing import NamedTuple

UNITS = ("pixel", "normalized")
SIDES = ("xmin", "xmax", "ymin", "ymax")

ROUNDING = {"pixel": 0.5, "normalized": 1e-6}
"""How far outside of the image a side may lie, by units: that much, rounding explains."""


class Box(NamedTuple):
    """A box; `x` runs to the right and `y` down, from the upper left corner of the image."""

    xmin: float
    xmax: float
    ymin: float
    ymax: float


class BoxError(ValueError):
    """A box that is not in its image, or has no area: what is wrong, in one line."""


def normalized(box: Box, *, units: str, height: int, width: int) -> Box:
    """A box as shares of the image's width and height, 0 to 1.

    A side that lies outside by no more than `ROUNDING` is put on the image's edge.

    Args:
        box: of the image in the file, before anything turns or resizes it.
        units: `pixel` or `normalized`.
        height: of that image, in pixels.
        width: likewise.

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
    """Where a normalized box lies once an EXIF orientation was applied to the pixels.

    Args:
        box: shares of the image before it was turned.
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
