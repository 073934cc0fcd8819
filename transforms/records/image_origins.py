"""Where images come from: files, and records of other datasets."""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from transforms.core.messages import ChangedError, MemberError, check_final, first_line
from transforms.core.records import PartnerFile, PlannedImage, partner_files
from transforms.core.rejections import Reason, RejectedImageError
from transforms.dataset.output_names import PARTIAL, STAGING
from transforms.examples.decoder import Kept, decode_example, only_bytes, values_of
from transforms.examples.layouts import FORMAT, PATH, SIZES
from transforms.examples.tfrecord import FRAME_BYTES, TFRecordError, framed_payload, read_frames
from transforms.images.checked_images import CheckedPartner
from transforms.images.headers import image_format, read_header
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.images.tags import read_tags
from transforms.labels.joins import has_rows
from transforms.labels.keys import (
    IN_STAGING,
    MEMORY,
    content_version,
    full_uri,
    image_key,
    is_staged_root,
    staged_image,
)
from transforms.records.foreign_records import KEY
from transforms.records.other_datasets import OtherDataset
from transforms.records.record_index import content_hash, row_problems
from transforms.records.stored_images import COMPRESSED, StoredImage
from transforms.records.written_index import open_records
from transforms.storage.files import join, storage_of
from transforms.storage.interface import READERS, Read
from transforms.storage.read_ahead import TOGETHER, ReadAhead, reading_threads

# Reads images as they were listed, also those that came from memory and are staged.


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


def read_original(root: str, image: PlannedImage, *, max_bytes: int) -> bytes:
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


def read_accepted(root: str, image: PlannedImage, max_bytes: int) -> bytes:
    """The bytes of an image's file, if it may become a record.

    Args:
        root: common folder of the images.
        image: with its path, size and version.
        max_bytes: of the file.

    Raises:
        RejectedImageError: it is too large, or can never be read.
        TransientError: a retry may succeed; it fails the shard, not the image.
    """
    if image.size > max_bytes:
        raise too_large(image.size, max_bytes)
    try:
        return read_original(root, image, max_bytes=max_bytes)
    except OSError as error:
        check_final(error, full_uri(root, image.path))
        reason = Reason.BAD_MEMBER if isinstance(error, MemberError) else Reason.UNREADABLE
        raise RejectedImageError(reason, error.strerror or first_line(error)) from error


def too_large(size: int, max_bytes: int) -> RejectedImageError:
    """The rejection of a file of this many bytes."""
    return RejectedImageError(Reason.TOO_MANY_BYTES, f"{size} bytes; --max_bytes is {max_bytes}")


# Reads records of other datasets: neighbors at once, and those of a compressed file in order.

# Bytes of neighbors that are read at once; of a remote file, with what is between them: a request
# takes as long as a few megabytes.
_RUN_BYTES = 8 << 20
_REMOTE_GAP_BYTES = 1 << 20

# Runs that are fetched while one is used.
_AHEAD, _REMOTE_AHEAD = 1, 2


def _open(path: str) -> Read:
    return storage_of(path, follow_links=False).open_ranges(path)


class RecordRun:
    """Neighbors in one file, read when the first of them is needed.

    Attributes:
        path: of the file.
        is_at_hand: whether most records are in memory when they are needed.
        following: the runs that will probably be needed next.
    """

    is_at_hand = False

    def __init__(self, path: str, stored: StoredImage, opened: Callable[[str], Read]) -> None:
        """Opens nothing.

        Args:
            path: of the file.
            stored: the first record.
            opened: opens the file.
        """
        self.path = path
        self.following: Sequence[RecordRun] = ()
        self._opened = opened
        self._is_remote = storage_of(path).is_remote
        self._start = stored.offset
        self._end = stored.offset + stored.length + FRAME_BYTES
        self._left = 1
        self._lock = threading.Lock()
        self._fetched: Future[bytes] | None = None

    def takes(self, path: str, stored: StoredImage) -> bool:
        """Adds the next record if it follows the others."""
        end = stored.offset + stored.length + FRAME_BYTES
        gap = _REMOTE_GAP_BYTES if self._is_remote else 0
        is_next = path == self.path and 0 <= stored.offset - self._end <= gap
        if not is_next or end - self._start > _RUN_BYTES:
            return False
        self._end = end
        self._left += 1
        # Neighbors are read at once. Many threads wait for the answers of a bucket.
        self.is_at_hand = not self._is_remote
        return True

    def payload(self, stored: StoredImage) -> bytes:
        """The data of one record; raises OSError or TFRecordError."""
        fetched = self.fetch()
        for run in self.following:
            run.fetch()
        data = self._read() if fetched is None else fetched.result()
        with self._lock:
            self._left -= 1
            if not self._left:
                self._fetched = None
        at, offset = stored.offset - self._start, stored.offset
        return framed_payload(data, at, stored.length, record=stored.record, offset=offset)

    def fetch(self) -> Future[bytes] | None:
        """What another thread reads, from the first call on; None once all records were used.

        A local record without neighbors also gives None: who needs it reads it like a file.
        """
        with self._lock:
            if self._fetched is None and self._left and (self.is_at_hand or self._is_remote):
                self._fetched = _pool().submit(self._read)
            return self._fetched

    def _read(self) -> bytes:
        return read_frames(self._opened(self.path), self._start, self._end - self._start)


class CompressedRecords:
    """Records of a compressed file, which is read once, in order.

    Attributes:
        path: of the file.
        is_at_hand: see `RecordRun`; to decompress takes longer than to change threads.
    """

    is_at_hand = False

    def __init__(self, path: str, records: Iterable[int]) -> None:
        """Opens nothing.

        Args:
            path: of the file.
            records: the numbers of those that are asked for, each once, in any order.
        """
        self.path = path
        self._wanted = set(records)
        self._held: dict[int, bytes] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._records = self._each()

    def _each(self) -> Generator[bytes]:
        with open_records(self.path, follow_links=False) as records:
            yield from records

    def payload(self, stored: StoredImage) -> bytes:
        """See `RecordRun`; keeps what other threads will ask for."""
        with self._lock:
            while self._next <= stored.record:
                record = next(self._records, None)
                if record is None:
                    raise TFRecordError(self._next, 0, "the file ends before this record")
                if self._next in self._wanted:
                    self._held[self._next] = record
                self._next += 1
            self._wanted.discard(stored.record)
            if not self._wanted:
                self._records.close()
            data = self._held.pop(stored.record)
        if len(data) != stored.length:
            problem = f"it has {len(data)} bytes, and the index says {stored.length}"
            raise TFRecordError(stored.record, 0, problem)
        return data


RecordSource = RecordRun | CompressedRecords
"""Gives some records of one file, each of them once."""


def record_sources(
    placed: Iterable[tuple[str, str, StoredImage]],
) -> dict[str, tuple[RecordSource, StoredImage]]:
    """The sources of the records of some images by their keys; reads nothing.

    A compressed file is used if half of what must be read of it is needed, in the order in which
    it is needed; the other images are left out.

    Args:
        placed: key, path of the file and place of the record of each image, in the order in which
            they are read.
    """
    found: dict[str, tuple[RecordSource, StoredImage]] = {}
    runs: list[RecordRun] = []
    compressed: dict[str, list[tuple[str, StoredImage]]] = {}
    # In another order, neighbors are in any of the files, which a shard keeps open.
    opened = functools.lru_cache(maxsize=64)(_open)
    for key, path, stored in placed:
        if path.endswith(COMPRESSED):
            in_order = compressed.setdefault(path, [])
            if not in_order or in_order[-1][1].record < stored.record:
                in_order.append((key, stored))
            continue
        if not runs or not runs[-1].takes(path, stored):
            runs.append(RecordRun(path, stored, opened))
        found[key] = runs[-1], stored
    for number, run in enumerate(runs):
        ahead = _REMOTE_AHEAD if storage_of(run.path).is_remote else _AHEAD
        run.following = runs[number + 1 : number + 1 + ahead]
    for path, in_order in compressed.items():
        if 2 * len(in_order) > in_order[-1][1].record:
            source = CompressedRecords(path, [stored.record for _, stored in in_order])
            found.update((key, (source, stored)) for key, stored in in_order)
    return found


@functools.lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="read-records")


# A fork has the pool without its threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


# Reads images from their files and records, each of them checked.

_LOGGER = logging.getLogger(__name__)


class ReadImage(NamedTuple):
    """An image as its origin gives it.

    Attributes:
        data: its file, or the image that a record holds.
        stored: what the index of another dataset says of it; None for a file.
        is_final: whether it is stored as it is: a run with the same pixel options made and checked
            it.
        is_reused: whether its record is one of `--reuse`.
        partners: its masks and further images in the record; None for one that must be read from
            its file; empty for all.
        kept: its record, if further values are taken from that.
    """

    data: bytes
    stored: StoredImage | None = None
    is_final: bool = False
    is_reused: bool = False
    partners: Sequence[CheckedPartner | None] = ()
    kept: Kept | None = None


class Origins(NamedTuple):
    """Where the images of a run come from.

    Attributes:
        root: common folder of their files.
        waits: whether images may be remote though `root` is local.
        bases: datasets whose records may be reused.
        sources: datasets whose records are images of the run.
        max_bytes: larger images are rejected.
        with_values: whether the layout needs values that rows, or records, have.
    """

    root: str
    waits: bool = False
    bases: tuple[OtherDataset, ...] = ()
    sources: tuple[OtherDataset, ...] = ()
    max_bytes: int = DEFAULT_LIMITS.max_bytes
    with_values: bool = False

    @property
    def are_remote(self) -> bool:
        """Whether some images are waited for."""
        return self.waits or storage_of(self.root).is_remote

    def read_ahead(self) -> ReadAhead:
        """What reads images, as many at once as pays off for their files."""
        threads = reading_threads(self.root, waits=self.waits)
        return ReadAhead(threads=threads, together=1 if self.are_remote else TOGETHER)

    def keeps_values(self, image: PlannedImage) -> bool:
        """Whether further values are those of the record that is this image."""
        return self.with_values and bool(image.record) and not has_rows(image.cells)

    def may_reuse(self, image: PlannedImage) -> bool:
        """Whether an image may be taken from a record of `--reuse`."""
        is_there = bool(image.stored) and image.size <= self.max_bytes
        return is_there and not self.keeps_values(image)


SMALL = 4096
"""Bytes of a file that is read and checked in less than two changes of threads cost: with more, it
is decoded mostly without Python's lock."""


class ShardOrigins:
    """Where the images of one shard are read from.

    Attributes:
        ranges: the number of parts of shards that are read, each at once.
        records: the number of images that are records of `--images`, and not reused.
    """

    def __init__(
        self,
        origins: Origins,
        images: Sequence[PlannedImage],
        logged: dict[str, object] | None = None,
    ) -> None:
        """Groups neighbors; reads nothing.

        Args:
            origins: of the images of the run.
            images: those that are read once each, in this order.
            logged: files of `--reuse` about which there was a line; of several shards.
        """
        self._origins = origins
        # A file that is waited for is never small.
        self._small = -1 if origins.are_remote else SMALL
        self._logged = {} if logged is None else logged
        self._gone: set[str] = set()
        # An image that is never read there would keep the bytes of its neighbors in memory.
        self._reused = record_sources(
            (image.key, record_path(origins.bases[each.base], each.shard), each)
            for image in images
            if (each := self._reusable(image)) is not None
        )
        self._own = record_sources(
            (image.key, record_path(origins.sources[each.base], each.shard), each)
            for image in images
            if image.record and image.key not in self._reused
            for each in [StoredImage.of(image.record)]
        )
        self.ranges = len({id(each) for each, _ in (*self._reused.values(), *self._own.values())})
        self.records = len(self._own)

    def is_reused(self, image: PlannedImage) -> bool:
        """Whether an image is read from its record of `--reuse`, as long as that is sound."""
        return image.key in self._reused

    def is_at_hand(self, image: PlannedImage) -> bool:
        """Whether `read` takes less than to change threads.

        The image is small, or mostly copied from what was read with its neighbors.
        """
        found = self._reused.get(image.key)
        is_read = found is not None and found[0].is_at_hand
        return (image.size <= self._small or is_read) and not self.opened(image)

    def opened(self, image: PlannedImage) -> list[PartnerFile]:
        """The masks and further images that are read from their files."""
        files = partner_files(image.partners)
        if image.key not in self._reused:
            return files
        partners = self._reused[image.key][1].partners
        return [file for file, known in zip(files, partners, strict=True) if known is None]

    def read(self, image: PlannedImage) -> ReadImage:
        """An image from the first of its origins that has it.

        A line says which record of `--reuse` is damaged or gone.

        Raises:
            RejectedImageError: its file is too large, or its record damaged, or it cannot be read.
            TransientError: a retry may succeed.
        """
        reused = self._reused.get(image.key)
        if reused is not None and (path := reused[0].path) not in self._gone:
            try:
                found = self._from_reused(image, *reused)
                # This limit also holds for what a fresh run re-encodes.
                if len(found.data) <= self._origins.max_bytes:
                    return found
            except OSError as error:
                self._gone.add(path)
                self._log(path, error.strerror or first_line(error))
            except (ValueError, RejectedImageError) as error:
                self._log(path, first_line(error))
        if not image.record:
            return ReadImage(read_accepted(self._origins.root, image, self._origins.max_bytes))
        stored = StoredImage.of(image.record)
        path = record_path(self._origins.sources[stored.base], stored.shard)
        try:
            return self._from_record(image, path, stored)
        except OSError as error:
            check_final(error, path)
            problem = error.strerror or first_line(error)
        except (ValueError, KeyError, TypeError) as error:
            problem = error.problem if isinstance(error, TFRecordError) else first_line(error)
        detail = f"record {stored.record} of {path}: {problem}"
        raise RejectedImageError(Reason.UNREADABLE, detail)

    def _reusable(self, image: PlannedImage) -> StoredImage | None:
        """The first of the records of an image that hold it; None if none does."""
        if not self._origins.bases or not self._origins.may_reuse(image):
            return None
        every = map(StoredImage.of, image.stored)
        return next((each for each in every if self._origins.bases[each.base].feature), None)

    def _from_reused(
        self, image: PlannedImage, source: RecordSource, stored: StoredImage
    ) -> ReadImage:
        """An image as it is stored in `--reuse`, after comparing it with its checksums."""
        base = self._origins.bases[stored.base]
        example = decode_example(source.payload(stored))
        data = only_bytes(example, base.feature)
        if content_hash(data) != stored.content or not self._is_of(image, stored, data, example):
            raise ValueError("the image is not that of the index")
        partners = [
            _held(only_bytes(example, own.feature), known) if own and known else None
            for own, known in zip(base.partners, stored.partners, strict=True)
        ]
        return ReadImage(data, stored, True, True, partners)

    def _is_of(
        self, image: PlannedImage, stored: StoredImage, data: bytes, example: Mapping[str, Any]
    ) -> bool:
        """Whether a record says the same of its image as an index that may have been edited."""
        base, uri = self._origins.bases[stored.base], full_uri(self._origins.root, image.path)
        names, root, kind, shape = base.names, base.root, base.key_kind, stored.info[1:]
        if PATH in names and root != MEMORY:
            if full_uri(root, only_bytes(example, names[PATH]).decode()) != uri:
                return False
        elif KEY in names and root != MEMORY and kind:
            if only_bytes(example, names[KEY]).decode() != image_key(uri, kind=kind, root=root):
                return False
        if base.is_pixels:
            # Only other features show what an array is.
            said = {**dict(zip(SIZES, shape, strict=True)), FORMAT: stored.format.encode()}
            held = {name: list(values_of(example, names.get(name, ""))) for name in said}
            is_same = all(held[name] in ([], [value]) for name, value in said.items())
            return is_same and len(data) == math.prod(shape)
        is_file = stored.changes is None and stored.source_content in ("", stored.content)
        # A record has another size than its image, and a bucket lists bytes that it decompresses.
        is_sized = not is_file or len(data) == image.size or bool(image.record)
        return (is_sized or storage_of(uri).has_generations) and _is_as_said(data, stored)

    def _log(self, path: str, why: str) -> None:
        """One line for each file of a base: all of its records may have changed."""
        mine = object()
        # Several threads may find out at the same time.
        if self._logged.setdefault(path, mine) is mine:
            message = "originals are read instead of some records of %s: %s"
            _LOGGER.warning(message, path, why)

    def _from_record(self, image: PlannedImage, path: str, stored: StoredImage) -> ReadImage:
        """An image that is a record of `--images`, after comparing it with its checksums."""
        dataset, kept = self._origins.sources[stored.base], None
        # One that was to be reused is read alone.
        source, _ = self._own.get(image.key) or (RecordRun(path, stored, _open), stored)
        record = source.payload(stored)
        example = decode_example(record)
        [data] = example[dataset.feature]
        is_same = not stored.content or content_hash(data) == stored.content
        is_final = dataset.is_final and _is_as_said(data, stored)
        # Of an image that was stored as it is, what is said wrongly is found out again.
        if not is_same or (dataset.is_final and not is_final and stored.changes):
            raise ValueError("its image is not that of the index")
        if dataset.key_kind is not None:
            _check_names(image, stored, dataset, record, example)
        if self._origins.keeps_values(image):
            kept = Kept(dataset.names, example, stored.labels, (stored.height, stored.width))
        return ReadImage(data, stored, is_final and bool(stored.content), kept=kept)


def _is_as_said(data: bytes, stored: StoredImage) -> bool:
    """Whether an image has the format, the size and the tags that an index says."""
    format_ = image_format(data)
    if format_ != stored.format or not format_:
        return format_ == stored.format
    # libpng may drop the chunk that gives a PNG another channel.
    header, sure = read_header(data, format_), 3 if format_ == "png" else 4
    said = stored.orientation, bool(stored.gps), stored.source_height, stored.source_width
    # Only an original shows what was changed.
    is_original = bool(stored.changes) or said == (*read_tags(data, header.format), None, None)
    return header[:sure] == stored.info[:sure] and is_original


def _check_names(
    image: PlannedImage, stored: StoredImage, dataset: OtherDataset, record: bytes, example: Any
) -> None:
    """Raises ValueError if an edited index says another key, path or label than its record."""
    ids, texts = [each for each, _ in stored.labels], [text for _, text in stored.labels]
    own = {"key": image.key, "path": image.path, "label": texts or None, "label_id": ids or None}
    held = {source: values_of(example, name) for source, name in dataset.names.items()}
    row = {**stored._asdict(), **own, "content": None}
    for problem in row_problems(row, record, stored.offset, held, dataset.key_kind):
        raise ValueError(problem)


def _held(data: bytes, known: CheckedPartner) -> CheckedPartner:
    """A mask or further image in a record, with its bytes, if it is that of the index."""
    if content_hash(data) != known.content:
        raise ValueError("a mask or further image is not that of the index")
    return known._replace(length=len(data), data=data)


def record_path(dataset: OtherDataset, file: str) -> str:
    """The path of a file of records; where it leads to if a user named it, and not a manifest."""
    path = join(dataset.folder, file)
    return storage_of(path).resolved(path) if dataset.manifest else path
