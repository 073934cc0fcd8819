"""CopyRejected: copies rejected images to folders named after their reasons."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator

import apache_beam as beam

from transforms.core.arguments import path_text, root_text
from transforms.core.dataset.image_file_names import file_stem
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.file_errors import check_final
from transforms.core.planning.archives import as_folder
from transforms.core.planning.keys import full_uri
from transforms.core.records import Count
from transforms.core.rejections import Reason, Rejection
from transforms.metrics import counter
from transforms.storage.files import join, storage_of

_CHUNK = 1 << 20

# Limits in bytes for a file name, and for the extension that a shortened name keeps.
_MAX_NAME = 255
_MAX_EXTENSION = 16

# A copy cannot be written: a file is in place of its folder, a folder in place of the copy, or the
# whole path is too long.
_NO_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG)


class CopyRejected(beam.PTransform):
    """Copies the files of rejected images to `FOLDER/REASON/PATH`, published or not.

    Input: the shards' summaries and the rejections of the plan. Output: one `Count` per image,
    for steps that must wait for the copies. A retry copies again to the same names. The following
    metrics are maintained: `images_quarantined`, and `images_not_quarantined`, files that can no
    longer be read.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        folder: str | os.PathLike[str],
        *,
        rejections: beam.PCollection[Rejection],
    ) -> None:
        super().__init__()
        self._fn = _CopyRejectedFn(root_text("root", root), path_text("folder", folder))
        self._rejections = rejections

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[Count]:
        of_shards = shards | "Name rejected images" >> beam.ParDo(
            _NameRejectedFn()
        ).with_output_types(Rejection)
        return (
            (of_shards, self._rejections)
            | "All rejected images" >> beam.Flatten()
            | "Copy rejected images" >> beam.ParDo(self._fn).with_output_types(Count)
        )


def overlap(folder: str, output: str) -> bool:
    """Whether two folders, of copies and of a dataset, are the same or one contains the other.

    >>> overlap("out/left", "out"), overlap("outer", "out")
    (True, False)
    """
    first, second = (
        f"{storage_of(path).absolute(path.rstrip('/') or path)}/" for path in (folder, output)
    )
    return first.startswith(second) or second.startswith(first)


class _NameRejectedFn(beam.DoFn):
    def process(self, shard: ShardSummary) -> Iterator[Rejection]:
        yield from shard.rejections


class _CopyRejectedFn(beam.DoFn):
    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder

    def process(self, rejection: Rejection) -> Iterator[Count]:
        # A row must not make us copy a file that it may not make us read.
        if rejection.subject == "image" and rejection.reason != Reason.OUTSIDE_ROOT:
            source = full_uri(self._root, rejection.path)
            if self._copy(source, rejection):
                counter("images_quarantined").inc()
                yield Count("images_quarantined", 1)
            else:
                counter("images_not_quarantined").inc()
                yield Count("images_not_quarantined", 1)

    def _copy(self, source: str, rejection: Rejection) -> bool:
        target = quarantined(self._folder, rejection)
        try:
            return copy_file(source, target)
        except OSError as error:
            # A bucket can hold both `a` and `a/b.jpg`; a local folder cannot.
            if error.errno not in _NO_PLACE:
                raise
        name = file_stem(rejection.path, max_bytes=_MAX_NAME, is_marked=True)
        return copy_file(source, join(self._folder, rejection.reason, name))


def quarantined(folder: str, rejection: Rejection) -> str:
    """The path to which a rejected image is copied.

    >>> quarantined("q/", Rejection("image", "empty_file", "0 bytes", "cat/1.jpg", "1"))
    'q/empty_file/cat/1.jpg'
    >>> quarantined("q", Rejection("image", "empty_file", "0 bytes", "../../1.jpg", "1"))
    'q/empty_file/%2E%2E/%2E%2E/1.jpg'
    >>> quarantined("q", Rejection("image", "empty_file", "0 bytes", "a.zip!/1.jpg", "1"))
    'q/empty_file/a.zip/1.jpg'
    """
    path = as_folder(rejection.path).replace("://", "/").lstrip("/")
    return join(folder, rejection.reason, *map(_segment, path.split("/")))


def _segment(name: str) -> str:
    """A part of an object's name as the name of a file or a folder.

    >>> _segment(".."), _segment(""), len(_segment("x" * 300 + ".jpg"))
    ('%2E%2E', '%2F', 255)
    """
    if not name:
        return "%2F"
    if name in (".", ".."):
        # An image that a row lists may be next to or above the root, its copy must not.
        return "%2E" * len(name)
    name = name.replace("\0", "%00")
    if len(name.encode(errors="surrogateescape")) <= _MAX_NAME:
        return name
    stem, dot, extension = name.rpartition(".")
    if not dot or len(extension.encode()) > _MAX_EXTENSION:
        stem, extension = name, ""
    extension = dot + extension if extension else ""
    return file_stem(stem, max_bytes=_MAX_NAME - len(extension.encode())) + extension


def copy_file(source: str, target: str) -> bool:
    """Copies a file so that it appears whole.

    Returns:
        False when it cannot be read.

    Raises:
        OSError: the copy cannot be written, or another try may read the file.
    """
    folder, name = target.rsplit("/", 1)
    # A name of maximum length has no room for a suffix.
    storage = storage_of(folder)
    partial = join(folder, f".{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}")
    try:
        storage.remove(partial)
        with storage.open_writer(partial) as file:
            for chunk in _chunks(source):
                file.write(chunk)
        storage.rename(partial, target)
    except _UnreadableError:
        storage.remove(partial)
        return False
    except (IsADirectoryError, FileExistsError):
        # Something else is in place of the copy.
        storage.remove(partial)
        raise
    return True


class _UnreadableError(Exception):
    """The source, not the target, is unusable."""


def _chunks(source: str) -> Iterator[bytes]:
    storage = storage_of(source)
    if not storage.is_ordinary(source):
        raise _UnreadableError
    try:
        with storage.open_reader(source) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        check_final(error, source)
        raise _UnreadableError from error
