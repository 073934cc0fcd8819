"""How a CSV begins: blank lines, comments, Excel's `sep=`, and what separates its cells."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from transforms.core.planning.keys import IMAGE_EXTENSIONS
from transforms.core.tables.column_names import is_key_name, is_label_name

_QUOTED = re.compile(r'"[^"]*"?')

# `#id,label` is a header, as some tools write it; `# from the camera` is a comment.
_COMMENT = re.compile(r"#(\s|$)|#[^,;|\t]*$")
_EXCEL = re.compile(r'"?sep=([^\w\s"]|\t)"?\s*', re.ASCII | re.IGNORECASE)

# The last lines that may be comments; what is longer is a column of them.
_MOST = 1000

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "'|'", " ": "space"}
"""What may separate cells, and what to call it."""


class CsvStart(NamedTuple):
    """The start of a CSV.

    Attributes:
        delimiter: between its cells.
        because: what shows it.
        lines: all lines; those before the first row are blank.
    """

    delimiter: str
    because: str
    lines: Iterator[str]


def read_start(lines: Iterator[str]) -> CsvStart:
    r"""Reads up to the first row.

    >>> start = read_start(iter(["# from a\n", "sep=;\n", "id;label\n"]))
    >>> start.delimiter, start.because, list(start.lines)
    (';', "its line 'sep=;'", ['\n', '\n', 'id;label\n'])
    """
    declared = because = ""
    for skipped, line in enumerate(lines):
        text = line.strip("\r\n")
        if skipped < _MOST and (excel := _EXCEL.fullmatch(text)) and not declared:
            declared, because = excel[1], f"its line {text.strip()!r}"
            continue
        if text.strip() and not (skipped < _MOST and _COMMENT.match(text.strip())):
            delimiter = declared or delimiter_of(line)
            again = itertools.chain(itertools.repeat("\n", skipped), [line], lines)
            return CsvStart(delimiter, because or "the first line of the file", again)
    return CsvStart(declared or ",", because, iter(()))


def delimiter_of(line: str) -> str:
    """A comma, unless the line has none outside quotes but tabs, semicolons, bars or spaces.

    Spaces separate cells only where the line tells: names may have spaces, too.

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
    """Whether words are an image and more, or the names of columns."""
    if len(cells) < 2:
        return False
    if any(cell.rpartition(".")[2].lower() in IMAGE_EXTENSIONS for cell in cells[:-1]):
        return "." in cells[0]
    return any(map(is_key_name, cells)) and any(map(is_label_name, cells))
