"""A file to write to, and the checksum of what was written."""

from __future__ import annotations

from typing import Any, Protocol

import google_crc32c


class Writable(Protocol):
    """What takes bytes."""

    def write(self, data: bytes) -> Any:
        """Takes all of `data`."""


class ChecksummedFile:
    """A file to write to that knows the CRC32C and the number of its bytes."""

    # Beam's compression asks whether it may write.
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
        """Bytes written so far; compression asks for it."""
        return self.bytes

    def flush(self) -> None:
        """Nothing to do: closing the file flushes it."""

    def close(self) -> None:
        """Nothing to do: whoever opened the file closes it; compression ends its stream."""
