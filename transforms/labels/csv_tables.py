"""CSV files: parsing, lines, and where their tables begin."""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from transforms.core.messages import LabelsError
from transforms.labels.keys import IMAGE_EXTENSIONS
from transforms.labels.label_rows import GZIP_MAGIC, MAX_CELL, TableRows

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# Usual names of columns with the key or the label of an image.

KEY_NAMES = frozenset(
    "file filename filepath id idcode image imagefile imagefilename imageid imagename imagepath"
    " imageuri img imgid imgname imgpath key name path photo photoid photoname picture stem"
    " uri".split()
)
"""Header names known to hold the key, as `folded` spells them."""

LABEL_NAMES = frozenset(
    "breed category categoryid categoryname class classid classlabel classname label labelid"
    " labelname labels landmark landmarkid species target".split()
)
"""Header names known to hold the label, as `folded` spells them."""


def folded(name: str) -> str:
    """A header name without case and punctuation.

    >>> folded("Image_ID"), folded("image id")
    ('imageid', 'imageid')
    """
    return re.sub(r"[\s_-]|^#", "", name.casefold())


# The decoded physical lines of a label CSV: gzip or not, any encoding, no byte order mark.

# Errors of decompression; the caller handles errors of the file itself (any other OSError).
_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


# How files begin that are no CSV, and what to do. A header in brackets goes on with a letter.
_NO_CSV = {
    re.compile(rb"PK\x03\x04"): "a zip archive or an Excel workbook: save it as CSV",
    re.compile(rb'[\[{][\s"{\[\d]'): "JSON: write one object per line, or a CSV",
    re.compile(rb"BZh[1-9]1|\xfd7z|\x28\xb5\x2f|\x04\"M|]\0\0"): "compressed: decompress it",
    re.compile(rb"\xff\xd8\xff|\x89PNG|GIF8"): "an image: give a table of labels",
    re.compile(rb"(#.*\s+)*(path|train|names|nc):"): "YAML, for --class_names: give YOLO's *.txt",
    re.compile(rb"\s*<(!doctype |html)", re.I): "a web page: download the file itself",
    re.compile(rb"version https://git-"): "a pointer of Git LFS: run git lfs pull",
}


_LINE_BREAK = re.compile(r"\r\n|\r|\n")


_BUFFER_BYTES = 64 << 10

# Of zlib: the largest window, and the header and trailer of gzip.
_GZIP = 31
_GZIP_BYTES = 8 << 10
# Tapes pad a file to a block, of a megabyte at most.
_MOST_ZEROS = 16 << 20


# These turn plain text into lone surrogates, or are not encodings of files.
_NOT_OF_FILES = frozenset({"unicode-escape", "raw-unicode-escape", "utf-7", "idna", "punycode"})


MAX_ROW = 4 << 20
"""The longest line, and the longest row of several lines, in characters: it is held in memory."""

_MOST_BLANK = 3_000_000
"""The most blank lines of a table that has no rows; each row allows for ten more."""

MOST_TIMES = 200
"""How often a compressed table may hold its size, above `FREE_BYTES`.

One with a column for each of 100 classes holds it 25 times; the most is 1,032 times.
"""

FREE_BYTES = 8 << 20
"""Bytes that all compressed tables may hold together besides `MOST_TIMES` their size."""

GROWN: dict[str, int] = {}
"""What each table that this process read in a run holds beyond `MOST_TIMES` its size.

To read 2,000 of 1 KB with 8 MB each took minutes.
"""

ROW_BYTES = 256
"""Bytes that take the time of a row, or of a value in JSON, besides those in it. Rows of a file of
names in order and their class have two bytes each in gzip, and 200 times that may be held."""

CELL_BYTES = 4
"""Bytes that take the time of a cell, besides those in it: 3 microseconds if it is a feature."""

# The most bytes that are read at once.
_PIECE = 16 << 20

_ROW_STARTS = (b"\n", b"\r", b"{", b"[")
_CELL_STARTS = (b",", b";", b"\t", b"|")


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
        LabelsError: an unknown encoding, a workbook, damaged gzip or far more than its size, bytes
            that do not decode, a line of more than `MAX_ROW` characters, or too many blank ones.
    """
    text = open_text(binary_file, encoding, path=path, what=what)
    count = blank = 0
    try:
        next_line = functools.partial(text.readline, MAX_ROW)
        for count, line in enumerate(iter(next_line, ""), 1):
            if len(line) == MAX_ROW and line[-1] not in "\r\n":
                raise too_long_error(count, path, what)
            blank += line.isspace()
            if blank > _MOST_BLANK + 10 * (count - blank):
                raise LabelsError(f"{what} {path} has {blank} blank lines: remove them")
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
        LabelsError: an unknown encoding, a workbook, or JSON; when it is read, if a compressed
            file holds far more than its size.
    """
    head = read_head(binary_file, 20)
    for begin, problem in _NO_CSV.items() if what == "CSV" else ():
        if begin.match(head):
            raise LabelsError(f"CSV {path} is {problem}")
    stored = Rejoined(head, binary_file.read)
    raw = stored
    if head.startswith(GZIP_MAGIC):
        raw = as_file(_bounded(inflated(stored), stored, f"{what} {path}"))
    codec = "utf-8-sig" if has_utf8_codec(encoding) else encoding
    try:
        if codecs.lookup(codec).name in _NOT_OF_FILES:
            raise LookupError(codec)
        return io.TextIOWrapper(io.BufferedReader(raw, _BUFFER_BYTES), codec, newline="")
    except LookupError:
        raise LabelsError(f"--csv_encoding {encoding!r} is not an encoding Python knows") from None


def _decode_error(
    error: UnicodeDecodeError, lines_read: int, encoding: str, path: str, what: str
) -> LabelsError:
    """The line of a decoding error: counts the lines before it, also in the failing block.

    Off by one if the bytes before ended in a lone CR, which the text layer holds back.
    """
    # All single-byte codecs report the name 'charmap'.
    before = error.object[: error.start].decode(_codec(error.encoding) or "latin-1", "replace")
    line = lines_read + 1 + len(_LINE_BREAK.findall(before))
    if what != "CSV":
        return LabelsError(f"{what} {path} is not UTF-8 at line {line}: save it as UTF-8")
    other = _likely_encoding(error.object, error.start, encoding)
    return LabelsError(f"CSV {path} is not {encoding} at line {line}: try --csv_encoding {other}")


class Rejoined(io.RawIOBase):
    """A file whose first bytes have already been read.

    Attributes:
        count: how many bytes were read from it.
    """

    def __init__(self, head: bytes, read: Callable[[int], bytes]) -> None:
        """Takes the first bytes, and a function that reads about as many of the others."""
        self._head = head
        self._read = read
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        data = self._head or self._read(len(view))
        count = min(len(data), len(view))
        view[:count], self._head = data[:count], data[count:]
        self.count += count
        return count


def as_file(pieces: Iterator[bytes]) -> Rejoined:
    """A file of these pieces, of which none is empty; a read gives the rest of one."""
    return Rejoined(b"", lambda _: next(pieces, b""))


def inflated(stored: ReadableBytes) -> Iterator[bytes]:
    """What a gzip file holds, of all its members, in pieces.

    `gzip.GzipFile` reads zeros behind them, which may take terabytes, one by one.
    """
    inflater, zeros = zlib.decompressobj(_GZIP), 0
    while rest := stored.read(_GZIP_BYTES):
        while rest:
            if inflater.eof:
                member = rest.lstrip(b"\0")
                zeros += len(rest) - len(member)
                if zeros > _MOST_ZEROS:
                    raise gzip.BadGzipFile(f"more than {_MOST_ZEROS} zeros behind its end")
                rest, inflater = member, zlib.decompressobj(_GZIP) if member else inflater
                continue
            before = inflater.copy()
            try:
                data = inflater.decompress(rest, _BUFFER_BYTES)
            except zlib.error:
                if data := _before_damage(before, rest):
                    yield data
                raise
            rest = inflater.unconsumed_tail or inflater.unused_data
            if data:
                yield data
    if not inflater.eof:
        raise EOFError("it ends too early")


def _before_damage(inflater: Any, rest: bytes) -> bytes:
    """What `zlib` had already made of damaged bytes when it found the damage."""
    data = b""
    with contextlib.suppress(zlib.error):
        for at in range(len(rest)):
            data += inflater.decompress(rest[at : at + 1])
    return data


def _bounded(pieces: Iterator[bytes], stored: Rejoined, shown: str) -> Iterator[bytes]:
    """The pieces of a compressed table, which takes no more time than its size allows."""
    held = 0
    for data in pieces:
        held += held_bytes(data)
        check_growth(held, stored.count, shown, "decompress it")
        yield data


def held_bytes(data: bytes) -> int:
    """The bytes of a part of a table, with `ROW_BYTES` and `CELL_BYTES` for what begins there.

    An object without a line of its own, as in COCO, takes as long as three rows, and one of VOC.
    """
    within = max(0, data.count(b"{") - data.count(b"\n")) + data.count(b"<object")
    rows, cells = (sum(map(data.count, starts)) for starts in (_ROW_STARTS, _CELL_STARTS))
    return len(data) + ROW_BYTES * (2 * within + rows) + CELL_BYTES * cells


def check_growth(held: int, stored: int, shown: str, remedy: str) -> None:
    """Checks that a compressed table, with others, does not hold far more than its size.

    Args:
        held: see `held_bytes`, as far as it was read.
        stored: bytes of the file, as far as it was read.
        shown: the file for the message. If it was read before, it counts once.
        remedy: what to do.

    Raises:
        LabelsError: it does.
    """
    GROWN.pop(shown, None)
    if held > MOST_TIMES * stored:
        GROWN[shown] = held - MOST_TIMES * stored
        if sum(GROWN.values()) > FREE_BYTES:
            GROWN.clear()
            raise LabelsError(f"{shown} holds more than {MOST_TIMES} times its size: {remedy}")


def read_head(file: ReadableBytes, size: int) -> bytes:
    """The next bytes of a file; fewer at its end.

    They are read in pieces: memory grows with the bytes that are there, not with a declared size.
    """
    pieces, left = [], size
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def stored_size(file: Any, size: int = -1) -> int:
    """The bytes of a file; of a sparse one, those that a disk holds.

    Args:
        file: open; if it is local, it has a `fileno`.
        size: its bytes; if they are not given, it is at its end then.
    """
    size = file.seek(0, io.SEEK_END) if size < 0 else size
    # Of what it has not written yet, ZFS says only that nothing is a hole, which may take seconds:
    # it is not asked about a small file. Some file systems say no more of any file.
    with contextlib.suppress(OSError, AttributeError):
        if size >> 20:
            number, at = file.fileno(), os.lseek(file.fileno(), 0, os.SEEK_CUR)
            if os.lseek(number, 0, os.SEEK_HOLE) < os.fstat(number).st_size:
                size = min(size, 512 * os.fstat(number).st_blocks)
            os.lseek(number, at, os.SEEK_SET)
    return size


def _codec(encoding: str) -> str:
    """The codec's own name; empty for an unknown one."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return ""


def has_utf8_codec(encoding: str) -> bool:
    """Whether an encoding is UTF-8, with a byte order mark or without."""
    return _codec(encoding) in ("utf-8", "utf-8-sig")


def _likely_encoding(data: bytes, at: int, encoding: str) -> str:
    """An encoding to try for bytes that are not `encoding`.

    >>> _likely_encoding("한강,1".encode("cp949"), 0, "utf-8")
    'cp949'
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if not has_utf8_codec(encoding):
        return "utf-8"
    line = data[data.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
    try:
        codecs.getincrementaldecoder("cp949")().decode(line)
    except UnicodeDecodeError:
        return "cp1252"
    return "cp949"


# Parses the lines of a CSV: RFC 4180 quoting, with the line each row starts on.


def parse_rows(lines: Iterator[str], delimiter: str, path: str) -> TableRows:
    """The line each row starts on, its cells, and any problem with its quotes.

    Raises:
        LabelsError: the file cannot be read further.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))  # the module's, so only ever raised
    start, length = 1, 0

    def counted() -> Iterator[str]:
        # The row that is being parsed is held in memory.
        nonlocal length
        for line in lines:
            length += len(line)
            if length > MAX_ROW:
                raise too_long_error(start, path)
            yield line

    reader = csv.reader(counted(), delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        cells: list[str] = []
        problem = ""
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):
                raise LabelsError(
                    f"CSV {path} line {start}: a quote is not closed, or a cell exceeds {MAX_CELL} "
                    f"characters ({error}): close the quote, or double it"
                ) from None
            # The reader continues with the next line.
            problem = "text follows a closing quote: double the quotes inside a quoted cell"
        if "\0" in "".join(cells):
            raise LabelsError(
                f"CSV {path} line {start} holds a NUL byte: it is not plain text; save it as "
                "UTF-8, or try --csv_encoding utf-16-le"
            )
        if problem or len(cells) > 1 or (cells and not cells[0].isspace() and cells[0]):
            yield start, cells, problem
        start, length = reader.line_num + 1, 0


def last_row_end(lines: bytes, delimiter: str) -> int:
    """Where the last whole row of some lines of a UTF-8 CSV ends, of which the first begins a row.

    Where quotes are, only parsing tells; 0 if no row has an end.
    """
    if b'"' not in lines:
        return len(lines)
    file, end = io.BytesIO(lines), 0
    with contextlib.suppress(LabelsError):
        for _ in parse_rows(decoded_lines(file), delimiter, ""):
            end = file.tell()
    return end


def decoded_lines(lines: io.BytesIO) -> Iterator[str]:
    """The lines of a part of a UTF-8 CSV, of which bytes that are not UTF-8 stay what they are."""
    return (line.decode("utf-8", "surrogateescape").removeprefix("\ufeff") for line in lines)


# Reads the beginning of a CSV: blank lines, comments, Excel's `sep=`, and the delimiter.

_QUOTED = re.compile(r'"[^"]*"?')

# `#id,label` is a header, as some tools write it; `# from the camera` is a comment.
_COMMENT = re.compile(r"#(\s|$)|#[^,;|\t]*$")
_EXCEL = re.compile(r'"?sep=([^\w\s"]|\t)"?\s*', re.ASCII | re.IGNORECASE)

# Maximum number of comment lines; more of them are a column of data.
_MOST = 1000

# These also occur in cells, where they do not separate anything.
_OF_NAMES = "\"'._-/\\\r\n\0"

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "'|'", " ": "space"}
"""The possible delimiters and their names."""


_NAMED = {name: character for character, name in DELIMITERS.items()} | {"\\t": "\t"}


def parse_delimiter(text: str) -> str:
    r"""The character that separates cells: itself, or its name.

    Raises:
        ValueError: it cannot separate cells.

    >>> parse_delimiter(";"), parse_delimiter("tab"), parse_delimiter(r"\t")
    (';', '\t', '\t')
    """
    found = _NAMED.get(text.lower(), text)
    is_surrogate = "\ud800" <= found <= "\udfff"
    if len(found) != 1 or found in '"\r\n\0' or found.isalnum() or is_surrogate:
        raise ValueError(f"{text!r} cannot separate cells: give one character such as ';', or tab")
    return found


def delimiter_text(delimiter: str) -> str:
    r"""A separator as it is written on a command line.

    >>> delimiter_text(";"), delimiter_text("\t")
    (';', 'tab')
    """
    return DELIMITERS[delimiter] if delimiter in "\t " else delimiter


def likely_delimiter(rows: Sequence[Sequence[str]]) -> str:
    """A likely delimiter for rows that seem to have one cell; empty if there is none.

    Every row contains it equally often; characters of names and paths are excluded.

    >>> likely_delimiter([("id~label",), ("a-1~cat",)]), likely_delimiter([("a",), ("b",)])
    ('~', '')
    """
    if not rows or any(len(row) != 1 for row in rows):
        return ""
    texts = [text for (text,) in rows]
    for character in dict.fromkeys(texts[0]):
        if not character.isalnum() and character not in _OF_NAMES:
            counts = {text.count(character) for text in texts}
            if len(counts) == 1:
                return character
    return ""


def read_start(lines: Iterator[str], delimiter: str = "") -> tuple[str, str, Iterator[str]]:
    r"""Reads up to the first row.

    Args:
        lines: of the file.
        delimiter: between its cells, if that is given.

    Returns:
        the delimiter; the evidence for it, `given` if it was given; and all lines, of which those
        before the first row are blank.

    >>> found, because, lines = read_start(iter(["# from a\n", "sep=;\n", "id;label\n"]))
    >>> found, because, list(lines)
    (';', "its line 'sep=;'", ['\n', '\n', 'id;label\n'])
    """
    declared, because = delimiter, "given" if delimiter else ""
    for skipped, line in enumerate(lines):
        text = line.strip("\r\n")
        if skipped < _MOST and (excel := _EXCEL.fullmatch(text)) and declared == delimiter:
            if not delimiter:
                declared, because = excel[1], f"its line {text.strip()!r}"
            continue
        if text.strip() and not (skipped < _MOST and _is_comment(text.strip(), delimiter)):
            found = declared or delimiter_of(line)
            again = itertools.chain(itertools.repeat("\n", skipped), [line], lines)
            return found, because or "the first line of the file", again
    return declared or ",", because, iter(())


def _is_comment(text: str, delimiter: str) -> bool:
    found = _COMMENT.match(text)
    is_row = found and found[1] is None and delimiter and delimiter in text
    return bool(found) and not is_row


def delimiter_of(line: str) -> str:
    """A comma, or if the line has none outside quotes, a tab, semicolon, bar or space.

    Spaces are delimiters only with further evidence, since names may contain spaces, too.

    >>> delimiter_of('id;"a, b"'), delimiter_of("id"), delimiter_of("id,a;b"), delimiter_of("a|b")
    (';', ',', ',', '|')
    >>> delimiter_of("image label"), delimiter_of("1.jpg cat"), delimiter_of("my cat.jpg")
    (' ', ' ', ',')
    """
    bare = _QUOTED.sub("", line)
    if "," in bare:
        return ","
    found = max("\t;|", key=bare.count)
    if found in bare:
        return found
    return " " if _has_spaced_cells(bare.split()) else ","


def _has_spaced_cells(cells: list[str]) -> bool:
    """Whether words are an image with other cells, or the names of columns."""
    if len(cells) < 2:
        return False
    if any(cell.rpartition(".")[2].lower() in IMAGE_EXTENSIONS for cell in cells[:-1]):
        return "." in cells[0]
    names = {*map(folded, cells)}
    return bool(names & KEY_NAMES and names & LABEL_NAMES)
