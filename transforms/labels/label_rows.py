"""Label files: their formats, and the rows of labels that cells of a table hold."""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from transforms.core.messages import LabelsError, and_more, is_utf8
from transforms.labels.keys import nfc
from transforms.labels.shards import split_text

# The formats of label files, found by their names and first bytes.

CSV, JSONL, PARQUET, COCO, VOC, YOLO = "csv", "jsonl", "parquet", "coco", "voc", "yolo"

LIST_SEPARATOR = "\x1f"
"""Between the values of a list in a cell of a table that has lists: the unit separator of ASCII."""

GZIP_MAGIC = b"\x1f\x8b"
"""How a compressed file begins."""

MAX_CELL = 1 << 20
"""The longest cell, in characters. A longer one is a quote that is never closed."""

HEAD_BYTES = 4096
"""First bytes of a file from which its format is found."""

MAX_OBJECTS = 50_000
"""The most objects of an image: its row in the index of a shard names the line of each."""

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_YOLO_LINE = re.compile(rf"[0-9]+(?:\.0+)?(?:[ \t]+{_NUMBER}){{4,}}")
_YOLO_CLASSES = "classes.txt"
_COCO = re.compile(rb'"(images|annotations|categories)"')


class FileFormat(NamedTuple):
    """A format of label files.

    Attributes:
        title: its name for people.
        is_per_image: whether each image has a file of its own.
        units: of its boxes, one of `boxes.UNITS`; empty if they are unknown.
        because: the evidence for the format.
    """

    title: str
    because: str
    is_per_image: bool = False
    units: str = ""


FORMATS = {
    CSV: FileFormat("CSV", "no other format fits"),
    JSONL: FileFormat("JSON Lines", "each line is a JSON object"),
    PARQUET: FileFormat("Parquet", "the file begins with PAR1"),
    COCO: FileFormat("COCO", "the file is one JSON object", units="pixel"),
    VOC: FileFormat("Pascal VOC", "the files are XML", is_per_image=True, units="pixel"),
    YOLO: FileFormat(
        "YOLO", "lines are a class and numbers", is_per_image=True, units="normalized"
    ),
}
"""All formats by their names."""


class Category(NamedTuple):
    """A class of a COCO file.

    Attributes:
        id: its number.
        name: as `label_text` gives it.
        uses: how many annotations have it.
    """

    id: int
    name: str
    uses: int


TableRows = Iterator[tuple[int, list[str], str]]
"""The place of each row, its cells, and a problem that makes it unusable or an empty text."""


class Table(NamedTuple):
    """The rows of a label file.

    Attributes:
        names: of its columns; empty for a CSV whose first row may name them.
        rows: its rows, as a stream.
        types: of its columns, if the file has them: `int64`, `float`, `bytes`, followed by ` list`
            for lists; empty where it has none.
    """

    names: tuple[str, ...]
    rows: TableRows
    types: tuple[str, ...] = ()


def find_format(path: str, head: bytes) -> str:
    """The format of a file that is a whole table; `VOC` for XML, and `CSV` if none fits.

    Args:
        path: the name of the file.
        head: its first bytes.

    >>> find_format("a.json", b'{"images": ['), find_format("a", b'{"id": 1}' + bytes([10]))
    ('coco', 'jsonl')
    >>> find_format("a.csv", b"id,label"), find_format("a.xml", b"<annotation>")
    ('csv', 'voc')
    """
    if head.startswith(b"PAR1"):
        return PARQUET
    name = path.lower().removesuffix(".gz")
    text = _inflated(head).removeprefix(b"\xef\xbb\xbf").lstrip()
    if name.endswith((".jsonl", ".ndjson")):
        return JSONL
    if text.startswith(b"{"):
        return COCO if _COCO.search(text) or not _is_object(text.partition(b"\n")[0]) else JSONL
    if name.endswith(".xml") or (text.startswith(b"<") and b"<annotation" in text):
        return VOC
    return CSV


def is_yolo(path: str, head: bytes) -> bool:
    """Whether a file can be one of the text files of YOLO; an empty one is of an image alone.

    Args:
        path: the name of the file.
        head: its first bytes.

    >>> is_yolo("1.txt", b"0 0.5 0.5 0.25 1"), is_yolo("1.txt", b"1.jpg cat")
    (True, False)
    """
    if not path.lower().endswith(".txt"):
        return False
    lines = head.decode("utf-8-sig", "replace").splitlines()
    if len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    return all(_YOLO_LINE.fullmatch(line.strip()) for line in lines if line.strip())


def is_annotation(path: str) -> bool:
    """Whether a file that a glob matches is of an image, not the list of the classes.

    >>> is_annotation("labels/classes.txt"), is_annotation("labels/1.txt")
    (False, True)
    """
    return path.rpartition("/")[2] != _YOLO_CLASSES


def _inflated(head: bytes) -> bytes:
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


# Numbers of Parquet and of protobuf.


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, of which each byte holds seven bits, and where it ends.

    Raises:
        IndexError: it does not end, or has more than ten bytes.
    """
    if data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place in range(10):
        value |= (data[at + place] & 0x7F) << 7 * place
        if data[at + place] < 0x80:
            return value, at + place + 1
    raise IndexError("a number has more than ten bytes")


# Values of tables with types as the text of cells, as `pandas.DataFrame.to_csv` writes them.


def value_text(value: Any) -> str:
    """The text of a single value; empty for a missing one.

    >>> [value_text(value) for value in (True, 7, 2.5, float("nan"), None, "a")]
    ['True', '7', '2.5', '', '', 'a']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else str(value)


def list_text(values: Sequence[Any]) -> str:
    """The text of a list, whose values `LIST_SEPARATOR` separates; missing ones are left out.

    Raises:
        ValueError: a value holds the separator.

    >>> list_text([1, None, 2]).split(LIST_SEPARATOR)
    ['1', '2']
    """
    if {*map(type, values)} <= {int, float} and "nan" not in (shown := str(values)):
        # Of embeddings, each by itself takes twice as long.
        return shown[1:-1].replace(", ", LIST_SEPARATOR)
    texts = [text for value in values if (text := value_text(value))]
    joined = LIST_SEPARATOR.join(texts)
    if texts and joined.count(LIST_SEPARATOR) != len(texts) - 1:
        raise ValueError(f"a value of a list holds {LIST_SEPARATOR!r}, which separates them here")
    return joined


def text_problem(cells: Sequence[str]) -> str:
    """The reason why cells cannot be used as text; empty if they can.

    >>> text_problem(["a", "b" + chr(0)])
    'a cell holds a NUL character'
    """
    joined = "".join(cells)
    if "\0" in joined:
        return "a cell holds a NUL character"
    if len(joined) > MAX_CELL and max(map(len, cells)) > MAX_CELL:
        return f"a cell has more than {MAX_CELL} characters"
    return "" if is_utf8(joined) else "a cell holds half of a surrogate pair, which is no character"


# The spelling of keys in cells: unchanged, as Windows paths, or below another folder.


class KeyCells(NamedTuple):
    """The conversion of a cell to a key.

    Attributes:
        backslashes: whether a backslash separates folders.
        prefix: the prefix to remove; a cell without it is unchanged.
    """

    backslashes: bool = False
    prefix: str = ""

    def key(self, cell: str) -> str:
        r"""The text that names an image.

        >>> KeyCells(True, "D:/photos/").key("D:\\photos\\cat\\1.jpg")
        'cat/1.jpg'
        """
        if self.backslashes:
            cell = cell.replace("\\", "/")
        return cell.strip().removeprefix(self.prefix) if self.prefix else cell

    def __str__(self) -> str:
        """The conversion as text."""
        parts = ["'\\' is '/'"] if self.backslashes else []
        parts += [f"without {self.prefix!r}"] if self.prefix else []
        return ", ".join(parts)


AS_THEY_ARE = KeyCells()


def keys_as_they_are(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    """The result of `find_key_cells` for unchanged cells."""
    return AS_THEY_ARE if any(map(is_key, cells)) else None


def find_key_cells(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    r"""The conversion of cells to keys: none if one of them is a key; None if no conversion works.

    Args:
        cells: the first ones of a column.
        is_key: whether a cell names an image.

    >>> find_key_cells(["p\\1.jpg"], {"p/1.jpg"}.__contains__)
    KeyCells(backslashes=True, prefix='')
    >>> find_key_cells(["/data/p/1.jpg"], {"p/1.jpg"}.__contains__)
    KeyCells(backslashes=False, prefix='/data/')
    """
    kept = [cell for cell in cells if cell.strip() and len(cell) <= MAX_KEY]
    tried = (AS_THEY_ARE, KeyCells(backslashes=True))
    for rule in tried:
        if any(is_key(rule.key(cell)) for cell in kept):
            return rule
    for rule in tried:
        for cell in kept:
            path = rule.key(cell).strip()
            # A cell may be slashes alone.
            for slash in itertools.islice(re.finditer("/", path), 100):
                if is_key(path[slash.end() :]):
                    return rule._replace(prefix=path[: slash.end()])
    return None


# The rows of a label CSV, from any binary file: gzip or not, any encoding, RFC 4180 quoting.
#
# Rows stream in bounded memory and know the physical line they start on. An error in one row is its
# problem; an error in the file is one `LabelsError`.

MAX_KEY = 4096
"""The longest key, in characters; paths and object names are not longer."""

# Each takes 20 microseconds of a run, used or not.
_MAX_COLUMNS = 100_000


class FirstRows(NamedTuple):
    """The start of a CSV.

    Attributes:
        delimiter: between cells.
        rows: its first rows, a header if there is one among them; blank lines are left out.
        because: the evidence for the delimiter; `given` if it was given.
        format: one of `FORMATS`; the rows of others than CSV begin with the names of the columns.
        types: of the columns, see `Table`; empty if the file has none.
        categories: the classes of a COCO file.
        left_out: how many values of a COCO file become no features, by their kinds.
    """

    delimiter: str
    rows: tuple[tuple[str, ...], ...]
    because: str = ""
    format: str = CSV
    types: tuple[str, ...] = ()
    categories: tuple[Category, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        at: its index, from 0; -1 for none.
        name: as the header spells it, or `column N`.
        because: why it was taken; empty if unknown.
    """

    at: int = -1
    name: str = ""
    because: str = ""


NO_COLUMN = Column()


class CsvColumns(NamedTuple):
    """The columns of a table that are read.

    Attributes:
        key: that of keys.
        label: that of labels.
        width: the number of columns.
        has_header: whether the first row holds names.
        delimiter: between cells.
        split: that of splits.
        group: that whose cells share a split.
        cells: further ones.
        boxes: which of `cells` hold boxes: a row without them needs no label.
        is_strict: whether a row must have a cell in every column.
        key_cells: converts the key's cells to keys.
        because_delimiter: evidence for the delimiter; `given` if it is for every file, otherwise
            each file with a header has its own.
        format: of the files, one of `FORMATS`.
        categories: the classes of COCO files.
    """

    key: Column = NO_COLUMN
    label: Column = NO_COLUMN
    width: int = 0
    has_header: bool = True
    delimiter: str = ","
    split: Column = NO_COLUMN
    group: Column = NO_COLUMN
    cells: tuple[Column, ...] = ()
    boxes: tuple[int, ...] = ()
    is_strict: bool = False
    key_cells: KeyCells = AS_THEY_ARE
    because_delimiter: str = ""
    format: str = CSV
    categories: tuple[Category, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns whose cells are read."""
        read = (self.key, self.label, self.split, self.group, *self.cells)
        return tuple(dict.fromkeys(column.name for column in read if column.at >= 0))


NO_COLUMNS = CsvColumns(has_header=False)
"""The columns of a file of which none is known."""


class LabelRow(NamedTuple):
    """One row; it cannot be used if it has a problem, and then has only a key and a line.

    Attributes:
        key: the unchanged key cell; `keys.row_key` converts it to a join key.
        label: the label as `label_text` gives it; empty without a label column or a label.
        line: the physical line on which the row starts, from 1.
        split: the split's cell, as `split_text` gives it; empty without such a column.
        group: the group's cell, as `label_text` gives it; empty without such a column.
        cells: those of `CsvColumns.cells`, without whitespace at their ends; empty where there is
            none.
        problem: why it has no usable key, or that it ends before its label, in one line; its key
            is then empty without such a cell, and shortened if it is too long.
    """

    key: str
    label: str
    line: int
    split: str = ""
    group: str = ""
    cells: tuple[str, ...] = ()
    problem: str = ""


def label_rows(rows: TableRows, columns: CsvColumns) -> Iterator[LabelRow]:
    """Rows with the positions of their key, label and other cells, in order, as a stream."""
    key_at, label_at = columns.key.at, columns.label.at
    split_at, group_at = columns.split.at, columns.group.at
    further = [column.at for column in columns.cells]
    for line, cells, problem in rows:
        if problem := problem or _row_problem(cells, columns):
            # JSON can hold halves of surrogate pairs, which no file can.
            key = cell_at(cells, key_at)[:MAX_KEY].encode(errors="replace").decode()
            yield LabelRow(key, "", line, problem=problem)
        else:
            label = "" if label_at < 0 else label_text(cells[label_at])
            kept = tuple([cell_at(cells, at).strip() for at in further]) if further else ()
            key = columns.key_cells.key(cell_at(cells, key_at))
            split, group = cell_at(cells, split_at), cell_at(cells, group_at)
            split, group = split and split_text(split), group and label_text(group)
            yield LabelRow(key, label, line, split, group, kept)


def label_text(label: str) -> str:
    """A label as it is compared and stored: in NFC, on one line, no whitespace at its ends.

    >>> label_text(" big" + chr(10) + "cat")
    'big cat'
    """
    if label.isascii() and label.isprintable():
        # Nearly all.
        return label.strip()
    if not label.isprintable() and len(label.splitlines()) > 1:
        label = " ".join(label.split())
    return nfc(label.strip())


def header_names(cells: Sequence[str]) -> list[str]:
    """The column names of a header row: without whitespace at the ends, in NFC.

    >>> header_names([" id", "label "])
    ['id', 'label']
    """
    return [nfc(cell.strip()) for cell in cells]


def column_finder(names: Sequence[str], *, path: str) -> Callable[[str], int | None]:
    """A function that gives the index of a column: with the same spelling, or else ignoring case.

    It raises a LabelsError if several columns have the name.

    Raises:
        LabelsError: there are more columns than any table has.

    >>> find = column_finder(["ID", "label"], path="a.csv")
    >>> find("id"), find("x")
    (0, None)
    """
    if len(names) > _MAX_COLUMNS:
        problem = f"has {len(names)} columns, more than {_MAX_COLUMNS}"
        raise LabelsError(f"{path} {problem}: leave out those that you do not need")
    places: dict[str, list[int]] = defaultdict(list)
    folded: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(names):
        places[name].append(at)
        folded[name.casefold()].append(at)

    def find(wanted: str) -> int | None:
        wanted = nfc(wanted.strip())
        found = places.get(wanted) or folded.get(wanted.casefold(), [])
        if len(found) > 1:
            shown = " and ".join(str(at + 1) for at in found)
            raise LabelsError(
                f"{path} has several columns {wanted!r} ({shown}): rename all but one"
            )
        return found[0] if found else None

    return find


def quote_names(names: Sequence[str], most: int = 20, length: int = 60) -> str:
    """Names of columns or classes for a message.

    >>> quote_names(["id", "label"]), quote_names(["a", "b", "c"], most=2)
    ("'id', 'label'", "'a', 'b' and 1 more")
    """
    return and_more([repr(name[:length]) for name in names[:most]], len(names))


def columns_by_name(names: Sequence[str], columns: CsvColumns, path: str) -> CsvColumns:
    """`columns` with the positions in the header of this file.

    Raises:
        LabelsError: it lacks a column.
    """
    column_at = column_finder(names, path=path)

    def found(column: Column) -> Column:
        if column.at < 0:
            return column
        at = column_at(column.name)
        if at is None:
            raise LabelsError(
                f"{path} has no column {column.name!r}; it has {quote_names(names)}. All files "
                "of --labels need the same header"
            )
        return column._replace(at=at)

    single = ("key", "label", "split", "group")
    places: dict[str, Any] = {name: found(getattr(columns, name)) for name in single}
    return columns._replace(cells=tuple(map(found, columns.cells)), width=len(names), **places)


def cell_at(cells: Sequence[str], at: int) -> str:
    """A cell; empty if it, or its column, is missing."""
    return cells[at] if 0 <= at < len(cells) else ""


def _row_problem(cells: list[str], columns: CsvColumns) -> str:
    """The reason why a row is not usable; empty if it is."""
    count, key_at = len(cells), columns.key.at
    if count <= max(key_at, columns.label.at):
        return "it ends before its key" if count <= key_at else "it ends before its label"
    if count > columns.width and any(cell.strip() for cell in cells[columns.width :]):
        return f"{count} cells for {columns.width} columns: quote a cell that holds the delimiter"
    if columns.is_strict and count < columns.width:
        return f"{count} cells for {columns.width} columns"
    if key_at < 0:
        return ""
    if not cells[key_at].strip():
        return "its key is empty"
    if len(cells[key_at]) > MAX_KEY:
        return f"its key has {len(cells[key_at])} characters: no file name is that long"
    return ""
