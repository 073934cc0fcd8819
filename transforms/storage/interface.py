"""What every storage does, and what it says about a file."""

from __future__ import annotations

import abc
import base64
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import google_crc32c

from transforms.core.messages import TooLargeError
from transforms.core.records import NameRange
from transforms.dataset.output_names import PARTIAL, ForeignNameError, is_staged
from transforms.labels.csv_tables import MOST_TIMES, read_head, stored_size

# What a storage knows of a file without reading it: its size, version and checksums.

UNKNOWN_CHECKSUM = "-"
"""Stands for a checksum that cannot be known without reading the file."""

CRC_CHARACTERS = 8
"""The characters of the CRC32C at the beginning of a `FoundFile.checksum`."""


class FoundFile(NamedTuple):
    """One file as listed.

    Attributes:
        uri: local path or URL.
        size: bytes.
        version: changes when the content does.
        checksum: CRC32C and MD5 in base64, 8 and 24 characters; see `Storage.list_range`.
        problem: the reason why it cannot be read, if it is in an archive that says so.
        label: what its neighbors in an archive say; empty elsewhere.
    """

    uri: str
    size: int
    version: int
    checksum: str = ""
    problem: str = ""
    label: str = ""


class Stored(NamedTuple):
    """The metadata of a stored file, known without reading it.

    Attributes:
        size: bytes.
        version: changes when the content does; the generation where there are generations.
        crc32c: 8 hexadecimal digits; empty unless `Storage.lists_checksums`.
        checksum: see `FoundFile`; empty unless `Storage.lists_checksums`.
    """

    size: int
    version: int
    crc32c: str = ""
    checksum: str = ""


def listed_md5(checksum: str) -> str:
    """The MD5 in a `FoundFile.checksum`, 32 hexadecimal digits; empty if it is not known.

    >>> listed_md5("nWr6zg==1B2M2Y8AsgTpgAmY7PhCfg==")
    'd41d8cd98f00b204e9800998ecf8427e'
    >>> listed_md5("nWr6zg=="), listed_md5("-"), listed_md5("")
    ('', '', '')
    """
    return base64.b64decode(checksum[CRC_CHARACTERS:]).hex()


# A long list is cut into ranges of names, which other workers list.

LISTED_NAMES = (16_000, 16_000, 128_000)
"""The names that one worker lists before it cuts the rest into ranges, in each round.

The ranges of the last round are listed to their ends. 100 million names become 4,000 ranges in two
rounds; the third is for names that are unevenly spread.
"""

MAX_RANGES = 64
"""The ranges into which one list is cut, at most."""


# Reads a file whole, within a limit: its size is not trusted.

MAX_TEXT_BYTES = 1 << 30
"""The limit for what a compressed label file grows to."""

MAX_DATASET_FILE = 256 << 20
"""The limit for a file of a dataset that is read whole: a manifest of a million files, or an index.

A sparse file of a terabyte costs nothing to create, and a manifest may list any size.
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
    data = read_head(file, max_bytes + 1)
    if len(data) > max_bytes:
        raise TooLargeError(len(data), max_bytes, path)
    return data


def check_staged(staging: str, names: Iterable[str]) -> None:
    """Checks the names of the files below a staging folder, relative to it.

    Raises:
        ForeignNameError: a file is not one that this tool writes there.
    """
    if foreign := [name for name in names if not is_staged(name)]:
        raise foreign_name(f"{staging}/{foreign[0]}")


def foreign_name(path: str) -> ForeignNameError:
    """The error for a file in a staging folder that this tool does not write there."""
    return ForeignNameError(
        f"{path!r:.300} is in the staging folder, but this tool did not write it: move it away"
    )


# The interface of all storages; `transforms.storage.files.storage_of` selects one from a path.
#
# Code outside this package uses a storage by its behavior, and never checks the scheme of a path.

Read: TypeAlias = Callable[[int, int], bytes]
"""Gives a part of a file by its offset and length."""

Item = TypeVar("Item")
Result = TypeVar("Result")

READERS = 32
"""Requests of one process that wait for a remote answer at the same time."""


class Storage(abc.ABC):
    """One kind of storage. It has no state: a worker may create its own.

    The methods implemented here are right for storages without folders and links.
    """

    is_remote = True
    """Whether answers take long, so that many requests should run in parallel."""

    has_folders = False
    """Whether folders exist on their own: one can be missing, empty, locked or forbidden."""

    has_generations = False
    """Whether a change can name the generation that it replaces, and fails if it is outdated."""

    lists_checksums = False
    """Whether `find` returns the CRC32C of every file, and `list_range` gives the checksum of every
    one that is not stored compressed."""

    reads_ranges = True
    """Whether reading a part of a file costs no more than that part."""

    # Output folders: their names are not trusted.

    def names_below(self, folder: str) -> list[str]:
        """The files below a folder, relative to it, sorted."""
        prefix = f"{folder.rstrip('/')}/"
        return sorted(file.uri.removeprefix(prefix) for file in self.list_files(f"{prefix}**"))

    @abc.abstractmethod
    def remove(self, path: str, *, generation: int | None = None) -> None:
        """Removes a file, or only one generation of it; a missing file is fine."""

    def stored_below(self, folder: str) -> dict[str, Stored]:
        """All files below a folder, by their names relative to it; where there are generations."""
        raise NotImplementedError

    def staged_names(self, staging: str) -> list[str]:
        """All files below a staging folder, relative to it, sorted.

        Raises:
            ForeignNameError: a file is not one that this tool writes there.
        """
        names = self.names_below(staging)
        check_staged(staging, names)
        return names

    def remove_staging(self, staging: str) -> None:
        """Removes a staging folder and this tool's files in it; a missing folder is fine.

        Raises:
            ForeignNameError: something else is in it; in that case nothing was removed.
        """
        for name in self.staged_names(staging):
            self.remove(f"{staging}/{name}")

    def find_foreign(self, output: str) -> str | None:
        """A foreign file in an output folder that holds neither a dataset nor staged files.

        Raises:
            NotADirectoryError: the folder is a file.
            OSError: it cannot be read.
        """
        return None

    def check_folders(
        self, output: str, names: Iterable[str], *, are_replaced: bool = False
    ) -> None:
        """Checks that the folders of a dataset's files are in it, and are not links out of it.

        Args:
            output: the folder of the dataset.
            names: of the files.
            are_replaced: whether the files are to be written or removed, and so must be none.

        Raises:
            ForeignNameError: a folder is a link, or a file is a folder.
        """
        return

    # Files.

    def list_files(self, pattern: str) -> Iterator[FoundFile]:
        """The ordinary files that a glob matches; `**` crosses folders, hidden files need a dot.

        Raises:
            OSError: something cannot be listed; images would be missed silently.
        """
        for file in self.list_range(NameRange(pattern), 0):
            assert isinstance(file, FoundFile)
            yield file

    @abc.abstractmethod
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
    def open_reader(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A file's bytes as stored.

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

    def move(self, source: str, target: str, there: Stored, former: Stored | None) -> int:
        """Moves a file; its new name may not be on disk yet, see `sync_folder`.

        Args:
            source: the file; where there are generations, moved onto itself it gets a new one.
            target: its new path.
            there: the metadata of `source`, used only where there are generations.
            former: the metadata of `target`, None if it did not exist; used like `there`.

        Returns:
            the generation of `target`, 0 where there are no generations.

        Raises:
            OSError: either was changed by another run, or permissions are missing.
        """
        self.rename(source, target, is_synced=False)
        return 0

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

    def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """All bytes of a file; gzip content encoding in a bucket is decompressed.

        Args:
            path: the file.
            max_bytes: limit for its bytes; None for no limit.

        Raises:
            TooLargeError: it has more than `max_bytes`.
            OSError: it cannot be read.
        """
        with self.open_reader(path) as file:
            return read_up_to(file, max_bytes, path)

    def read_text(self, path: str) -> str | None:
        """The content of a file of a dataset, or None if it does not exist; see `read_bytes`."""
        # File systems raise different errors for a missing file.
        if not self.exists(path):
            return None
        try:
            return self.read_bytes(path, max_bytes=MAX_DATASET_FILE).decode()
        except FileNotFoundError:
            return None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """A part of a file as stored; fewer bytes at its end; see `open_reader`."""
        return self.open_ranges(path)(offset, length)

    def open_ranges(self, path: str, *, version: int = 0) -> Read:
        """A function from offset and length to a part of a file; see `read_range`.

        Several threads may call it. It keeps the file open as long as it is referenced. Where there
        are generations, each part is of the one called `version`, unless that is 0.
        """

        def read(offset: int, length: int) -> bytes:
            with self.open_reader(path) as file:
                file.seek(offset)
                return read_head(file, length)

        return read

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
        with self.open_reader(path) as file:
            # A sparse file of terabytes may be listed as such.
            most = min(size, MAX_DATASET_FILE + MOST_TIMES * stored_size(file, size))
            while chunk := file.read(_CHUNK):
                crc = google_crc32c.extend(crc, chunk)
                read += len(chunk)
                if read > most:
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
        if not self.is_remote:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(function, items)
