"""Infers whether boxes refer to the stored pixels, or to the image after EXIF rotation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.resolve.box_flags import ChosenBoxes
from transforms.core.decisions import Decision, given
from transforms.core.features.boxes import ORIENTATIONS, BoxError, BoxRules, located
from transforms.core.formats.exif import orientation_tag
from transforms.core.formats.headers import BrokenHeaderError, image_format, read_header
from transforms.core.tables.csv_rows import LabelRow
from transforms.storage.files import storage_of
from transforms.storage.read_ahead import ReadAhead

# Images of the first rows whose headers are read, and how many bytes of each: EXIF blocks have up
# to 64 KB, and the size of a JPEG comes after them.
_IMAGES = 32
_HEAD_BYTES = 256 << 10

_FLAG = "--box_orientation"

Locate = Callable[[LabelRow], str | None]
"""Finds the image file of a row, or None if it is not known."""


class _Seen(NamedTuple):
    """The header of an image."""

    height: int
    width: int
    tagged: int


def with_orientation(
    boxes: ChosenBoxes,
    flag: str | None,
    rows: Sequence[LabelRow],
    columns: Sequence[str],
    locate: Locate,
) -> ChosenBoxes:
    """Infers the orientation from the first images and their boxes, unless a flag gives it.

    Only pixel boxes of an image that EXIF rotates by 90 degrees are informative: they may fit
    only one of its two shapes.

    Args:
        boxes: with units.
        flag: `--box_orientation`, or None.
        rows: the first rows.
        columns: the names of their cells.
        locate: finds the image of a row.

    Raises:
        UsageError: some boxes fit only the stored pixels, and others only the rotated image.
    """
    rules, decisions = boxes
    if flag is not None:
        return boxes._replace(decisions=(*decisions, given("boxes are of", _name(flag), _FLAG)))
    by_image = _by_image(rows, locate) if rules.units == "pixel" else {}
    at = [columns.index(name) for name in rules.columns]
    only: dict[str, str] = {}
    turned = 0
    for uri, seen in zip(by_image, ReadAhead().map(_inspect, by_image), strict=True):
        if seen is None or seen.tagged <= 4:
            continue
        turned += 1
        for row in by_image[uri]:
            fitting = _fitting([row.cells[index] for index in at], rules, seen)
            if len(fitting) == 1:
                only.setdefault(fitting[0], f"line {row.line}, {uri}")
    if len(only) == 2:
        raise UsageError(
            f"boxes contradict each other: {only['stored']} has one that fits only the stored "
            f"pixels, {only['upright']} one that fits only the image after EXIF rotation; correct "
            f"them, or give {_FLAG}"
        )
    value = next(iter(only), "stored")
    if only:
        because = f"only this fits the box in {only[value]}"
    elif rules.units != "pixel":
        because = "default: normalized boxes give no evidence"
    elif turned:
        because = f"default: boxes fit both ways in {turned} images that EXIF rotates"
    else:
        because = f"default: EXIF turns none of the first {len(by_image)} images"
    decided = Decision("boxes are of", _name(value), because, _FLAG)
    return ChosenBoxes(rules._replace(orientation=value), (*decisions, decided))


def _by_image(rows: Sequence[LabelRow], locate: Locate) -> dict[str, list[LabelRow]]:
    """The images of the first rows, each with its rows."""
    found: dict[str, list[LabelRow]] = {}
    for row in rows:
        uri = locate(row)
        if uri is None:
            continue
        if uri not in found and len(found) == _IMAGES:
            break
        found.setdefault(uri, []).append(row)
    return found


def _name(orientation: str) -> str:
    return {"stored": "stored pixels", "upright": "upright picture"}[orientation]


def _inspect(uri: str) -> _Seen | None:
    """Size and EXIF orientation of an image; None if its header does not have them."""
    with contextlib.suppress(OSError, BrokenHeaderError):
        data = storage_of(uri).read_range(uri, 0, _HEAD_BYTES)
        if format_ := image_format(data):
            header = read_header(data, format_)
            return _Seen(header.height, header.width, orientation_tag(data, format_))
    return None


def _fitting(cells: Sequence[str], rules: BoxRules, seen: _Seen) -> list[str]:
    """The orientations in which a box is inside its image."""
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return []
    if not all(map(math.isfinite, numbers)):
        return []
    found = []
    for orientation in ORIENTATIONS:
        with contextlib.suppress(BoxError):
            located(
                numbers,
                rules._replace(orientation=orientation),
                height=seen.height,
                width=seen.width,
                tagged=seen.tagged,
            )
            found.append(orientation)
    return found
