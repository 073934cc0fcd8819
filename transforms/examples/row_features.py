"""Features that rows give: the types of their columns, cells, labels and objects."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from transforms.core.messages import Decision
from transforms.core.records import PlannedImage
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.boxes import FORMS, Box, BoxError, BoxRules, box_values, located
from transforms.examples.layouts import Feature, Role, source_of
from transforms.images.pixel_options import Frame
from transforms.labels.joins import RowRequirements, has_rows, parsed_rows
from transforms.labels.label_rows import LIST_SEPARATOR, LabelRow
from transforms.labels.vocabulary import MISSING_LABELS

# Parses the cells of a column: types, values and missing values.

TYPES: dict[str, str] = {
    "bool": "int64",
    "enum": "int64",
    "int32": "int64",
    "uint32": "int64",
    "int64": "int64",
    "uint64": "int64",
    "float": "float",
    "double": "float",
    "text": "bytes",
    "string": "bytes",
    "bytes": "bytes",
}
"""The types of a column, named as in the `tf.train.Example` guide, and the dtype in which each is
stored as."""

# Smallest and largest of each; an enum is an int32 (protobuf.dev/programming-guides/proto3/#enum).
_RANGES = {
    "bool": (0, 1),
    "enum": (-(2**31), 2**31 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": 1, "false": 0}
LARGEST_FLOAT = float.fromhex("0x1.fffffep127")
"""The largest number that a feature of floats holds."""


def cell_parts(feature: Feature, cell: str) -> list[str]:
    """The values in a cell of a column, as texts; one that is not a list may be empty.

    >>> cell_parts(Feature("a", "csv.a", "int64", separator=";"), "1; 2;")
    ['1', '2']
    """
    if not feature.separator:
        return [cell]
    return [part.strip() for part in cell.split(feature.separator) if part.strip()]


def parse_cell(text: str, type_: str) -> bytes | int | float:
    """The value of a cell.

    Args:
        text: the cell; not empty.
        type_: one of `TYPES`. `true` and `false` are a bool, or the int64 1 and 0.

    Raises:
        ValueError: it does not fit.

    >>> parse_cell("7", "int64"), parse_cell("1e3", "float"), parse_cell("TRUE", "bool")
    (7, 1000.0, 1)
    """
    dtype = TYPES[type_]
    if dtype == "bytes":
        return text.encode()
    if dtype == "int64":
        return _parse_integer(text, type_)
    number = float(text) if _FLOAT.fullmatch(text) else math.nan
    if not abs(number) <= LARGEST_FLOAT:
        raise ValueError("is not a 32-bit float")
    return number


@functools.lru_cache(maxsize=4096)
def parse_again(text: str, type_: str) -> bytes | int | float:
    """`parse_cell` with a cache, for repeated cells."""
    return parse_cell(text, type_)


def _parse_integer(text: str, type_: str) -> int:
    value = _BOOLEANS.get(text.lower()) if type_ in ("bool", "int64") else None
    if value is None and _INTEGER.fullmatch(text):
        value = int(text)
    smallest, largest = _RANGES[type_]
    if value is None or not smallest <= value <= largest:
        raise ValueError(f"is not of type {type_}")
    if value >= 2**63:
        raise ValueError("is above 2**63 - 1, the largest integer that an Example holds")
    return value


def in_shape(feature: Feature, values: list[Any], where: str) -> list[Any]:
    """The values, after checking that their number fits the shape of their feature, if any."""
    if feature.shape and len(values) != math.prod(feature.shape):
        wanted = f"{math.prod(feature.shape)} of shape {list(feature.shape)}"
        detail = f"{where}, column {feature.column!r}: {len(values)} values, not {wanted}"
        raise RejectedImageError(Reason.BAD_CELL, detail)
    return values


def is_missing(feature: Feature, cell: str) -> bool:
    """Whether a cell has no value, so that the default is used.

    `NA` and the like are missing numbers. A text may be `NA`, unless there is a default.

    >>> [is_missing(Feature("a", "csv.a", dtype), "NA") for dtype in ("int64", "bytes")]
    [True, False]
    """
    if not cell:
        return True
    return cell in MISSING_LABELS and (feature.dtype != "bytes" or feature.default is not None)


def cell_values(feature: Feature, where: str, cell: str) -> list[bytes | int | float]:
    """The values in one cell; none for an empty list.

    Args:
        feature: of the column.
        where: the row, for messages.
        cell: without whitespace at its ends.

    Raises:
        RejectedImageError: with reason `BAD_CELL`.
    """
    text = feature.default if is_missing(feature, cell) else cell
    if text is None and not feature.separator:
        problem = f"{cell!r} is a missing value" if cell else "the cell is empty"
        detail = f"{where}, column {feature.column!r}: {problem}; give it a default"
        raise RejectedImageError(Reason.BAD_CELL, detail)
    values = []
    for part in cell_parts(feature, text or ""):
        try:
            values.append(parse_cell(part, feature.type or feature.dtype))
        except ValueError as error:
            detail = f"{where}, column {feature.column!r}: {part[:40]!r} {error}"
            raise RejectedImageError(Reason.BAD_CELL, detail) from None
    return values


# Infers column types: the narrowest type that fits, and the cell that decided it.

DTYPES = ("int64", "float", "bytes")

_FLAG = "--layout"

# One cell of so many, or fewer, decides a type by mistake.
_ODD = 1000

_NOT_FINITE = re.compile(r"[+-]?(inf(inity)?|nan)", re.IGNORECASE)


def with_file_types(
    features: Iterable[Feature], types: Mapping[str, str]
) -> tuple[tuple[Feature, ...], frozenset[str]]:
    """The features whose columns have a type in their file, and the names of those it decided.

    A column of lists is a list of any length, unless its feature has a shape.

    Args:
        features: of a layout.
        types: of the columns, see `Table`; empty where the file has none.

    >>> (tags,), _ = with_file_types([Feature("tags", "csv.tags", "")], {"tags": "int64 list"})
    >>> tags.dtype, tags.shape
    ('int64', None)
    """
    folded = {name.casefold(): type_ for name, type_ in types.items()}
    typed, decided = [], set()
    for feature in features:
        column = feature.column or ""
        dtype, _, is_list = types.get(column, folded.get(column.casefold(), "")).partition(" ")
        if dtype and not feature.dtype:
            feature = feature._replace(dtype=dtype)
            decided.add(feature.name)
        if is_list:
            shape = feature.shape or None
            feature = feature._replace(shape=shape, separator=LIST_SEPARATOR)
        typed.append(feature)
    return tuple(typed), frozenset(decided)


def infer_types(
    features: Iterable[Feature],
    rows: Iterable[LabelRow],
    columns: Sequence[str],
    of_file: Collection[str] = (),
) -> tuple[tuple[Feature, ...], list[Decision]]:
    """The features with inferred column types, and the decisions.

    A type is the narrowest that all cells fit, including a default. Cells without a value do
    not count: empty ones, `NA` and the like. Cells that will be rejected are counted.

    Args:
        features: of a layout.
        rows: the first rows.
        columns: the names of their cells.
        of_file: the names of the features with the type that the file has.

    >>> cells = enumerate(("1", "NA", "2.5"), 2)
    >>> rows = [LabelRow("", "", line, cells=(cell,)) for line, cell in cells]
    >>> (feature,), (decision,) = infer_types([Feature("a", "csv.a", "")], rows, ["a"])
    >>> feature.dtype, decision.because
    ('float', "'2.5' (line 4) is not an integer; 1 of 3 cells missing: rejected without a default")
    """
    kept = list(rows)
    typed, decisions = [], []
    places = {name: at for at, name in enumerate(columns)}
    for feature in features:
        if feature.column is None:
            typed.append(feature)
            continue
        what = f"type of {feature.name}"
        at = places[feature.column]
        because = "the type of the column in the file" if feature.name in of_file else "given"
        if not feature.dtype:
            dtype, because = _narrowest(feature, kept, at)
            feature = feature._replace(dtype=dtype)
        typed.append(feature)
        because = "; ".join([because, *_lost(feature, kept, at)])
        decisions.append(Decision(what, feature.type or feature.dtype, because, _FLAG))
    return tuple(typed), decisions


def odd_cells(
    before: Iterable[Feature],
    features: Iterable[Feature],
    rows: Sequence[LabelRow],
    columns: Sequence[str],
) -> list[str]:
    """A warning for each column whose type was decided by one cell of thousands.

    Args:
        before: the features of a layout.
        features: the result of `infer_types` for them.
        rows: the first rows.
        columns: the names of their cells.
    """
    warnings = []
    for former, feature in zip(before, features, strict=True):
        if former.dtype or feature.column is None or feature.dtype == DTYPES[0]:
            continue
        narrower = DTYPES[DTYPES.index(feature.dtype) - 1]
        cells = _placed(feature._replace(default=None), rows, columns.index(feature.column))
        odd = ((value, place) for value, place in cells if not fits(value, narrower))
        found = list(itertools.islice(odd, len(rows) // _ODD + 1))
        if 0 < len(found) <= len(rows) // _ODD:
            value, place = found[0]
            make = "makes" if len(found) == 1 else "make"
            warnings.append(
                f"{len(found)} of {len(rows)} cells of column {feature.column!r} {make} it "
                f"{feature.dtype}, not {narrower}: {place} {_unfit(value, narrower)}; correct it, "
                "or give the type in a layout file"
            )
    return warnings


def _unfit(value: str, dtype: str) -> str:
    """Why a value is not of a type."""
    if dtype == "int64":
        is_large = value.lstrip("+-").isdigit()
        return "is outside the range of int64" if is_large else "is not an integer"
    if _NOT_FINITE.fullmatch(value):
        return "is not finite"
    is_large = _FLOAT.fullmatch(value) is not None
    return "is outside the range of 32-bit floats" if is_large else "is not a number"


def fits(value: str, type_: str) -> bool:
    """Whether a value has a type."""
    try:
        parse_cell(value, type_)
    except ValueError:
        return False
    return True


def _narrowest(feature: Feature, rows: Sequence[LabelRow], at: int) -> tuple[str, str]:
    """The narrowest type that the cells of a column fit, and why."""
    distinct: dict[str, LabelRow] = {}
    for row in rows:
        distinct.setdefault(row.cells[at], row)
    places: dict[str, str] = {}
    for value, place in _placed(feature, distinct.values(), at):
        places.setdefault(value, place)
    if not places:
        return "bytes", "no cell has a value"
    dtypes = iter(DTYPES)
    dtype, decided = next(dtypes), ""
    for value, place in places.items():
        while not fits(value, dtype):
            decided, dtype = f"{place} {_unfit(value, dtype)}", next(dtypes)
    if decided:
        return dtype, decided
    padded = (value for value in places if len(value) > 1 and value[0] == "0" and value.isdigit())
    zeros = next(padded, None)
    lost = f"; {places[zeros]} loses its zeros" if zeros else ""
    return dtype, f"all are integers, first {next(iter(places.values()))}{lost}"


def _placed(feature: Feature, rows: Iterable[LabelRow], at: int) -> Iterator[tuple[str, str]]:
    """The values of a column with their lines, its default first, without missing ones."""
    for part in cell_parts(feature, feature.default or ""):
        if part:
            yield part, f"{part[:40]!r} (default)"
    for row in rows:
        cell = row.cells[at]
        if cell and cell not in MISSING_LABELS:
            for part in cell_parts(feature, cell):
                yield part, f"{part[:40]!r} (line {row.line})"


def _lost(feature: Feature, rows: Sequence[LabelRow], at: int) -> Iterator[str]:
    """How many cells have no value or do not fit the type, and how they are handled."""
    cells = [row.cells[at] for row in rows]
    distinct = {*cells}
    rejected = {cell for cell in distinct if _is_rejected(feature, cell)}
    missing = {cell for cell in distinct if is_missing(feature, cell)}
    if missing:
        result = "empty lists" if feature.default is None else f"read as {feature.default!r}"
        result = "rejected without a default" if rejected & missing else result
        count = sum(cell in missing for cell in cells)
        yield f"{count} of {len(rows)} cells missing: {result}"
    rejected -= missing
    if rejected and (unfit := [row for row in rows if row.cells[at] in rejected]):
        first = f"{unfit[0].cells[at][:40]!r} (line {unfit[0].line})"
        yield f"{len(unfit)} of {len(rows)} cells do not fit, first {first}: rejected"


def _is_rejected(feature: Feature, cell: str) -> bool:
    """Whether a cell causes its image or row to be rejected."""
    try:
        values = cell_values(feature, "", cell)
        # Without a separator, the cells of several rows make up the shape.
        if feature.separator:
            in_shape(feature, values, "")
    except RejectedImageError:
        return True
    return False


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
            RejectedImageError: with reason `BAD_BOX` or `BAD_CELL`, or see `ObjectMasks.mask`; the
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
                    hint = (
                        f"; EXIF turns this image, and --boxes orientation={other} puts it inside"
                    )
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


def class_values(name: str, classes: Iterable[tuple[int, str]]) -> Values:
    """The values of the sources of class ids and class names, which begin with a name."""
    classes = list(classes)
    return {
        f"{name}.ids": [class_id for class_id, _ in classes],
        f"{name}.texts": [text.encode() for _, text in classes],
    }


class RowValues:
    """Computes the values of a layout's features from the rows of an image.

    Picklable.
    """

    def __init__(self, features: Sequence[Feature], *, boxes: BoxRules | None = None) -> None:
        """Sets the layout.

        Args:
            features: of the layout.
            boxes: the meaning of the box columns, if there are any.
        """
        self._features = tuple(feature for feature in features if feature.from_rows)
        columns = row_requirements(features, boxes=boxes).columns
        self._at = {name: at for at, name in enumerate(columns)}
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

    def of(self, image: PlannedImage, frame: Frame) -> Values:
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
        sources |= class_values("object", labels) | class_values("label", dict.fromkeys(labels))
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

    def check_cells(self, image: PlannedImage) -> None:
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
        return in_shape(feature, lists[0], rows[0][0]) if feature.holds_many else lists[0][0]


def _is_plain(feature: Feature) -> bool:
    """Whether a cell is one value, and is missing only if it is empty or does not fit."""
    return not feature.holds_many and (feature.dtype != "bytes" or feature.default is None)


def _where(place: tuple[str, int]) -> str:
    """A row for messages, without the folder of its CSV, which must not change the output."""
    return f"{os.path.basename(place[0])}:{place[1]}"
