"""ListRejections and CopyRejected: what was left out, in lines and as files."""

from __future__ import annotations

import bisect
import dataclasses
import errno
import hashlib
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam

from transforms.core import rejections
from transforms.core.messages import check_final
from transforms.core.records import Count, RejectedPart
from transforms.core.rejections import Reason, Rejection
from transforms.dataset.dataset_options import DatasetOptions
from transforms.dataset.ledger import RunTotals, ShardSummary
from transforms.dataset.manifest import content_summary
from transforms.dataset.output_names import STAGING, file_stem, rejected_part
from transforms.labels.keys import MEMORY, as_folder, full_uri
from transforms.packing import Collections, NameBatch, named, pack, packing_records, unpack
from transforms.records.existing_shards import only_compares
from transforms.records.stored_images import RECORDS
from transforms.storage.files import join, storage_of
from transforms.storage.metrics import counter

# The lines of `rejected.jsonl`.


def rejected_lines(rejections: Iterable[Rejection], root: str) -> bytes:
    """A line for each rejection, images by the path they were read from.

    Args:
        rejections: in their order.
        root: the common root of the images.
    """
    # The file of an image from memory is removed: its key is its name. A record has no file.
    has_files = root not in (MEMORY, RECORDS)
    listed = (
        r._replace(path=full_uri(root, r.path)) if has_files and r.subject == "image" else r
        for r in rejections
    )
    return "".join(f"{rejection.to_json()}\n" for rejection in listed).encode()


# ListRejections: counts rejections, and writes their lines in sorted parts, on all workers.

PART_LINES = 20_000
"""Lines of a part, about: a worker sorts them in 50 MB."""


@dataclasses.dataclass(eq=False, repr=False)
class ListRejections(beam.PTransform):
    """Writes the lines of all rejections, however many there are: a wrong key may reject every row.

    Input: `Rejection` of the join and the plan. Output: `RejectedPart`; none if there are too many
    rejections. A sample says where the parts begin, of which each is sorted and written by one
    worker; the parts in order are sorted, too. No worker holds more than a part.

    Attributes:
        folder: of the dataset. If one is there and stays, no line is written.
        root: the common root of its images.
        shards: with further rejections.
        run: what was added up of all.
    """

    folder: DatasetOptions
    root: str
    shards: beam.PCollection[ShardSummary]
    run: beam.PCollection[RunTotals]

    def expand(self, rejections: Collections[Rejection]) -> beam.PCollection[RejectedPart]:
        begins = beam.pvalue.AsSingleton(self.run | "Begin parts" >> beam.Map(begin_parts))
        name_parts = beam.FlatMap(_named, begins)
        write = beam.Map(_written, self.folder, self.root)
        every = named("rejections", rejections)
        every["rejections of shards"] = self.shards | "Name rejections of shards" >> of_shards()
        packed = [each | f"Pack {name}" >> packing_records() for name, each in every.items()]
        # Prism does not wait for the side input of flattened groups: beam_side_inputs.md.
        wait = beam.FlatMap(lambda _, begins: (), begins).with_output_types(NameBatch)
        waiting = self.run.pipeline | "Begin" >> beam.Impulse() | "Wait for parts" >> wait
        return (
            (*packed, waiting)
            | "Every rejection" >> beam.Flatten()
            | "Name parts" >> name_parts.with_output_types(tuple[int, NameBatch])
            | "Group lines by part" >> beam.GroupByKey()
            | "Write parts" >> write.with_output_types(RejectedPart)
        )


def of_shards() -> beam.PTransform:
    """A step that takes the rejections out of `ShardSummary`."""
    return beam.FlatMap(operator.attrgetter("rejections")).with_output_types(Rejection)


def begin_parts(run: RunTotals) -> list[Rejection] | None:
    """Where all parts but the first begin; None if there are too many rejections to list."""
    rejected, ordered = run.rejected.count, run.sample
    if rejected > rejections.MAX_LISTED:
        return None
    count = -(-rejected // PART_LINES)
    return [ordered[len(ordered) * number // count] for number in range(1, count)]


def _named(batch: NameBatch, begins: Sequence[Rejection] | None) -> Iterator[tuple[int, NameBatch]]:
    if begins is None:
        return
    parts: defaultdict[int, list[Rejection]] = defaultdict(list)
    for rejection in unpack(batch, Rejection):
        # Equal ones are in the same part.
        parts[bisect.bisect_right(begins, rejection)].append(rejection)
    for number, each in parts.items():
        yield number, pack(each)


def _written(
    part: tuple[int, Iterable[NameBatch]], folder: DatasetOptions, root: str
) -> RejectedPart:
    number, batches = part
    ordered = sorted(each for batch in batches for each in unpack(batch, Rejection))
    data = rejected_lines(ordered, root)
    name = rejected_part(hashlib.blake2b(data, digest_size=16).hexdigest())
    if not only_compares(folder):
        staging = join(folder.output, STAGING)
        storage = storage_of(staging)
        storage.make_directory(staging)
        storage.write_whole(join(staging, name), data)
    return RejectedPart(number, name, len(ordered), *content_summary(data))


# CopyRejected: copies rejected images to folders named after their reasons.

_CHUNK = 1 << 20

# Limits in bytes for a file name, and for the extension that a shortened name keeps.
_MAX_NAME = 255
_MAX_EXTENSION = 16

# A copy cannot be written: a file is in place of its folder, a folder in place of the copy, or the
# whole path is too long.
_NO_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG)


@dataclasses.dataclass(eq=False, repr=False)
class CopyRejected(beam.PTransform):
    """Copies the files of rejected images to `FOLDER/REASON/PATH`, published or not.

    Input: the shards' summaries and the rejections of the plan. Output: one `Count` per image,
    for steps that must wait for the copies. A retry copies again to the same names. The following
    metrics are maintained: `images_quarantined`, and `images_not_quarantined`, files that can no
    longer be read.
    """

    root: str
    folder: str
    rejections: Collections[Rejection]

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[Count]:
        copy = beam.FlatMap(_copied, self.root, self.folder)
        return (
            (shards | "Name rejected images" >> of_shards(), *named("", self.rejections).values())
            | "All rejected images" >> beam.Flatten()
            | "Copy rejected images" >> copy.with_output_types(Count)
        )


def _copied(rejection: Rejection, root: str, folder: str) -> Iterator[Count]:
    # A row must not make us copy a file that it may not make us read.
    if rejection.subject == "image" and rejection.reason != Reason.OUTSIDE_ROOT.code:
        if _copy(full_uri(root, rejection.path), folder, rejection):
            counter("images_quarantined").inc()
            yield Count("images_quarantined", 1)
        else:
            counter("images_not_quarantined").inc()
            yield Count("images_not_quarantined", 1)


def _copy(source: str, folder: str, rejection: Rejection) -> bool:
    try:
        return copy_file(source, quarantined(folder, rejection))
    except OSError as error:
        # A bucket can hold both `a` and `a/b.jpg`; a local folder cannot.
        if error.errno not in _NO_PLACE:
            raise
    name = file_stem(rejection.path, max_bytes=_MAX_NAME, is_marked=True)
    return copy_file(source, join(folder, rejection.reason, name))


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
