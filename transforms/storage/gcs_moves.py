"""Objects that get other names, without being read: copied on the server, pinned to generations."""

from __future__ import annotations

import errno

from transforms.core.file_errors import ChangedError
from transforms.storage.gcs import Stored, blob_of, client, find, remove, split_uri, stored
from transforms.storage.gcs_errors import translate_errors
from transforms.storage.gcs_retry import retry


def move(source: str, target: str) -> None:
    """Puts `source` in the place of `target`, which may exist, without reading it.

    Copies on the server, each object pinned to the generation that is there now, and removes the
    source. Another attempt may move the same bytes at the same time.

    Raises:
        FileNotFoundError: there is no `source`, and `target` does not exist either.
        OSError: `target` was changed by another run, or permissions are missing.
    """
    there, former = find(source), find(target)
    if there is None:
        raise FileNotFoundError(errno.ENOENT, "no such object", source)
    move_stored(source, target, there, former)


def move_stored(source: str, target: str, there: Stored, former: Stored | None) -> int:
    """Puts one generation of `source` in the place of one of `target`; see `move`.

    Args:
        source: the object; moved onto itself, it gets another generation.
        target: its new URI.
        there: what is known of `source`.
        former: what is known of `target`, None when there was none.

    Returns:
        the generation of `target`.

    Raises:
        OSError: either was changed by another run, or permissions are missing.
    """
    try:
        generation = _copy(source, there, target, former)
    except (ChangedError, FileNotFoundError):
        now = find(target)
        if now is None or now.crc32c != there.crc32c:
            raise
        generation = now.generation
    if source != target:
        remove(source, generation=there.generation)
    return generation


def _copy(source: str, there: Stored, target: str, former: Stored | None) -> int:
    blob, original = blob_of(target), blob_of(source)
    token: str | None = None
    with translate_errors(target):
        while True:
            token, _, _ = blob.rewrite(
                original,
                token=token,
                if_generation_match=former.generation if former else 0,
                if_source_generation_match=there.generation,
                retry=retry(),
            )
            if token is None:
                return int(blob.generation)


def stored_below(folder: str) -> dict[str, Stored]:
    """All objects below a folder, by their names relative to it."""
    bucket, name = split_uri(folder)
    prefix = f"{name}/" if name else ""
    fields = "items(name,size,generation,crc32c),nextPageToken"
    with translate_errors(folder, missing="no such bucket"):
        below = client().list_blobs(bucket, prefix=prefix, fields=fields, retry=retry())
        return {blob.name.removeprefix(prefix): stored(blob) for blob in below}
