"""The files of an output folder, local or remote: read, write whole, rename, remove.

`gs://` paths go to `transforms.gcs`; all others, local ones too, through Beam's FileSystems.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, BinaryIO

import google_crc32c
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms import gcs
from transforms.core.manifest import parse_manifest
from transforms.match import is_local

STAGING = ".staging"

_CHUNK = 1 << 20
_AS_STORED = CompressionTypes.UNCOMPRESSED


def join(directory: str, *names: str) -> str:
    """A path below `directory`."""
    return "/".join([directory.rstrip("/"), *names])


def exists(path: str) -> bool:
    """Whether a file is there."""
    if gcs.is_gcs(path):
        return gcs.find(path) is not None
    return bool(FileSystems.exists(path))


def open_reader(path: str) -> AbstractContextManager[BinaryIO]:
    """A file's bytes as stored."""
    if gcs.is_gcs(path):
        return gcs.open_reader(path)
    stream: AbstractContextManager[BinaryIO] = FileSystems.open(path, compression_type=_AS_STORED)
    return stream


def open_writer(path: str) -> AbstractContextManager[Any]:
    """A new file to write bytes to."""
    if gcs.is_gcs(path):
        return gcs.open_writer(path)
    stream: AbstractContextManager[Any] = FileSystems.create(path, compression_type=_AS_STORED)
    return stream


def read_text(path: str) -> str | None:
    """The content of a file, or None when there is none."""
    if gcs.is_gcs(path):
        try:
            return gcs.read(path).decode()
        except FileNotFoundError:
            return None
    if not exists(path):
        return None
    with open_reader(path) as file:
        return bytes(file.read()).decode()


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none.

    Raises:
        ManifestError: it is no manifest, or of a version that this code does not know.
    """
    text = read_text(path)
    return None if text is None else parse_manifest(text, path)


def write_whole(path: str, data: bytes, *, must_be_new: bool = False) -> None:
    """Writes a file so that a reader sees all of it or nothing.

    Args:
        path: the file.
        data: its content.
        must_be_new: whether another run may not have written it meanwhile; object stores only,
            since a file system has no such condition on a rename.

    Raises:
        FileExistsError: it must be new, and another run wrote other bytes.
    """
    if gcs.is_gcs(path):
        gcs.write(path, data, must_be_new=must_be_new)
        return
    staged = path + ".partial"
    with open_writer(staged) as file:
        file.write(data)
    rename(staged, path)


def rename(source: str, target: str) -> None:
    """Puts `source` in the place of `target`, which may exist."""
    if gcs.is_gcs(target):
        gcs.move(source, target)
        return
    if not is_local(target):
        # Hadoop renames onto nothing that is there.
        _delete(target)
    FileSystems.rename([source], [target])


def remove(path: str) -> None:
    """Removes a file; nothing there is fine."""
    if gcs.is_gcs(path):
        gcs.remove(path)
    else:
        _delete(path)


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it; nothing there is fine."""
    if gcs.is_gcs(path):
        gcs.remove_below(path)
        return
    if not is_local(path):
        # Object stores have no folder that could go with what is in it.
        below = FileSystems.match([join(path, "**")])[0].metadata_list
        FileSystems.delete([file.path for file in below])
    _delete(path)


def _delete(path: str) -> None:
    if exists(path):
        try:
            FileSystems.delete([path])
        except BeamIOError:
            if exists(path):
                raise


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
    return exists(path) and FileSystems.get_filesystem(path).size(path) == size


def checksum(path: str) -> str:
    """The CRC32C of a stored file, 8 hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    if gcs.is_gcs(path):
        stored = gcs.find(path)
        if stored is None:
            raise FileNotFoundError(path)
        return stored.crc32c
    crc = 0
    with open_reader(path) as file:
        while chunk := file.read(_CHUNK):
            crc = google_crc32c.extend(crc, chunk)
    return f"{crc:08x}"
