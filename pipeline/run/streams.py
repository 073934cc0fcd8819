"""Standard streams: those that were closed (`command >&-`), and colors on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


# Lines that begin so need attention.
_ATTENTION = ("warning ", "leakage ")
_YELLOW, _RED, _PLAIN = "\x1b[1;33m", "\x1b[1;31m", "\x1b[0m"


def emphasized(line: str, stream: TextIO) -> str:
    """A line of a summary, in color if it needs attention and the stream is a terminal."""
    if line.startswith(_ATTENTION) and _has_colors(stream):
        return f"{_YELLOW}{line}{_PLAIN}"
    return line


def error_name(command: str, stream: TextIO) -> str:
    """The name of a command before an error, in color on a terminal."""
    return f"{_RED}{command}{_PLAIN}" if _has_colors(stream) else command


def _has_colors(stream: TextIO) -> bool:
    # See no-color.org.
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def keep_standard_input() -> None:
    """Replaces a pipe as standard input by a file with its content, which can be read again."""
    # Commands that do not need these start without them.
    import shutil
    import tempfile

    open_standard_streams()
    if sys.stdin.seekable():
        return
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        os.dup2(file.fileno(), sys.stdin.fileno())


def open_standard_streams() -> None:
    """Opens each closed standard stream on the null device.

    Python sets it to None, and the next file that is opened gets its descriptor: output of a
    library to standard output or standard error would end up in a shard.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
