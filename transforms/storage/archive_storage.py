"""Files in archives."""

from __future__ import annotations

import errno
import glob
import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple

from transforms.core.messages import ChangedError, FinalError, MemberError, TooLargeError
from transforms.core.records import NameRange
from transforms.labels.keys import ArchivePath, archive_path, glob_regex
from transforms.storage.archive_formats import (
    ArchiveFile,
    Member,
    Ranges,
    ZipText,
    matched_name,
    member_offset,
    member_version,
    read_tar_member,
    read_zip_member,
    tar_members,
    zip_members,
)
from transforms.storage.interface import MAX_TEXT_BYTES, FoundFile, Storage, Stored

# Members of all directories that a process keeps; each takes about 300 bytes.
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


# Files inside archives as a storage of its own, above the storage of the archives.

# Archives whose generations are remembered, so that a member takes one request.
_MAX_SEEN = 1024


class ArchiveStorage(Storage):
    """Paths such as `photos.zip!/cat/1.jpg`. An archive is never unpacked, and never written.

    A listing reads the directory of a zip, or the headers of a tar. A version says where its member
    begins, so reading a member takes one request, on any worker.
    """

    lists_ranges = True

    def __init__(self, inner: Storage, kind: str) -> None:
        """Sets the storage of the archives, and their kind, `zip` or `tar`."""
        self._inner = inner
        self._kind = kind
        self._seen: dict[str, Stored] = {}
        self._lock = threading.Lock()
        self._kept: dict[str, Directory] = {}
        self._block = _REMOTE_BLOCK if inner.is_remote else _BLOCK
        self.is_remote = inner.is_remote
        # The place of a member in a tar is only known when all headers before it were read.
        self.reads_ranges = kind == "zip" or not inner.is_remote

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        """See `Storage.list_range`; a range of an archive begins and ends with its path."""
        path = _parts(part.glob)
        archives = [part.start] if part.start else self._archives(path.archive)
        if limit and not part.start:
            yield from (NameRange(part.glob, archive, archive) for archive in archives)
            return
        matches = glob_regex(path.name).fullmatch
        for archive in archives:
            found = self._directory(archive)
            for member in found.members if found else ():
                if matches(matched_name(member)):
                    assert found is not None
                    yield FoundFile(
                        f"{archive}!/{member.name}",
                        member.size,
                        member_version(found.stored, member.offset, member.size),
                        problem=member.problem,
                        label=member.label,
                    )

    def _archives(self, pattern: str) -> Iterator[str]:
        if not glob.has_magic(pattern):
            yield from [pattern] if self._inner.find(pattern) else []
        else:
            yield from (file.uri for file in self._inner.list_files(pattern))

    def _directory(self, archive: str) -> Directory | None:
        """The directory of an archive as it is now; None if there is no such file.

        Raises:
            FinalError: the archive is damaged.
            OSError: it cannot be read.
        """
        stored = self._inner.find(archive)
        if stored is None:
            return None
        # One thread reads it, and the others wait for what it finds.
        with self._lock:
            kept = self._kept.pop(archive, None)
            if kept is None or kept.stored[:2] != stored[:2]:
                members = self._read_directory(archive, stored)
                kept = Directory(stored, members, {each.name: each for each in members})
            self._kept[archive] = kept
            most = sum(len(each.members) for each in self._kept.values())
            while most > _MAX_MEMBERS and len(self._kept) > 1:
                most -= len(self._kept.pop(next(iter(self._kept))).members)
            return kept

    def _read_directory(self, archive: str, stored: Stored) -> tuple[Member, ...]:
        try:
            with self._file(archive, stored) as file:
                return tuple(zip_members(file) if self._kind == "zip" else tar_members(file))
        except FinalError as error:
            # It knows no path.
            raise FinalError(error.errno, f"{archive}: {error.strerror}", archive) from error

    def _file(self, archive: str, stored: Stored) -> ArchiveFile:
        read = self._inner.open_ranges(archive, version=stored.version)
        return ArchiveFile(read, stored.size, block=self._block)

    def _member(self, path: str) -> tuple[Stored, Member] | None:
        """The archive and the member of a path; None if there is none."""
        archive, _, name = _parts(path)
        found = self._directory(archive) if name else None
        member = found.by_name.get(name) if found else None
        return (found.stored, member) if found and member else None

    def find(self, path: str) -> Stored | None:
        if (found := self._member(path)) is None:
            return None
        stored, member = found
        return Stored(member.size, member_version(stored, member.offset, member.size))

    def open_reader(self, path: str) -> AbstractContextManager[BinaryIO]:
        """See `Storage.open_reader`; a part of the member is in memory."""
        (stored, member), archive = self._readable(path), _parts(path).archive
        if self._kind == "zip":
            return io.BufferedReader(ZipText(self._file(archive, stored), member.offset, path))
        read = self._inner.open_ranges(archive, version=stored.version)
        return io.BufferedReader(
            Ranges(lambda start, length: read(member.offset + start, length), member.size),
            self._block,
        )

    def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """See `Storage.read_bytes`; a member that is too large is not decompressed."""
        most = MAX_TEXT_BYTES if max_bytes is None else max_bytes
        stored, member = self._readable(path)
        if member.size > most:
            raise TooLargeError(member.size, most, path)
        return self._read(_parts(path).archive, stored, member.offset, member.size)

    def _readable(self, path: str) -> tuple[Stored, Member]:
        """The version of an archive, and the member of a path, which can be read."""
        if (found := self._member(path)) is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file in the archive", path)
        if found[1].problem:
            raise MemberError(found[1].problem)
        return found

    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        archive, offset = _parts(uri).archive, member_offset(version)

        def is_listed(stored: Stored | None) -> bool:
            return stored is not None and member_version(stored, offset, size) == version

        stored = self._seen.get(archive) if self._inner.has_generations else None
        if not is_listed(stored):
            stored = self._inner.find(archive)
            if stored is None:
                raise FileNotFoundError(errno.ENOENT, "its archive is gone", uri)
            if not is_listed(stored):
                raise _overwritten(uri)
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen[archive] = stored
        assert stored is not None
        data = self._read(archive, stored, offset, size)
        # A request names the generation that it reads; a local file may change meanwhile.
        if not self.is_remote and not is_listed(self._inner.find(archive)):
            raise _overwritten(uri)
        return data

    def _read(self, archive: str, stored: Stored, offset: int, size: int) -> bytes:
        read = self._inner.open_ranges(archive, version=stored.version)
        function = read_zip_member if self._kind == "zip" else read_tar_member
        return function(read, offset, size)

    def open_writer(self, path: str) -> AbstractContextManager[Any]:
        raise _read_only(path)

    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        raise _read_only(target)

    def remove(self, path: str, *, generation: int | None = None) -> None:
        raise _read_only(path)

    def names_below(self, folder: str) -> list[str]:
        archive, _, name = _parts(folder)
        found = self._directory(archive)
        prefix = f"{name}/" if name else ""
        names = found.by_name if found else ()
        return sorted(each.removeprefix(prefix) for each in names if each.startswith(prefix))

    def name_problem(self, path: str) -> str:
        return self._inner.name_problem(_parts(path).archive)

    def absolute(self, path: str) -> str:
        archive = _parts(path).archive
        return self._inner.absolute(archive) + path[len(archive) :]

    def spellings(self, path: str) -> list[str]:
        archive = _parts(path).archive
        return [each + path[len(archive) :] for each in self._inner.spellings(archive)]


def _parts(path: str) -> ArchivePath:
    parts = archive_path(path)
    assert parts is not None, path
    return parts


def _overwritten(uri: str) -> ChangedError:
    return ChangedError(errno.ESTALE, "its archive was overwritten meanwhile", uri)


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "an archive is only read: give a folder", path)
