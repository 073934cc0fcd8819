"""Any record of a dataset, in any order."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import errno
import functools
import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transforms.core.messages import ChangedError, first_line
from transforms.dataset.manifest import ManifestError, manifest_shards
from transforms.dataset.metadata import ShardRange
from transforms.dataset.output_names import MANIFEST
from transforms.examples.tfrecord import TFRecordError, framed_payload, read_frames
from transforms.records.record_index import FRAME_BYTES, RecordIndexError, index_places
from transforms.records.written_index import read_listed_index
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.interface import READERS, Stored
from transforms.storage.read_ahead import ReadAhead

if TYPE_CHECKING:
    import pyarrow as pa


# Reads single records of uncompressed files by their places, without Beam and TensorFlow.

# Bytes that neighbours are read in at once.
_RUN_BYTES = 2 << 20

# Local files that stay open. A shard has 150 MB, so these are 19 GB of records.
_OPEN_FILES = 128


class UnreadableRecordError(Exception):
    """A record cannot be read, or is damaged; the message is one line without a full stop."""


@dataclasses.dataclass(eq=False, repr=False)
class RecordFiles:
    """Reads records by their places. Several threads may use it, and it can be pickled.

    A place takes 12 bytes, and a file some more.

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

    def __post_init__(self) -> None:
        """Opens nothing."""
        # Not of a method: the cycle would keep files open until a garbage collection.
        opened = functools.partial(_open_file, self.folder, self.manifest, self.digest)
        self._open = functools.lru_cache(maxsize=_OPEN_FILES)(opened)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (getattr(self, each.name) for each in dataclasses.fields(self))
        return type(self), tuple(fields)

    def read(self, place: int) -> bytes:
        """One record, by one system call or one request.

        Raises:
            UnreadableRecordError: it cannot be read, or is damaged.
        """
        return self._read_run(range(place, place + 1))[0]

    def read_many(self, places: Iterable[int]) -> list[bytes]:
        """Records by their places, in any order; in parallel if answers take long.

        Neighbours among them are read at once.

        Raises:
            UnreadableRecordError: one cannot be read, or is damaged.
        """
        asked = list(places)
        in_order = sorted(set(asked))
        read = storage_of(self.folder).for_each(self._read_run, self._runs(in_order))
        records = dict(zip(in_order, itertools.chain.from_iterable(read), strict=True))
        return [records[place] for place in asked]

    def read_ahead(self, places: Iterable[int]) -> Iterator[bytes]:
        """Records in the order of their places, of which a bounded number is in memory.

        Raises:
            UnreadableRecordError: one cannot be read, or is damaged.
        """
        runs = self._runs(places)
        if storage_of(self.folder).is_remote:
            ahead = ReadAhead(threads=READERS)
            read: Iterable[list[bytes]] = ahead.map(self._read_run, runs, size=self._bytes)
        else:
            read = map(self._read_run, runs)
        for run in read:
            yield from run

    def _runs(self, places: Iterable[int]) -> Iterator[range]:
        """Places that are read at once: those that follow each other in one file."""
        run, end = range(0), 0
        for place in places:
            joined = range(run.start, place + 1)
            if place == run.stop < end and self._bytes(joined) <= _RUN_BYTES:
                run = joined
                continue
            if run:
                yield run
            run, end = range(place, place + 1), self.starts[self._file(place) + 1]
        if run:
            yield run

    def _bytes(self, run: range) -> int:
        """The bytes of neighbours in one file."""
        offsets, last = self.offsets, run[-1]
        end = int(offsets[last]) + int(self.lengths[last]) + FRAME_BYTES
        return end - int(offsets[run.start])

    def _read_run(self, run: range) -> list[bytes]:
        first, start = int(self.offsets[run.start]), 0
        number = self.number(run.start)
        try:
            data = read_frames(self._open(self.path(run.start)), first, self._bytes(run))
            records = []
            for at, place in enumerate(run):
                length = int(self.lengths[place])
                records.append(
                    framed_payload(data, start, length, record=number + at, offset=first + start)
                )
                start += length + FRAME_BYTES
        except TFRecordError as error:
            raise UnreadableRecordError(f"{self.path(run.start)}: {error}") from error
        except OSError as error:
            detail = (error.strerror or first_line(error)).removesuffix(".")
            raise UnreadableRecordError(f"cannot read {self.path(run.start)}: {detail}") from error
        return records

    def _file(self, place: int) -> int:
        # Files without records start at the same place as the next one.
        return bisect_right(self.starts, place) - 1

    def path(self, place: int) -> str:
        """The file that holds a record."""
        return join(self.folder, self.files[self._file(place)])

    def number(self, place: int) -> int:
        """The number of a record in its file, from 0."""
        file = self._file(place)
        return self.skipped[file] + place - self.starts[file]


def _open_file(
    folder: str, manifest: Stored | None, digest: str, path: str
) -> Callable[[int, int], bytes]:
    opened = storage_of(path, follow_links=False).open_ranges(path)
    # Records of a dataset that replaced this one may be in the same places. Its manifest is removed
    # before its shards are moved, so what was opened before this look is a file of this dataset.
    if manifest is not None and not _is_unchanged(folder, manifest, digest):
        raise ChangedError(errno.ESTALE, f"its {MANIFEST} is not the one that was opened")
    return opened


def _is_unchanged(folder: str, manifest: Stored, digest: str) -> bool:
    path = join(folder, MANIFEST)
    if storage_of(path).find(path) == manifest:
        return True
    # It may have been copied, or written again by the same run.
    with contextlib.suppress(ManifestError):
        found = read_manifest(path) or {}
        return bool(digest) and found.get("digest") == digest
    return False


# Opens the published indexes of a split: where its records are, and their keys.

# Keys among which the closest one to a wrong key is looked for; of more, those next to it in order.
_ALL_NEAR, _BESIDE = 5_000, 100

# No record has more bytes.
_MAX_LENGTH = 2**31


class IndexReader:
    """Reads the indexes of one dataset, and compares them with its manifest."""

    def __init__(self, folder: str, manifest: Mapping[str, Any]) -> None:
        """Reads nothing.

        Args:
            folder: of the dataset.
            manifest: of the dataset.
        """
        self._folder = folder
        self._digest = manifest.get("digest", "")
        self._places = index_places(manifest)
        self._sizes = {shard["file"]: shard["bytes"] for shard in manifest_shards(manifest)}
        self._per_image = manifest["options"].get("files") == "per_image"

    def has_index(self, files: Iterable[str]) -> bool:
        """Whether the manifest lists the indexes of these files."""
        return all(file in self._places for file in files)

    def files(self, ranges: Sequence[ShardRange], manifest: Stored | None = None) -> RecordFiles:
        """The records of some ranges; nothing is opened.

        Args:
            ranges: of files.
            manifest: see `RecordFiles`.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        parts: list[tuple[Any, Any]]
        if self._per_image:
            parts = [self._single_records(ranges)]
        else:
            parts = list(storage_of(self._folder).for_each(self._place, ranges))
        starts = array("q", [0])
        for each in ranges:
            starts.append(starts[-1] + each.take)
        columns = zip(*parts, strict=True) if parts else [[np.empty(0, np.int64)]] * 2
        offsets, lengths = map(np.concatenate, columns)
        return RecordFiles(
            self._folder,
            tuple(each.file for each in ranges),
            starts,
            array("q", [each.skip for each in ranges]),
            offsets,
            lengths.astype(np.uint32),
            manifest,
            self._digest,
        )

    def keys(self, ranges: Sequence[ShardRange]) -> RecordKeys:
        """The keys of the records of some ranges.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        import pyarrow as pa

        # All keys of a dataset may have more than 2 GB.
        return RecordKeys(self._column("key", pa.large_string(), ranges))

    def class_ids(self, ranges: Sequence[ShardRange]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The class ids of those records of some ranges that have one.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        import pyarrow as pa

        ids = self._column("label_id", pa.int64(), ranges).drop_null()
        return np.asarray(ids.to_numpy(zero_copy_only=False), np.int64)

    def _column(self, name: str, kind: pa.DataType, ranges: Sequence[ShardRange]) -> pa.Array:
        """One column of the records of some ranges."""
        import pyarrow as pa

        places = [self._places[each.file] for each in ranges]
        entries = {place.entry["file"]: place.entry for place in places}

        def read(entry: Mapping[str, Any]) -> pa.Array:
            column = self._read(entry, (name,)).column(name).cast(kind)
            return pa.concat_arrays([*column.chunks, pa.array([], kind)])

        tables = storage_of(self._folder).for_each(read, entries.values())
        columns = dict(zip(entries, tables, strict=True))
        parts = [
            columns[place.entry["file"]].slice(place.first + each.skip, each.take)
            for place, each in zip(places, ranges, strict=True)
        ]
        return pa.concat_arrays([*parts, pa.array([], kind)])

    def _single_records(self, ranges: Sequence[ShardRange]) -> tuple[Any, Any]:
        """Offsets and lengths of records that are the only ones of their files."""
        lengths = [self._sizes[each.file] - FRAME_BYTES for each in ranges]
        if lengths and not 0 <= min(lengths) <= max(lengths) <= _MAX_LENGTH:
            raise RecordIndexError(f"{self._folder} is damaged: a file has an impossible size")
        return np.zeros(len(lengths), np.int64), np.array(lengths, np.int64)

    def _place(self, part: ShardRange) -> tuple[Any, Any]:
        """Offsets and lengths of the records of a range."""
        entry, size = self._places[part.file].entry, self._sizes[part.file]
        table = self._read(entry, ("offset", "length"))
        if len(table) == part.records and not any(column.null_count for column in table.columns):
            offsets, lengths = (column.to_numpy() for column in table.columns)
            # Too large a number must not become a small one.
            if not len(lengths) or 0 <= lengths.min() <= lengths.max() <= min(size, _MAX_LENGTH):
                ends = np.cumsum(lengths + FRAME_BYTES)
                starts = ends - lengths - FRAME_BYTES
                if (int(ends[-1]) if len(ends) else 0) == size and np.array_equal(offsets, starts):
                    chosen = slice(part.skip, part.skip + part.take)
                    return offsets[chosen], lengths[chosen]
        path = join(self._folder, entry["file"])
        raise RecordIndexError(f"{path} is damaged: its records are not those of {part.file}")

    def _read(self, entry: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
        changed = "is damaged: its checksum is not that of the manifest"
        return read_listed_index(self._folder, entry, columns, changed=changed)


class RecordKeys:
    """Finds records by their keys: bytes of the keys, and 12 bytes for each."""

    def __init__(self, keys: pa.Array) -> None:
        """Sorts them.

        Args:
            keys: of all records, in order.
        """
        import pyarrow.compute as pc

        self._keys = keys
        self._order = pc.array_sort_indices(keys).to_numpy().astype(np.uint32)

    def find(self, key: str, among: range | None = None) -> int | None:
        """The number of the first record with a key, or None.

        Args:
            key: of the record.
            among: the numbers that count; None for all.
        """
        for at in range(self._place(key), len(self._order)):
            if self._key(at) != key:
                break
            number = int(self._order[at])
            if among is None or number in among:
                return number
        return None

    def closest(self, key: str) -> str | None:
        """The key that was probably meant, or None."""
        import pyarrow.compute as pc

        name = key.rpartition("/")[2]
        stem = name.rpartition(".")[0] or name
        for other in (name, stem):
            if other and self.find(other) is not None:
                return other
        if stem:
            # Keys may be paths.
            among = self._keys.filter(pc.match_substring(self._keys, stem))
            if len(among):
                return str(among[0].as_py())
        at, count = self._place(key), len(self._order)
        beside = count if count <= _ALL_NEAR else _BESIDE
        near = map(self._key, range(max(0, at - beside), min(count, at + beside)))
        return next(iter(difflib.get_close_matches(key, near, n=1)), None)

    def _place(self, key: str) -> int:
        """Where a key is, or would be, in sorted order."""
        return bisect_left(range(len(self._order)), key, key=self._key)

    def _key(self, at: int) -> str:
        """The key at a place in sorted order."""
        return str(self._keys[int(self._order[at])].as_py())
