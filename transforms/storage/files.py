"""The files of an output folder, local or remote: read, write whole, rename, remove.

`gs://` paths go to `transforms.storage.gcs`; all others, local ones too, through Beam's
FileSystems.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, TypeVar

import google_crc32c
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.core.dataset.manifest import parse_manifest
from transforms.core.dataset.output_names import PARTIAL, ForeignNameError, is_staged
from transforms.core.duplicates.fingerprints import Sidecar
from transforms.core.file_errors import TooLargeError
from transforms.storage import gcs, gcs_moves, local_files
from transforms.storage.listing import is_local
from transforms.storage.ordinary_files import is_ordinary_file

Item = TypeVar("Item")
Result = TypeVar("Result")

STAGING = ".staging"

# What a text that is read whole may have: 5 million lines of a manifest, or classes. A sparse file
# of a terabyte costs nobody anything.
MAX_TEXT_BYTES = 1 << 30

# The description of a shard grows with its records, 200 bytes each.
_MAX_SIDECAR_BYTES = 8 << 30

_CHUNK = 1 << 20
_AS_STORED = CompressionTypes.UNCOMPRESSED


def join(directory: str, *names: str) -> str:
    """A path below `directory`."""
    return "/".join([directory.rstrip("/"), *names])


def sidecar(output: str, shard: str, recipe: str) -> str:
    """What describes a staged shard."""
    return join(output, STAGING, f"{shard}.{recipe}.json")


def read_sidecar(path: str) -> Sidecar | None:
    """What describes a staged shard; None when it is gone, cut or damaged."""
    try:
        text = read_text(path, follow_links=False, max_bytes=_MAX_SIDECAR_BYTES)
    except (TooLargeError, UnicodeDecodeError):
        return None
    return None if text is None else Sidecar.from_text(text)


def is_regular(path: str) -> bool:
    """Whether reading a path ends: what is local may be a FIFO, a device or a file of /proc."""
    return not is_local(path) or is_ordinary_file(path)


def exists(path: str) -> bool:
    """Whether a file is there."""
    if gcs.is_gcs(path):
        return gcs.find(path) is not None
    return bool(FileSystems.exists(path))


def open_reader(path: str, *, follow_links: bool = True) -> AbstractContextManager[BinaryIO]:
    """A file's bytes as stored.

    Args:
        path: the file.
        follow_links: whether a local path may be a link: those that a user names, but none that
            is read from a file in an output folder.

    Raises:
        OSError: it cannot be read, or a local path is no regular file.
    """
    if gcs.is_gcs(path):
        return gcs.open_reader(path)
    if is_local(path):
        return local_files.open_regular(path, follow_links=follow_links)
    stream: AbstractContextManager[BinaryIO] = FileSystems.open(path, compression_type=_AS_STORED)
    return stream


def open_writer(path: str) -> AbstractContextManager[Any]:
    """A new file to write bytes to."""
    if gcs.is_gcs(path):
        return gcs.open_writer(path)
    if is_local(path):
        # A new file: what is there may be a link to one elsewhere.
        return _open_synced(path)
    stream: AbstractContextManager[Any] = FileSystems.create(path, compression_type=_AS_STORED)
    return stream


@contextlib.contextmanager
def _open_synced(path: str) -> Iterator[Any]:
    """Its bytes are on the disk before it gets its name, so that a crash cannot leave half."""
    with local_files.create(path) as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def read_bytes(path: str, *, follow_links: bool = True, max_bytes: int | None = None) -> bytes:
    """All bytes of a file; what a bucket keeps with gzip encoding is decompressed.

    Args:
        path: the file.
        follow_links: see `open_reader`.
        max_bytes: bytes that it may have; None for any number.

    Raises:
        TooLargeError: it has more than `max_bytes`.
        OSError: it cannot be read.
    """
    if gcs.is_gcs(path):
        return gcs.read(path, max_stored=max_bytes)
    with open_reader(path, follow_links=follow_links) as file:
        if max_bytes is None:
            return bytes(file.read())
        if is_local(path) and (size := os.fstat(file.fileno()).st_size) > max_bytes:
            raise TooLargeError(size, max_bytes, path)
        chunks: list[bytes] = []
        read = 0
        # Not in one call, which would take as much memory as a file may have.
        while chunk := file.read(_CHUNK):
            read += len(chunk)
            if read > max_bytes:
                raise TooLargeError(read, max_bytes, path)
            chunks.append(chunk)
        return b"".join(chunks)


def read_text(
    path: str, *, follow_links: bool = True, max_bytes: int | None = MAX_TEXT_BYTES
) -> str | None:
    """The content of a file, or None when there is none; see `read_bytes`."""
    # A bucket says so itself; of other file systems, not all raise the same.
    if not gcs.is_gcs(path) and not exists(path):
        return None
    try:
        return read_bytes(path, follow_links=follow_links, max_bytes=max_bytes).decode()
    except FileNotFoundError:
        return None


def read_range(path: str, offset: int, length: int, *, follow_links: bool = True) -> bytes:
    """A part of a file as stored; fewer bytes where it ends; see `read_bytes`."""
    if gcs.is_gcs(path):
        return gcs.read_range(path, offset, length)
    with open_reader(path, follow_links=follow_links) as file:
        file.seek(offset)
        return bytes(file.read(length))


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none.

    Raises:
        ManifestError: it is no manifest, or of a version that this code does not know.
    """
    text = read_text(path, follow_links=False)
    return None if text is None else parse_manifest(text, path)


def generation_of(path: str) -> int | None:
    """The generation of an object that a write may replace, 0 for a new one.

    None where there are no generations.
    """
    if not gcs.is_gcs(path):
        return None
    found = gcs.find(path)
    return found.generation if found else 0


def write_whole(path: str, data: bytes, *, generation: int | None = None) -> None:
    """Writes a file so that a reader sees all of it or nothing.

    Args:
        path: the file.
        data: its content.
        generation: of the object that it replaces, see `generation_of`; None for any.

    Raises:
        FileExistsError: another run wrote other bytes meanwhile.
    """
    if gcs.is_gcs(path):
        gcs.write(path, data, generation=generation)
        return
    staged = path + PARTIAL
    with open_writer(staged) as file:
        file.write(data)
    rename(staged, path)


def rename(source: str, target: str, *, is_synced: bool = True) -> None:
    """Puts `source` in the place of `target`, which may exist.

    Args:
        source: the file.
        target: its new path.
        is_synced: whether its name is on the disk, too, when this returns; see `sync_folder`.
    """
    if gcs.is_gcs(target):
        gcs_moves.move(source, target)
        return
    if is_local(target):
        os.replace(source, target)
    else:
        # Hadoop renames onto nothing that is there.
        _delete(target)
        FileSystems.rename([source], [target])
    if is_synced:
        sync_folder(os.path.dirname(target))


def for_each(
    function: Callable[[Item], Result], items: Iterable[Item], folder: str
) -> Iterator[Result]:
    """Results in the order of the items; many at once if what they ask for is remote.

    Args:
        function: asks for a file below `folder`.
        items: what to call it with.
        folder: local, or not.
    """
    if is_local(folder):
        yield from map(function, items)
        return
    with ThreadPoolExecutor(gcs.READERS) as pool:
        yield from pool.map(function, items)


def sync_folder(folder: str) -> None:
    """Names are on the disk too, in the order in which they were given; of a local folder."""
    if not is_local(folder):
        return
    folder = folder or "."
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Removes a file; nothing there is fine, a folder is an error."""
    if gcs.is_gcs(path):
        gcs.remove(path)
    elif is_local(path):
        local_files.remove(path)
    else:
        _delete(path)


def remove_folder(path: str) -> None:
    """Removes a staging folder; nothing there is fine.

    Raises:
        ForeignNameError: something is in it that this tool does not write; nothing was removed.
    """
    if is_local(path):
        local_files.remove_staging(path)
        return
    # Object stores have no folder that could go with what is in it.
    for name in staged_names(path):
        remove(join(path, name))
    if not gcs.is_gcs(path):
        _delete(path)


def staged_names(staging: str) -> list[str]:
    """All files below a staging folder, relative to it, sorted.

    Raises:
        ForeignNameError: one is none that this tool writes there.
    """
    if is_local(staging):
        return local_files.staged_names(staging)
    names = names_below(staging)
    if foreign := [name for name in names if not is_staged(name)]:
        raise ForeignNameError(
            f"{join(staging, foreign[0])!r:.300} is nothing that this tool writes into its staging "
            "folder: move it away"
        )
    return names


def check_folders(output: str, names: Iterable[str]) -> None:
    """Checks that the folders of a dataset's files are in it, and no links that lead elsewhere.

    Args:
        output: the dataset's folder.
        names: its files, by their paths below it.

    Raises:
        ForeignNameError: one is not.
    """
    if is_local(output):
        for folder in sorted({name.rpartition("/")[0] for name in names} - {""}):
            local_files.check_folder(join(output, folder))


def check_replaced(output: str, names: Iterable[str]) -> None:
    """Checks that files of a dataset can be written or removed: none is a folder.

    Args:
        output: the dataset's folder.
        names: its files, by their paths below it.

    Raises:
        ForeignNameError: one is.
    """
    names = list(names)
    check_folders(output, names)
    if is_local(output):
        for name in names:
            local_files.check_file(join(output, name))


def names_below(folder: str) -> list[str]:
    """The files below a folder, relative to it, sorted; of a local one only those in it."""
    if gcs.is_gcs(folder):
        return gcs.names_below(folder)
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = FileSystems.match([join(folder, "**")])[0].metadata_list
    return sorted(file.path.removeprefix(join(folder, "")) for file in found)


def _delete(path: str) -> None:
    """Removes what is neither local nor in a bucket of Google."""
    if exists(path):
        try:
            FileSystems.delete([path])
        except OSError:
            if exists(path):
                raise


def remove_if_empty(folder: str) -> None:
    """Removes a local folder that nothing is in; other file systems have no empty ones to tidy."""
    if is_local(folder):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def make_directory(path: str) -> None:
    """Makes a folder and its parents, where the file system has folders."""
    if not gcs.is_gcs(path) and not exists(path):
        try:
            FileSystems.mkdirs(path)
        except OSError:
            if not exists(path):
                raise


def has_size(path: str, size: int) -> bool:
    """Whether a file is there and has `size` bytes."""
    if gcs.is_gcs(path):
        stored = gcs.find(path)
        return stored is not None and stored.size == size
    if is_local(path):
        return local_files.has_size(path, size)
    return exists(path) and FileSystems.get_filesystem(path).size(path) == size


def checksum(path: str, *, size: int) -> str | None:
    """The CRC32C of a stored file, 8 hexadecimal digits; None when there is none.

    Args:
        path: the file.
        size: bytes that it should have. Of one with more, no more are read: empty.

    Raises:
        OSError: it cannot be read.
    """
    if gcs.is_gcs(path):
        stored = gcs.find(path)
        if stored is None:
            return None
        return stored.crc32c if stored.size <= size else ""
    if not exists(path):
        return None
    crc = read = 0
    with open_reader(path, follow_links=False) as file:
        while chunk := file.read(_CHUNK):
            crc = google_crc32c.extend(crc, chunk)
            read += len(chunk)
            if read > size:
                return ""
    return f"{crc:08x}"
