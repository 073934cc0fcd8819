"""CopyRejected: the originals of rejected images, in folders named after their reasons."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import apache_beam as beam

from transforms import files
from transforms.core.arguments import path_text, root_text
from transforms.core.file_errors import check_final
from transforms.core.keys import full_uri
from transforms.core.records import Count
from transforms.core.rejections import Reason, Rejection
from transforms.core.stats import ShardSummary
from transforms.metrics import counter

_CHUNK = 1 << 20


class CopyRejected(beam.PTransform):
    """Copies the files of rejected images to `FOLDER/REASON/PATH`, published or not.

    Input: the shards' summaries and the rejections of the plan. Output: a `Count` for each image,
    for those who must wait for the copies. A retry copies again to the same names. The following
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


class _NameRejectedFn(beam.DoFn):
    def process(self, shard: ShardSummary) -> Iterator[Rejection]:
        yield from shard.rejections


class _CopyRejectedFn(beam.DoFn):
    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder

    def process(self, rejection: Rejection) -> Iterator[Count]:
        # A row must not have copied what it may not have read.
        if rejection.subject == "image" and rejection.reason != Reason.OUTSIDE_ROOT:
            source = full_uri(self._root, rejection.path)
            if copy_file(source, quarantined(self._folder, rejection)):
                counter("images_quarantined").inc()
                yield Count("images_quarantined", 1)
            else:
                counter("images_not_quarantined").inc()
                yield Count("images_not_quarantined", 1)


def quarantined(folder: str, rejection: Rejection) -> str:
    """Where the file of a rejected image is copied to.

    >>> quarantined("q/", Rejection("image", "empty_file", "0 bytes", "cat/1.jpg", "1"))
    'q/empty_file/cat/1.jpg'
    >>> quarantined("q", Rejection("image", "empty_file", "0 bytes", "../../1.jpg", "1"))
    'q/empty_file/%2E%2E/%2E%2E/1.jpg'
    """
    path = rejection.path.replace("://", "/").lstrip("/")
    # An image that a row lists may lie beside or above the root, its copy must not.
    parts = ("%2E%2E" if part == ".." else part for part in path.split("/"))
    return files.join(folder, rejection.reason, *parts)


def copy_file(source: str, target: str) -> bool:
    """Copies a file so that it appears whole.

    Returns:
        False when it cannot be read.

    Raises:
        OSError: the copy cannot be written, or another try may read the file.
    """
    folder, name = target.rsplit("/", 1)
    # As long as it is, a name may have no room for more.
    partial = files.join(folder, f".{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}")
    try:
        files.remove(partial)
        with files.open_writer(partial) as file:
            for chunk in _chunks(source):
                file.write(chunk)
    except _UnreadableError:
        files.remove(partial)
        return False
    files.rename(partial, target)
    return True


class _UnreadableError(Exception):
    """The source, not the target, is what cannot be used."""


def _chunks(source: str) -> Iterator[bytes]:
    if not files.is_regular(source):
        raise _UnreadableError
    try:
        with files.open_reader(source) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        check_final(error, source)
        raise _UnreadableError from error
