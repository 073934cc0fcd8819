"""Reads back a dataset: its TFRecord files, and the images that it left out."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
from collections.abc import Iterator
from typing import BinaryIO, cast

import google_crc32c

from transforms.core.dataset.output_names import REJECTED
from transforms.core.examples.tfrecord import LARGEST_RECORD, read_records
from transforms.core.json_text import parse_json
from transforms.core.rejections import RETRIED
from transforms.storage.files import join, storage_of

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
_RETRIED_MARKERS = tuple(f'"{reason}"'.encode() for reason in sorted(RETRIED))


class ChecksummedReader:
    """A stream that computes the CRC32C and the number of the bytes read.

    Attributes:
        bytes: how many were read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._crc = 0
        self._ahead = b""
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    def peek(self, size: int) -> bytes:
        """The next bytes, without consuming them; fewer only at the end of the stream."""
        while len(self._ahead) < size and (more := self._stream.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer only at the end of the stream; all of them if negative."""
        ahead, self._ahead = self._ahead, b""
        if 0 <= size < len(ahead):
            ahead, self._ahead = ahead[:size], ahead[size:]
        wanted = size - len(ahead) if size >= 0 else -1
        data = self._stream.read(wanted) if wanted else b""
        data = ahead + data if ahead else data
        self._crc = google_crc32c.extend(self._crc, data)
        self.bytes += len(data)
        return data

    def drain(self, size: int) -> None:
        """Reads the rest of a file that should have `size` bytes; not all of a longer one."""
        while self.bytes <= size and self.read(_CHUNK):
            pass


@contextlib.contextmanager
def open_stored(path: str, *, follow_links: bool = True) -> Iterator[ChecksummedReader]:
    """A file's bytes as stored.

    Args:
        path: the file.
        follow_links: see `Storage.open_reader`.

    Raises:
        OSError: it cannot be opened.
    """
    with storage_of(path).open_reader(path, follow_links=follow_links) as file:
        yield ChecksummedReader(file)


def stored_sha256(path: str) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with open_stored(path, follow_links=False) as stored:
        while chunk := stored.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def stored_records(
    stored: ChecksummedReader, *, max_bytes: int = LARGEST_RECORD
) -> Iterator[bytes]:
    """The records in a stream; gzip is recognized by its first bytes and decompressed.

    Args:
        stored: the file.
        max_bytes: of a record.

    Raises:
        TFRecordError: while reading, at the first record that is damaged.
    """
    stream = cast(BinaryIO, stored)
    if stored.peek(2) == _GZIP_MAGIC:
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    return read_records(stream, max_bytes=max_bytes)


@contextlib.contextmanager
def open_records(
    path: str, *, follow_links: bool = True, max_bytes: int = LARGEST_RECORD
) -> Iterator[Iterator[bytes]]:
    """The records of a TFRecord file, compressed by gzip or not.

    Args:
        path: the file.
        follow_links: see `Storage.open_reader`.
        max_bytes: of a record.

    Raises:
        TFRecordError: while reading, at the first record that is damaged.
        OSError: when the file cannot be opened.
    """
    with open_stored(path, follow_links=follow_links) as stored:
        yield stored_records(stored, max_bytes=max_bytes)


def retried_keys(output: str, size: int) -> frozenset[str]:
    """The keys of the images that a published dataset left out for one of the reasons `RETRIED`.

    Args:
        output: its folder.
        size: bytes of `rejected.jsonl` by its manifest; no more are read.
    """
    path = join(output, REJECTED)
    if not storage_of(path).exists(path):
        return frozenset()
    keys = set()
    for line in stored_lines(path, size):
        # Only these are parsed: they are few, unlike rows without an image.
        if not any(marker in line for marker in _RETRIED_MARKERS):
            continue
        with contextlib.suppress(ValueError, TypeError, KeyError):
            entry = parse_json(line)
            if entry["reason"] in RETRIED:
                keys.add(str(entry["key"]))
    return frozenset(keys)


def stored_lines(path: str, size: int) -> Iterator[bytes]:
    """The lines of a file, which may be too large to be held.

    Args:
        path: the file.
        size: its bytes by the manifest; no more are read.

    Raises:
        OSError: it cannot be read.
    """
    with storage_of(path).open_reader(path, follow_links=False) as file:
        # The reader of an object in a bucket has no lines: each would be read byte by byte.
        lines = io.BufferedReader(cast(io.RawIOBase, file), _CHUNK)
        # The size also bounds a line: the file may be a terabyte without a newline.
        while size > 0 and (line := lines.readline(size)):
            size -= len(line)
            yield line
