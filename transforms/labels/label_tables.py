"""Tables that label files become: JSON Lines and Parquet, and the rows of files of any format."""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from transforms.core.messages import LabelsError, first_line, without_collecting
from transforms.core.records import TablePart
from transforms.labels.annotations import (
    COCO_COLUMNS,
    SEGMENTATION,
    VOC_COLUMNS,
    YOLO_COLUMNS,
    coco_rows,
    read_coco,
    voc_rows,
    yolo_rows,
)
from transforms.labels.csv_tables import (
    CELL_BYTES,
    FREE_BYTES,
    MAX_ROW,
    MOST_TIMES,
    ROW_BYTES,
    ReadableBytes,
    Rejoined,
    check_growth,
    decoded_lines,
    has_utf8_codec,
    last_row_end,
    parse_rows,
    read_head,
    read_lines,
    read_start,
    stored_size,
)
from transforms.labels.keys import nfc
from transforms.labels.label_rows import (
    COCO,
    CSV,
    GZIP_MAGIC,
    HEAD_BYTES,
    JSONL,
    PARQUET,
    VOC,
    YOLO,
    CsvColumns,
    FirstRows,
    LabelRow,
    Table,
    TableRows,
    columns_by_name,
    find_format,
    header_names,
    label_rows,
    list_text,
    read_number,
    text_problem,
    value_text,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq


# Label tables in JSON Lines: one object a line, whose members are the columns.

# Lines that are searched for the names of columns.
_FIRST_LINES = 1000

# Characters of a list or an object in the mean: a pair of numbers has more. Of two characters, a
# megabyte takes a second.
_LIST_BYTES = 8


def json_lines_table(
    binary_file: ReadableBytes, wanted: Sequence[str] | None, *, path: str
) -> Table:
    """The columns of a file, and its rows; an object without a member has an empty cell.

    Args:
        binary_file: open for reading bytes; gzip is recognized by its first bytes. Not closed.
        wanted: the names of the columns whose cells are needed. None for all members of the first
            1,000 objects, or of fewer long ones, and only these rows: a column with a text among
            its values has texts, however they read, and one with a list has lists.
        path: the name of the file for messages.

    Raises:
        LabelsError: no line is an object, or the text cannot be decoded.
    """
    lines = read_lines(binary_file, path=path, what="JSONL")
    if wanted is not None:
        return Table(tuple(wanted), _rows_of_objects(_objects(lines, path), wanted))
    first = list(itertools.islice(_objects(_first_lines(lines), path), _FIRST_LINES))
    values: dict[str, list[Any]] = {}
    for _, row, _ in first:
        for name, value in (row or {}).items():
            values.setdefault(name, []).append(value)
    if not values:
        problem = (first[0][2] or "its objects have no members") if first else "it is empty"
        raise LabelsError(f"{path}: {problem}: write one JSON object per line")
    names = tuple(values)
    for name in names:
        if text_problem([name]):
            raise LabelsError(f"{path}: the column name {name[:60]!r} is not text: rename it")
    types = tuple(map(_type_of_values, values.values()))
    return Table(names, _rows_of_objects(iter(first), names, is_start=True), types)


def _members(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The members of an object that is a row, with the names of columns.

    Raises:
        ValueError: there are two with one name.
    """
    members = {nfc(name.strip()): value for name, value in pairs}
    if len(members) < len(pairs):
        raise ValueError("two members have one name")
    return members


# Objects become tuples of their members: of those within a row, there may be millions.
_DECODER = json.JSONDecoder(object_pairs_hook=tuple)


def _first_lines(lines: Iterator[str]) -> Iterator[str]:
    """The lines up to about the length of the longest one, since they are held in memory."""
    held = 0
    for line in lines:
        yield line
        held += len(line)
        if held > MAX_ROW:
            break


def _objects(lines: Iterator[str], path: str) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """The objects with their lines, or what is wrong with a line.

    Raises:
        LabelsError: most of the file is lists and objects.
    """
    left = FREE_BYTES
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        left += len(line) - _LIST_BYTES * (line.count("[") + line.count("{"))
        if left < 0:
            many = "more lists and objects than a table has values: leave out what is nested"
            raise LabelsError(f"{path} line {number}: it has {many}")
        try:
            row = without_collecting(_DECODER.decode, line)
            members = _members(row) if isinstance(row, tuple) else None
        except (ValueError, RecursionError) as error:
            yield number, None, f"it is not JSON ({str(error).partition(': line')[0]})"
            continue
        yield number, members, "" if members is not None else "it is not a JSON object"


def _rows_of_objects(
    objects: Iterator[tuple[int, dict[str, Any] | None, str]],
    names: Sequence[str],
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
            if isinstance(value, list) and not {list, tuple} & {*map(type, value)}:
                try:
                    cells.append(list_text(value))
                except ValueError as error:
                    cells.append("")
                    problem = problem or f"{name!r}: {error}"
            elif isinstance(value, list | tuple):
                cells.append("")
                problem = problem or f"{name!r} holds a nested object: only lists of values fit"
            else:
                cells.append(value_text(value))
        # An object in a column that nobody needs is no problem.
        yield number, cells, "" if is_start else problem or text_problem(cells)


def _type_of_values(values: Sequence[Any]) -> str:
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


# Label tables in Parquet, read by row groups, and only the columns that are needed.

# Rows that are read at once, if their texts do not take more bytes; and the bytes of those that are
# Python's at once, and of one. A file of kilobytes may have any number of texts of megabytes.
_BATCH_ROWS, _BATCH_BYTES, _FEW_BYTES, _MOST_OF_ROW = 1024, 1 << 27, 1 << 22, 1 << 24

_REMEDY = "write it as CSV"

# Arrow reads a footer at once: a byte of it may take 32. Where a zero follows another byte, a
# struct may end, and that of a column chunk takes 800. Nested columns are read by recursion, and
# each in the square of its levels; the path of a column has the names of all of them, of which
# each takes some bytes more.
_MOST_FOOTER_BYTES, _MOST_ENDS, _MOST_ITEMS, _MOST_LEVELS = 1 << 24, 3 << 18, 100_000, 32
_FEW_ITEMS, _MOST_PATHS, _PATH_BYTES = 1000, 1 << 22, 32

# Row groups of any file, and the bytes of a file for each further one: each takes a millisecond.
_MOST_GROUPS, _GROUP_BYTES = 5_000, 1 << 13

# The header of a page: writers leave longer statistics out. And the page, besides some of the file.
_MOST_HEADER, _MOST_PAGE, _MOST_PAGE_OF_BYTE = 1 << 16, 1 << 25, 12

# Bytes for which a page and its values count at least that is not the first of its column chunk: it
# takes time, and writers end one behind 20,000 values or a megabyte.
_PAGE_BYTES = 1 << 16

# Values of each page of an index but the last: our writer ends none before 1024 of them.
_LEAST_IN_PAGE = 64


def parquet_table(
    binary_file: BinaryIO,
    wanted: Collection[str] | None,
    *,
    path: str,
    groups: range | None = None,
) -> Table:
    """The columns of a file, and its rows, counted from 1.

    One row group at a time is in memory, as far as its columns are needed.

    Args:
        binary_file: open for reading bytes, at any position, which may change. Not closed.
        wanted: the names of the columns whose cells are needed; None for all, those that are not
            texts, numbers or lists of these with empty cells.
        path: the name of the file for messages.
        groups: the row groups to read; None for all.

    Raises:
        LabelsError: it is not Parquet, is damaged, holds far more than its size, or a needed column
            has no values for cells.
    """
    file, schema = open_parquet(binary_file, path)
    stored = schema.names
    names = header_names(stored)
    kept = [at for at, name in enumerate(names) if wanted is None or name in wanted]
    types = tuple(type_of_column(schema.field(at).type) for at in kept)
    for at, type_ in zip(kept, types, strict=True):
        if wanted is not None and type_ is None:
            shown = str(schema.field(at).type)[:200]
            raise LabelsError(
                f"{path}: the column {names[at]!r} is of type {shown}: cells are texts, numbers or "
                "lists of these; name other columns"
            )
    has_cells = {stored[at]: type_ is not None for at, type_ in zip(kept, types, strict=True)}
    rows = _rows_of_file(file, has_cells, path, binary_file, groups, is_start=wanted is None)
    return Table(tuple(names[at] for at in kept), rows, tuple(type_ or "" for type_ in types))


def open_parquet(binary_file: BinaryIO, path: str) -> tuple[pq.ParquetFile, pa.Schema]:
    """A Parquet file, of which only the footer is read, and its schema.

    Args:
        binary_file: open for reading bytes, at any position, which may change. Not closed.
        path: the name of the file for messages.

    Raises:
        LabelsError: it is not Parquet, or is damaged.
    """
    try:
        with parquet_damage(path):
            file = checked_parquet(binary_file)
        return file, file.schema_arrow
    except UnicodeDecodeError as error:
        raise LabelsError(f"{path}: the name of a column is not UTF-8: rename it") from error


def checked_parquet(file: BinaryIO | pa.BufferReader, **options: Any) -> pq.ParquetFile:
    """A Parquet file whose footer takes little memory and is sound.

    Args:
        file: open for reading bytes, at any position, which may change. Not closed.
        options: of `pyarrow.parquet.ParquetFile`.

    Raises:
        pyarrow.ArrowException: it is no such file.
        OSError: as above, without a number; or it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = file.seek(0, io.SEEK_END)
    # https://parquet.apache.org/docs/file-format/: the footer's length and a mark end the file.
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    if length > _MOST_FOOTER_BYTES:
        raise pa.ArrowInvalid(f"its footer would have {length} bytes, over {_MOST_FOOTER_BYTES}")
    file.seek(max(0, size - 8 - length))
    footer = file.read(length + 8)
    if footer.endswith(b"PAR1"):
        options["thrift_container_size_limit"] = _most_items(footer)
    opened = pq.ParquetFile(file, pre_buffer=False, **options)
    metadata, names = opened.metadata, opened.schema_arrow.names
    count = metadata.num_row_groups
    if count > _MOST_GROUPS + stored_size(file) // _GROUP_BYTES:
        raise pa.ArrowInvalid(f"it has {count} row groups: write fewer, each with more rows")
    groups, columns = [*map(metadata.row_group, range(count))], range(metadata.num_columns)
    if any(group.num_columns != len(columns) for group in groups):
        raise pa.ArrowInvalid("a row group has other columns than the file")
    # Of columns with one name, a read takes the square of their number.
    if len({*names}) < len(names):
        raise pa.ArrowInvalid("it has several columns with one name: rename all but one")
    # Here pyarrow raises what is damaged; outside of a read, it ends the process (Arrow 25). Its
    # reader keeps the error, and so this frame: named here, all of them would never be freed.
    reading = pq.ParquetFile(_UnreadFile(size), metadata=metadata, pre_buffer=True).iter_batches()
    with contextlib.suppress(EOFError):
        next(reading, None)
    chunks = (group.column(at) for group in groups for at in columns)
    if sum(max(0, chunk.total_compressed_size) for chunk in chunks) > size:
        raise pa.ArrowInvalid("its row groups overlap")
    return opened


@functools.lru_cache(maxsize=1)
def _most_items(footer: bytes) -> int:
    """The most items that a list of a footer has.

    Raises:
        pyarrow.ArrowInvalid: it would end Arrow's process, or take much memory or time.
    """
    import numpy as np
    import pyarrow as pa

    zeros = np.frombuffer(footer, "u1") == 0
    if np.count_nonzero(zeros[1:] > zeros[:-1]) > _MOST_ENDS:
        raise pa.ArrowInvalid("its footer has too many columns in too many row groups: write fewer")
    # Of each level, what is left to come and the bytes of its path; and those of all paths.
    levels, held = [(1, 0)], 0
    try:
        # Of columns that are said twice, Arrow believes the last, be they thousands of levels deep.
        page_header(footer, 0)
        # A version comes first, then a list of structs, the number of rows, and the row groups.
        at = read_number(footer, 1)[1]
        if (footer[0], footer[at]) != (0x15, 0x19):
            raise IndexError
        count, at = _list_start(footer, at + 1)
        for _ in range(min(count, _MOST_ITEMS)):
            begin = at
            column, at = page_header(footer, at)
            while not levels[-1][0]:
                levels.pop()
            left, path = levels.pop()
            inner = path + at - begin + _PATH_BYTES
            levels += [(left - 1, path), (max(0, column.get(5, 0)), inner)]
            held += inner
            if len(levels) > _MOST_LEVELS + 2 or held > _MOST_PATHS:
                problem = f"nests columns more than {_MOST_LEVELS} levels deep, or has too many"
                raise pa.ArrowInvalid(f"its footer {problem}: write few flat ones")
        groups, _ = _list_start(footer, read_number(footer, at + 1)[1] + 1)
    except (IndexError, TypeError):
        raise pa.ArrowInvalid("its footer is damaged") from None
    return min(max(count, groups, _FEW_ITEMS), _MOST_ITEMS)


def _list_start(footer: bytes, at: int) -> tuple[int, int]:
    """How many items a list has, and where they begin."""
    count = footer[at] >> 4
    return read_number(footer, at + 1) if count == 15 else (count, at + 1)


def _rows_of_file(
    file: Any,
    has_cells: Mapping[str, bool],
    path: str,
    binary_file: BinaryIO,
    groups: range | None,
    *,
    is_start: bool,
) -> TableRows:
    columns = [name for name, has_some in has_cells.items() if has_some]
    number = held = 0
    size = stored_size(binary_file)
    with parquet_damage(path):
        for batch in few_rows(file, columns, binary_file, groups, path):
            nothing = [""] * batch.num_rows
            texts = {}
            for name in columns:
                try:
                    texts[name] = cell_texts(batch.column(name))
                except (ValueError, OverflowError, LookupError) as error:
                    # Not UTF-8, the year 10000, or an unknown time zone.
                    if not is_start:
                        raise LabelsError(
                            f"{path}: the column {name!r} has a value that is not text "
                            f"({first_line(error)}): correct it, or name other columns"
                        ) from error
            for cells in zip(*(texts.get(name, nothing) for name in has_cells), strict=True):
                number += 1
                held += ROW_BYTES + CELL_BYTES * len(cells) + sum(map(len, cells))
                yield number, list(cells), text_problem(cells)
            check_growth(held, size, path, _REMEDY)


def few_rows(
    file: pq.ParquetFile,
    columns: Collection[str],
    binary_file: BinaryIO,
    groups: Sequence[int] | None,
    path: str,
    remedy: str = _REMEDY,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, so few at a time that their texts take little memory.

    Args:
        file: open.
        columns: the names of those to read, or the paths of parts of them.
        binary_file: the same file.
        groups: the row groups to read; None for all.
        path: the name of the file for messages.
        remedy: what to do about a file that holds far more than its size.

    Raises:
        LabelsError: it does.
        pyarrow.ArrowException: it is damaged.
    """
    import pyarrow.parquet as pq

    size, held, wanted = stored_size(binary_file), 0, {*columns}
    found = [file.schema.column(at) for at in range(len(file.schema))]
    leaves = {
        at: leaf.path
        for at, leaf in enumerate(found)
        # Of a list, it ends with two more names.
        if any(leaf.path.rsplit(".", more)[0] in wanted for more in range(3))
    }
    # One list may have a text of a dictionary any number of times: its size is to be known first.
    lists = {path for at, path in leaves.items() if found[at].physical_type == "BYTE_ARRAY"}
    if lists := lists - wanted:
        options = {"metadata": file.metadata, "pre_buffer": False}
        file = pq.ParquetFile(binary_file, read_dictionary=lists, **options)
    for number in range(file.num_row_groups) if groups is None else groups:
        group = file.metadata.row_group(number)
        most = _BATCH_ROWS
        for chunk in map(group.column, leaves):
            pages, values, largest, longest = size_of_pages(chunk, binary_file)
            # A number takes 8 bytes, of which a page may have any number in a few.
            held += max(pages, 8 * values)
            check_growth(held, size, path, remedy)
            if largest > _MOST_PAGE + _MOST_PAGE_OF_BYTE * size:
                raise LabelsError(f"{path} has a page of {largest} bytes: {remedy}")
            most = min(most, 1 + _BATCH_BYTES // max(1, longest))
        # Arrow looks at all of a dictionary for each of them.
        most = max(1, group.num_rows) if lists else most
        for batch in file.iter_batches(most, [number], [*columns], use_threads=False):
            yield from _parts(batch, path)


def _parts(batch: pa.RecordBatch, path: str) -> Iterator[pa.RecordBatch]:
    """Its rows, as many at a time as fit."""
    rows = batch.num_rows
    held = sum(map(plain_bytes, batch.columns)) if rows else 0
    if rows > 1 and held > _FEW_BYTES:
        yield from _parts(batch.slice(0, rows // 2), path)
        yield from _parts(batch.slice(rows // 2), path)
    elif held > _MOST_OF_ROW:
        raise LabelsError(
            f"{path} has a row of {held} bytes, more than {_MOST_OF_ROW}: leave it out"
        )
    else:
        yield batch


def plain_bytes(array: pa.Array) -> int:
    """The bytes of the values of an array, each repetition counted."""
    import numpy as np
    import pyarrow as pa

    if array.type == pa.dictionary(pa.int32(), pa.string()) and len(array.dictionary):
        # Every run comes here: `pyarrow.compute` takes 10 MB and 0.05 s.
        lengths = np.diff(numbers_of(array.dictionary, "<i4", 1))
        # Where nothing is, the place is 0.
        nothing = int(array.indices.null_count * lengths[0])
        return 4 * len(array) - nothing + int(lengths[numbers_of(array.indices, "<i4")].sum())
    if _is_list(array.type):
        return plain_bytes(array.flatten()) + 4 * len(array)
    if pa.types.is_struct(array.type):
        return sum(map(plain_bytes, array.flatten()))
    return int(array.nbytes)


def numbers_of(array: pa.Array, kind: str = "<i8", more: int = 0) -> np.ndarray[Any, Any]:
    """The numbers of an array, or where its texts end; `to_numpy` would import pandas."""
    import numpy as np

    return np.frombuffer(array.buffers()[1], kind)[array.offset :][: len(array) + more]


# The type of a page that holds each value of its column once, and the encoding in which a text may
# begin with the one before it.
_DICTIONARY, _DELTAS = 2, 7


def size_of_pages(
    chunk: pq.ColumnChunkMetaData, file: BinaryIO, *, is_of_index: bool = False
) -> tuple[int, int, int, int]:
    """Bytes and values of a column chunk, by its pages if these say more than the footer.

    Args:
        chunk: what the footer says.
        file: with the pages.
        is_of_index: whether a dictionary is damage that the footer does not name, texts that begin
            with others, and pages of a few values. Old writers name no dictionary.

    Returns:
        the bytes, the values, the bytes of the largest page, and those that values of a page have
        in the mean, or a single one may have.

    Raises:
        pyarrow.ArrowException: a page is damaged.
    """
    import pyarrow as pa

    size = values = largest = longest = pages = 0
    most = FREE_BYTES + MOST_TIMES * stored_size(file)
    first, other = chunk.data_page_offset, chunk.dictionary_page_offset or 0
    start = at = max(0, other if 0 < other < first else first)
    end = start + chunk.total_compressed_size
    try:
        while at < end and values < chunk.num_values:
            file.seek(at)
            header, length = page_header(file.read(min(_MOST_HEADER, end - at)), 0)
            kind, page = header[1], max(header[2], 0)
            # Of a page of either version; others have no values.
            said = header.get({0: 5, 3: 8}.get(kind), {})
            encoding, count = said.get({0: 2, 3: 4}.get(kind)), said.get(1, 0)
            is_unnamed = kind == _DICTIONARY and not chunk.has_dictionary_page
            if is_of_index and (is_unnamed or encoding == _DELTAS):
                raise IndexError
            # Only the first page may have none: of others, there may be any number.
            if count <= 0 and at > start:
                raise IndexError
            pages += values > 0
            is_slow = is_of_index and pages * _LEAST_IN_PAGE > values
            if is_slow or pages * _PAGE_BYTES - 8 * values > most:
                raise pa.ArrowInvalid("its pages hold too few rows")
            size, largest, values = size + page, max(largest, page), values + count
            is_repeated = kind == _DICTIONARY or encoding == _DELTAS
            longest = max(longest, page if is_repeated else page // max(1, count))
            at += length + max(header[3], 0)
        if at > end:
            raise IndexError
    except (AttributeError, LookupError, TypeError) as error:
        raise pa.ArrowInvalid("the header of a page is damaged") from error
    size = max(size, chunk.total_uncompressed_size, pages * _PAGE_BYTES - 8 * values)
    return size, max(values, chunk.num_values), largest, longest


def page_header(data: bytes, at: int, depth: int = 8) -> tuple[dict[int | None, Any], int]:
    """The header of a page, or a footer, as Thrift's compact protocol has it, and where it ends.

    What no writer writes is refused, since Arrow may read it in another way. See
    https://parquet.apache.org/docs/file-format/data-pages/.

    Raises:
        IndexError: it is damaged, or has a field twice.
    """
    fields: dict[int | None, Any] = {}
    number = 0
    while head := data[at]:
        number, kind, at, count = number + (head >> 4), head & 15, at + 1, 1
        if head < 16 or number > 99 or not depth:
            raise IndexError
        if kind == 9:
            # A list stores each truth value in a byte.
            kind, (count, at) = max(3, data[at] & 15), _list_start(data, at)
        for _ in range(count):
            if kind == 12:
                fields[number], at = page_header(data, at, depth - 1)
            elif kind == 3:
                at += 1
            elif kind in (4, 5, 6, 8):
                value, at = read_number(data, at)
                at += value if kind == 8 else 0
                if kind == 5 and value < 1 << 32:
                    fields[number] = value >> 1 ^ -(value & 1)
            elif kind > 2:
                raise IndexError
    return fields, at + 1


class _UnreadFile(io.BytesIO):
    """A file of a size that gives no bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def tell(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        raise EOFError


@contextlib.contextmanager
def parquet_damage(path: str) -> Iterator[None]:
    """Translates errors of the format; those of reading the file have a number."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        problem = f"{path} is not Parquet, or is damaged: {first_line(error)[:200]}"
        raise LabelsError(problem) from error


def _is_list(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return isinstance(type_, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def type_of_column(type_: pa.DataType) -> str | None:
    """`int64`, `float` or `bytes`, followed by ` list` for lists; None for other types."""
    from pyarrow import types

    if _is_list(type_):
        of_items = type_of_column(type_.value_type)
        return f"{of_items} list" if of_items and " " not in of_items else None
    if types.is_dictionary(type_):
        return type_of_column(type_.value_type)
    if types.is_null(type_):
        return ""
    if types.is_integer(type_) or types.is_boolean(type_):
        return "int64"
    if types.is_floating(type_) or types.is_decimal(type_):
        return "float"
    is_text = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    return "bytes" if is_text or types.is_temporal(type_) else None


def cell_texts(column: pa.Array) -> list[str]:
    """The cells of a column."""
    import pyarrow as pa

    types, type_ = pa.types, column.type
    if _is_list(type_) and types.is_dictionary(type_.value_type):
        # Each text of a dictionary would take a microsecond.
        column = column.cast(pa.list_(type_.value_type.value_type))
    values = column.to_pylist()
    if _is_list(type_):
        if types.is_float32(type_.value_type):
            values = [None if each is None else _short(each) for each in values]
        return ["" if each is None else list_text(each) for each in values]
    return list(map(value_text, _short(values) if types.is_float32(type_) else values))


def _short(values: list[float | None]) -> list[str | None]:
    """The shortest texts of 32-bit floats."""
    import numpy as np

    return [None if each is None or each != each else str(np.float32(each)) for each in values]


# The rows of any label file: CSV, JSON Lines, Parquet, or annotations of COCO, VOC and YOLO.

MAX_ANNOTATION = 4 << 20
"""The largest file of annotations of one image, in bytes: it is held in memory."""

_OF_ONE_IMAGE = {VOC: VOC_COLUMNS, YOLO: YOLO_COLUMNS}

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def first_rows(
    binary_file: ReadableBytes,
    n: int,
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    path: str,
) -> FirstRows:
    """The format and the first `n` rows of a table, to resolve the columns from.

    A COCO file is read to its end, for its categories.

    Args:
        binary_file: open for reading bytes at its start; Parquet is read at any position. Not
            closed.
        n: how many rows.
        encoding: a Python codec name, of a CSV.
        delimiter: between the cells of a CSV; None to find it.
        path: the name of the file for messages.

    Raises:
        LabelsError: the file cannot be read as a table, as far as these rows go.
    """
    head = read_head(binary_file, HEAD_BYTES)
    again = Rejoined(head, binary_file.read)
    format_ = find_format(path, head)
    if path.lower().endswith(".json") and head.startswith(_UTF_16):
        raise LabelsError(f"{path} is UTF-16: save it as UTF-8, as all JSON is")
    if format_ == VOC:
        raise LabelsError(
            f"{path} is XML: convert and plan read annotations of Pascal VOC, from files named .xml"
        )
    if format_ == CSV:
        lines = read_lines(again, encoding=encoding, path=path)
        found, because, lines = read_start(lines, delimiter or "")
        first = _first_of(Table((), parse_rows(lines, found, path)), n, CSV, path)
        return first._replace(delimiter=found, because=because)
    if format_ == JSONL:
        return _first_of(json_lines_table(again, None, path=path), n, JSONL)
    file = cast(BinaryIO, binary_file)
    if format_ == PARQUET:
        return _first_of(parquet_table(file, None, path=path), n, PARQUET)
    file.seek(0)
    categories, left_out, names = read_coco(file, path=path)
    # To read them as `coco_rows` does would take a second reading.
    rows = ((at, [name], text_problem([name])) for at, name in enumerate(names, 1))
    first = _first_of(Table(COCO_COLUMNS, rows), n, COCO)
    return first._replace(categories=categories, left_out=left_out)


def read_rows(
    binary_file: ReadableBytes, columns: CsvColumns, *, encoding: str = "utf-8", part: TablePart
) -> Iterator[LabelRow]:
    """Every row of a table, in order, as a stream; of a CSV, except the header and blank lines.

    Columns with names are matched by them: another file of the same glob may order its columns
    differently.

    Args:
        binary_file: open for reading bytes at its start. Not closed.
        columns: the result of `label_columns.resolve_columns`.
        encoding: a Python codec name, of a CSV.
        part: the table, or what to read of it.

    Raises:
        LabelsError: the file cannot be read as a table of its format, or lacks a column. A line
            that it names is counted from the head of the part.
    """
    path = part.path
    if columns.format != PARQUET and (part.start or part.end >= 0):
        binary_file = _opened(cast(BinaryIO, binary_file), part)
    if columns.format == CSV:
        lines = read_lines(binary_file, encoding=encoding, path=path)
        found, _, lines = read_start(lines, _given_delimiter(columns))
        rows = parse_rows(lines, found if columns.has_header else columns.delimiter, path)
        if not columns.has_header:
            return label_rows(_moved(rows, part), columns)
        header = next(rows, None)
        if header is None:
            return iter(())
        table = Table(tuple(header_names(header[1])), rows)
    elif columns.format == JSONL:
        table = json_lines_table(binary_file, columns.names, path=path)
    elif columns.format == PARQUET:
        groups = range(part.start, part.end) if part.end >= 0 else None
        file = cast(BinaryIO, binary_file)
        table = parquet_table(file, columns.names, path=path, groups=groups)
    else:
        file, asked = cast(BinaryIO, binary_file), SEGMENTATION in columns.names
        rows = coco_rows(file, columns.categories, segmentations=asked, path=path)
        table = Table(COCO_COLUMNS, rows)
    return label_rows(_moved(table.rows, part), columns_by_name(table.names, columns, path))


def _given_delimiter(columns: CsvColumns) -> str:
    return columns.delimiter if columns.because_delimiter == "given" else ""


def _opened(table: BinaryIO, part: TablePart) -> ReadableBytes:
    """The bytes of a part, behind those of its head."""
    table.seek(part.start)
    rest = table if part.end < 0 else io.BytesIO(read_head(table, part.end - part.start))
    return Rejoined(part.head, rest.read)


def _moved(rows: TableRows, part: TablePart) -> TableRows:
    """The rows of a part behind its head, with their lines in the table."""
    head = part.head.count(b"\n")
    more = part.lines - head
    moved = ((line + more, cells, problem) for line, cells, problem in rows if line > head)
    return moved if part.lines else rows


# Parts of a table, which many workers read.

PART_BYTES = 16 << 20
"""Bytes of a part of a table, which a worker holds in memory: about 400,000 rows, 10 seconds."""

_PART_ROWS = 100_000


def table_parts(
    binary_file: BinaryIO, columns: CsvColumns, *, encoding: str = "utf-8", whole: TablePart
) -> Iterator[TablePart]:
    """Divides a table where rows begin. Lines are not parsed for it where no quotes are.

    UTF-8 is divided if it is not compressed, and Parquet between row groups. What follows a row
    without an end is one part, which says so when it is read.

    Args:
        binary_file: open for reading bytes at its start. Not closed.
        columns: as for `read_rows`.
        encoding: as for `read_rows`.
        whole: the table and its version.

    Raises:
        LabelsError: a Parquet file is damaged.
    """
    if columns.format == PARQUET:
        yield from _parts_of_groups(open_parquet(binary_file, whole.path)[0].metadata, whole)
    elif columns.format == JSONL:
        # Behind a blank line, a byte order mark is what it is in the middle of a file.
        yield from _parts_of_lines(binary_file, whole._replace(head=b"\n"), 0, len)
    elif columns.format == CSV and has_utf8_codec(encoding):
        data = read_head(binary_file, MAX_ROW)
        lines, delimiter = io.BytesIO(data), columns.delimiter
        with contextlib.suppress(LabelsError):
            found, _, texts = read_start(decoded_lines(lines), _given_delimiter(columns))
            delimiter = found if columns.has_header else delimiter
            next(parse_rows(texts, delimiter, whole.path), None)
        ends = functools.partial(last_row_end, delimiter=delimiter)
        whole = whole._replace(head=data[: lines.tell()])
        yield from _parts_of_lines(Rejoined(data, binary_file.read), whole, lines.tell(), ends)
    else:
        yield whole


def _parts_of_groups(metadata: pq.FileMetaData, whole: TablePart) -> Iterator[TablePart]:
    start = first = count = 0
    for at in range(metadata.num_row_groups):
        count += metadata.row_group(at).num_rows
        if count >= _PART_ROWS:
            yield whole._replace(start=start, end=at + 1, lines=first)
            start, first, count = at + 1, first + count, 0
    yield whole._replace(start=start, end=metadata.num_row_groups, lines=first)


def _parts_of_lines(
    file: ReadableBytes, whole: TablePart, at: int, last_end: Callable[[bytes], int]
) -> Iterator[TablePart]:
    """Divides a file behind `at` and whole rows, whose last end in some lines `last_end` finds.

    A line break that is a lone CR, or the magic of gzip, ends this.
    """
    first, data = read_head(file, at), read_head(file, PART_BYTES)
    lines, part = first.count(b"\n"), whole._replace(head=b"")
    while len(data) >= PART_BYTES and not (first + data).startswith(GZIP_MAGIC):
        whole_lines = data[: data.rfind(b"\n") + 1]
        checked = first + whole_lines
        if checked.count(b"\r") > checked.count(b"\r\n") or not (end := last_end(whole_lines)):
            break
        at, lines = at + end, lines + data.count(b"\n", 0, end)
        yield part._replace(end=at)
        part = whole._replace(start=at, lines=lines)
        data = data[end:] + read_head(file, PART_BYTES)
    yield part


def first_annotations(files: Iterator[tuple[str, bytes | str]], n: int, format_: str) -> FirstRows:
    """The first `n` rows of files that are of one image each.

    Args:
        files: paths and contents; those that cannot be read are left out.
        n: how many rows.
        format_: `VOC` or `YOLO`.
    """
    rows = (
        row
        for path, data in files
        if isinstance(data, bytes)
        for row in _rows_of(data, path, format_, segmentations=True)
    )
    return _first_of(Table(_OF_ONE_IMAGE[format_], rows), n, format_)


def annotation_rows(data: bytes | str, columns: CsvColumns, path: str) -> Iterator[LabelRow]:
    """The rows of a file that is of one image.

    Args:
        data: its content, or the reason why it cannot be read.
        columns: the columns of its format.
        path: the file.
    """
    asked = SEGMENTATION in columns.names
    return label_rows(_rows_of(data, path, columns.format, segmentations=asked), columns)


def _rows_of(data: bytes | str, path: str, format_: str, *, segmentations: bool) -> TableRows:
    """The rows of a file that is of one image."""
    if format_ == VOC:
        return voc_rows(data, path)
    return yolo_rows(data, path, segmentations=segmentations)


def _first_of(table: Table, n: int, format_: str, path: str = "") -> FirstRows:
    """The names of the columns, if a table has any, and the first rows; fewer if they are long."""
    rows = [table.names] if table.names else []
    most, held = n + len(rows), 0
    for line, cells, problem in table.rows:
        if problem and not rows:
            raise LabelsError(f"CSV {path} line {line}: {problem}; correct its first row")
        if not problem:
            rows.append(tuple(cells))
            held += len(cells) + sum(map(len, cells))
        if len(rows) >= most or held > MAX_ROW:
            break
    return FirstRows(",", tuple(rows), "", format_, table.types)
