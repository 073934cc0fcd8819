"""Parses the cells of a column: types, values and missing values."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np

from transforms.core.features.layouts import Feature
from transforms.core.labels.label_kinds import MISSING_LABELS
from transforms.core.rejections import Reason, RejectedImageError

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
    parts = [text or ""]
    if feature.separator:
        parts = split_cell(text or "", feature.separator)
    values = []
    for part in parts:
        try:
            values.append(parse_cell(part, feature.type or feature.dtype))
        except ValueError as error:
            detail = f"{where}, column {feature.column!r}: {part[:40]!r} {error}"
            raise RejectedImageError(Reason.BAD_CELL, detail) from None
    return values
