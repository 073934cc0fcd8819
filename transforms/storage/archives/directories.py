"""The directories of archives that this process has read, as many as fit into a bounded memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import NamedTuple

from transforms.core.file_errors import FinalError
from transforms.storage.archives.archive_file import ArchiveFile
from transforms.storage.archives.archive_members import Member
from transforms.storage.archives.tar_archives import tar_members
from transforms.storage.archives.zip_archives import zip_members
from transforms.storage.file_metadata import Stored
from transforms.storage.interface import Storage

# Members of all directories that are kept; each takes about 300 bytes.
_MAX_MEMBERS = 200_000

# Bytes that are read at once while an archive is read in order: the headers of a tar are at most
# this far apart unless a photo is larger, and a request takes as long as some megabytes.
_BLOCK, _REMOTE_BLOCK = 8 << 10, 4 << 20


class Directory(NamedTuple):
    """The members of one version of an archive.

    Attributes:
        stored: size and version of the archive.
        members: in the order of the archive.
        by_name: the same ones; the last of several with one name, which replaced the others.
    """

    stored: Stored
    members: tuple[Member, ...]
    by_name: Mapping[str, Member]


class Directories:
    """Reads directories, and keeps the last ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Directory] = {}

    def directory(self, storage: Storage, archive: str, kind: str) -> Directory | None:
        """The directory of an archive as it is now; None if there is no such file.

        Args:
            storage: of the archive.
            archive: its path or URI.
            kind: `zip` or `tar`.

        Raises:
            FinalError: the archive is damaged.
            OSError: it cannot be read.
        """
        stored = storage.find(archive)
        if stored is None:
            return None
        # One thread reads it, and the others wait for what it finds.
        with self._lock:
            kept = self._kept.pop(archive, None)
            if kept is None or kept.stored[:2] != stored[:2]:
                members = _read(storage, archive, kind, stored)
                kept = Directory(stored, members, {each.name: each for each in members})
            self._kept[archive] = kept
            most = sum(len(each.members) for each in self._kept.values())
            while most > _MAX_MEMBERS and len(self._kept) > 1:
                most -= len(self._kept.pop(next(iter(self._kept))).members)
            return kept

    def forget(self) -> None:
        """Drops all of them, and the lock that another process may hold."""
        self.__init__()  # type: ignore[misc]


DIRECTORIES = Directories()
"""Those of this process."""

# A thread that reads a directory while the process forks is not in the fork.
os.register_at_fork(after_in_child=DIRECTORIES.forget)


def _read(storage: Storage, archive: str, kind: str, stored: Stored) -> tuple[Member, ...]:
    read = storage.open_ranges(archive, version=stored.version)
    block = _REMOTE_BLOCK if storage.is_remote else _BLOCK
    try:
        with ArchiveFile(read, stored.size, block=block) as file:
            return tuple(zip_members(file) if kind == "zip" else tar_members(file))
    except FinalError as error:
        # It knows no path.
        raise FinalError(error.errno, f"{archive}: {error.strerror}", archive) from error
