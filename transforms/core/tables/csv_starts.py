"""Reads the beginning of a CSV: blank lines, comments, Excel's `sep=`, and the delimiter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from transforms.core.planning.keys import IMAGE_EXTENSIONS
from transforms.core.tables.column_names import is_key_name, is_label_name

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


class CsvStart(NamedTuple):
    """The start of a CSV.

    Attributes:
        delimiter: between its cells.
        because: the evidence for it; `given` if it was given.
        lines: all lines; those before the first row are blank.
    """

    delimiter: str
    because: str
    lines: Iterator[str]


def read_start(lines: Iterator[str], delimiter: str = "") -> CsvStart:
    r"""Reads up to the first row.

    Args:
        lines: of the file.
        delimiter: between its cells, if that is given.

    >>> start = read_start(iter(["# from a\n", "sep=;\n", "id;label\n"]))
    >>> start.delimiter, start.because, list(start.lines)
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
            return CsvStart(found, because or "the first line of the file", again)
    return CsvStart(declared or ",", because, iter(()))


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
    return any(map(is_key_name, cells)) and any(map(is_label_name, cells))
