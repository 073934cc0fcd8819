"""An archive as a seekable file, of which parts are requested."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable

from transforms.core.file_errors import FinalError

# Bytes at the end that are read at once: they hold the whole directory of a small zip.
_TAIL = 128 << 10

MAX_READ = 128 << 20
"""Bytes that are read at once: the directory of a zip with a million files."""


class _Ranges(io.RawIOBase):
    """The bytes of an archive, one range at a time."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self._at = 0
        self._tail = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        tail = max(0, self._size - _TAIL)
        if self._at >= tail:
            self._tail = self._tail or self._read(tail, self._size - tail)
            data = self._tail[self._at - tail : self._at - tail + length]
        else:
            data = self._read(self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class ArchiveFile(io.BufferedReader):
    """An archive, read in blocks; no single read takes more than `MAX_READ` bytes of memory."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, *, block: int) -> None:
        """Describes the archive.

        Args:
            read: a function from offset and length to a part of it.
            size: its bytes.
            block: bytes to read ahead where it is read in order.
        """
        super().__init__(_Ranges(read, size), block)

    def read(self, size: int | None = -1, /) -> bytes:
        """See `io.BufferedReader.read`.

        Raises:
            FinalError: it is too much.
        """
        if size is not None and size > MAX_READ:
            problem = f"its directory has {size} bytes, more than {MAX_READ}: split the archive"
            raise FinalError(errno.EFBIG, problem)
        return super().read(size)
