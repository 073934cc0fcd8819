"""Parses the lines of a CSV: RFC 4180 quoting, with the line each row starts on."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from transforms.core.label_errors import LabelsError
from transforms.core.tables.csv_lines import MAX_ROW, too_long_error
from transforms.core.tables.table_formats import TableRows

MAX_CELL = 1 << 20
"""The longest cell, in characters. A longer one is a quote that is never closed."""


def parse_rows(lines: Iterator[str], delimiter: str, path: str) -> TableRows:
    """The line each row starts on, its cells, and any problem with its quotes.

    Raises:
        LabelsError: the file cannot be read further.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))  # the module's, so only ever raised
    row = _Row(path)
    reader = csv.reader(row.lines(lines), delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        try:
            for cells in reader:
                if "\0" in "".join(cells):
                    raise _nul_error(row.start, path)
                if len(cells) > 1 or (cells and not cells[0].isspace() and cells[0]):
                    yield row.start, cells, ""
                row.begin(reader.line_num + 1)
            return
        except csv.Error as error:
            problem = _quote_problem(error, row.start, path)
        yield row.start, [], problem  # the reader continues with the next line
        row.begin(reader.line_num + 1)


class _Row:
    """The characters of the row that is being parsed, all of which are held in memory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.start = 1
        self.length = 0

    def lines(self, lines: Iterator[str]) -> Iterator[str]:
        """Counts the lines that the parser takes.

        Raises:
            LabelsError: the row is longer than `MAX_ROW`.
        """
        for line in lines:
            self.length += len(line)
            if self.length > MAX_ROW:
                raise too_long_error(self.start, self._path)
            yield line

    def begin(self, start: int) -> None:
        """The next row begins on the line `start`."""
        self.start = start
        self.length = 0


def _quote_problem(error: csv.Error, line: int, path: str) -> str:
    """The detail of a row with wrong quotes.

    Raises:
        LabelsError: the end of the row cannot be found.
    """
    text = str(error)
    if "NUL" in text:  # Python 3.10
        raise _nul_error(line, path)
    if "expected after" in text:
        return "text follows a closing quote: double the quotes inside a quoted cell"
    raise LabelsError(
        f"CSV {path} line {line}: a quote is not closed, or a cell exceeds {MAX_CELL} characters"
        f" ({text}): close the quote, or double it"
    )


def _nul_error(line: int, path: str) -> LabelsError:
    return LabelsError(
        f"CSV {path} line {line} holds a NUL byte: it is not plain text; save it as UTF-8, or try"
        " --csv_encoding utf-16-le"
    )
