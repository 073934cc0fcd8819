"""Small files of an output folder, local or remote: read, write whole, rename, remove."""

from __future__ import annotations

from typing import Any

import google_crc32c
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.core.manifest import parse_manifest

STAGING = ".staging"

_CHUNK = 1 << 20


def join(directory: str, *names: str) -> str:
    """A path below `directory`."""
    return str(FileSystems.join(directory, *names))


def exists(path: str) -> bool:
    """Whether a file is there."""
    return bool(FileSystems.exists(path))


def read_text(path: str) -> str | None:
    """The content of a file, or None when there is none."""
    if not exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read()).decode()


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none.

    Raises:
        ManifestError: it is no manifest, or of a version that this code does not know.
    """
    text = read_text(path)
    return None if text is None else parse_manifest(text, path)


def write_whole(path: str, data: bytes) -> None:
    """Writes a file so that a reader sees all of it or nothing."""
    staged = path + ".partial"
    with FileSystems.create(staged, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(data)
    rename(staged, path)


def rename(source: str, target: str) -> None:
    """Puts `source` in the place of `target`, which may exist."""
    FileSystems.rename([source], [target])


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it; nothing there is fine."""
    if exists(path):
        try:
            FileSystems.delete([path])
        except BeamIOError:
            if exists(path):
                raise


def make_directory(path: str) -> None:
    """Makes a folder and its parents, where the file system has folders."""
    if not exists(path):
        try:
            FileSystems.mkdirs(path)
        except OSError:
            if not exists(path):
                raise


def has_size(path: str, size: int) -> bool:
    """Whether a file is there and has `size` bytes."""
    return exists(path) and FileSystems.get_filesystem(path).size(path) == size


def checksum(path: str) -> str:
    """The CRC32C of a stored file, 8 hexadecimal digits."""
    crc = 0
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        while chunk := file.read(_CHUNK):
            crc = google_crc32c.extend(crc, chunk)
    return f"{crc:08x}"
