"""Handles standard streams that were closed (`command >&-`)."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


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
