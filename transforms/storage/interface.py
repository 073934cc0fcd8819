"""The interface of all storages; `transforms.storage.files.storage_of` selects one from a path.

Code outside this package uses a storage by its behaviour, and never
checks the scheme of a path.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, TypeVar

import google_crc32c

from transforms.core.dataset.output_names import PARTIAL
from transforms.core.records import NameRange
from transforms.storage.bounded_reading import MAX_TEXT_BYTES, read_up_to
from transforms.storage.file_metadata import FoundFile, Stored
from transforms.storage.output_folders import OutputFolders

Item = TypeVar("Item")
Result = TypeVar("Result")

READERS = 32
"""Requests of one process that wait for a remote answer at the same time."""

_CHUNK = 1 << 20


class Storage(OutputFolders):
    """One kind of storage. It has no state: a worker may create its own.

    The methods implemented here are right for storages without folders and links.
    """

    is_remote = True
    """Whether answers take long, so that many requests should run in parallel."""

    has_folders = False
    """Whether folders exist on their own: one can be missing, empty, locked or forbidden."""

    has_generations = False
    """Whether a change can name the generation that it replaces, and fails if it is outdated."""

    keeps_checksums = False
    """Whether `find` returns the CRC32C of a file without reading it."""

    lists_checksums = False
    """Whether `list_range` gives the checksum of every file that is not stored compressed."""

    lists_ranges = False
    """Whether `list_range` cuts a long glob into ranges."""

    reads_ranges = True
    """Whether reading a part of a file costs no more than that part."""

    @abc.abstractmethod
    def list_files(self, pattern: str) -> Iterator[FoundFile]:
        """The ordinary files that a glob matches; `**` crosses folders, hidden files need a dot.

        Raises:
            OSError: something cannot be listed; images would be missed silently.
        """

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        """Lists files.

        Args:
            part: a glob, or a range of its names.
            limit: after about this many names the rest may follow as ranges, 0 for no limit.
            with_checksums: whether to give checksums, where they come with the listing: only the
                CRC32C if there is no MD5 (composite objects), `UNKNOWN_CHECKSUM` if they are those
                of compressed bytes.
        """
        return self.list_files(part.glob)

    @abc.abstractmethod
    def find(self, path: str) -> Stored | None:
        """The metadata of an ordinary file, or None. One system call or request.

        Raises:
            OSError: the storage does not answer.
        """

    def exists(self, path: str) -> bool:
        """Whether a file is there."""
        return self.find(path) is not None

    @abc.abstractmethod
    def open_reader(
        self, path: str, *, follow_links: bool = True
    ) -> AbstractContextManager[BinaryIO]:
        """A file's bytes as stored.

        Args:
            path: the file.
            follow_links: whether it may be a link: True for paths from a user, not for paths read
                from a file in an output folder.

        Raises:
            OSError: it cannot be read, or is not a regular file.
        """

    @abc.abstractmethod
    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        """The bytes of a file as listed; gzip content encoding in a bucket is decompressed.

        Args:
            uri: the file.
            size: bytes, as listed.
            version: as listed; 0 if the listing had none.
            max_bytes: bytes that a compressed object may grow to.

        Raises:
            OSError: it cannot be read, or was overwritten since it was listed.
        """

    @abc.abstractmethod
    def open_writer(self, path: str) -> AbstractContextManager[Any]:
        """A new file to write bytes to; it follows no link, and is synced to disk at the end."""

    @abc.abstractmethod
    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        """Moves `source` to `target`, which may exist.

        Args:
            source: the file.
            target: its new path.
            is_synced: whether the new name is on disk, too, when this returns; see `sync_folder`.
        """

    def copy(self, source: str, target: str, *, size: int, crc32c: str) -> bool:
        """Makes a file of the same bytes without sending them, if the storage can.

        Args:
            source: the file; links are not followed.
            target: its new path, which may exist.
            size: bytes that it must have.
            crc32c: the checksum that it must have, 8 hexadecimal digits.

        Returns:
            False if the storage cannot, or the file has other bytes.

        Raises:
            OSError: it cannot be read, or the target not be written.
        """
        return False

    def write_whole(
        self, path: str, data: bytes, *, generation: int | None = None, is_synced: bool = True
    ) -> int:
        """Writes a file so that a reader sees all of it or nothing.

        Args:
            path: the file.
            data: its content.
            generation: of the file that it replaces, 0 for a new one, None for any; used only
                where there are generations.
            is_synced: see `rename`.

        Returns:
            the generation that was written, 0 where there are no generations.

        Raises:
            FileExistsError: another run wrote other bytes meanwhile.
        """
        with self.open_writer(path + PARTIAL) as file:
            file.write(data)
        self.rename(path + PARTIAL, path, is_synced=is_synced)
        return 0

    def read_bytes(
        self, path: str, *, follow_links: bool = True, max_bytes: int | None = None
    ) -> bytes:
        """All bytes of a file; gzip content encoding in a bucket is decompressed.

        Args:
            path: the file.
            follow_links: see `open_reader`.
            max_bytes: limit for its bytes; None for no limit.

        Raises:
            TooLargeError: it has more than `max_bytes`.
            OSError: it cannot be read.
        """
        with self.open_reader(path, follow_links=follow_links) as file:
            return read_up_to(file, max_bytes, path)

    def read_text(
        self, path: str, *, follow_links: bool = True, max_bytes: int | None = MAX_TEXT_BYTES
    ) -> str | None:
        """The content of a file, or None if it does not exist; see `read_bytes`."""
        # File systems raise different errors for a missing file.
        if not self.exists(path):
            return None
        try:
            return self.read_bytes(path, follow_links=follow_links, max_bytes=max_bytes).decode()
        except FileNotFoundError:
            return None

    def read_range(
        self, path: str, offset: int, length: int, *, follow_links: bool = True
    ) -> bytes:
        """A part of a file as stored; fewer bytes at its end; see `open_reader`."""
        with self.open_reader(path, follow_links=follow_links) as file:
            file.seek(offset)
            return bytes(file.read(length))

    def open_ranges(
        self, path: str, *, follow_links: bool = True, version: int = 0
    ) -> Callable[[int, int], bytes]:
        """A function from offset and length to a part of a file; see `read_range`.

        Several threads may call it. It keeps the file open as long as it is referenced. Where there
        are generations, each part is of the one called `version`, unless that is 0.
        """
        return functools.partial(self.read_range, path, follow_links=follow_links)

    def md5(self, uri: str, *, version: int) -> str | None:
        """The MD5 of a file as listed, if it is known without reading; 32 hexadecimal digits."""
        return None

    def checksum(self, path: str, *, size: int) -> str | None:
        """The CRC32C of a file, 8 hexadecimal digits; None if the file does not exist.

        Args:
            path: the file.
            size: bytes that it should have. Of a longer file, no more are read: empty.

        Raises:
            OSError: it cannot be read.
        """
        if not self.exists(path):
            return None
        crc = read = 0
        with self.open_reader(path, follow_links=False) as file:
            while chunk := file.read(_CHUNK):
                crc = google_crc32c.extend(crc, chunk)
                read += len(chunk)
                if read > size:
                    return ""
        return f"{crc:08x}"

    def has_checksum(self, path: str, crc32c: str, size: int) -> bool:
        """Whether a file with these bytes exists; a link, a FIFO or a folder does not count."""
        return self.checksum(path, size=size) == crc32c

    def has_size(self, path: str, size: int) -> bool:
        """Whether a file exists, is not a link, and has `size` bytes."""
        found = self.find(path)
        return found is not None and found.size == size

    def is_ordinary(self, path: str) -> bool:
        """Whether reading a path ends, unlike that of a FIFO, a device or a file of /proc."""
        return True

    def is_misplaced(self, path: str) -> bool:
        """Whether the path of a dataset's file is a link, a folder, a FIFO or a device."""
        return False

    def is_folder(self, path: str) -> bool:
        """Whether a folder exists, or at least a file below it."""
        return next(self.list_files(f"{path.rstrip('/')}/**"), None) is not None

    def name_problem(self, path: str) -> str:
        """The reason why a path or a glob is not valid; empty if it is."""
        return ""

    def absolute(self, path: str) -> str:
        """A path that does not depend on the working directory."""
        return path

    def resolved(self, path: str) -> str:
        """An absolute path without links, of a file or folder that may be missing."""
        return self.absolute(path)

    def spellings(self, path: str) -> list[str]:
        """The spellings of a path that listings may use, beginning with the path itself."""
        return [path]

    def make_directory(self, path: str) -> None:
        """Makes a folder and its parents, where there are folders."""
        return

    def could_write(self, folder: str) -> bool:
        """Tests writing to a folder without leaving anything behind, even if the run is killed.

        Returns:
            False if the storage has no such way.

        Raises:
            OSError: the folder cannot be written to.
        """
        return False

    def sync_folder(self, folder: str) -> None:
        """Syncs the names in a folder to disk, in the order in which they were given."""
        return

    def remove_if_empty(self, folder: str) -> None:
        """Removes an empty folder."""
        return

    def for_each(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Results in the order of the items; computed in parallel if answers take long."""
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(function, items)
