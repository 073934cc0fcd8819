"""The decoded physical lines of a label CSV: gzip or not, any encoding, no byte order mark."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
from transforms.core.label_errors import LabelsError

# Errors of decompression; the caller handles errors of the file itself (any other OSError).
_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


# How JSON begins; a header in brackets continues with a letter.
_JSON = re.compile(rb'[\[{][\s"{\[]')


_LINE_BREAK = re.compile(r"\r\n|\r|\n")


_BUFFER_BYTES = 64 << 10


# These turn plain text into lone surrogates, or are not encodings of files.
_NOT_OF_FILES = frozenset({"unicode-escape", "raw-unicode-escape", "utf-7", "idna", "punycode"})


MAX_ROW = 4 << 20
"""The longest line, and the longest row of several lines, in characters: it is held in memory."""


class ReadableBytes(Protocol):
    """The required methods of an open file; Beam and gzip files have them."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""


def read_lines(
    binary_file: ReadableBytes, *, encoding: str = "utf-8", path: str, what: str = "CSV"
) -> Iterator[str]:
    """All physical lines, with the line breaks they have (LF, CRLF or CR).

    Args:
        binary_file: open for reading bytes; gzip is recognized by its first bytes. Not closed.
        encoding: a Python codec name; a byte order mark is always dropped.
        path: the name of the file for messages.
        what: its format, for messages.

    Raises:
        LabelsError: an unknown encoding, a workbook, damaged gzip, bytes that do not decode, or a
            line of more than `MAX_ROW` characters.
    """
    text = open_text(binary_file, encoding, path=path, what=what)
    count = 0
    try:
        next_line = functools.partial(text.readline, MAX_ROW)
        for count, line in enumerate(iter(next_line, ""), 1):
            if len(line) == MAX_ROW and line[-1] not in "\r\n":
                raise too_long_error(count, path, what)
            yield line if count > 1 else line.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _decode_error(error, count, encoding, path, what) from error
    except UnicodeError as error:  # UTF-16 without a byte order mark
        hint = "try --csv_encoding utf-16-le"
        raise LabelsError(f"{what} {path} is not {encoding} ({error}): {hint}") from error
    except _GZIP_ERRORS as error:
        problem = f"is damaged gzip after line {count} ({error})"
        raise LabelsError(f"{what} {path} {problem}: fetch it again") from error


def too_long_error(line: int, path: str, what: str = "CSV") -> LabelsError:
    """The error about a line or a row that exceeds `MAX_ROW`."""
    hint = "it is not a CSV, or a quote is not closed" if what == "CSV" else f"it is not {what}"
    return LabelsError(
        f"{what} {path} line {line}: a line or row of more than {MAX_ROW} characters: {hint}"
    )


def open_text(
    binary_file: ReadableBytes, encoding: str = "utf-8", *, path: str, what: str = "JSON"
) -> io.TextIOWrapper:
    """The text of a file, decompressed if it is gzip, without a byte order mark.

    Args:
        binary_file: open for reading bytes. Not closed.
        encoding: a Python codec name.
        path: the name of the file for messages.
        what: its format, for messages; a CSV must not be JSON.

    Raises:
        LabelsError: an unknown encoding, a workbook, or JSON.
    """
    head = read_head(binary_file, 4)
    if head == b"PK\3\4":
        raise LabelsError(f"{what} {path} is a zip archive or an Excel workbook: save it as CSV")
    if what == "CSV" and _JSON.match(head):
        raise LabelsError(f"CSV {path} is JSON: write one object per line, or a CSV")
    binary: io.BufferedReader | gzip.GzipFile
    binary = io.BufferedReader(Rejoined(head, binary_file), _BUFFER_BYTES)
    if head.startswith(b"\x1f\x8b"):
        binary = gzip.GzipFile(fileobj=binary)
    codec = "utf-8-sig" if _is_utf8(encoding) else encoding
    try:
        if codecs.lookup(codec).name in _NOT_OF_FILES:
            raise LookupError(codec)
        return io.TextIOWrapper(binary, codec, newline="")
    except LookupError:
        raise LabelsError(f"--csv_encoding {encoding!r} is not an encoding Python knows") from None


def _decode_error(
    error: UnicodeDecodeError, lines_read: int, encoding: str, path: str, what: str
) -> LabelsError:
    """The line of a decoding error: counts the lines before it, also in the failing block.

    Off by one if the bytes before ended in a lone CR, which the text layer holds back.
    """
    before = error.object[: error.start].decode(_known_codec(error.encoding), "replace")
    line = lines_read + 1 + len(_LINE_BREAK.findall(before))
    if what != "CSV":
        return LabelsError(f"{what} {path} is not UTF-8 at line {line}: save it as UTF-8")
    other = _likely_encoding(error.object, error.start, encoding)
    return LabelsError(f"CSV {path} is not {encoding} at line {line}: try --csv_encoding {other}")


class Rejoined(io.RawIOBase):
    """A file whose first bytes have already been read."""

    def __init__(self, head: bytes, rest: ReadableBytes) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        data = self._head or self._rest.read(len(view))
        self._head = data[len(view) :] if self._head else b""
        count = min(len(data), len(view))
        view[:count] = data[:count]
        return count


def read_head(file: ReadableBytes, size: int) -> bytes:
    """The first bytes of a file."""
    head = b""
    while len(head) < size and (more := file.read(size - len(head))):
        head += more
    return head


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    except LookupError:
        return False


def _known_codec(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:  # 'charmap', the name that all single-byte codecs report
        return "latin-1"


def _likely_encoding(data: bytes, at: int, encoding: str) -> str:
    """An encoding to try for bytes that are not `encoding`.

    >>> _likely_encoding("한강,1".encode("cp949"), 0, "utf-8")
    'cp949'
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if not _is_utf8(encoding):
        return "utf-8"
    line = data[data.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
    try:
        codecs.getincrementaldecoder("cp949")().decode(line)
    except UnicodeDecodeError:
        return "cp1252"
    return "cp949"
