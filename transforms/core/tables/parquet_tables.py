"""Label tables in Parquet, read by row groups, and only the columns that are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from transforms.core.label_errors import LabelsError
from transforms.core.shown_text import first_line
from transforms.core.tables.cell_texts import list_text, text_problem, value_text
from transforms.core.tables.csv_rows import header_names
from transforms.core.tables.table_formats import Table, TableRows

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are held as Python values at once. A dictionary makes a file of kilobytes out of as many
# texts of a megabyte as it has rows; fewer rows at once take half a microsecond more for each.
_BATCH_ROWS = 64


def parquet_table(
    binary_file: BinaryIO, wanted: Collection[str] | None, separator: str, *, path: str
) -> Table:
    """The columns of a file, and its rows, counted from 1.

    One row group at a time is in memory, as far as its columns are needed.

    Args:
        binary_file: open for reading bytes, at any position, which may change. Not closed.
        wanted: the names of the columns whose cells are needed; None for all, those that are not
            texts, numbers or lists of these with empty cells.
        separator: between the values of a list in a cell.
        path: the name of the file for messages.

    Raises:
        LabelsError: it is not Parquet, is damaged, or a needed column has no values for cells.
    """
    import pyarrow.parquet as pq

    binary_file.seek(0)
    try:
        with _damage(path):
            file = pq.ParquetFile(binary_file, pre_buffer=False)
        schema = file.schema_arrow
        names = header_names(schema.names)
    except UnicodeDecodeError as error:
        raise LabelsError(f"{path}: the name of a column is not UTF-8: rename it") from error
    kept = [at for at, name in enumerate(names) if wanted is None or name in wanted]
    types = tuple(_type_of(schema.field(at).type) for at in kept)
    for at, type_ in zip(kept, types, strict=True):
        if wanted is not None and type_ is None:
            raise LabelsError(
                f"{path}: the column {names[at]!r} is of type {schema.field(at).type}: cells are "
                "texts, numbers or lists of these; name other columns"
            )
    if len(set(schema.names)) < len(schema.names):
        raise LabelsError(f"{path} has several columns with one name: rename all but one")
    columns = [schema.names[at] for at, type_ in zip(kept, types, strict=True) if type_ is not None]
    return Table(
        tuple(names[at] for at in kept),
        _rows(
            file,
            [schema.names[at] for at in kept],
            columns,
            separator,
            path,
            is_start=wanted is None,
        ),
        tuple(type_ or "" for type_ in types),
    )


def _rows(
    file: Any, names: list[str], columns: list[str], separator: str, path: str, *, is_start: bool
) -> TableRows:
    number = 0
    with _damage(path):
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            nothing = [""] * batch.num_rows
            texts = {}
            for name in columns:
                try:
                    texts[name] = _texts(batch.column(name), separator)
                except (ValueError, OverflowError, LookupError) as error:
                    # Not UTF-8, the year 10000, or an unknown time zone.
                    if not is_start:
                        raise LabelsError(
                            f"{path}: the column {name!r} has a value that is no text "
                            f"({first_line(error)}): correct it, or name other columns"
                        ) from error
            for cells in zip(*(texts.get(name, nothing) for name in names), strict=True):
                number += 1
                yield number, list(cells), text_problem(cells)


@contextlib.contextmanager
def _damage(path: str) -> Iterator[None]:
    """Translates errors of the format; those of reading the file have a number."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise LabelsError(f"{path} is not Parquet, or is damaged: {problem[:200]}") from error


def _type_of(type_: pa.DataType) -> str | None:
    """`int64`, `float` or `bytes`, followed by ` list` for lists; None for other types."""
    from pyarrow import types

    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        of_items = _type_of(type_.value_type)
        return f"{of_items} list" if of_items and " " not in of_items else None
    if types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if types.is_null(type_):
        return ""
    if types.is_integer(type_) or types.is_boolean(type_):
        return "int64"
    if types.is_floating(type_) or types.is_decimal(type_):
        return "float"
    is_text = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    return "bytes" if is_text or types.is_temporal(type_) else None


def _texts(column: pa.Array, separator: str) -> list[str]:
    """The cells of a column."""
    from pyarrow import types

    values = column.to_pylist()
    type_ = column.type
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        if types.is_float32(type_.value_type):
            values = [None if each is None else _short(each) for each in values]
        return ["" if each is None else list_text(each, separator) for each in values]
    return list(map(value_text, _short(values) if types.is_float32(type_) else values))


def _short(values: list[float | None]) -> list[str | None]:
    """The shortest texts of 32-bit floats."""
    import numpy as np

    return [None if each is None or each != each else str(np.float32(each)) for each in values]
