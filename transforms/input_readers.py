"""Readers of the inputs: listed images, masks and keys, and the rows of label files."""

from __future__ import annotations

import abc
import codecs
import dataclasses
import functools
import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from transforms.core.messages import LabelsError, MemberError, TooLargeError, is_utf8
from transforms.core.records import Count, JoinSide, Kind, NameRange, TablePart
from transforms.core.rejections import Reason, Rejection
from transforms.examples.partners import Partner, PartnerKeys, partner_side
from transforms.labels.joins import MAX_LINE, cells_text, key_line, key_of_line
from transforms.labels.keys import (
    MISSING,
    OUTSIDE,
    any_case,
    image_key,
    is_in_places,
    listed_key,
    listed_path,
    listed_problem,
    listed_uri,
    relative_path,
    row_key,
)
from transforms.labels.label_rows import (
    FORMATS,
    MAX_KEY,
    CsvColumns,
    LabelRow,
    is_annotation,
    label_text,
)
from transforms.labels.label_rules import PathRules
from transforms.labels.label_tables import MAX_ANNOTATION, annotation_rows, read_rows, table_parts
from transforms.labels.vocabulary import MISSING_LABELS, LabelCells, LabelCounter, labels_in
from transforms.storage.files import storage_of
from transforms.storage.interface import READERS, FoundFile, Stored
from transforms.storage.read_ahead import ReadAhead

# Lists the files of a glob, or of a range of its names, as sides of the join. Opens none.


class LeftOut(NamedTuple):
    """Files that are not images, even if a glob matches them.

    Attributes:
        files: each in all spellings that a listing may use.
        folders: each in all spellings, with a slash at the end.
    """

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def has(self, uri: str) -> bool:
        """Whether a file is left out.

        >>> LeftOut(frozenset(["a.csv"]), ("out/",)).has("out/labels.txt")
        True
        """
        return uri in self.files or uri.startswith(self.folders)


Describer: TypeAlias = Callable[[FoundFile], tuple[str, JoinSide] | Rejection]
"""Gives a listed file its key, or rejects it."""


@dataclasses.dataclass(kw_only=True)
class FileFinder(abc.ABC):
    """Lists globs; a subclass gives the files their keys.

    Attributes:
        counts: the name of the count of files.
        left_out: files that are not listed.
        with_checksums: whether to find checksums, too, where they come with the listing.
    """

    counts: ClassVar[str]
    left_out: LeftOut = LeftOut()
    with_checksums: bool = False

    def find(
        self, part: NameRange, limit: int = 0
    ) -> Iterator[tuple[str, JoinSide] | Rejection | Count | NameRange]:
        """Lists one glob: yields every file with its key, and their number at the end.

        Args:
            part: the glob, or a range of its names.
            limit: after this many names, the rest may follow as ranges; 0 for no limit.
        """
        found = 0
        describe = self._describer(part)
        listed = part._replace(glob=any_case(part.glob))
        storage = storage_of(part.glob)
        for file in storage.list_range(listed, limit, with_checksums=self.with_checksums):
            if isinstance(file, NameRange):
                yield file._replace(glob=part.glob, partner=part.partner)
            elif not self.left_out.has(file.uri):
                found += 1
                yield describe(file)
        yield Count(self.counts, found)

    @abc.abstractmethod
    def _describer(self, part: NameRange) -> Describer:
        """A function that gives a file of a glob its key, or rejects it."""


# Selects the listed files that are images of the dataset, with their keys. Opens no image.


@dataclasses.dataclass(kw_only=True)
class ImageFinder(FileFinder):
    """Finds the images of one dataset.

    Attributes:
        root: the folder below which paths and keys begin.
        key: kind of the join key.
        rules: how an image's path gives its label and its split.
    """

    counts = "images_found"
    root: str
    key: str
    rules: PathRules

    def _describer(self, part: NameRange) -> Describer:
        return functools.partial(self._describe, named_folder(part.glob))

    def _describe(self, folder: str, file: FoundFile) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, self.root)
        if not is_utf8(path):
            shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name holds bytes that are not UTF-8: {shown}"
            return Rejection("image", Reason.NAME_NOT_UTF8.code, detail, shown, "")
        key = image_key(file.uri, kind=self.key, root=self.root)
        if file.problem:
            return Rejection("image", Reason.BAD_MEMBER.code, file.problem, path, key)
        has_own = self.rules.label_from in ("webdataset", "records")
        label = file.label if has_own else self.rules.label(path, folder=folder)
        split = self.rules.split(path)
        return key, JoinSide(
            path, file.size, file.version, label, "", split, "", "", Kind.IMAGE, file.checksum
        )


def named_folder(pattern: str) -> str:
    """The class that a glob itself names: the folder of `photos/cat/*.jpg`.

    An image directly in the root of `photos/*/*.jpg` or `photos/**` has no class.

    >>> named_folder("photos/cat/*.jpg"), named_folder("photos/**/*.jpg")
    ('cat', '')
    """
    folder = os.path.dirname(pattern)
    return "" if glob.has_magic(folder) else label_text(os.path.basename(folder))


# Lists masks and further images, with the keys of their images. Opens none of them.


@dataclasses.dataclass
class PartnerFinder(FileFinder):
    """Finds the files of all partners of the images of one dataset.

    Attributes:
        partners: all of them, in their order.
        key: kind of the join key.
        images: the globs of the images; empty if rows list them.
    """

    counts = "partners_found"
    partners: tuple[Partner, ...]
    _: dataclasses.KW_ONLY
    key: str
    images: Sequence[str]

    def __post_init__(self) -> None:
        self.partners = tuple(
            each._replace(extension=self._keys(each).extension) for each in self.partners
        )

    @property
    def globs(self) -> list[NameRange]:
        """All globs, each with the name of its partner."""
        return [
            NameRange(glob, partner=partner.name)
            for partner in self.partners
            for glob in partner.globs
        ]

    def _describer(self, part: NameRange) -> Describer:
        [partner] = [each for each in self.partners if each.name == part.partner]
        return functools.partial(self._describe, partner, self._keys(partner).of_glob(part.glob))

    def _keys(self, partner: Partner) -> PartnerKeys:
        return PartnerKeys(partner, kind=self.key, images=self.images)

    def _describe(
        self, partner: Partner, key_of: Callable[[str], str], file: FoundFile
    ) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, partner.root)
        if not is_utf8(path):
            shown = file.uri.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name of a file of {partner.title} holds bytes that are not UTF-8"
            return Rejection("partner", Reason.NAME_NOT_UTF8.code, detail, shown, "")
        key = key_of(file.uri)
        if file.problem:
            return Rejection("partner", Reason.BAD_MEMBER.code, file.problem, file.uri, key)
        return key, partner_side(partner.name, path, file.size, file.version)


# Reads the keys of the images to keep, one per line.

_CHUNK = 1 << 20


class KeyReader:
    """Reads a file of keys in bounded memory.

    Attributes:
        path: the file; workers read it.
        name: the file in messages and in the manifest.
    """

    def __init__(self, path: str, name: str = "") -> None:
        self.path = path
        self.name = name or path

    def read(self) -> Iterator[tuple[str, JoinSide]]:
        """Yields every key with its line; blank lines, and most repeated ones, are left out.

        Raises:
            LabelsError: a line is not UTF-8, or too long.
            OSError: the file cannot be read.
        """
        for line, number in self._lines():
            where = f"{self.name}:{number}"
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if key := key_of_line(line, where):
                yield key, key_line(where)

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """The lines with their numbers; of equal ones in a megabyte, the first."""
        rest, number = b"", 0
        with storage_of(self.path).open_reader(self.path) as file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                # Five million lines of one key would take a gigabyte in the join.
                first: dict[bytes, int] = {}
                for line in lines:
                    number += 1
                    first.setdefault(line, number)
                yield from first.items()
                if len(rest) > MAX_LINE:
                    break
        if rest:
            yield rest, number + 1


# Looks up the images that rows list: sizes and versions, many in parallel.


@dataclasses.dataclass(frozen=True)
class RowImages:
    """Looks up the images of one dataset that rows list.

    A local file takes one `stat`, an object one request; lookups run in parallel like reads.

    Attributes:
        finder: says of their paths, keys, labels and checksums what it says of listed images.
        places: folders that local files must be in, see `top_folder`; None for anywhere.
    """

    finder: ImageFinder
    places: Collection[str] | None = None

    def find(self, rows: Iterable[Any], path: str) -> Iterator[Any]:
        """Every image with its key, in the order of the rows, each followed by its row.

        Args:
            rows: cells that name images, and their rows; all else in between is passed on.
            path: the label file; names are relative to its folder.
        """
        full_path, finder = storage_of(path).absolute(path), self.finder

        def look_up(row: Any) -> Sequence[Any]:
            # Other records have classes of their own.
            if type(row) is not tuple:
                return (row,)
            uri = listed_uri(row[0], path)
            if self.places is None or is_in_places(row[0], full_path, self.places):
                image = self._image(uri)
            else:
                # Not even its size is read.
                outside = listed_path(uri, finder.root)
                image = JoinSide(outside, 0, OUTSIDE, "", "", kind=Kind.IMAGE)
            key = listed_key(uri, kind=finder.key, root=finder.root)
            return (key, image), (key, row[1])

        for found in ReadAhead(threads=READERS).map(look_up, rows):
            yield from found

    def _image(self, uri: str) -> JoinSide:
        found, rules = find_listed(uri), self.finder.rules
        path = listed_path(uri, self.finder.root)
        label, split = rules.label(path), rules.split(path)
        checksum = found.checksum if self.finder.with_checksums else ""
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
    part: TablePart | Iterable[FoundFile], columns: CsvColumns, encoding: str
) -> Iterator[tuple[str, Iterator[LabelRow]]]:
    """The label files of a path, each with its rows, which are to be read before the next file.

    Args:
        part: a table or a part of it; or annotation files or their glob, of which many are read
            ahead.
        columns: of the files.
        encoding: a Python codec name, of a CSV.

    Raises:
        LabelsError: a table cannot be read, or was changed since it was divided.
        OSError: a file cannot be read.
    """
    if not isinstance(part, TablePart):
        for file, data in annotation_files(part):
            yield file, annotation_rows(data, columns, file)
        return
    path = part.path
    if FORMATS[columns.format].is_per_image:
        yield from open_labels(storage_of(path).list_files(path), columns, encoding)
        return
    storage = storage_of(path)
    with storage.open_reader(path) as table:
        rows = read_rows(table, columns, encoding=encoding, part=part)
        yield path, rows if part == TablePart(path) else _checked(rows, part, columns, encoding)


def _checked(
    rows: Iterator[LabelRow], part: TablePart, columns: CsvColumns, encoding: str
) -> Iterator[LabelRow]:
    """The rows of a part of a table that is what it was when it was divided."""
    storage = storage_of(part.path)
    try:
        yield from rows
    except LabelsError:
        if not part.lines:
            raise
        # The whole table names the line.
        with storage.open_reader(part.path) as table:
            for _ in read_rows(table, columns, encoding=encoding, part=TablePart(part.path)):
                pass
        raise
    if (storage.find(part.path) or Stored(0, MISSING)).version != part.version:
        raise LabelsError(f"{part.path} was changed while it was read: start again")


def divide_labels(table: TablePart, columns: CsvColumns, encoding: str) -> Iterator[TablePart]:
    """The parts of a table that many workers can read; the arguments are `open_labels`'s.

    Raises:
        LabelsError: a Parquet file is damaged.
        OSError: the file cannot be read.
    """
    storage = storage_of(table.path)
    found = storage.find(table.path) or Stored(0, MISSING)
    whole = table._replace(version=found.version)
    with storage.open_reader(table.path) as file:
        yield from table_parts(file, columns, encoding=encoding, whole=whole)


def annotation_files(files: Iterable[FoundFile]) -> Iterator[tuple[str, bytes | str]]:
    """The paths and contents of listed files, or why one cannot be read; not those of classes."""
    found = (file for file in files if is_annotation(file.uri))
    # A small file at hand takes less than to change threads.
    yield from ReadAhead(threads=READERS).map(
        _read,
        found,
        size=lambda file: file.size,
        is_cheap=lambda file: not storage_of(file.uri).is_remote,
    )


def _read(file: FoundFile) -> tuple[str, bytes | str]:
    try:
        return file.uri, storage_of(file.uri).read_bytes(file.uri, max_bytes=MAX_ANNOTATION)
    except TooLargeError:
        return file.uri, f"the file has more than {MAX_ANNOTATION} bytes"
    except MemberError as error:
        return file.uri, str(error.strerror)


# Reads the rows of the label files as small records.

Found = tuple[str, JoinSide] | Rejection | Count | LabelCells

# Of a row: 20 rows of 50,000 labels took 110 s.
_MAX_LABELS = 2000


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

    def read(self, part: TablePart) -> Iterator[Found]:
        """Reads a label file, a part of it, or a glob of annotations: every row with its key.

        Their number follows at the end. The images that rows list are looked up.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        rows = self.read_rows(part)
        return rows if self.images is None else self.images.find(rows, part.path)

    def read_rows(self, part: TablePart | Iterable[FoundFile]) -> Iterator[Found]:
        """Like `read`, but yields a row that lists its image with the cell that names it.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        read = found = 0
        labels = LabelCounter()
        for file, rows in open_labels(part, self.columns, self.encoding):
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
        if max(len(row.label), len(row.group)) > MAX_KEY:
            labels = labels_in(row.label, self.missing, self.separator)
            if (longest := max(map(len, (row.group, *labels)))) > MAX_KEY:
                return "", f"a label or a group of {longest} characters, more than {MAX_KEY}"
            if len(labels) > _MAX_LABELS:
                return "", f"it names {len(labels)} labels: write rows of at most {_MAX_LABELS}"
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
