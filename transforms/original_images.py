"""Reads images as they were listed, also those that came from memory and are staged."""

from __future__ import annotations

import errno
import uuid

from transforms.core.dataset.output_names import PARTIAL, STAGING
from transforms.core.file_errors import ChangedError, MemberError, check_final
from transforms.core.images.image_limits import Limits
from transforms.core.planning.keys import full_uri
from transforms.core.planning.staged_images import (
    IN_STAGING,
    MEMORY,
    content_version,
    is_staged_root,
    staged_image,
)
from transforms.core.records import LabelledImage, ShardImage
from transforms.core.rejections import Reason, RejectedImageError
from transforms.core.shown_text import first_line
from transforms.storage.files import join, storage_of


def staged_root(output: str) -> str:
    """The folder that holds images from memory until the dataset in `output` is published."""
    return join(output, STAGING, IN_STAGING)


def originals_root(output: str, root: str) -> str:
    """The folder below which the images of a dataset can be read.

    Args:
        output: the dataset's folder.
        root: of the dataset, as its manifest has it.
    """
    return staged_root(output) if root == MEMORY else root


def check_staged_root(output: str) -> None:
    """Checks that the folder is in the output folder, not behind a link; it may be missing.

    Raises:
        ForeignNameError: it is a link or no folder.
    """
    inside = (f"{STAGING}/x", f"{STAGING}/{IN_STAGING}/x")
    storage_of(output).check_folders(output, inside)


def write_original(root: str, path: str, data: bytes) -> None:
    """Writes an image from memory; other attempts may write it at the same time.

    Args:
        root: the result of `staged_root`.
        path: the key of the image.
        data: its bytes.

    Raises:
        OSError: it cannot be written.
    """
    target = join(root, staged_image(path))
    storage = storage_of(target)
    if storage.has_generations:
        storage.write_whole(target, data)
        return
    partial = f"{target}.{uuid.uuid4().hex}{PARTIAL}"
    with storage.open_writer(partial) as file:
        file.write(data)
    # Not synced: after a crash of the machine, the program gives its images again.
    storage.rename(partial, target, is_synced=False)


def read_original(root: str, image: ShardImage | LabelledImage, *, max_bytes: int) -> bytes:
    """The bytes of an image, in the version that was listed or given.

    Args:
        root: common folder of the images.
        image: with its path, size and version.
        max_bytes: bytes that a compressed object may grow to.

    Raises:
        OSError: it cannot be read, or was overwritten since.
    """
    uri = full_uri(root, image.path)
    is_staged = is_staged_root(root)
    # The version of a staged image is a hash of its bytes: a rerun gives the same one.
    version = 0 if is_staged else image.version
    storage = storage_of(uri)
    data = storage.read_listed(uri, size=image.size, version=version, max_bytes=max_bytes)
    if is_staged and content_version(data) != image.version:
        raise ChangedError(errno.ESTALE, "it was overwritten meanwhile", uri)
    return data


def read_accepted(root: str, image: ShardImage, limits: Limits) -> bytes:
    """The bytes of an image's file, if it may become a record.

    Args:
        root: common folder of the images.
        image: with its path, size and version.
        limits: of the file.

    Raises:
        RejectedImageError: it is too large, or can never be read.
        TransientError: a retry may succeed; it fails the shard, not the image.
    """
    if image.size > limits.max_bytes:
        raise too_large(image.size, limits)
    try:
        return read_original(root, image, max_bytes=limits.max_bytes)
    except OSError as error:
        check_final(error, full_uri(root, image.path))
        reason = Reason.BAD_MEMBER if isinstance(error, MemberError) else Reason.UNREADABLE
        raise RejectedImageError(reason, error.strerror or first_line(error)) from error


def too_large(size: int, limits: Limits) -> RejectedImageError:
    """The rejection of a file of this many bytes."""
    detail = f"{size} bytes; --max_bytes is {limits.max_bytes}"
    return RejectedImageError(Reason.TOO_MANY_BYTES, detail)
