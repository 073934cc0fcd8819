"""Flags of boxes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence

from pipeline.errors import UsageError
from transforms.core.messages import Decision, given
from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import (
    AUTOML_BOXES,
    AUTOML_WIDTH,
    FORMS,
    ORIENTATIONS,
    BoxError,
    BoxRules,
    find_boxes,
    form_of,
    guess_units,
    located,
)
from transforms.examples.layouts import LayoutOptions, further_columns
from transforms.images.headers import Header, image_format, read_header
from transforms.images.pixel_options import Frame
from transforms.images.tags import orientation_tag
from transforms.labels.label_columns import find_further
from transforms.labels.label_rows import FORMATS, CsvColumns, FirstRows, LabelRow, header_names
from transforms.storage.files import storage_of
from transforms.storage.read_ahead import ReadAhead

# The box flags: the columns of boxes, their form, units and orientation.

_UNITS = "box units"


def choose_columns(
    options: LayoutOptions, columns: CsvColumns, first: FirstRows, needed: Sequence[str], path: str
) -> tuple[BoxRules, list[Decision]]:
    """The box columns, and how they were chosen; units and orientation are those of the options.

    Args:
        options: of boxes.
        columns: of the CSV.
        first: its first rows.
        needed: the sources of `layouts.OBJECT_COLUMNS` that the layout needs.
        path: the CSV, for messages.

    Raises:
        LabelsError: a column is missing or repeated.
    """
    header = header_names(first.rows[0]) if columns.has_header else []
    because = "usual names for boxes"
    if options.box_columns:
        at = tuple(
            find_further(columns, first, wanted, "--box_columns", path).at
            for wanted in options.box_columns
        )
        form = form_of([header[each] for each in at] if header else ())
        because = "given"
    elif not header and all(len(row) == AUTOML_WIDTH for row in first.rows):
        form, at, because = "corners", AUTOML_BOXES, "11 cells a row, the form of AutoML"
    else:
        form, at = find_boxes(header, path)
    further = further_columns(header, needed)
    rules = BoxRules(
        columns=tuple(header[each] if header else f"column {each + 1}" for each in at),
        form=options.box_form or form,
        units=options.box_units or FORMATS[first.format].units,
        orientation=options.box_orientation or "stored",
        further=tuple((source, header[each]) for source, each in further.items()),
    )
    what = ", ".join(FORMS[rules.form])
    why = "given" if options.box_form else f"the columns are {what}"
    is_open = not options.box_form and (options.box_columns or not header)
    if is_open and rules.form == "corners":
        why = "default for columns without such names"
    decisions = [
        Decision("box columns", ", ".join(rules.columns), because, "--box_columns"),
        Decision("box form", rules.form, why, "--box_form"),
    ]
    if rules.units and not options.box_units:
        because = f"boxes of {FORMATS[first.format].title}"
        decisions.append(Decision(_UNITS, rules.units, because, "--box_units"))
    if rules.further:
        value = ", ".join(column for _, column in rules.further)
        decisions.append(Decision("box marks", value, "usual names, stored for each object"))
    return rules, decisions


def with_units(
    rules: BoxRules, flag: str | None, rows: Sequence[LabelRow], columns: Sequence[str], path: str
) -> tuple[BoxRules, list[Decision]]:
    """Infers the units from the first rows, unless a flag or the format gives them.

    Args:
        rules: of the chosen columns.
        flag: `--box_units`, or None.
        rows: the first rows.
        columns: the names of their cells.
        path: the CSV, for messages.

    Raises:
        LabelsError: the rows contradict each other.
    """
    if rules.units:
        return rules, [given(_UNITS, flag, "--box_units")] if flag else []
    at = [columns.index(name) for name in rules.columns]
    cells = [[row.cells[index] for index in at] for row in rows]
    lines = [f"line {row.line}" for row in rows]
    units, because = guess_units(cells, rules.form, lines, path)
    return rules._replace(units=units), [Decision(_UNITS, units, because, "--box_units")]


# Infers whether boxes refer to the stored pixels, or to the image after EXIF rotation.

# Images of the first rows whose headers are read, and how many bytes of each: EXIF blocks have up
# to 64 KB, and the size of a JPEG comes after them.
_IMAGES = 32
_HEAD_BYTES = 256 << 10

_FLAG = "--box_orientation"
_NAMES = {"stored": "stored pixels", "upright": "upright picture"}

Locate = Callable[[LabelRow], str | None]
"""Finds the image file of a row, or None if it is not known."""


def with_orientation(
    rules: BoxRules,
    flag: str | None,
    rows: Sequence[LabelRow],
    columns: Sequence[str],
    locate: Locate,
) -> tuple[BoxRules, Decision]:
    """Infers the orientation from the first images and their boxes, unless a flag gives it.

    Only pixel boxes of an image that EXIF rotates by 90 degrees are informative: they may fit
    only one of its two shapes.

    Args:
        rules: with units.
        flag: `--box_orientation`, or None.
        rows: the first rows.
        columns: the names of their cells.
        locate: finds the image of a row.

    Raises:
        UsageError: some boxes fit only the stored pixels, and others only the rotated image.
    """
    if flag is not None:
        return rules, given("boxes are of", _NAMES[flag], _FLAG)
    by_image = _by_image(rows, locate) if rules.units == "pixel" else {}
    at = [columns.index(name) for name in rules.columns]
    only: dict[str, str] = {}
    turned = 0
    for uri, seen in zip(by_image, ReadAhead().map(_inspect, by_image), strict=True):
        if seen is None or seen[1] <= 4:
            continue
        turned += 1
        for row in by_image[uri]:
            fitting = _fitting([row.cells[index] for index in at], rules, *seen)
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
    decided = Decision("boxes are of", _NAMES[value], because, _FLAG)
    return rules._replace(orientation=value), decided


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


def _inspect(uri: str) -> tuple[Header, int] | None:
    """Size and EXIF orientation of an image; None if its header does not have them."""
    with contextlib.suppress(OSError, RejectedImageError):
        data = storage_of(uri).read_range(uri, 0, _HEAD_BYTES)
        if format_ := image_format(data):
            return read_header(data, format_), orientation_tag(data, format_)
    return None


def _fitting(cells: Sequence[str], rules: BoxRules, header: Header, tagged: int) -> list[str]:
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
            frame = Frame(header.height, header.width, tag=tagged)
            located(numbers, rules._replace(orientation=orientation), frame)
            found.append(orientation)
    return found
