"""The one writer of a terminal while a run shows live lines on it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import TextIO

# How long to wait for output written before the end; child processes may hold the pipe longer.
_DRAIN_SECONDS = 1.0

# Cursor up by some lines, and clear from there to the end of the screen.
_BACK = "\x1b[{rows}A\x1b[J"


class Screen:
    """Shows live lines at the bottom of a terminal, and all other output above them.

    All output of this process and its children to the streams, C++ libraries included,
    goes through a pipe and is printed line by line above the live lines. Each live line ends in
    a line feed: a killed process leaves the cursor at the start of an empty line.
    """

    def __init__(self, *streams: TextIO) -> None:
        """Takes the terminal over.

        Args:
            streams: open on one terminal, such as standard error and standard output.
        """
        self._lock = threading.Lock()
        self._lines: Sequence[str] = ()
        self._rest = b""
        self._terminal = os.dup(streams[0].fileno())
        self._saved: list[tuple[int, int]] = []
        source, sink = os.pipe()
        for stream in streams:
            stream.flush()
            self._saved.append((stream.fileno(), os.dup(stream.fileno())))
            os.dup2(sink, stream.fileno())
        os.close(sink)
        self._streams = streams
        self._reader = threading.Thread(
            target=self._read, args=(source,), name="screen", daemon=True
        )
        self._reader.start()

    @property
    def width(self) -> int:
        """Columns that a live line may fill."""
        with contextlib.suppress(OSError):
            if columns := os.get_terminal_size(self._terminal).columns:
                return columns - 1
        return 79

    def draw(self, lines: Sequence[str]) -> None:
        """Replaces the live lines; lines wider than the terminal are cut."""
        width = self.width
        with self._lock:
            erased = self._erase()
            self._lines = [line[:width] for line in lines]
            self._write(erased + self._drawn())

    def close(self) -> None:
        """Gives the terminal back; the live lines stay as they are."""
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.flush()
        for number, saved in self._saved:
            os.dup2(saved, number)
            os.close(saved)
        # The pipe ends when no process holds it any more.
        self._reader.join(_DRAIN_SECONDS)
        with self._lock:
            rest, self._rest = self._rest, b""
            self._write(self._erase() + _text(rest) + ("\n" if rest else "") + self._drawn())
            self._lines = ()
            # A reader that still waits for child processes prints their output.
            if not self._reader.is_alive():
                os.close(self._terminal)

    def _read(self, source: int) -> None:
        with open(source, "rb", buffering=0) as pipe:
            while data := pipe.read(65536):
                with self._lock:
                    self._print(data)

    def _print(self, data: bytes) -> None:
        """Prints complete lines above the live ones, and keeps an incomplete line."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if whole:
            # Of a line that was overwritten in place, the last version counts.
            shown = (_text(line.rstrip(b"\r").rpartition(b"\r")[2]) for line in whole)
            self._write(self._erase() + "".join(f"{line}\n" for line in shown) + self._drawn())

    def _erase(self) -> str:
        """The codes that remove the live lines, which a narrower terminal has wrapped."""
        width = self.width + 1
        rows = sum(max(1, -(-len(line) // width)) for line in self._lines)
        return _BACK.format(rows=rows) if rows else ""

    def _drawn(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        # The terminal is gone; the run continues.
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._terminal, data) :]


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
