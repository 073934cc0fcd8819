"""The formats of label files, found by their names and first bytes."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

CSV, JSONL, PARQUET, COCO, VOC, YOLO = "csv", "jsonl", "parquet", "coco", "voc", "yolo"

LIST_SEPARATOR = "\x1f"
"""Between the values of a list in a cell of a table that has lists: the unit separator of ASCII."""

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
    if not head.startswith(b"\x1f\x8b"):
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
