"""Standard streams that somebody closed (`command >&-`)."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_standard_streams() -> None:
    """Opens each standard stream that is closed on nothing.

    Python has None in its place then, and the next file that is opened gets its number: what a
    library writes to standard output or standard error would land in a shard.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
