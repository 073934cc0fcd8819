"""Finds the storage of a path."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import google_crc32c

from transforms.core.messages import TooLargeError
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.manifest import ManifestError, crc32c_hex, parse_manifest
from transforms.dataset.output_names import STAGING
from transforms.labels.keys import archive_path
from transforms.storage.archive_storage import ArchiveStorage, ParquetStorage
from transforms.storage.gcs_requests import SCHEME
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.interface import MAX_DATASET_FILE, Storage
from transforms.storage.local_storage import LocalStorage

# A file that computes the checksum of what is written to it.


class ChecksummedFile:
    """A writable file that computes the CRC32C and the number of its bytes."""

    # Beam's compression checks whether the file is writable.
    mode = "wb"

    def __init__(self, file: Any, *, with_sha256: bool = False) -> None:
        """Begins with nothing written; the SHA-256 takes 0.5 ms more for each megabyte.

        Args:
            file: anything whose `write` takes all bytes.
            with_sha256: whether to compute it.
        """
        self._file = file
        self._crc = 0
        self._sha256 = hashlib.sha256() if with_sha256 else None
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    @property
    def sha256(self) -> str:
        """64 hexadecimal digits; empty if it is not computed."""
        return self._sha256.hexdigest() if self._sha256 else ""

    def write(self, data: bytes) -> int:
        """Writes `data` and adds it to the checksums."""
        if self._sha256 is not None:
            self._sha256.update(data)
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


# Selects the storage of a path, and reads back files of a dataset by their names.

_LOCAL, _WITHOUT_LINKS, _GCS = LocalStorage(), LocalStorage(follow_links=False), GcsStorage()


def storage_of(path: str, *, follow_links: bool = True) -> Storage:
    """The storage of a path or a glob; the only function that reads its scheme.

    Args:
        path: below which files are.
        follow_links: whether a file that is read may be a link: True for paths from a user, not for
            paths read from a file in an output folder.
    """
    # A folder may have such a name, too.
    if (
        "!" in path
        and (parts := archive_path(path))
        and ("://" in path or not os.path.isdir(f"{parts.archive}!"))
    ):
        return _archive_storage(_plain_storage(parts.archive), parts.kind)
    return _plain_storage(path) if follow_links or "://" in path else _WITHOUT_LINKS


def names_beam_path(text: str) -> bool:
    """Whether a text holds a path that only Beam's file systems read."""
    return "://" in text.replace(SCHEME, "")


def _plain_storage(path: str) -> Storage:
    """The storage of a path that does not lead into an archive, even if it seems to."""
    if "://" not in path:
        return _LOCAL
    return _GCS if path.startswith(SCHEME) else _beam_storage()


@functools.cache
def _archive_storage(inner: Storage, kind: str) -> Storage:
    """The storage of what is in the archives of another storage."""
    return (ParquetStorage if kind == "parquet" else ArchiveStorage)(inner, kind)


# A thread that reads the directory of an archive while the process forks is not in the fork.
os.register_at_fork(after_in_child=_archive_storage.cache_clear)


@functools.cache
def _beam_storage() -> Storage:
    """The storage of other schemes; readers of local files and buckets do not wait for Beam."""
    from transforms.storage.beam_storage import BeamStorage

    return BeamStorage()


def join(directory: str, *names: str) -> str:
    """A path below `directory`."""
    return "/".join([directory.rstrip("/"), *names])


def is_same_path(one: str, other: str) -> bool:
    """Whether two paths name the same file or folder, maybe through links."""
    return len({storage_of(each).resolved(each).rstrip("/") for each in (one, other)}) == 1


def overlap(folder: str, output: str) -> bool:
    """Whether two folders, of copies and of a dataset, are the same or one contains the other.

    >>> overlap("out/left", "out"), overlap("outer", "out")
    (True, False)
    """
    first, second = (
        f"{storage_of(path).absolute(path.rstrip('/') or path)}/" for path in (folder, output)
    )
    return first.startswith(second) or second.startswith(first)


def sidecar_path(output: str, shard: str, recipe: str) -> str:
    """The path of the sidecar of a staged shard."""
    return join(output, STAGING, f"{shard}.{recipe}.json")


def read_sidecar(path: str) -> ShardSummary | None:
    """The summary in the sidecar of a staged shard; None if it is missing or damaged."""
    try:
        text = storage_of(path, follow_links=False).read_text(path)
    except (TooLargeError, UnicodeDecodeError):
        return None
    return None if text is None else ShardSummary.from_sidecar(text)


def read_manifest(path: str, *, may_index: bool = False) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none; `may_index` as for `parse_manifest`.

    Raises:
        ManifestError: it is not a manifest, or its version is not supported.
    """
    try:
        text = storage_of(path, follow_links=False).read_text(path)
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is not a manifest of this tool: {error}") from error
    return None if text is None else parse_manifest(text, path, may_index=may_index)


def read_dataset_file(path: str, listed: Mapping[str, Any]) -> bytes | None:
    """A file of a dataset, or None if its bytes are not those that the manifest lists.

    Args:
        path: of the file.
        listed: its number of bytes and its checksum, `bytes` and `crc32c`.

    Raises:
        OSError: it is missing or cannot be read.
    """
    most = min(listed["bytes"], MAX_DATASET_FILE)
    try:
        data = storage_of(path, follow_links=False).read_bytes(path, max_bytes=most)
    except TooLargeError:
        return None
    is_listed = len(data) == listed["bytes"] and crc32c_hex(data) == listed["crc32c"]
    return data if is_listed else None
