"""Reads the keys of the images to keep, one per line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from transforms.core.planning.selected_keys import MAX_LINE, key_line, key_of_line
from transforms.core.records import JoinSide
from transforms.storage.files import storage_of

_CHUNK = 1 << 20


class KeyReader:
    """Reads a file of keys in bounded memory.

    Attributes:
        path: the file; workers read it.
        name: the file in messages and in the manifest.
    """

    def __init__(self, path: str, name: str = "") -> None:
        self.path = path
        self.name = name or path

    def read(self) -> Iterator[tuple[str, JoinSide]]:
        """Yields every key with its line; blank lines are left out.

        Raises:
            LabelsError: a line is not UTF-8, or too long.
            OSError: the file cannot be read.
        """
        for number, line in enumerate(self._lines(), 1):
            where = f"{self.name}:{number}"
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if key := key_of_line(line, where):
                yield key, key_line(where)

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        with storage_of(self.path).open_reader(self.path) as file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
                if len(rest) > MAX_LINE:
                    break
        if rest:
            yield rest
