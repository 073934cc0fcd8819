"""The rows of any label file: CSV, JSON Lines, Parquet, or annotations of COCO, VOC and YOLO."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, cast

from transforms.core.annotations.coco_json import COCO_COLUMNS, SEGMENTATION, coco_rows, read_coco
from transforms.core.annotations.voc_xml import VOC_COLUMNS, voc_rows
from transforms.core.annotations.yolo_text import YOLO_COLUMNS, unreadable_rows, yolo_rows
from transforms.core.label_errors import LabelsError
from transforms.core.tables import csv_rows
from transforms.core.tables.csv_lines import MAX_ROW, ReadableBytes, Rejoined, read_head
from transforms.core.tables.csv_rows import (
    CsvColumns,
    FirstRows,
    LabelRow,
    MalformedRow,
    columns_by_name,
    label_rows,
)
from transforms.core.tables.json_lines import json_lines_start, json_lines_table
from transforms.core.tables.parquet_tables import parquet_table
from transforms.core.tables.table_formats import (
    COCO,
    CSV,
    HEAD_BYTES,
    JSONL,
    LIST_SEPARATOR,
    PARQUET,
    VOC,
    YOLO,
    Table,
    TableRows,
    find_format,
)

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
    again = Rejoined(head, binary_file)
    format_ = find_format(path, head)
    if path.lower().endswith(".json") and head.startswith(_UTF_16):
        raise LabelsError(f"{path} is UTF-16: save it as UTF-8, as all JSON is")
    if format_ == CSV:
        return csv_rows.first_rows(again, n, encoding=encoding, delimiter=delimiter, path=path)
    if format_ == JSONL:
        return _first_of(json_lines_start(again, LIST_SEPARATOR, path=path), n, JSONL)
    file = cast(BinaryIO, binary_file)
    if format_ == PARQUET:
        return _first_of(parquet_table(file, None, LIST_SEPARATOR, path=path), n, PARQUET)
    if format_ == VOC:
        raise LabelsError(
            f"{path} is XML: convert and plan read annotations of Pascal VOC, from files named .xml"
        )
    file.seek(0)
    categories, left_out = read_coco(file, path=path)
    file.seek(0)
    first = _first_of(Table(COCO_COLUMNS, coco_rows(file, categories, path=path)), n, COCO)
    counted = tuple((what, count) for what, count in left_out.items() if count)
    return first._replace(categories=categories, left_out=counted)


def read_rows(
    binary_file: ReadableBytes, columns: CsvColumns, *, encoding: str = "utf-8", path: str
) -> Iterator[LabelRow | MalformedRow]:
    """Every row of a table, in order, as a stream.

    Args:
        binary_file: open for reading bytes at its start. Not closed.
        columns: the result of `label_columns.resolve_columns`.
        encoding: a Python codec name, of a CSV.
        path: the name of the file for messages.

    Raises:
        LabelsError: the file cannot be read as a table of its format, or lacks a column.
    """
    if columns.format == CSV:
        return csv_rows.read_rows(binary_file, columns, encoding=encoding, path=path)
    names, separator = columns.names, LIST_SEPARATOR
    if columns.format == JSONL:
        table = json_lines_table(binary_file, names, separator, path=path)
    elif columns.format == PARQUET:
        table = parquet_table(cast(BinaryIO, binary_file), names, separator, path=path)
    else:
        file = cast(BinaryIO, binary_file)
        asked = SEGMENTATION in names
        rows = coco_rows(file, columns.categories, segmentations=asked, path=path)
        table = Table(COCO_COLUMNS, rows)
    return label_rows(table.rows, columns_by_name(table.names, columns, path))


def first_annotations(files: Iterator[tuple[str, bytes]], n: int, format_: str) -> FirstRows:
    """The first `n` rows of files that are of one image each.

    Args:
        files: paths and contents.
        n: how many rows.
        format_: `VOC` or `YOLO`.
    """
    rows = (
        row for path, data in files for row in _rows_of(data, path, format_, segmentations=True)
    )
    return _first_of(Table(_OF_ONE_IMAGE[format_], rows), n, format_)


def annotation_rows(
    data: bytes | str, columns: CsvColumns, path: str
) -> Iterator[LabelRow | MalformedRow]:
    """The rows of a file that is of one image.

    Args:
        data: its content, or the reason why it cannot be read.
        columns: the columns of its format.
        path: the file.
    """
    if isinstance(data, str) and columns.format == YOLO:
        return label_rows(unreadable_rows(data, path), columns)
    if isinstance(data, str):
        stem = path.rpartition("/")[2].rpartition(".")[0]
        return iter((MalformedRow(1, data, stem),))
    asked = SEGMENTATION in columns.names
    return label_rows(_rows_of(data, path, columns.format, segmentations=asked), columns)


def _rows_of(data: bytes, path: str, format_: str, *, segmentations: bool) -> TableRows:
    """The rows of a file that is of one image."""
    if format_ == VOC:
        return voc_rows(data, path)
    return yolo_rows(data, path, segmentations=segmentations)


def _first_of(table: Table, n: int, format_: str) -> FirstRows:
    """The names of the columns and the first rows; fewer if they are long."""
    rows = [table.names]
    held = 0
    for _, cells, problem in table.rows:
        if not problem:
            rows.append(tuple(cells))
            held += sum(map(len, cells))
        if len(rows) > n or held > MAX_ROW:
            break
    return FirstRows(",", tuple(rows), "", format_, table.types)
