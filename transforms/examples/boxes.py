"""Bounding boxes: their columns and units, and coordinates that follow the pixels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from transforms.core.messages import LabelsError
from transforms.core.option import one_of
from transforms.images.pixel_options import Frame
from transforms.labels.label_rows import quote_names
from transforms.labels.shards import KNOWN_SPLITS, split_text

UNITS = ("pixel", "normalized")
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

    @property
    def area(self) -> float:
        """Its area; of a normalized box, as a share of that of the image."""
        return (self.xmax - self.xmin) * (self.ymax - self.ymin)


SIDES = Box._fields
"""The sides of a box, in the order of its values."""


def box_values(boxes: Sequence[Box]) -> dict[str, list[float]]:
    """The values of the sources of boxes: a side of each."""
    return {f"box.{side}": [getattr(box, side) for box in boxes] for side in SIDES}


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


# Infers the box columns of a CSV and their units from headers and rows.

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


def find_boxes(names: Sequence[str], path: str) -> tuple[str, tuple[int, ...]]:
    """The box columns, by the headers of common tools, ignoring case and punctuation.

    Args:
        names: the header's.
        path: the name of the file for messages.

    Returns:
        one of `FORMS`, and the indexes of the four columns in the order of the form.

    Raises:
        LabelsError: there are none, or one is missing or repeated.

    >>> find_boxes(["id", "bbox_x", "bbox_y", "bbox_width", "bbox_height"], "a.csv")
    ('xywh', (1, 2, 3, 4))
    """
    folded = [folded_name(name) for name in names]
    best: tuple[str, ...] = ()
    for form, wanted in _PREFIXED:
        missing = tuple(name for name in wanted if name not in folded)
        if not missing:
            return form, tuple(_only(folded, name, path) for name in wanted)
        if not best and len(missing) < len(wanted) and form == "corners":
            best = missing
    problem = "it has no box columns"
    if best:
        problem = f"it has no column {', '.join(map(repr, best))} for boxes"
    elif one := next((name for name in names if folded_name(name) in _PREFIXES[1:]), ""):
        problem = f"a box is four columns of one number each, so split its column {one!r}"
    raise LabelsError(
        f"{path}: {problem}; it has {quote_names(names)}. Name them xmin, ymin, xmax, ymax or "
        "x, y, w, h, or give all four: --boxes columns=COL,COL,COL,COL"
        if names
        else f"{path} has no header: give four column numbers: --boxes columns=2,3,4,5"
    )


def _only(folded: Sequence[str], name: str, path: str) -> int:
    if folded.count(name) > 1:
        raise LabelsError(
            f"{path}: there are several box columns {name!r}: give all four with --boxes columns="
        )
    return folded.index(name)


def folded_name(name: str) -> str:
    """The name of a column without case and punctuation."""
    return re.sub(r"[\s_.-]", "", name.casefold())


def form_of(names: Sequence[str]) -> str:
    """The form that the names of four given columns suggest; `corners` for other names.

    >>> form_of(["X", "Y", "W", "H"]), form_of(["a", "b", "c", "d"])
    ('xywh', 'corners')
    """
    folded = tuple(folded_name(name) for name in names)
    return next((form for form, known in _PREFIXED if folded == known), "corners")


_PARTS = {"form": tuple(FORMS), "units": UNITS, "orientation": ORIENTATIONS}


def parse_boxes(text: str) -> BoxRules:
    """What `--boxes` says; empty where it says nothing.

    Raises:
        ValueError: a part is unknown, or has a wrong value.

    >>> parse_boxes("units=pixel,columns=x1,y1,x2,y2")
    BoxRules(columns=('x1', 'y1', 'x2', 'y2'), form='', units='pixel', orientation='', further=())
    """
    start, *pairs = re.split(r"(?:^|,)\s*(\w+)=", text)
    said = dict(zip(pairs[::2], pairs[1::2], strict=True))
    if start or len(pairs) > 2 * len(said) or not said.keys() <= {"columns", *_PARTS}:
        raise ValueError(f"{text!r} is not like form=xywh,units=pixel,columns=x,y,w,h")
    named = tuple(name.strip() for name in said.pop("columns", "").split(","))
    columns = named if any(named) else ()
    if columns and (len(columns) != 4 or not all(columns) or len(set(columns)) != 4):
        raise ValueError(f"{text!r} has not four columns: write names or numbers like x,y,w,h")
    form, units, orientation = (
        one_of(values)(said[part]) if part in said else "" for part, values in _PARTS.items()
    )
    return BoxRules(columns, form, units, orientation)


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


def guess_units(
    boxes: Iterable[Sequence[str]], form: str, places: Sequence[str], path: str
) -> tuple[str, str]:
    """Infers the units of boxes from their far corners: almost no pixel box ends within 1.

    Args:
        boxes: the four cells of each of the first rows.
        form: of the boxes.
        places: of these rows, for messages.
        path: the name of the file for messages.

    Returns:
        the units, and the evidence for them.

    Raises:
        LabelsError: most boxes are normalized, and some cannot be.
    """
    large: list[str] = []
    count = 0
    for place, cells in zip(places, boxes, strict=True):
        if not all(map(_is_number, cells)):
            continue
        numbers = [float(cell) for cell in cells]
        count += 1
        side = max(range(4), key=lambda index: numbers[index])
        if numbers[side] > 1 + ROUNDING["normalized"]:
            large.append(f"{FORMS[form][side]} {cells[side]} in {place}")
    if not large:
        because = f"no number is above 1 in the first {count} boxes"
        return "normalized", because if count else "the first rows have no boxes"
    if len(large) < _MANY * count:
        shown = ", ".join(large[:3])
        raise LabelsError(
            f"{path}: {count - len(large)} of the first {count} boxes are within 0 to 1, as "
            f"normalized coordinates are, but {len(large)} are not ({shown}): correct these rows, "
            "or give --boxes units="
        )
    return "pixel", large[0]
