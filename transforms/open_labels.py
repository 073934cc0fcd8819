"""Opens the label files that one path names: a table, or a glob of files for each image."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from transforms.core.annotations.label_tables import MAX_ANNOTATION, annotation_rows, read_rows
from transforms.core.file_errors import MemberError, TooLargeError
from transforms.core.tables.csv_rows import CsvColumns, LabelRow, MalformedRow
from transforms.core.tables.table_formats import FORMATS, is_annotation
from transforms.storage.file_metadata import FoundFile
from transforms.storage.files import storage_of
from transforms.storage.interface import READERS, Storage
from transforms.storage.read_ahead import ReadAhead


def open_labels(
    path: str, columns: CsvColumns, encoding: str
) -> Iterator[tuple[str, Iterator[LabelRow | MalformedRow]]]:
    """The label files of a path, each with its rows, which are to be read before the next file.

    Args:
        path: a table, or the glob of annotation files, of which many are read ahead.
        columns: of the files.
        encoding: a Python codec name, of a CSV.

    Raises:
        LabelsError: a table cannot be read.
        OSError: a file cannot be read.
    """
    if FORMATS[columns.format].is_per_image:
        for file, data in annotation_files(path):
            yield file, annotation_rows(data, columns, file)
        return
    with storage_of(path).open_reader(path) as table:
        yield path, read_rows(table, columns, encoding=encoding, path=path)


def annotation_files(pattern: str) -> Iterator[tuple[str, bytes | str]]:
    """The paths and contents of the files that a glob matches, or why one cannot be read."""
    storage = storage_of(pattern)
    found = (file for file in storage.list_files(pattern) if is_annotation(file.uri))
    read = functools.partial(_read, storage)
    yield from ReadAhead(threads=READERS).map(read, found, size=lambda file: file.size)


def _read(storage: Storage, file: FoundFile) -> tuple[str, bytes | str]:
    try:
        return file.uri, storage.read_bytes(file.uri, max_bytes=MAX_ANNOTATION)
    except TooLargeError:
        return file.uri, f"the file has more than {MAX_ANNOTATION} bytes"
    except MemberError as error:
        return file.uri, str(error.strerror)
