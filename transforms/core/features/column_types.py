"""The types of columns that nobody gave: the narrowest that fits, and the cell that decided it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from transforms.core.decisions import Decision
from transforms.core.features.cells import cell_values, in_shape, is_missing, parse_cell, split_cell
from transforms.core.features.layouts import Feature
from transforms.core.labels.label_kinds import MISSING_LABELS
from transforms.core.rejections import RejectedImageError

DTYPES = ("int64", "float", "bytes")

_NOT = {"int64": "no integer", "float": "no number"}
_FLAG = "--layout"


class TypedRow(NamedTuple):
    """The cells of one row, and the physical line on which it starts."""

    line: int
    cells: Sequence[str]


class _Column(NamedTuple):
    """What the first cells of a column say.

    Attributes:
        dtype: the narrowest that they fit.
        decided: the first value that is nothing narrower, with its line.
        first: the first value.
        zeros: the first integer whose leading zeros are lost, with its line.
    """

    dtype: str
    decided: str
    first: str
    zeros: str


def infer_types(
    features: Iterable[Feature], rows: Iterable[TypedRow], columns: Sequence[str]
) -> tuple[tuple[Feature, ...], list[Decision]]:
    """The features with the types of columns that were not given, and why they are so.

    A type is the narrowest that all cells fit, a default among them. Cells that hold no value do
    not count: empty ones, `NA` and such. Cells that will be rejected are counted.

    Args:
        features: of a layout.
        rows: the first rows.
        columns: the names of their cells.

    >>> rows = [TypedRow(2, ("1",)), TypedRow(3, ("NA",)), TypedRow(4, ("2.5",))]
    >>> (feature,), (decision,) = infer_types([Feature("a", "csv.a", "")], rows, ["a"])
    >>> feature.dtype, decision.because
    ('float', "'2.5' (line 4) is no integer; 1 of 3 cells missing: rejected without a default")
    """
    kept = list(rows)
    typed, decisions = [], []
    for feature in features:
        if feature.column is None:
            typed.append(feature)
            continue
        what = f"type of {feature.name}"
        at, because = columns.index(feature.column), "given"
        if not feature.dtype:
            column = _column(feature, kept, at)
            feature = feature._replace(dtype=column.dtype)
            because = _because(column)
        typed.append(feature)
        because = "; ".join([because, *_lost(feature, kept, at)])
        decisions.append(Decision(what, feature.type or feature.dtype, because, _FLAG))
    return tuple(typed), decisions


def column_parts(feature: Feature, cells: Iterable[str]) -> set[str]:
    """The values in some cells of a column that are not empty."""
    parts = {part for cell in cells for part in _parts(feature, cell)}
    return parts - {""}


def fits(value: str, type_: str) -> bool:
    """Whether a value is of a type."""
    try:
        parse_cell(value, type_)
    except ValueError:
        return False
    return True


def _parts(feature: Feature, cell: str) -> list[str]:
    return split_cell(cell, feature.separator) if feature.separator else [cell]


def _column(feature: Feature, rows: Sequence[TypedRow], at: int) -> _Column:
    dtypes = iter(DTYPES)
    dtype, decided, first, zeros = next(dtypes), "", "", ""
    seen: set[str] = set()
    for value, place in _placed(feature, rows, at):
        if value in seen:
            continue
        seen.add(value)
        first = first or place
        if not zeros and len(value) > 1 and value[0] == "0" and value.isdigit():
            zeros = place
        while not fits(value, dtype):
            dtype, decided = next(dtypes), place
    return _Column(dtype if seen else "bytes", decided, first, zeros)


def _placed(feature: Feature, rows: Iterable[TypedRow], at: int) -> Iterator[tuple[str, str]]:
    """The values of a column with their places, its default first; missing ones left out."""
    for part in _parts(feature, feature.default or ""):
        if part:
            yield part, f"{part[:40]!r} (default)"
    for row in rows:
        cell = row.cells[at]
        if cell and cell not in MISSING_LABELS:
            for part in _parts(feature, cell):
                yield part, f"{part[:40]!r} (line {row.line})"


def _because(column: _Column) -> str:
    if not column.first:
        return "no cell has a value"
    if column.decided:
        return f"{column.decided} is {_NOT[DTYPES[DTYPES.index(column.dtype) - 1]]}"
    zeros = f"; {column.zeros} loses its zeros" if column.zeros else ""
    return f"all are integers, first {column.first}{zeros}"


def _lost(feature: Feature, rows: Sequence[TypedRow], at: int) -> Iterator[str]:
    """How many cells hold no value, and how many do not fit the type, with what becomes of them."""
    problems: dict[str, bool] = {}
    missing = unfit = 0
    first = ""
    for row in rows:
        cell = row.cells[at]
        if cell not in problems:
            problems[cell] = _is_rejected(feature, cell)
        if is_missing(feature, cell):
            missing += 1
        elif problems[cell]:
            unfit += 1
            first = first or f"{cell[:40]!r} (line {row.line})"
    if missing:
        is_rejected = any(problems[cell] for cell in problems if is_missing(feature, cell))
        result = "empty lists" if feature.default is None else f"read as {feature.default!r}"
        result = "rejected without a default" if is_rejected else result
        yield f"{missing} of {len(rows)} cells missing: {result}"
    if unfit:
        yield f"{unfit} of {len(rows)} cells do not fit, first {first}: rejected"


def _is_rejected(feature: Feature, cell: str) -> bool:
    """Whether a cell rejects its image or row."""
    try:
        values = cell_values(feature, "", cell)
        # Without a separator, the cells of several rows make up the shape.
        if feature.separator:
            in_shape(feature, values, "")
    except RejectedImageError:
        return True
    return False
