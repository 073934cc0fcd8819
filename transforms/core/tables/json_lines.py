"""Label tables in JSON Lines: one object a line, whose members are the columns."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from transforms.core.label_errors import LabelsError
from transforms.core.planning.keys import nfc
from transforms.core.tables.cell_texts import list_text, text_problem, value_text
from transforms.core.tables.csv_lines import MAX_ROW, ReadableBytes, read_lines
from transforms.core.tables.table_formats import Table, TableRows

# Lines that are searched for the names of columns.
_FIRST_LINES = 1000


def json_lines_start(binary_file: ReadableBytes, separator: str, *, path: str) -> Table:
    """The columns of a file, and its first rows.

    The columns are the members of the first 1,000 objects, or of fewer long ones; one with a text
    among their values has texts, however they read, and one with a list has lists.

    Args:
        binary_file: open for reading bytes; gzip is recognized by its first bytes. Not closed.
        separator: between the values of a list in a cell.
        path: the name of the file for messages.

    Raises:
        LabelsError: no line is an object, or the text cannot be decoded.
    """
    lines = _first_lines(read_lines(binary_file, path=path, what="JSONL"))
    first = list(itertools.islice(_objects(lines), _FIRST_LINES))
    values: dict[str, list[Any]] = {}
    for _, row, _ in first:
        for name, value in (row or {}).items():
            values.setdefault(name, []).append(value)
    if not values:
        problem = first[0][2] if first else "it is empty"
        raise LabelsError(f"{path}: {problem}: write one JSON object per line")
    names = tuple(values)
    for name in names:
        if text_problem([name]):
            raise LabelsError(f"{path}: the column name {name[:60]!r} is no text: rename it")
    types = tuple(_type_of(values[name]) for name in names)
    return Table(names, _rows(iter(first), names, separator, is_start=True), types)


def json_lines_table(
    binary_file: ReadableBytes, names: Sequence[str], separator: str, *, path: str
) -> Table:
    """All rows, with the cells of some columns; an object without a member has an empty cell.

    Args:
        binary_file: open for reading bytes; gzip is recognized by its first bytes. Not closed.
        names: of the columns.
        separator: between the values of a list in a cell.
        path: the name of the file for messages.

    Raises:
        LabelsError: the text cannot be decoded.
    """
    lines = read_lines(binary_file, path=path, what="JSONL")
    return Table(tuple(names), _rows(_objects(lines), names, separator))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, with the names of columns.

    Raises:
        ValueError: there are two with one name.
    """
    members = {nfc(name.strip()): value for name, value in pairs}
    if len(members) < len(pairs):
        raise ValueError("two members have one name")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


def _first_lines(lines: Iterator[str]) -> Iterator[str]:
    """The lines up to about the length of the longest one, since they are held in memory."""
    held = 0
    for line in lines:
        yield line
        held += len(line)
        if held > MAX_ROW:
            break


def _objects(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """The objects with their lines, or what is wrong with a line."""
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            row = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            yield number, None, f"it is not JSON ({str(error).partition(': line')[0]})"
            continue
        if not isinstance(row, dict):
            yield number, None, "it is not a JSON object"
            continue
        yield number, row, ""


def _rows(
    objects: Iterator[tuple[int, dict[str, Any] | None, str]],
    names: Sequence[str],
    separator: str,
    *,
    is_start: bool = False,
) -> TableRows:
    for number, row, problem in objects:
        if row is None:
            yield number, [], problem
            continue
        cells = []
        for name in names:
            value = row.get(name)
            if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
                try:
                    cells.append(list_text(value, separator))
                except ValueError as error:
                    cells.append("")
                    problem = problem or f"{name!r}: {error}"
            elif isinstance(value, dict | list):
                cells.append("")
                problem = problem or f"{name!r} holds a nested object: only lists of values fit"
            else:
                cells.append(value_text(value))
        # An object in a column that nobody needs is no problem.
        yield number, cells, "" if is_start else problem or text_problem(cells)


def _type_of(values: Sequence[Any]) -> str:
    """`bytes` for texts, and what lists hold; empty if the cells decide."""
    if any(isinstance(value, list) for value in values):
        items = [each for value in values if isinstance(value, list) for each in value]
        return f"{_type_of_items(items)} list"
    return "bytes" if any(isinstance(value, str) for value in values) else ""


def _type_of_items(items: Sequence[Any]) -> str:
    present = [item for item in items if item is not None]
    if present and all(isinstance(item, int) for item in present):
        return "int64"
    is_number = present and all(isinstance(item, int | float) for item in present)
    return "float" if is_number else "bytes"
