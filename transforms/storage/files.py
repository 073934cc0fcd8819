"""Selects the storage of a path, and reads back files of a dataset by their names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from transforms.core.dataset.file_content import crc32c_hex
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.manifest import parse_manifest
from transforms.core.dataset.output_names import STAGING
from transforms.core.file_errors import TooLargeError
from transforms.core.planning.archives import archive_path
from transforms.storage.archives.archive_storage import ArchiveStorage
from transforms.storage.gcs.gcs_client import SCHEME
from transforms.storage.gcs.gcs_storage import GcsStorage
from transforms.storage.interface import Storage
from transforms.storage.local.local_storage import LocalStorage

# The description of a shard grows with its rejections, and with its files of single images.
_MAX_SIDECAR_BYTES = 8 << 30

_LOCAL, _GCS = LocalStorage(), GcsStorage()


def storage_of(path: str) -> Storage:
    """The storage of a path or a glob; the only function that reads its scheme."""
    if "!" in path and (parts := archive_path(path)):
        return _archive_storage(_plain_storage(parts.archive), parts.kind)
    if "://" not in path:
        return _LOCAL
    return _GCS if path.startswith(SCHEME) else _beam_storage()


def _plain_storage(path: str) -> Storage:
    """The storage of a path that does not lead into an archive, even if it seems to."""
    if "://" not in path:
        return _LOCAL
    return _GCS if path.startswith(SCHEME) else _beam_storage()


@functools.cache
def _archive_storage(inner: Storage, kind: str) -> Storage:
    """The storage of what is in the archives of another storage."""
    return ArchiveStorage(inner, kind)


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


def sidecar_path(output: str, shard: str, recipe: str) -> str:
    """The path of the sidecar of a staged shard."""
    return join(output, STAGING, f"{shard}.{recipe}.json")


def read_sidecar(path: str) -> ShardSummary | None:
    """The summary in the sidecar of a staged shard; None if it is missing or damaged."""
    try:
        text = storage_of(path).read_text(path, follow_links=False, max_bytes=_MAX_SIDECAR_BYTES)
    except (TooLargeError, UnicodeDecodeError):
        return None
    return None if text is None else ShardSummary.from_sidecar(text)


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none.

    Raises:
        ManifestError: it is not a manifest, or its version is not supported.
    """
    text = storage_of(path).read_text(path, follow_links=False)
    return None if text is None else parse_manifest(text, path)


def read_dataset_file(path: str, listed: Mapping[str, Any]) -> bytes | None:
    """A file of a dataset, or None if its bytes are not those that the manifest lists.

    Args:
        path: of the file.
        listed: its number of bytes and its checksum, `bytes` and `crc32c`.

    Raises:
        OSError: it is missing or cannot be read.
    """
    try:
        data = storage_of(path).read_bytes(path, follow_links=False, max_bytes=listed["bytes"])
    except TooLargeError:
        return None
    is_listed = len(data) == listed["bytes"] and crc32c_hex(data) == listed["crc32c"]
    return data if is_listed else None
