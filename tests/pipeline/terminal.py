"""A pseudo-terminal, and what a person sees on it."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

import pyte


class Terminal:
    """A terminal of some columns and 50 rows.

    Attributes:
        stream: what a program writes to it with.
    """

    def __init__(self, columns: int) -> None:
        self._leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._screen = pyte.Screen(columns, 50)
        self._parser = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.stream: TextIO = os.fdopen(self.follower, "w", encoding="utf-8")
        # Its buffer is small: a writer without a reader would wait forever.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(self._leader, 4096):
                with self._lock:
                    self._parser.feed(piece)

    @property
    def lines(self) -> list[str]:
        """The lines that are seen, from the first to the last that is not empty."""
        with self._lock:
            lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def wait_for(self, is_seen: Callable[[list[str]], bool]) -> None:
        """Waits until something is seen."""
        deadline = time.monotonic() + 60
        while not is_seen(self.lines):
            assert time.monotonic() < deadline, "\n".join(self.lines)
            time.sleep(0.05)

    def close(self) -> list[str]:
        """Closes it; the last lines that were seen."""
        self.stream.close()
        self._reader.join(60)
        assert not self._reader.is_alive(), "a program keeps the terminal open"
        os.close(self._leader)
        return self.lines


@contextlib.contextmanager
def terminal(columns: int) -> Iterator[Terminal]:
    """A terminal that is closed at the end."""
    shown = Terminal(columns)
    try:
        yield shown
    finally:
        if not shown.stream.closed:
            shown.close()
