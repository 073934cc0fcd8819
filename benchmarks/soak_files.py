"""The files of the soak: small images, a label table, and faults whose outcome is known.

A few dozen images are drawn and encoded; every file is one of them with a piece of its own (a JPEG
comment, a PNG text chunk), so all files differ and 100,000 take seconds. The same count, rate and
seed give the same plan, and with the same library versions the same bytes.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import random
import struct
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PIL import Image

IMAGES, LABELS = "images", "labels.csv"
"""The folder of the images and the label table, below the folder of the soak."""

CLASSES = ("cat", "dog", "fox, red", "café", "한강")

_PER_FOLDER = 500  # so that a folder in which every image has a twin holds 1,000 files
_SIZES = ((16, 16), (24, 48), (33, 17), (48, 48))  # height, width
_SHARES = {"jpg": 60, "png": 37, "gif": 1, "bmp": 1, "webp": 1}


class Record(NamedTuple):
    """The expected content of a record: the label's text, and the CRC-32 of the image's bytes."""

    label: str
    crc32: int


class Rejected(NamedTuple):
    """An expected line of `rejected.jsonl`.

    Attributes:
        subject: `image` or `row`.
        reason: the stable code.
        path: of an image, or `labels.csv:LINE` of a row, below the folder of the soak.
        key: the join key.
    """

    subject: str
    reason: str
    path: str
    key: str


class Planted(NamedTuple):
    """One planted fault or oddity.

    Attributes:
        kind: a key of `KINDS`.
        rejected: every rejection that it must cause.
        records: paths of images that must become records in spite of it.
    """

    kind: str
    rejected: tuple[Rejected, ...] = ()
    records: tuple[str, ...] = ()


@dataclasses.dataclass
class Plan:
    """The expected result of a conversion of the files.

    Attributes:
        records: each image that must become a record, by its path below `IMAGES`.
        planted: the faults and oddities among them.
        ledger: the counts that the manifest must have.
    """

    records: dict[str, Record] = dataclasses.field(default_factory=dict)
    planted: list[Planted] = dataclasses.field(default_factory=list)
    ledger: Counter[str] = dataclasses.field(default_factory=Counter)


class _Body(NamedTuple):
    """An encoded image; the unique piece of a file goes between the parts."""

    extension: str
    head: bytes
    tail: bytes


def _chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _own_piece(extension: str, number: int) -> bytes:
    """The bytes that make a file unique without changing its image; for a BMP, the last pixels."""
    text = b"soak-%09d" % number
    if extension == "jpg":
        return b"\xff\xfe" + struct.pack(">H", len(text) + 2) + text
    if extension == "png":
        return _chunk(b"tEXt", b"Comment\0" + text)
    if extension == "gif":
        return b"\x21\xfe" + bytes([len(text)]) + text + b"\0"
    if extension == "webp":
        return b"soak" + struct.pack("<I", len(text)) + text
    return text


def _cut_open(extension: str, data: bytes) -> _Body:
    """The position of a file's unique piece."""
    size = len(_own_piece(extension, 0))
    if extension == "webp":  # its header has the length of the whole file
        grown = struct.pack("<I", len(data) - 8 + size)
        return _Body(extension, data[:4] + grown + data[8:], b"")
    # After the JFIF header, after IHDR, before the trailer, over the last pixels.
    at = {"jpg": 20, "png": 33, "gif": len(data) - 1, "bmp": len(data) - size}[extension]
    return _Body(extension, data[:at], b"" if extension == "bmp" else data[at:])


def _draw_bodies() -> dict[str, list[_Body]]:
    """The encoded images of each file extension."""
    rng = random.Random(0)
    bodies: dict[str, list[_Body]] = {extension: [] for extension in _SHARES}

    def encode(extension: str, format_: str, mode: str, **options: object) -> None:
        for height, width in _SIZES:
            noise = Image.frombytes("RGB", (width, height), rng.randbytes(height * width * 3))
            file = io.BytesIO()
            noise.convert(mode).save(file, format_, **options)
            bodies[extension].append(_cut_open(extension, file.getvalue()))

    encode("jpg", "JPEG", "RGB")
    encode("jpg", "JPEG", "RGB", subsampling=0, quality=90)
    encode("jpg", "JPEG", "RGB", progressive=True)
    encode("jpg", "JPEG", "L")
    for mode in ("RGB", "RGBA", "L", "P"):
        encode("png", "PNG", mode)
    encode("gif", "GIF", "P")
    encode("bmp", "BMP", "RGB")
    encode("webp", "WEBP", "RGB")
    return bodies


class _Writer:
    """Writes files and rows, and records the expected results."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.plan = Plan()
        self._images = directory / IMAGES
        self._rng = rng
        self._bodies = _draw_bodies()
        self._rows: list[tuple[str, str]] = []

    def draw(self, number: int, extension: str = "") -> tuple[str, bytes]:
        """The extension and the bytes of file `number`; by default, of the usual mixture."""
        if not extension:
            (extension,) = self._rng.choices(list(_SHARES), list(_SHARES.values()))
        body = self._rng.choice(self._bodies[extension])
        return extension, body.head + _own_piece(extension, number) + body.tail

    def place(self, number: int, name: str) -> tuple[str, Path]:
        """The path of a file below `IMAGES`, and the whole path. Counts the file."""
        self.plan.ledger["images_matched"] += 1
        path = f"{number // _PER_FOLDER:04d}/{name}"
        return path, self._images / path

    def write(self, number: int, name: str, data: bytes) -> str:
        """Writes a file and returns its path below `IMAGES`."""
        path, whole = self.place(number, name)
        with open(whole, "wb") as file:
            file.write(data)
        return path

    def write_good(self, number: int, stem: str, label: str) -> str:
        """Writes an image that must become a record."""
        extension, data = self.draw(number)
        path = self.write(number, f"{stem}.{extension}", data)
        self.plan.records[path] = Record(label, zlib.crc32(data))
        self.plan.ledger["records_written"] += 1
        return path

    def add_row(self, key: str, label: str, fate: str) -> str:
        """Adds a row that must be `used`, `repeated`, `unmatched` or `rejected`."""
        self.plan.ledger["rows_read"] += 1
        self.plan.ledger[f"rows_{fate}"] += 1
        self._rows.append((key, label))
        return f"{LABELS}:{len(self._rows) + 1}"

    def reject_image(self, reason: str, path: str, key: str) -> Rejected:
        """An image that must be left out."""
        self.plan.ledger["images_rejected"] += 1
        return Rejected("image", reason, f"{IMAGES}/{path}", key)

    def write_rows(self, path: Path) -> None:
        """Writes the label table; no cell has a line break, so a row is a line."""
        with path.open("w", encoding="utf-8", newline="") as table:
            writer = csv.writer(table, lineterminator="\n")
            writer.writerow(["id", "label"])
            writer.writerows(self._rows)


def _stem(number: int) -> str:
    return f"{number:09d}"


def _label(number: int) -> str:
    return CLASSES[number % len(CLASSES)]


def _plant_good(writer: _Writer, number: int) -> None:
    writer.write_good(number, _stem(number), _label(number))
    writer.add_row(_stem(number), _label(number), "used")


Plant = Callable[[_Writer, int, str], Planted]


def _broken(extension: str, damage: Callable[[bytes], bytes], reason: str) -> Plant:
    """Plants an image with a row, whose bytes are damaged."""

    def plant(writer: _Writer, number: int, kind: str) -> Planted:
        stem = _stem(number)
        data = damage(writer.draw(number, extension)[1])
        path = writer.write(number, f"{stem}.{extension}", data)
        writer.add_row(stem, _label(number), "used")
        return Planted(kind, (writer.reject_image(reason, path, stem),))

    return plant


def _cut_in_the_middle(data: bytes) -> bytes:
    """A JPEG that ends within its pixels."""
    return data[: (data.index(b"\xff\xda") + len(data)) // 2]


def _break_crc(data: bytes) -> bytes:
    """A PNG whose pixels have a wrong checksum."""
    at = data.index(b"IDAT")
    (length,) = struct.unpack_from(">I", data, at - 4)
    end = at + 4 + length
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


def _enlarge(data: bytes) -> bytes:
    """A PNG that is only a header, of 60,000 x 60,000 pixels."""
    return data[:8] + _chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))


def _plant_dangling_link(writer: _Writer, number: int, kind: str) -> Planted:
    stem = _stem(number)
    path, whole = writer.place(number, f"{stem}.jpg")
    whole.symlink_to("nowhere.jpg")
    writer.add_row(stem, _label(number), "used")
    return Planted(kind, (writer.reject_image("unreadable", path, stem),))


def _plant_image_alone(writer: _Writer, number: int, kind: str) -> Planted:
    stem = _stem(number)
    extension, data = writer.draw(number)
    path = writer.write(number, f"{stem}.{extension}", data)
    return Planted(kind, (writer.reject_image("no_label", path, stem),))


def _plant_row_alone(writer: _Writer, number: int, kind: str) -> Planted:
    where = writer.add_row(_stem(number), _label(number), "unmatched")
    return Planted(kind, (Rejected("row", "row_without_image", where, _stem(number)),))


def _plant_unlabelled_row(writer: _Writer, number: int, kind: str) -> Planted:
    """An image whose row has an empty label: the rejection of the image names the row."""
    writer.add_row(_stem(number), "", "rejected")
    return _plant_image_alone(writer, number, kind)


def _plant_row_without_key(writer: _Writer, number: int, kind: str) -> Planted:
    image = _plant_image_alone(writer, number, kind)
    row = Rejected("row", "malformed_row", writer.add_row("", _label(number), "rejected"), "")
    return image._replace(rejected=(row, *image.rejected))


def _plant_conflict(writer: _Writer, number: int, kind: str) -> Planted:
    for label in (_label(number), _label(number + 1)):
        writer.add_row(_stem(number), label, "rejected")
    image = _plant_image_alone(writer, number, kind).rejected[0]
    return Planted(kind, (image._replace(reason="label_conflict"),))


def _plant_twins(writer: _Writer, number: int, kind: str) -> Planted:
    stem = _stem(number)
    writer.add_row(stem, _label(number), "rejected")
    paths = [
        writer.write(number, f"{stem}.{extension}", writer.draw(number, extension)[1])
        for extension in ("jpg", "png")
    ]
    return Planted(kind, tuple(writer.reject_image("duplicate_key", p, stem) for p in paths))


def _plant_decomposed_name(writer: _Writer, number: int, kind: str) -> Planted:
    stem = f"é한강-{_stem(number)}"
    writer.add_row(unicodedata.normalize("NFC", stem), _label(number), "used")
    path = writer.write_good(number, unicodedata.normalize("NFD", stem), _label(number))
    return Planted(kind, records=(path,))


def _plant_repeated_row(writer: _Writer, number: int, kind: str) -> Planted:
    stem = _stem(number)
    for fate in ("used", "repeated"):
        writer.add_row(stem, _label(number), fate)
    return Planted(kind, records=(writer.write_good(number, stem, _label(number)),))


KINDS: dict[str, Plant] = {
    "JPEG cut in the middle": _broken("jpg", _cut_in_the_middle, "corrupt_image"),
    "PNG without IEND": _broken("png", lambda data: data[:-12], "corrupt_image"),
    "PNG with a broken CRC": _broken("png", _break_crc, "corrupt_image"),
    "empty file": _broken("jpg", lambda data: b"", "empty_file"),
    "text named .jpg": _broken("jpg", lambda data: b"404 Not Found\n", "not_an_image"),
    "60,000 x 60,000 pixels": _broken("png", _enlarge, "too_many_pixels"),
    "dangling link": _plant_dangling_link,
    "image without a row": _plant_image_alone,
    "row without an image": _plant_row_alone,
    "rows that conflict": _plant_conflict,
    "two images with one key": _plant_twins,
    "row without its label": _plant_unlabelled_row,
    "row without its key": _plant_row_without_key,
    "NFD name, NFC row": _plant_decomposed_name,
    "row given twice": _plant_repeated_row,
}
"""The faults to plant, in turn; the last two must not reject anything."""


def build_files(directory: Path, *, count: int, fault_rate: float, seed: int) -> Plan:
    """Writes `directory/images/NNNN/*` and `directory/labels.csv`.

    Args:
        directory: an empty folder.
        count: how many images, more or less: a row without an image counts too, and so do two
            images with one key.
        fault_rate: share of them with something planted; each kind in turn.
        seed: of the places of the faults, and of which image is where.

    Returns:
        The expected result of their conversion.
    """
    rng = random.Random(seed)
    places = rng.sample(range(count), round(count * fault_rate))
    kinds = list(KINDS)
    kind_at = {place: kinds[turn % len(kinds)] for turn, place in enumerate(places)}
    writer = _Writer(directory, rng)
    for number in range(count):
        if number % _PER_FOLDER == 0:
            (directory / IMAGES / f"{number // _PER_FOLDER:04d}").mkdir(parents=True)
        if kind := kind_at.get(number):
            writer.plan.planted.append(KINDS[kind](writer, number, kind))
        else:
            _plant_good(writer, number)
    writer.write_rows(directory / LABELS)
    return writer.plan
