"""Infers column types: the narrowest type that fits, and the cell that decided it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from transforms.core.decisions import Decision
from transforms.core.features.cells import cell_values, in_shape, is_missing, parse_cell, split_cell
from transforms.core.features.layouts import Feature
from transforms.core.labels.label_kinds import MISSING_LABELS
from transforms.core.rejections import RejectedImageError
from transforms.core.tables.table_formats import LIST_SEPARATOR

DTYPES = ("int64", "float", "bytes")

_NOT = {"int64": "not an integer", "float": "not a number"}
_FLAG = "--layout"


class TypedRow(NamedTuple):
    """The cells of one row, and the physical line on which it starts."""

    line: int
    cells: Sequence[str]


class _Column(NamedTuple):
    """The evidence from the first cells of a column.

    Attributes:
        dtype: the narrowest type that they fit.
        decided: the first value that does not fit a narrower type, with its line.
        first: the first value.
        zeros: the first integer whose leading zeros are lost, with its line.
    """

    dtype: str
    decided: str
    first: str
    zeros: str


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
    for feature in features:
        if feature.column is None:
            typed.append(feature)
            continue
        what = f"type of {feature.name}"
        at = columns.index(feature.column)
        because = "the type of the column in the file" if feature.name in of_file else "given"
        if not feature.dtype:
            column = _column(feature, kept, at)
            feature = feature._replace(dtype=column.dtype)
            because = _because(column)
        typed.append(feature)
        because = "; ".join([because, *_lost(feature, kept, at)])
        decisions.append(Decision(what, feature.type or feature.dtype, because, _FLAG))
    return tuple(typed), decisions


def column_parts(feature: Feature, cells: Iterable[str]) -> set[str]:
    """The non-empty values in some cells of a column."""
    parts = {part for cell in cells for part in _parts(feature, cell)}
    return parts - {""}


def fits(value: str, type_: str) -> bool:
    """Whether a value has a type."""
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
    """The values of a column with their lines, its default first, without missing ones."""
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
    """How many cells have no value or do not fit the type, and how they are handled."""
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
    """Whether a cell causes its image or row to be rejected."""
    try:
        values = cell_values(feature, "", cell)
        # Without a separator, the cells of several rows make up the shape.
        if feature.separator:
            in_shape(feature, values, "")
    except RejectedImageError:
        return True
    return False
