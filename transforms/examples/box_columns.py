"""Infers the box columns of a CSV and their units from headers and rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from transforms.core.messages import LabelsError
from transforms.examples.boxes import FORMS, ROUNDING
from transforms.examples.layouts import SOURCES
from transforms.labels.label_rows import quote_names
from transforms.labels.splits import KNOWN_SPLITS, split_text

AUTOML_WIDTH = 11
"""Cells in a row of AutoML's CSV for detection: split, image, label, and four corners."""

AUTOML_BOXES = (3, 4, 7, 8)
"""The indexes of the upper left and the lower right corner in it."""

# Prefixes that tools add to the names of box columns.
_PREFIXES = ("", "bbox", "box", "bndbox", "boundingbox")

_SIZES = (("w", "h"), ("width", "height"))
_CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("minx", "miny", "maxx", "maxy"),
    ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"),
    ("xtl", "ytl", "xbr", "ybr"),
    ("left", "top", "right", "bottom"),
)
_CENTERS = (("xcenter", "ycenter"), ("centerx", "centery"), ("cx", "cy"), ("xc", "yc"))
_STARTS = (("x", "y"), ("xmin", "ymin"), ("left", "top"), ("x1", "y1"), ("x0", "y0"))

# Corners come first: a file with corners often has the image size as `width` and `height`.
_KNOWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("corners", names) for names in _CORNERS),
    *(("center", (*start, *size)) for start in _CENTERS for size in _SIZES),
    *(("xywh", (*start, *size)) for start in _STARTS for size in _SIZES),
)
_PREFIXED = [
    (form, tuple(prefix + name for name in known)) for form, known in _KNOWN for prefix in _PREFIXES
]

# With this many boxes, all with far corners above 1, the units must be pixels.
_MANY = 0.5


class FoundBoxes(NamedTuple):
    """Where boxes are in a CSV.

    Attributes:
        form: one of `boxes.FORMS`.
        columns: indexes of the four columns, in the order of the form.
    """

    form: str
    columns: tuple[int, ...]


class BoxUnits(NamedTuple):
    """Units of boxes, and the evidence for them."""

    units: str
    because: str


def find_boxes(names: Sequence[str], path: str) -> FoundBoxes:
    """The box columns, by the headers of common tools, ignoring case and punctuation.

    Args:
        names: the header's.
        path: the name of the file for messages.

    Raises:
        LabelsError: there are none, or one is missing or repeated.

    >>> find_boxes(["id", "bbox_x", "bbox_y", "bbox_width", "bbox_height"], "a.csv")
    FoundBoxes(form='xywh', columns=(1, 2, 3, 4))
    """
    folded = [_folded(name) for name in names]
    best: tuple[str, ...] = ()
    for form, wanted in _PREFIXED:
        missing = tuple(name for name in wanted if name not in folded)
        if not missing:
            return FoundBoxes(form, tuple(_only(folded, name, path) for name in wanted))
        if not best and len(missing) < len(wanted) and form == "corners":
            best = missing
    problem = "it has no box columns"
    if best:
        problem = f"it has no column {', '.join(map(repr, best))} for boxes"
    raise LabelsError(
        f"{path}: {problem}; it has {quote_names(names)}. Name them xmin, ymin, xmax, ymax or "
        "x, y, w, h, or give all four with --box_columns"
        if names
        else f"{path} has no header: give four column numbers with --box_columns"
    )


def _only(folded: Sequence[str], name: str, path: str) -> int:
    if folded.count(name) > 1:
        raise LabelsError(
            f"{path}: there are several box columns {name!r}: give all four with --box_columns"
        )
    return folded.index(name)


def _folded(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name.casefold())


def form_of(names: Sequence[str]) -> str:
    """The form that the names of four given columns suggest; `corners` for other names.

    >>> form_of(["X", "Y", "W", "H"]), form_of(["a", "b", "c", "d"])
    ('xywh', 'corners')
    """
    folded = tuple(_folded(name) for name in names)
    return next((form for form, known in _PREFIXED if folded == known), "corners")


def parse_box_columns(text: str) -> tuple[str, ...]:
    """The four columns of `--box_columns`.

    Raises:
        ValueError: they are not four.

    >>> parse_box_columns("x1, y1, x2, y2")
    ('x1', 'y1', 'x2', 'y2')
    """
    columns = tuple(name.strip() for name in text.split(","))
    if len(columns) != 4 or not all(columns) or len(set(columns)) != 4:
        raise ValueError(f"{text!r} is not four columns: write names or numbers like x,y,w,h")
    return columns


def is_automl(row: Sequence[str], is_image: Callable[[str], bool]) -> bool:
    """Whether a row has the AutoML form: split, image and label, and for detection, four corners.

    >>> is_automl(["TRAIN", "gs://b/1.jpg", "cat"], lambda cell: cell.endswith(".jpg"))
    True
    """
    if len(row) not in (3, AUTOML_WIDTH) or split_text(row[0]) not in ("", *KNOWN_SPLITS):
        return False
    return is_image(row[1]) and all(_is_number(cell) for cell in row[3:] if cell.strip())


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def further_columns(names: Sequence[str], sources: Iterable[str]) -> dict[str, int]:
    """The further columns of objects that the CSV has, by source.

    Args:
        names: the header's.
        sources: those with columns that the layout needs.

    >>> further_columns(["XMin", "IsGroupOf"], ["object.area", "object.group_of"])
    {'object.group_of': 1}
    """
    folded = [_folded(name) for name in names]
    found = {}
    for source in sources:
        at = [folded.index(name) for name in SOURCES[source].columns if name in folded]
        if at:
            found[source] = at[0]
    return found


def guess_units(
    boxes: Iterable[Sequence[str]], form: str, where: Callable[[int], str], path: str
) -> BoxUnits:
    """Infers the units of boxes from their far corners: almost no pixel box ends within 1.

    Args:
        boxes: the four cells of each of the first rows.
        form: of the boxes.
        where: the place of a row by its number from 0, for messages.
        path: the name of the file for messages.

    Raises:
        LabelsError: most boxes are normalized, and some cannot be.
    """
    large: list[tuple[int, str]] = []
    count = 0
    for at, cells in enumerate(boxes):
        if not all(map(_is_number, cells)):
            continue
        numbers = [float(cell) for cell in cells]
        count += 1
        side = max(range(4), key=lambda index: numbers[index])
        if numbers[side] > 1 + ROUNDING["normalized"]:
            large.append((at, f"{FORMS[form][side]} {cells[side]}"))
    if not large:
        because = f"no number is above 1 in the first {count} boxes"
        return BoxUnits("normalized", because if count else "the first rows have no boxes")
    first = f"{large[0][1]} in {where(large[0][0])}"
    if len(large) < _MANY * count:
        shown = ", ".join(f"{what} in {where(at)}" for at, what in large[:3])
        raise LabelsError(
            f"{path}: {count - len(large)} of the first {count} boxes are within 0 to 1, as "
            f"normalized coordinates are, but {len(large)} are not ({shown}): correct these rows, "
            "or give --box_units"
        )
    return BoxUnits("pixel", first)
