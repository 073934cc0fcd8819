"""Types of columns, and the values of cells."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from transforms.core.messages import Decision
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.layouts import Feature
from transforms.labels.label_rows import LIST_SEPARATOR
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
LARGEST_FLOAT = float(np.finfo(np.float32).max)
"""The largest number that a feature of floats holds."""


def split_cell(text: str, separator: str) -> list[str]:
    """The values in a cell that is a list.

    >>> split_cell("1; 2;", ";")
    ['1', '2']
    """
    return [part.strip() for part in text.split(separator) if part.strip()]


def cell_parts(feature: Feature, cell: str) -> list[str]:
    """The values in a cell of a column, as texts; one that is not a list may be empty."""
    return split_cell(cell, feature.separator) if feature.separator else [cell]


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


class TypedRow(NamedTuple):
    """The cells of one row, and the physical line on which it starts."""

    line: int
    cells: Sequence[str]


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
    rows: Iterable[TypedRow],
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

    >>> rows = [TypedRow(2, ("1",)), TypedRow(3, ("NA",)), TypedRow(4, ("2.5",))]
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
    rows: Sequence[TypedRow],
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


def _narrowest(feature: Feature, rows: Sequence[TypedRow], at: int) -> tuple[str, str]:
    """The narrowest type that the cells of a column fit, and why."""
    places: dict[str, str] = {}
    for value, place in _placed(feature, rows, at):
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


def _placed(feature: Feature, rows: Iterable[TypedRow], at: int) -> Iterator[tuple[str, str]]:
    """The values of a column with their lines, its default first, without missing ones."""
    for part in cell_parts(feature, feature.default or ""):
        if part:
            yield part, f"{part[:40]!r} (default)"
    for row in rows:
        cell = row.cells[at]
        if cell and cell not in MISSING_LABELS:
            for part in cell_parts(feature, cell):
                yield part, f"{part[:40]!r} (line {row.line})"


def _lost(feature: Feature, rows: Sequence[TypedRow], at: int) -> Iterator[str]:
    """How many cells have no value or do not fit the type, and how they are handled."""
    cells = [row.cells[at] for row in rows]
    rejected = {cell for cell in {*cells} if _is_rejected(feature, cell)}
    missing = {cell for cell in {*cells} if is_missing(feature, cell)}
    if missing:
        result = "empty lists" if feature.default is None else f"read as {feature.default!r}"
        result = "rejected without a default" if rejected & missing else result
        count = sum(cell in missing for cell in cells)
        yield f"{count} of {len(rows)} cells missing: {result}"
    rejected -= missing
    unfit = [row for row in rows if row.cells[at] in rejected]
    if unfit:
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
