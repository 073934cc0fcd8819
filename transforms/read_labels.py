"""ReadLabels: rows of label files."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from transforms.core.messages import MemberError, TooLargeError
from transforms.core.records import Count, JoinSide, Kind
from transforms.core.rejections import Reason, Rejection
from transforms.labels.joins import cells_text
from transforms.labels.keys import (
    MISSING,
    OUTSIDE,
    is_in_places,
    listed_key,
    listed_path,
    listed_problem,
    listed_uri,
    row_key,
)
from transforms.labels.label_rows import FORMATS, CsvColumns, LabelRow, is_annotation
from transforms.labels.label_rules import NOTHING, PathRules
from transforms.labels.label_tables import MAX_ANNOTATION, annotation_rows, read_rows
from transforms.labels.vocabulary import MISSING_LABELS, LabelCells, LabelCounter, labels_in
from transforms.storage.files import storage_of
from transforms.storage.interface import READERS, FoundFile, Storage, Stored
from transforms.storage.read_ahead import ReadAhead

# Looks up the images that rows list: sizes and versions, many in parallel.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowImages:
    """Looks up the images of one dataset that rows list.

    A local file takes one `stat`, an object one request; lookups run in parallel like reads.

    Attributes:
        root: the common folder of the label files.
        key: kind of the join key.
        places: folders that local files must be in, see `top_folder`; None for anywhere.
        rules: how an image's path gives its label and its split.
        with_checksums: whether to find checksums, too, where they come with the sizes.
    """

    root: str
    key: str
    places: Collection[str] | None = None
    rules: PathRules = NOTHING
    with_checksums: bool = False

    def find(self, rows: Iterable[Any], path: str) -> Iterator[Any]:
        """Every image with its key, in the order of the rows, each followed by its row.

        Args:
            rows: cells that name images, and their rows; all else in between is passed on.
            path: the label file; names are relative to its folder.
        """
        full_path = storage_of(path).absolute(path)

        def look_up(row: Any) -> Sequence[Any]:
            # Other records have classes of their own.
            if type(row) is not tuple:
                return (row,)
            uri = listed_uri(row[0], path)
            if self.places is None or is_in_places(row[0], full_path, self.places):
                image = self._image(uri)
            else:
                # Not even its size is read.
                image = JoinSide(listed_path(uri, self.root), 0, OUTSIDE, "", "", kind=Kind.IMAGE)
            key = listed_key(uri, kind=self.key, root=self.root)
            return (key, image), (key, row[1])

        for found in ReadAhead(threads=READERS).map(look_up, rows):
            yield from found

    def _image(self, uri: str) -> JoinSide:
        found = find_listed(uri)
        path = listed_path(uri, self.root)
        label, split = self.rules.label(path), self.rules.split(path)
        checksum = found.checksum if self.with_checksums else ""
        return JoinSide(
            path, found.size, found.version, label, "", split, kind=Kind.IMAGE, checksum=checksum
        )


def find_listed(uri: str) -> Stored:
    """The metadata of a file that a row lists; its version is `MISSING` if it does not exist.

    Raises:
        OSError: the bucket or the file system does not answer.
    """
    return storage_of(uri).find(uri) or Stored(0, MISSING)


# Opens the label files that one path names: a table, or a glob of files for each image.


def open_labels(
    path: str, columns: CsvColumns, encoding: str
) -> Iterator[tuple[str, Iterator[LabelRow]]]:
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


# Reads the rows of the label files as small records.

Found = tuple[str, JoinSide] | Rejection | Count | LabelCells


@dataclasses.dataclass(frozen=True)
class RowReader:
    """Reads the label rows of one dataset.

    Attributes:
        columns: positions of key and label.
        key: kind of the join key.
        encoding: a Python codec name.
        keeps_rows: whether the layout needs more from the rows than one label.
        missing: cells that are not labels, see `missing_labels`.
        separator: between the labels in one cell; empty when a cell is one label.
        images: looks up the images that rows list, or None when globs find them.
    """

    columns: CsvColumns
    _: dataclasses.KW_ONLY
    key: str
    encoding: str
    keeps_rows: bool = False
    missing: frozenset[str] = MISSING_LABELS
    separator: str = ""
    images: RowImages | None = None

    def read(self, path: str) -> Iterator[Found]:
        """Reads one label file, or a glob of annotations: yields every row with its key.

        Their number follows at the end. The images that rows list are looked up.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        rows = self.read_rows(path)
        return rows if self.images is None else self.images.find(rows, path)

    def read_rows(self, path: str) -> Iterator[Found]:
        """Like `read`, but yields a row that lists its image with the cell that names it.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        read = found = 0
        labels = LabelCounter()
        for file, rows in open_labels(path, self.columns, self.encoding):
            for row in rows:
                read += 1
                key, problem = self._key(row, file)
                if not problem:
                    found += 1
                    yield key, self._side(row, file, labels)
                else:
                    reason, where = Reason.MALFORMED_ROW.code, f"{file}:{row.line}"
                    yield Rejection("row", reason, problem, where, row.key)
        if self.images is not None:
            yield Count("images_found", found)
        yield Count("rows_read", read)
        yield labels.counted()

    def _key(self, row: LabelRow, path: str) -> tuple[str, str]:
        """What identifies the image of a row, or the problem with it."""
        if row.problem:
            return "", row.problem
        if self.images is not None:
            return row.key, listed_problem(row.key, path)
        key = row_key(row.key, kind=self.key)
        return key, "" if key else f"{row.key!r} names no file"

    def _side(self, row: LabelRow, path: str, labels: LabelCounter) -> JoinSide:
        """A row as a side of the join; its labels are counted, or that it lacks one."""
        kept, boxes = labels_in(row.label, self.missing, self.separator), self.columns.boxes
        is_empty = bool(boxes) and not kept and not any(row.cells[at] for at in boxes)
        if self.columns.label.at >= 0 and not (kept or is_empty):
            labels.add_missing(row.label)
        for label in kept:
            labels.add(label, path, row.line)
        where, kind = f"{path}:{row.line}", Kind.EMPTY_ROW if is_empty else Kind.ROW
        cells = cells_text(row.cells) if self.keeps_rows else ""
        label = self.separator.join(kept)
        return JoinSide("", 0, 0, label, where, row.split, row.group, cells, kind)
