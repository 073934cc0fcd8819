"""The members of a large JSON object, lists item by item, in bounded memory."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any, TextIO

from transforms.core.label_errors import LabelsError

MAX_ITEM = 64 << 20
"""The longest item of a list, in characters: it is held in memory."""

_CHUNK = 1 << 20

# What is decided closer to the end of the text may be due to the cut.
_NEAR_END = 16

_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()


def read_members(text: TextIO, *, path: str) -> Iterator[tuple[str, bool, Any]]:
    """The members of the object that a text is, in order.

    Args:
        text: open for reading, at its start.
        path: the name of the file for messages.

    Yields:
        the name of a member, whether its value is a list, and the value; a list is left out itself,
        and each of its items is yielded.

    Raises:
        LabelsError: the text is not JSON, not an object, has a name twice, ends too early, or an
            item is too long.

    >>> import io
    >>> list(read_members(io.StringIO('{"a": [1, {"b": 2}], "c": null}'), path="a.json"))
    [('a', True, 1), ('a', True, {'b': 2}), ('c', False, None)]
    """
    reader = _Reader(text, path)
    reader.expect("{")
    separator = ""
    names: set[str] = set()
    while reader.next_character() != "}":
        if separator:
            reader.expect(separator)
        separator = ","
        name = reader.value()
        if not isinstance(name, str):
            raise reader.error("a name is expected")
        if name in names:
            raise reader.error(f"a second {name[:40]!r}")
        names.add(name)
        reader.expect(":")
        if reader.next_character() == "[":
            yield from ((name, True, item) for item in reader.items())
        else:
            yield name, False, reader.value()
    reader.expect("}")
    if reader.next_character():
        raise reader.error("the object has ended, but the file has not")


class _Reader:
    """Decodes values from a text of which a part is in memory."""

    def __init__(self, text: TextIO, path: str) -> None:
        self._text = text
        self._path = path
        self._part = ""
        self._at = 0
        self._before = 0
        self._is_all = False

    def next_character(self) -> str:
        """The first character of the next value or separator; empty at the end."""
        while True:
            part, at = self._part, self._at
            while at < len(part) and part[at] in _BLANK:
                at += 1
            self._at = at
            if at < len(part):
                return part[at]
            if self._is_all:
                return ""
            self._read(_CHUNK)

    def expect(self, character: str) -> None:
        """Takes one character."""
        if self.next_character() != character:
            raise self.error(f"{character!r} is expected")
        self._at += 1

    def items(self) -> Iterator[Any]:
        """The items of a list."""
        self.expect("[")
        is_first = True
        while self.next_character() != "]":
            if not is_first:
                self.expect(",")
            is_first = False
            yield self.value()
        self.expect("]")

    def value(self) -> Any:
        """The next value, as a whole."""
        if not self.next_character():
            raise self.error("the file ends too early")
        size = _CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._part, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.pos + _NEAR_END >= len(self._part) or "Unterminated" in error.msg
                if self._is_all or not is_cut:
                    raise self.error(error.msg, error.pos - self._at) from error
            except (ValueError, RecursionError) as error:
                # A number with too many digits, or lists that are nested too deeply.
                raise self.error(str(error)[:100]) from error
            else:
                # More of a number may follow, such as its exponent.
                if end + _NEAR_END < len(self._part) or self._is_all:
                    self._at = end
                    return value
            if len(self._part) - self._at > MAX_ITEM:
                raise self.error(f"a value of more than {MAX_ITEM} characters")
            self._read(size)
            size *= 2

    def error(self, problem: str, further: int = 0) -> LabelsError:
        """The error at this place, or some characters behind it."""
        place = self._before + self._at + further + 1
        return LabelsError(f"{self._path} is damaged JSON at character {place}: {problem}")

    def _read(self, size: int) -> None:
        try:
            more = self._text.read(size)
        except (UnicodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.error(str(error)[:100], len(self._part) - self._at) from error
        self._before += self._at
        self._part = self._part[self._at :] + more
        self._at = 0
        self._is_all = not more
