"""Files in archives."""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple

from transforms.core.messages import ChangedError, FinalError, MemberError, TooLargeError
from transforms.core.records import NameRange
from transforms.labels.csv_tables import read_head
from transforms.labels.keys import ArchivePath, archive_path, glob_regex
from transforms.storage.archive_formats import (
    DIGEST_BITS,
    MAX_OFFSET,
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
from transforms.storage.parquet_images import PLACE_BITS, ImageFile, read_parquet_image

# Members of all directories that a process keeps; each takes about 300 bytes.
_MAX_MEMBERS = 200_000

# Files that a glob matches and that are rejected one by one even if most of them cannot be read: an
# archive of some megabytes may list a million.
_MOST_UNREAD = 10_000

# No image has fewer bytes.
_LEAST_IMAGE = 16

# Characters of the names and labels in an archive, besides some for each of its files: 9,000 names
# of 4 kB took 2.2 GB.
_MOST_TEXT, _TEXT_OF_FILE = 4 << 20, 512

# What the files that a glob matches may have together, besides some for each byte of their archive:
# 300 bitmaps of 60 MB are a zip of 93 MB, and took minutes.
_MOST_GROWN, _MOST_GROWN_TIMES = 1 << 30, 20

# Bytes that are read at once while an archive is read in order: the headers of a tar are at most
# this far apart unless a photo is larger, and a request takes as long as some megabytes.
_BLOCK, _REMOTE_BLOCK = 8 << 10, 4 << 20

# Of a Parquet file, the columns of labels and keys, and the headers of pages.
_PARQUET_BLOCK = 64 << 10


class Directory(NamedTuple):
    """The members of one version of an archive.

    Attributes:
        stored: size and version of the archive.
        by_name: in the order of the archive; the last of several with one name, which replaced the
            others.
    """

    stored: Stored
    by_name: Mapping[str, Member]


# Files inside archives as a storage of its own, above the storage of the archives.

_READERS = {"zip": read_zip_member, "tar": read_tar_member, "parquet": read_parquet_image}

# Archives whose generations are remembered, so that a member takes one request; and local ones that
# stay open, since to open one takes longer than to read a small image.
_MAX_SEEN, _MAX_OPEN = 1024, 64


class ArchiveStorage(Storage):
    """Paths such as `photos.zip!/cat/1.jpg`. An archive is never unpacked, and never written.

    A listing reads the directory of a zip, or the headers of a tar. A version says where its member
    begins, so reading a member takes one request, on any worker.
    """

    _bits = DIGEST_BITS

    def __init__(self, inner: Storage, kind: str) -> None:
        """Sets the storage of the archives, and their kind, `zip` or `tar`."""
        self._inner = inner
        self._kind = kind
        self._seen: dict[str, tuple[Stored, Callable[[int, int], bytes]]] = {}
        self._lock = threading.Lock()
        self._kept: dict[str, Directory] = {}
        # To count the members again for each of 12,000 archives took 30 s.
        self._held = 0
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
        for archive in archives:
            if found := self._directory(archive):
                members = [*_matched(path.name, found.by_name.values())]
                _check_members(archive, members, found.stored.size)
                yield from self._found(f"{archive}!", found.stored, members)

    def _found(self, root: str, stored: Stored, members: Iterable[Member]) -> Iterator[FoundFile]:
        """The members of an archive as they are listed."""
        for member in members:
            yield FoundFile(
                f"{root}/{member.name}",
                # No estimate adds up what is said of files that cannot be read.
                0 if member.problem else member.size,
                self._version(stored, member),
                problem=member.problem,
                label=member.label,
            )

    def _version(self, stored: Stored, member: Member) -> int:
        return member_version(stored, member.offset, member.size, bits=self._bits)

    def _archives(self, pattern: str) -> Iterator[str]:
        if not glob.has_magic(pattern):
            yield from [pattern] if self._inner.find(pattern) else []
        else:
            yield from (file.uri for file in self._inner.list_files(pattern))

    def _directory(self, archive: str, columns: str = "") -> Directory | None:
        """The directory of an archive as it is now; None if there is no such file.

        Args:
            archive: its path.
            columns: see `ArchivePath`.

        Raises:
            FinalError: the archive is damaged.
            OSError: it cannot be read.
        """
        stored = self._inner.find(archive)
        if stored is None:
            return None
        # One thread reads it, and the others wait for what it finds.
        with self._lock:
            name = f"{archive}!{columns}"
            kept = self._kept.pop(name, None)
            self._held -= len(kept.by_name) if kept else 0
            if kept is None or kept.stored[:2] != stored[:2]:
                members = self._members(archive, stored, columns)
                kept = Directory(stored, {each.name: each for each in members})
            self._kept[name] = kept
            self._held += len(kept.by_name)
            while self._held > _MAX_MEMBERS and len(self._kept) > 1:
                self._held -= len(self._kept.pop(next(iter(self._kept))).by_name)
            return kept

    def _members(self, archive: str, stored: Stored, columns: str) -> Iterator[Member]:
        read = self._inner.open_ranges(archive, version=stored.version)
        try:
            with ArchiveFile(read, stored.size, block=self._block) as file:
                yield from zip_members(file) if self._kind == "zip" else tar_members(file)
        except FinalError as error:
            # It knows no path.
            raise FinalError(error.errno, f"{archive}: {error.strerror}", archive) from error

    def _member(self, path: str) -> tuple[Stored, Member] | None:
        """The archive and the member of a path; None if there is none."""
        archive, _, name, columns = _parts(path)
        found = self._directory(archive, columns) if name else None
        member = found.by_name.get(name) if found else None
        return (found.stored, member) if found and member else None

    def find(self, path: str) -> Stored | None:
        if (found := self._member(path)) is None:
            return None
        stored, member = found
        return Stored(member.size, self._version(stored, member))

    def open_reader(self, path: str) -> AbstractContextManager[BinaryIO]:
        """See `Storage.open_reader`; a part of the member is in memory."""
        (stored, member), archive = self._readable(path), _parts(path).archive
        read = self._inner.open_ranges(archive, version=stored.version)
        if self._kind == "zip":
            return io.BufferedReader(ZipText(read, member, path, self._block))
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
        # Annotations of an image, of which there may be thousands.
        if self._kind == "zip" and path.lower().endswith((".xml", ".txt")):
            with self.open_reader(path) as file:
                return read_head(file, member.size)
        read = self._inner.open_ranges(_parts(path).archive, version=stored.version)
        return _READERS[self._kind](read, member.offset, member.size)

    def _readable(self, path: str) -> tuple[Stored, Member]:
        """The version of an archive, and the member of a path, which can be read."""
        if (found := self._member(path)) is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file in the archive", path)
        if found[1].problem:
            raise MemberError(found[1].problem)
        return found

    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        archive, offset = _parts(uri).archive, member_offset(version, bits=self._bits)
        member = Member("", size, offset)

        def is_listed(stored: Stored) -> bool:
            return self._version(stored, member) == version

        seen = self._seen.get(archive)
        if seen is None or not is_listed(seen[0]):
            stored = self._inner.find(archive)
            if stored is None:
                raise FileNotFoundError(errno.ENOENT, "its archive is gone", uri)
            if not is_listed(stored):
                raise _overwritten(uri)
            seen = stored, self._inner.open_ranges(archive, version=stored.version)
            if self._inner.has_generations or not self.is_remote:
                if len(self._seen) >= (_MAX_SEEN if self.is_remote else _MAX_OPEN):
                    self._seen.clear()
                self._seen[archive] = seen
        try:
            return _READERS[self._kind](seen[1], offset, size)
        except OSError:
            # A retry opens it again.
            self._seen.pop(archive, None)
            raise
        finally:
            # A request names the generation that it reads; a local file may change meanwhile.
            stored = seen[0] if self.is_remote else self._inner.find(archive)
            if stored is None or (stored != seen[0] and not is_listed(stored)):
                raise _overwritten(uri)

    def open_writer(self, path: str) -> AbstractContextManager[Any]:
        raise _read_only(path)

    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        raise _read_only(target)

    def remove(self, path: str, *, generation: int | None = None) -> None:
        raise _read_only(path)

    def names_below(self, folder: str) -> list[str]:
        archive, _, name, columns = _parts(folder)
        found = self._directory(archive, columns)
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


class ParquetStorage(ArchiveStorage):
    """Images in Parquet files, such as `cats.parquet!/cat/1.jpg`; workers share row groups."""

    _bits = 63 - PLACE_BITS

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        """See `Storage.list_range`; a range is a file, or row groups of one."""
        path = _parts(part.glob)
        for archive in [part.start] if part.start else self._archives(path.archive):
            if limit > 0 and not part.start:
                yield NameRange(part.glob, archive)
            elif stored := self._inner.find(archive):
                with self._images(archive, stored, path.columns) as images:
                    groups = range(images.groups)
                    for start in [int(part.end)] if part.end else groups[:: images.step]:
                        if limit > 0 and not part.end:
                            yield NameRange(part.glob, archive, str(start))
                        else:
                            some = groups[start : start + images.step]
                            members = images.members(some, are_placed=limit >= 0)
                            members = _matched(path.name, members)
                            yield from self._found(f"{archive}!{path.columns}", stored, members)

    def list_files(self, pattern: str) -> Iterator[FoundFile]:
        """See `Storage.list_files`; the images are not read, so their sizes are the mean."""
        found = self.list_range(NameRange(pattern), -1)
        return (file for file in found if isinstance(file, FoundFile))

    def _members(self, archive: str, stored: Stored, columns: str) -> Iterator[Member]:
        with self._images(archive, stored, columns) as images:
            yield from images.members(range(images.groups), are_placed=True)

    @contextlib.contextmanager
    def _images(self, archive: str, stored: Stored, columns: str) -> Iterator[ImageFile]:
        read = self._inner.open_ranges(archive, version=stored.version)
        with ArchiveFile(read, stored.size, block=_PARQUET_BLOCK) as file:
            yield ImageFile(file, read, columns, archive)

    def open_reader(self, path: str) -> AbstractContextManager[BinaryIO]:
        return io.BytesIO(self.read_bytes(path, max_bytes=MAX_OFFSET))


def _matched(pattern: str, members: Iterable[Member]) -> Iterator[Member]:
    """The members whose names a glob matches."""
    matches = glob_regex(pattern).fullmatch
    return (member for member in members if matches(matched_name(member)))


def _check_members(archive: str, members: Sequence[Member], size: int) -> None:
    """Refuses an archive if the files that a glob matches are many that no program would write."""
    text = sum(len(each.name) + len(each.label) for each in members)
    if text > _MOST_TEXT + _TEXT_OF_FILE * len(members):
        said = f"names and labels of its {len(members)} files have {text} characters: shorten them"
        raise FinalError(errno.EFBIG, f"{archive}: {said}", archive)
    grown = sum(each.size for each in members if not each.problem)
    if grown > _MOST_GROWN + _MOST_GROWN_TIMES * size:
        said = f"its {len(members)} files would have {grown} bytes, far more than it: unpack it"
        raise FinalError(errno.EFBIG, f"{archive}: {said}", archive)
    # An image without objects has an empty label file of YOLO.
    unread = [
        each
        for each in members
        if each.problem or each.size < _LEAST_IMAGE and not each.name.endswith(".txt")
    ]
    if len(unread) > max(_MOST_UNREAD, len(members) // 2):
        counts = f"{len(unread)} of {len(members)} files in it cannot be read"
        said = f"{unread[0].name!r}: {unread[0].problem or f'it has {unread[0].size} bytes'}"
        raise FinalError(errno.EIO, f"{archive}: {counts}, such as {said}", archive)


def _parts(path: str) -> ArchivePath:
    parts = archive_path(path)
    assert parts is not None, path
    return parts


def _overwritten(uri: str) -> ChangedError:
    return ChangedError(errno.ESTALE, "its archive was overwritten meanwhile", uri)


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "an archive is only read: give a folder", path)
