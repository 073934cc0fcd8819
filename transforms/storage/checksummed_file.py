"""A file that computes the checksum of what is written to it."""

from __future__ import annotations

import hashlib
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

    @property
    def sha256(self) -> str:
        """Empty: `Sha256File` computes it."""
        return ""

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


class Sha256File(ChecksummedFile):
    """One that computes the SHA-256, too: 0.5 ms more for each megabyte."""

    def __init__(self, file: Writable) -> None:
        super().__init__(file)
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """64 hexadecimal digits."""
        return self._sha256.hexdigest()

    def write(self, data: bytes) -> int:
        """Writes `data` and adds it to both checksums."""
        self._sha256.update(data)
        return super().write(data)
