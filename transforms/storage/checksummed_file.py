"""A file that computes the checksum of what is written to it."""

from __future__ import annotations

from typing import Any, Protocol

import google_crc32c


class Writable(Protocol):
    """Anything that bytes can be written to."""

    def write(self, data: bytes) -> Any:
        """Takes all of `data`."""


class ChecksummedFile:
    """A writable file that computes the CRC32C and the number of its bytes."""

    # Beam's compression checks whether the file is writable.
    mode = "wb"

    def __init__(self, file: Writable) -> None:
        self._file = file
        self._crc = 0
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    def write(self, data: bytes) -> int:
        """Writes `data` and adds it to the checksum."""
        self._crc = google_crc32c.extend(self._crc, data)
        self.bytes += len(data)
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far; compression needs it."""
        return self.bytes

    def flush(self) -> None:
        """Does nothing: closing the file flushes it."""

    def close(self) -> None:
        """Does nothing: the code that opened the file closes it; compression ends its stream."""
