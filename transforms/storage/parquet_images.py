"""Images in Parquet files: their columns, and the place of each image in its file.

A Parquet file is an archive whose files are the images of its rows. The pages of a row group are
read once, to find where each image begins. From then on it is a file like any other, which takes
one request.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from transforms.core.messages import LabelsError, MemberError, first_line
from transforms.labels import csv_tables
from transforms.labels.keys import record_features
from transforms.labels.label_rows import MAX_KEY, label_text, read_number, text_problem
from transforms.labels.label_tables import (
    cell_texts,
    few_rows,
    open_parquet,
    page_header,
    parquet_damage,
    type_of_column,
)
from transforms.storage.archive_formats import Member, safe_name
from transforms.storage.interface import Read

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# The columns that hold images, their labels and their keys.

_REMEDY = "write it again, with each image once"


class Columns(NamedTuple):
    """The columns of a file of images: names, each with that of a part of a struct; or nothing.

    Attributes:
        images: the bytes of their files.
        labels: their labels.
        keys: their names; without it, the numbers of rows.
        classes: the names of the labels, which are then numbers.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...]
    keys: tuple[str, ...]
    classes: tuple[str, ...]


def find_columns(schema: pa.Schema, wanted: Mapping[str, str], path: str) -> Columns:
    """The columns of images, labels and keys.

    Args:
        schema: of the file, with what Hugging Face's library says about it.
        wanted: the names of columns, see `record_features`.
        path: the file, for messages.

    Raises:
        LabelsError: there is no such column, or there are several of images.
    """
    said = _features(schema)
    found = {field.name: leaf for field in schema if (leaf := _bytes_of(field))}
    images = [name for name in found if said.get(name) == "Image"]
    images = images or [name for name, leaf in found.items() if leaf[1:]] or [*found]
    images = [wanted["image"]] if "image" in wanted else images
    # The text of a list or a struct is no label.
    single = [each.name for each in schema if " " not in (type_of_column(each.type) or " ")]
    may_be = {"image": [*found], "label": ["", *single], "key": ["", *single]}
    wrong = [
        (what, f"no column {each!r}") for what, each in wanted.items() if each not in may_be[what]
    ]
    wrong += [("image", "no single column of images")][len(images) == 1 :]
    for what, problem in wrong[:1]:
        kind = "binary, or a struct of bytes and path" if what == "image" else "a text or number"
        shown = ", ".join(f"{field.name!r} ({field.type})"[:60] for field in [*schema][:20])
        raise LabelsError(
            f"{path} has {problem} ({kind}) but {shown}: name columns with --record_features "
            f"{what}=COLUMN"
        )
    usual = [name for name in single if csv_tables.folded(name) in csv_tables.LABEL_NAMES]
    known = [name for name in schema.names if isinstance(said.get(name), tuple)]
    both = [name for name in known if name in usual]
    # Of several, none is sure.
    sure = next((each for each in (both, known, usual) if len(each) == 1), [""])[0]
    label, image = wanted.get("label", sure), found[images[0]]
    has_path = image[1:] and schema.field(image[0]).type.get_field_index("path") >= 0
    key = [wanted["key"]] if "key" in wanted else [image[0], "path"] if has_path else []
    classes = said[label] if label in known else ()
    return Columns(image, tuple(filter(None, [label])), tuple(filter(None, key)), classes)


def _features(schema: pa.Schema) -> dict[str, Any]:
    """What Hugging Face's library says of the columns: `Image`, or the names of classes."""
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        read = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        for name, each in read.items():
            is_class = each.get("_type") == "ClassLabel"
            found[name] = tuple(map(str, each["names"])) if is_class else each.get("_type")
    return found


def _bytes_of(field: pa.Field) -> tuple[str, ...]:
    """The path of the binary column that a field is, or has as `bytes`; empty without one."""
    from pyarrow import types

    type_: pa.DataType = field.type
    path: tuple[str, ...] = (field.name,)
    if types.is_struct(type_) and type_.get_field_index("bytes") >= 0:
        type_, path = type_.field("bytes").type, (field.name, "bytes")
    return path if types.is_binary(type_) or types.is_large_binary(type_) else ()


# Pages: https://parquet.apache.org/docs/file-format/data-pages/, and the format of Snappy:
# https://github.com/google/snappy/blob/main/format_description.txt

_DATA, _DICTIONARY, _PLAIN, _INDICES = 0, 2, 0, (2, 8)

_MOST_PAGE = 512 << 20
"""The largest page that is read, in bytes: it is held in memory as it is stored."""

_BLOCK = 1 << 16
"""Bytes that Snappy compresses alone, in all writers that are known."""

# Blocks up to the last image that was read from them: each of hundreds of icons in one took 2 ms
# for those before it. They keep their files open.
_BLOCKS: dict[tuple[Read, int], bytes] = {}
_MOST_BLOCKS = 256

# Bytes of the footers that are read for all ranges of a file.
_MOST_FOOTERS = 64 << 20

# Rows of any file, and the bytes that each further one has at least: no image has fewer than 60,
# and one that is missing or is that of other rows takes the same time.
_MOST_ROWS, _ROW_BYTES = 20_000, 64

PLACE_BITS = 52
"""The bits of a place, which is in the first 32 GB of a file."""


def _elements(body: bytes, at: int, least: int) -> tuple[int, int]:
    """Where the elements of Snappy end that make `least` bytes, and how many these make."""
    made = 0
    while made < least and at < len(body):
        kind, length = body[at] & 3, (body[at] >> 2) + 1
        if kind == 0 and length > 60:
            more = length - 60
            length = int.from_bytes(body[at + 1 : at + 1 + more], "little") + 1
            at += more
        elif kind == 1:
            length = (length - 1 & 7) + 4
        at += (1 + length, 2, 3, 5)[kind]
        made += length
    return at, made


def _decompressed(elements: bytes, size: int) -> bytes:
    """What elements of Snappy make that need nothing before them."""
    import pyarrow as pa

    length = [size >> shift & 127 | 128 for shift in (0, 7, 14, 21)]
    return bytes(pa.decompress(bytes([*length, size >> 28]) + elements, size, "snappy"))


class _Page:
    """The values of a page; only blocks that are asked for are decompressed.

    Attributes:
        size: of its bytes, decompressed.
        at: the next of them.
    """

    def __init__(self, body: bytes, offset: int, *, is_packed: bool) -> None:
        """Finds the blocks.

        Args:
            body: of the page, as it is stored.
            offset: where it begins in the file.
            is_packed: whether Snappy compressed it.
        """
        self._body, self._offset, self._is_packed = body, offset, is_packed
        self.at, self._held = 0, (-1, b"")
        self.size = len(body)
        self._starts = [*range(0, self.size, _BLOCK), self.size]
        if is_packed:
            self.size, start = read_number(body, 0)
            left, self._starts = self.size, [start]
            while left > 0:
                end, made = _elements(body, self._starts[-1], _BLOCK)
                if made != min(left, _BLOCK):
                    raise ValueError("its blocks of Snappy do not have 64 kB")
                self._starts.append(end)
                left -= made

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if size > self.size - self.at:
            raise EOFError("a page ends too early")
        found = bytearray()
        while len(found) < size:
            number, start = divmod(self.at, _BLOCK)
            if number != self._held[0]:
                block = self._body[self._starts[number] : self._starts[number + 1]]
                if self._is_packed:
                    block = _decompressed(block, min(_BLOCK, self.size - number * _BLOCK))
                self._held = number, block
            part = self._held[1][start : start + size - len(found)]
            self.at += len(part)
            found += part
        return bytes(found)

    def runs(self, size: int, width: int, count: int) -> list[int]:
        """Numbers of some bits each, in runs of equal ones and in groups of eight.

        They are in the next `size` bytes, of which more than they take are skipped.
        """
        import numpy as np

        found: list[int] = []
        data, at = self.read(min(size, 8 * count + _BLOCK)), 0
        self.at += size - len(data)
        while width and len(found) < count:
            head, at = read_number(data, at)
            if head < 2:
                raise ValueError("a run of it is empty")
            part = data[at : at + ((head >> 1) * width if head & 1 else (width + 7) // 8)]
            at += len(part)
            if head & 1:
                bits = np.unpackbits(np.frombuffer(part, np.uint8), bitorder="little")
                found += (bits.reshape(-1, width) @ (1 << np.arange(width))).tolist()
            else:
                found += [int.from_bytes(part, "little")] * min(head >> 1, count)
        return found[:count] if width else [0] * count

    def place(self) -> tuple[int, int]:
        """The place and the size of the next value, see `read_parquet_image`."""
        size = int.from_bytes(self.read(4), "little")
        number, start = divmod(self.at, _BLOCK)
        self.at += size
        self.read(0)
        offset = self._offset + self._starts[number]
        return offset << 17 | start << 1 | self._is_packed, size


def read_parquet_image(read: Read, place: int, size: int) -> bytes:
    """The bytes of an image, with one request.

    Args:
        read: a function from offset and length to a part of the file.
        place: where its block begins, and how many bytes of that come before it.
        size: its bytes.

    Raises:
        MemberError: the file is damaged.
        OSError: it cannot be read.
    """
    offset, start, is_packed = place >> 17, place >> 1 & _BLOCK - 1, place & 1
    with _damage("its file", MemberError):
        if not is_packed or not size:
            data = read(offset + start, size) if size else b""
        else:
            end = start + size
            block = _BLOCKS.get((read, offset), b"")
            if len(block) < end:
                # What does not shrink grows by less than a sixth.
                body = read(offset, (end + _BLOCK) * 7 // 6)
                stop, made = _elements(body, 0, end)
                block = _decompressed(body[:stop], min(made, end + _BLOCK))
                if len(_BLOCKS) >= _MOST_BLOCKS:
                    _BLOCKS.clear()
                if made <= _BLOCK:
                    _BLOCKS[read, offset] = block
            data = block[start:end]
        if len(data) != size:
            raise EOFError("it ends too early")
    return data


# The images of a file.


class ImageFile:
    """The images in a Parquet file.

    Attributes:
        columns: that hold them, their labels and their keys.
        groups: the number of its row groups.
        step: how many of them are read together, since the footer is read for each range.
    """

    def __init__(self, file: BinaryIO, read: Read, columns: str, path: str) -> None:
        """Reads the footer.

        Args:
            file: open for reading, at any position, which may change.
            read: a function from offset and length to a part of it.
            columns: see `record_features`; empty to find them.
            path: of the file, whose name is the key of images without one; for messages, too.

        Raises:
            LabelsError: it is not Parquet, is damaged, or has no column of images.
        """
        self._file, self._read, self._path = file, read, path
        self._parquet, schema = open_parquet(file, path)
        wanted = record_features(columns.replace("%2F", "/")) if columns else {}
        self.columns = find_columns(schema, wanted, path)
        image, *texts = (".".join(each) for each in self.columns[:3])
        self._texts = [*filter(None, texts)]
        leaves = self._parquet.schema
        self._leaf = next(at for at in range(len(leaves)) if leaves.column(at).path == image)
        self._levels = leaves.column(self._leaf).max_definition_level
        size = csv_tables.stored_size(file)
        self.groups = self._parquet.metadata.num_row_groups
        self.step = 1 + self.groups * self._parquet.metadata.serialized_size // _MOST_FOOTERS
        groups = [*map(self._parquet.metadata.row_group, range(self.groups))]
        self._chunks = [group.column(self._leaf) for group in groups]
        self._starts = [0, *itertools.accumulate(group.num_rows for group in groups)]
        # 200 files of 748 bytes named four million images.
        held = csv_tables.ROW_BYTES * self._starts[-1]
        held += sum(each.total_uncompressed_size for each in self._chunks)
        csv_tables.check_growth(held, size, path, _REMEDY)
        if self._starts[-1] > (most := _MOST_ROWS + size // _ROW_BYTES):
            raise LabelsError(f"{path} has {self._starts[-1]} rows, more than {most}: {_REMEDY}")

    def members(self, groups: range, *, are_placed: bool) -> Iterator[Member]:
        """The images of some row groups.

        Args:
            groups: their numbers.
            are_placed: whether their places are needed, for which they are read. Without them, the
                sizes are the mean.

        Raises:
            LabelsError: the file is damaged, or holds what is not read.
            OSError: it cannot be read.
        """
        stem = self._path.rpartition("/")[2].rpartition(".")[0]
        chunks, row = self._chunks[groups.start : groups.stop], self._starts[groups.start]
        held, stored = 0, sum(each.total_compressed_size for each in chunks)
        shown = f"{self._path} from row {row} on" if row else self._path
        with _damage(self._path, LabelsError):
            rows = self._starts[groups.stop] - row
            if sum(each.num_values for each in chunks) != rows:
                raise ValueError("its footer contradicts itself")
            size = sum(each.total_uncompressed_size for each in chunks) // max(1, rows)
            placed = itertools.chain.from_iterable(map(self._places, chunks))
            places = placed if are_placed else itertools.repeat((0, size), rows)
            for place, (key, label) in zip(places, self._rows(groups, rows), strict=True):
                name, problem = safe_name(key.strip().lstrip("/"))
                if place is None:
                    problem = problem or "its image is null"
                offset, size = place or (0, 0)
                # One image may be that of any number of rows.
                held += size if are_placed else 0
                csv_tables.check_growth(held, stored, shown, _REMEDY)
                yield Member(name or f"{stem}-{row}", size, offset, problem, label)
                row += 1

    def _rows(self, groups: range, rows: int) -> Iterator[tuple[str, str]]:
        """The keys and the labels of some row groups."""
        if not self._texts:
            yield from itertools.repeat(("", ""), rows)
            return
        classes = self.columns.classes
        for batch in few_rows(self._parquet, self._texts, self._file, groups, self._path, _REMEDY):
            labels, keys = (_texts(batch, column) for column in self.columns[1:3])
            for key, label in zip(keys, labels, strict=True):
                if classes:
                    at = int(label or -1)
                    label = classes[at] if 0 <= at < len(classes) else ""
                label = label_text(label)
                yield key, "" if len(label) > MAX_KEY or text_problem([label]) else label

    def _places(self, chunk: pq.ColumnChunkMetaData) -> Iterator[tuple[int, int] | None]:
        """The place and the size of each image of a row group; None for a missing one."""
        if chunk.compression not in ("SNAPPY", "UNCOMPRESSED"):
            raise ValueError(f"it is compressed by {chunk.compression}: write it with Snappy")
        starts = filter(None, (chunk.data_page_offset, chunk.dictionary_page_offset))
        begin = end = min(starts, default=0)
        left, known = chunk.num_values, list[tuple[int, int]]()
        while left > 0:
            header, length = page_header(self._read(end, _BLOCK), 0)
            kind, size = header[1], header[3]
            if kind not in (_DATA, _DICTIONARY) or not 0 <= size <= _MOST_PAGE:
                raise ValueError(
                    f"it has a page of the kind {kind} with {size} bytes: write data pages of "
                    f"version 1, of at most {_MOST_PAGE} bytes, by fewer rows in a row group"
                )
            said = header[5 if kind == _DATA else 7]
            count, encoding = said[1], said[2]
            # A dictionary comes first, and may have images of other row groups.
            most = left if kind == _DATA else left + size // _ROW_BYTES
            # Of others without rows, there may be any number.
            fewest = 0 if end == begin else 1
            if not fewest <= count <= most or fewest > 0 < kind:
                raise ValueError("its pages have more rows than its footer says")
            start = end + length
            end = start + size
            # Some old writers do not count the header of a dictionary.
            if end - begin > chunk.total_compressed_size + 100:
                raise ValueError("its pages have more bytes than its footer says")
            page = _Page(self._read(start, size), start, is_packed=chunk.compression == "SNAPPY")
            if kind == _DICTIONARY:
                known = [page.place() for _ in range(count)]
                continue
            left -= count
            levels = [0] * count
            if self._levels:
                size = int.from_bytes(page.read(4), "little")
                levels = page.runs(size, self._levels.bit_length(), count)
            there = levels.count(self._levels)
            if encoding == _PLAIN:
                found = iter([page.place() for _ in range(there)])
            elif encoding in _INDICES:
                width = page.read(1)[0]
                found = map(known.__getitem__, page.runs(page.size - page.at, width, there))
            else:
                raise ValueError(f"its images have the encoding {encoding}: write them as PLAIN")
            yield from (next(found) if each == self._levels else None for each in levels)


def _texts(batch: pa.RecordBatch, path: tuple[str, ...]) -> list[str]:
    """The cells of a column, or of a part of a struct; empty ones without a path."""
    import pyarrow.compute as pc

    if not path:
        return [""] * batch.num_rows
    column = batch.column(path[0])
    return cell_texts(pc.struct_field(column, path[1:]) if path[1:] else column)


@contextlib.contextmanager
def _damage(path: str, kind: type[Exception]) -> Iterator[None]:
    """Translates errors of numbers that no writer made."""
    try:
        with parquet_damage(path):
            yield
    except LabelsError as error:
        raise kind(str(error)) from error
    except (ValueError, LookupError, TypeError, EOFError, OverflowError, RuntimeError) as error:
        raise kind(f"{path} is damaged, or not read: {first_line(error)}") from error
