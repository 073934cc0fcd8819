"""Reads a file whole, within a limit: its size is not trusted."""

from __future__ import annotations

from typing import BinaryIO

from transforms.core.file_errors import TooLargeError

MAX_TEXT_BYTES = 1 << 30
"""The limit for a text that is read whole: 5 million lines of a manifest, or classes.

A sparse file of a terabyte costs nothing to create.
"""

_CHUNK = 1 << 20


def read_up_to(file: BinaryIO, max_bytes: int | None, path: str) -> bytes:
    """All bytes of an open file.

    Args:
        file: at its beginning.
        max_bytes: limit for its bytes; None for no limit.
        path: for messages.

    Raises:
        TooLargeError: it has more than `max_bytes`.
        OSError: it cannot be read.
    """
    if max_bytes is None:
        return bytes(file.read())
    chunks: list[bytes] = []
    read = 0
    # Not in one call, which would take as much memory as the largest file.
    while chunk := file.read(_CHUNK):
        read += len(chunk)
        if read > max_bytes:
            raise TooLargeError(read, max_bytes, path)
        chunks.append(chunk)
    return b"".join(chunks)
