"""Reads single records of uncompressed files by their places, without Beam and TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from transforms.core.dataset.manifest import ManifestError
from transforms.core.dataset.output_names import MANIFEST
from transforms.core.examples.tfrecord import TFRecordError, framed_payload
from transforms.core.file_errors import ChangedError
from transforms.core.index.record_index import FRAME_BYTES
from transforms.core.shown_text import first_line
from transforms.storage.file_metadata import Stored
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.interface import READERS
from transforms.storage.read_ahead import ReadAhead

# Bytes that neighbours are read in at once.
_RUN_BYTES = 2 << 20

# Local files that stay open. A shard has 150 MB, so these are 19 GB of records.
_OPEN_FILES = 128


class UnreadableRecordError(Exception):
    """A record cannot be read, or is damaged; the message is one line without a full stop."""


class RecordPlaces(NamedTuple):
    """Where records are: 12 bytes for each, and some for each file.

    Attributes:
        folder: of the dataset.
        files: the files below it.
        starts: the place of the first record of each file, and the number of all records.
        skipped: records of each file before its first one here.
        offsets: the first byte of each record's frame, int64.
        lengths: bytes of each record without its frame, uint32.
        manifest: size and version of the dataset's manifest; None if no file is compared with it.
        digest: of the manifest.
    """

    folder: str
    files: tuple[str, ...]
    starts: array[int]
    skipped: array[int]
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    lengths: np.ndarray[Any, np.dtype[np.uint32]]
    manifest: Stored | None = None
    digest: str = ""


class _Run(NamedTuple):
    """Neighbours in one file, which are read at once.

    Attributes:
        file: number of the file.
        first: the place of the first record.
        records: how many there are.
        offset: the first byte to read.
        length: bytes to read.
    """

    file: int
    first: int
    records: int
    offset: int
    length: int


class RecordFiles:
    """Reads records by their places. Several threads may use it, and it can be pickled."""

    def __init__(self, places: RecordPlaces) -> None:
        """Opens nothing."""
        self.places = places
        self._make_opener()

    def _make_opener(self) -> None:
        # Not of a method: the cycle would keep files open until a garbage collection.
        opened = functools.partial(_open_file, self.places)
        self._open = functools.lru_cache(maxsize=_OPEN_FILES)(opened)

    def __getstate__(self) -> RecordPlaces:
        return self.places

    def __setstate__(self, places: RecordPlaces) -> None:
        self.places = places
        self._make_opener()

    def read(self, place: int) -> bytes:
        """One record, by one system call or one request.

        Raises:
            UnreadableRecordError: it cannot be read, or is damaged.
        """
        return self._read_run(self._run(place))[0]

    def read_many(self, places: Iterable[int]) -> list[bytes]:
        """Records by their places, in any order; in parallel if answers take long.

        Neighbours among them are read at once.

        Raises:
            UnreadableRecordError: one cannot be read, or is damaged.
        """
        asked = list(places)
        in_order = sorted(set(asked))
        read = storage_of(self.places.folder).for_each(self._read_run, self._runs(in_order))
        records = dict(zip(in_order, itertools.chain.from_iterable(read), strict=True))
        return [records[place] for place in asked]

    def read_ahead(self, places: Iterable[int]) -> Iterator[bytes]:
        """Records in the order of their places, of which a bounded number is in memory.

        Raises:
            UnreadableRecordError: one cannot be read, or is damaged.
        """
        runs = self._runs(places)
        if storage_of(self.places.folder).is_remote:
            ahead = ReadAhead(threads=READERS)
            read: Iterable[list[bytes]] = ahead.map(
                self._read_run, runs, size=lambda run: run.length
            )
        else:
            read = map(self._read_run, runs)
        for run in read:
            yield from run

    def _runs(self, places: Iterable[int]) -> Iterator[_Run]:
        """Neighbours that follow each other are joined."""
        joined: _Run | None = None
        for place in places:
            run = self._run(place)
            if joined is None:
                joined = run
            elif (
                run.file == joined.file
                and run.first == joined.first + joined.records
                and run.offset == joined.offset + joined.length
                and joined.length + run.length <= _RUN_BYTES
            ):
                joined = joined._replace(
                    records=joined.records + 1, length=joined.length + run.length
                )
            else:
                yield joined
                joined = run
        if joined is not None:
            yield joined

    def _run(self, place: int) -> _Run:
        places = self.places
        # Files without records start at the same place as the next one.
        file = bisect_right(places.starts, place) - 1
        length = int(places.lengths[place]) + FRAME_BYTES
        return _Run(file, place, 1, int(places.offsets[place]), length)

    def _read_run(self, run: _Run) -> list[bytes]:
        places, start = self.places, 0
        number = places.skipped[run.file] + run.first - places.starts[run.file]
        try:
            data = self._open(run.file)(run.offset, run.length)
            records = []
            for at in range(run.records):
                length = int(places.lengths[run.first + at])
                offset = run.offset + start
                records.append(
                    framed_payload(data, start, length, record=number + at, offset=offset)
                )
                start += length + FRAME_BYTES
        except TFRecordError as error:
            raise UnreadableRecordError(f"{self.path(run.first)}: {error}") from error
        except OSError as error:
            detail = (error.strerror or first_line(error)).removesuffix(".")
            raise UnreadableRecordError(f"cannot read {self.path(run.first)}: {detail}") from error
        return records

    def path(self, place: int) -> str:
        """The file that holds a record."""
        return join(self.places.folder, self.places.files[self._run(place).file])

    def number(self, place: int) -> int:
        """The number of a record in its file, from 0."""
        file = self._run(place).file
        return self.places.skipped[file] + place - self.places.starts[file]


def _open_file(places: RecordPlaces, file: int) -> Callable[[int, int], bytes]:
    path = join(places.folder, places.files[file])
    storage = storage_of(path)
    opened = storage.open_ranges(path, follow_links=False)
    # Records of a dataset that replaced this one may be in the same places. Its manifest is removed
    # before its shards are moved, so what was opened before this look is a file of this dataset.
    if places.manifest is not None and not _is_unchanged(places, places.manifest):
        raise ChangedError(errno.ESTALE, f"its {MANIFEST} is not the one that was opened")
    return opened


def _is_unchanged(places: RecordPlaces, manifest: Stored) -> bool:
    path = join(places.folder, MANIFEST)
    if storage_of(path).find(path) == manifest:
        return True
    # It may have been copied, or written again by the same run.
    with contextlib.suppress(ManifestError):
        found = read_manifest(path) or {}
        return bool(places.digest) and found.get("digest") == places.digest
    return False
