"""Which storage a path is in, and the files of a dataset that are read back by their names."""

from __future__ import annotations

from typing import Any

from transforms.core.dataset.manifest import parse_manifest
from transforms.core.dataset.output_names import STAGING
from transforms.core.duplicates.fingerprints import Sidecar
from transforms.core.file_errors import TooLargeError
from transforms.storage.beam_storage import BeamStorage
from transforms.storage.gcs_client import SCHEME
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.interface import Storage
from transforms.storage.local_storage import LocalStorage

# The description of a shard grows with its records, 200 bytes each.
_MAX_SIDECAR_BYTES = 8 << 30

_LOCAL, _GCS, _BEAM = LocalStorage(), GcsStorage(), BeamStorage()


def storage_of(path: str) -> Storage:
    """Where a path or a glob is: the only place that reads its scheme."""
    if "://" not in path:
        return _LOCAL
    return _GCS if path.startswith(SCHEME) else _BEAM


def join(directory: str, *names: str) -> str:
    """A path below `directory`."""
    return "/".join([directory.rstrip("/"), *names])


def sidecar_path(output: str, shard: str, recipe: str) -> str:
    """What describes a staged shard."""
    return join(output, STAGING, f"{shard}.{recipe}.json")


def read_sidecar(path: str) -> Sidecar | None:
    """What describes a staged shard; None when it is gone, cut or damaged."""
    try:
        text = storage_of(path).read_text(path, follow_links=False, max_bytes=_MAX_SIDECAR_BYTES)
    except (TooLargeError, UnicodeDecodeError):
        return None
    return None if text is None else Sidecar.from_text(text)


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest in a file, or None when there is none.

    Raises:
        ManifestError: it is no manifest, or of a version that this code does not know.
    """
    text = storage_of(path).read_text(path, follow_links=False)
    return None if text is None else parse_manifest(text, path)
