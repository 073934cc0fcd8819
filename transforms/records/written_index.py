"""Records and indexes of a written dataset."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import errno
import functools
import glob
import hashlib
import io
import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import google_crc32c

from transforms.core.messages import ChangedError, check_final, first_line, parse_json
from transforms.core.rejections import RETRIED
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.manifest import ManifestError, index_entries, manifest_shards
from transforms.dataset.metadata import ShardRange
from transforms.dataset.output_names import (
    MANIFEST,
    REJECTED,
    STAGING,
    image_file,
    image_files,
)
from transforms.examples.tfrecord import (
    FRAME_BYTES,
    LARGEST_RECORD,
    MAX_RECORD,
    Part,
    TFRecordError,
    framed_payload,
    read_frames,
    read_records,
    scan_records,
)
from transforms.images.pixel_options import CHANGES
from transforms.labels.csv_tables import MOST_TIMES, as_file, inflated, read_head, stored_size
from transforms.labels.label_rows import GZIP_MAGIC
from transforms.labels.shards import ShardName
from transforms.records.record_index import (
    COMPARED,
    IndexPlace,
    RecordIndexError,
    index_places,
    index_rows,
    read_index,
    shard_of_index,
)
from transforms.records.stored_images import COMPRESSED
from transforms.storage.files import join, read_dataset_file, read_manifest, storage_of
from transforms.storage.interface import READERS, Read, Stored
from transforms.storage.read_ahead import ReadAhead

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


# Reads back a dataset: its TFRecord files, and the images that it left out.

_CHUNK = 1 << 20
_TIMES_OF_GZIP = 1032
# What any compressed file may hold, and the bytes that take the time of a record besides its own.
_FREE_BYTES = 256 << 20
_RECORD_BYTES = 1200
# Damaged places of a file, and the bytes for each further one. Each takes 40 us: 18 MB of headers
# that say 512 MB took a minute.
_MOST_DAMAGED, _DAMAGED_BYTES = 10_000, 1 << 12
# The file may be a terabyte without a newline, of which the manifest lists the size.
_MOST_LINE = 4 << 20
_RETRIED_MARKERS = tuple(f'"{reason}"'.encode() for reason in sorted(RETRIED))


class ChecksummedReader:
    """A stream that computes the CRC32C and the number of the bytes read.

    Attributes:
        bytes: how many were read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._most = stored_size(stream, 1 << 62)
        self._crc = 0
        self._ahead = b""
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    @property
    def stored(self) -> int:
        """Bytes that were read; of a sparse file, not more than a disk holds."""
        return min(self.bytes, self._most)

    def peek(self, size: int) -> bytes:
        """The next bytes, without consuming them; fewer only at the end of the stream."""
        self._ahead += read_head(self._stream, size - len(self._ahead))
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer only at the end of the stream; all of them if negative."""
        ahead, self._ahead = self._ahead, b""
        if 0 <= size < len(ahead):
            ahead, self._ahead = ahead[:size], ahead[size:]
        wanted = size - len(ahead) if size >= 0 else -1
        data = self._stream.read(wanted) if wanted else b""
        data = ahead + data if ahead else data
        self._crc = google_crc32c.extend(self._crc, data)
        self.bytes += len(data)
        return data

    def drain(self, size: int) -> None:
        """Reads the rest of a file that should have `size` bytes; not all of a longer one."""
        while self.bytes <= size and self.read(_CHUNK):
            pass


@contextlib.contextmanager
def open_stored(path: str, *, follow_links: bool = True) -> Iterator[ChecksummedReader]:
    """A file's bytes as stored.

    Args:
        path: the file.
        follow_links: see `storage_of`.

    Raises:
        OSError: it cannot be opened.
    """
    with storage_of(path, follow_links=follow_links).open_reader(path) as file:
        yield ChecksummedReader(file)


def stored_sha256(path: str) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    with storage_of(path, follow_links=False).open_reader(path) as file:
        return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def stored_records(
    stored: ChecksummedReader, *, max_bytes: int = LARGEST_RECORD
) -> Iterator[bytes]:
    """The records in a stream; gzip is recognized by its first bytes and decompressed.

    Args:
        stored: the file.
        max_bytes: of a record.

    Raises:
        TFRecordError: while reading, at the first record that is damaged.
    """
    stream = uncompressed(stored)
    records = read_records(stream, max_bytes=max_bytes, stored=lambda: stored.stored)
    return _bounded(records, stored)


def uncompressed(stored: ChecksummedReader) -> BinaryIO:
    """The bytes of a stream; gzip is recognized by its first bytes and decompressed."""
    is_packed = stored.peek(2) == GZIP_MAGIC
    return cast(BinaryIO, as_file(inflated(stored)) if is_packed else stored)


def _bounded(records: Iterator[bytes], stored: ChecksummedReader) -> Iterator[bytes]:
    """The records of a file, as long as they are not far more than its size."""
    offset = 0
    for number, record in enumerate(records):
        if offset + number * _RECORD_BYTES > _FREE_BYTES + MOST_TIMES * stored.stored:
            problem = f"it holds more than {MOST_TIMES} times its size: the rest is not read"
            raise TFRecordError(number, offset, problem)
        yield record
        offset += len(record) + FRAME_BYTES


@contextlib.contextmanager
def open_records(
    path: str, *, follow_links: bool = True, max_bytes: int = LARGEST_RECORD
) -> Iterator[Iterator[bytes]]:
    """The records of a TFRecord file, compressed by gzip or not.

    Args:
        path: the file.
        follow_links: see `storage_of`.
        max_bytes: of a record.

    Raises:
        TFRecordError: while reading, at the first record that is damaged, or where a compressed
            file turns out to hold far more than its size.
        OSError: when the file cannot be opened.
    """
    with open_stored(path, follow_links=follow_links) as stored:
        yield stored_records(stored, max_bytes=max_bytes)


def is_gzip(path: str) -> bool:
    """Whether a file begins as gzip does; raises OSError as `open_stored` does."""
    with open_stored(path) as stored:
        return stored.peek(2) == GZIP_MAGIC


def scan_stored(path: str) -> Iterator[Part]:
    """The parts of a TFRecord file that may be damaged, compressed by gzip or not.

    Raises:
        OSError: it cannot be opened, or its storage fails.
    """
    damaged = 0
    with open_stored(path) as stored:
        for part in scan_records(uncompressed(stored)):
            yield part
            damaged += bool(part.problem)
            end = part.offset + part.length
            problem = ""
            if damaged > _MOST_DAMAGED + stored.stored // _DAMAGED_BYTES:
                problem = f"{damaged} places are damaged"
            if end + part.record * _RECORD_BYTES > _FREE_BYTES + MOST_TIMES * stored.stored:
                problem = f"it holds more than {MOST_TIMES} times its size"
            if problem:
                yield Part(part.record + 1, end, 0, b"", f"{problem}: the rest is not read")
                return


def retried_keys(output: str, size: int) -> frozenset[str]:
    """The keys of the images that a published dataset left out for one of the reasons `RETRIED`.

    Args:
        output: its folder.
        size: bytes of `rejected.jsonl` by its manifest; no more are read.
    """
    path = join(output, REJECTED)
    if not storage_of(path).exists(path):
        return frozenset()
    keys = set()
    for line in stored_lines(path, size):
        # Only these are parsed: they are few, unlike rows without an image.
        if not any(marker in line for marker in _RETRIED_MARKERS):
            continue
        with contextlib.suppress(ValueError, TypeError, KeyError):
            entry = parse_json(line)
            if entry["reason"] in RETRIED:
                keys.add(str(entry["key"]))
    return frozenset(keys)


def stored_lines(path: str, size: int) -> Iterator[bytes]:
    """The lines of a file, which may be too large to be held.

    Args:
        path: the file.
        size: its bytes by the manifest; no more are read.

    Raises:
        OSError: it cannot be read.
    """
    with storage_of(path, follow_links=False).open_reader(path) as file:
        # The reader of an object in a bucket has no lines: each would be read byte by byte.
        lines = io.BufferedReader(cast(io.RawIOBase, file), _CHUNK)
        while size > 0 and (line := lines.readline(min(size, _MOST_LINE))):
            if len(line) == _MOST_LINE:
                raise OSError(errno.EFBIG, f"a line of it has {_MOST_LINE} bytes or more", path)
            size -= len(line)
            yield line


# Reads the indexes of shards, staged or published, and checks their checksums.

# A row with one number takes 30 bytes of a shard, and 400 in memory if its CSV has a long path; the
# smallest image takes a hundred in both.
_TIMES_OF_ROWS = 16
TIMES_OF_IMAGES = 3
"""Memory that the index of images takes for each byte of their records."""

_CHANGED = "was changed since the dataset was written"


def read_written_index(
    output: str, summary: ShardSummary, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """The index of a shard that is staged or already in place; None if it is not there, or damaged.

    Args:
        output: the dataset's folder.
        summary: of the shard.
        columns: those to read; None for all.
    """
    for entry in index_entries([summary]):
        # Its shard may be in either place. File systems raise different errors for a missing file.
        for name in (f"{STAGING}/{summary.staged_index}", entry["file"]):
            listed = {**entry, "file": name}
            with contextlib.suppress(RecordIndexError):
                if storage_of(output).exists(join(output, name)):
                    return read_listed_index(output, listed, columns, most_times=None)
    return None


def read_listed_index(
    output: str,
    entry: Mapping[str, Any],
    columns: Sequence[str] | None = None,
    *,
    changed: str = _CHANGED,
    most_times: int | None = _TIMES_OF_ROWS,
) -> pa.Table:
    """The index of a shard, as the manifest lists it.

    Args:
        output: the dataset's folder.
        entry: file, number of records, bytes and checksum, and the changes of its images.
        columns: those to read; None for all.
        changed: what is said of an index that is not as the manifest lists it.
        most_times: memory that it may take for each byte of its records; None if nothing is known
            of these.

    Raises:
        RecordIndexError: it was changed since it was written.
        OSError: it cannot be read.
    """
    path = join(output, entry["file"])
    data = read_dataset_file(path, entry)
    if data is None:
        raise RecordIndexError(f"{path} {changed}")
    most = functools.partial(_most_of_records, output, entry, most_times)
    read = functools.partial(read_index, data, path, records=entry["records"], columns=columns)
    return read(changes=entry.get("changes", CHANGES), most_of_records=most)


def _most_of_records(output: str, entry: Mapping[str, Any], times: int | None) -> int | None:
    """So many times the bytes of a shard; None if neither it nor files of its records are there."""
    if times is None:
        return None
    storage, indexed = storage_of(output, follow_links=False), shard_of_index(entry["file"])
    shard = entry.get("shard", indexed)
    paths = [join(output, name) for name in (shard, f"{shard}{COMPRESSED}")]
    sizes = [(path, found.size) for path in paths if (found := storage.find(path)) is not None]
    if not sizes:
        single = join(glob.escape(join(output, ShardName.parse(indexed).split)), "*")
        sizes = [(file.uri, file.size) for file in storage.list_files(single)]
    held = (size * (_TIMES_OF_GZIP if path.endswith(COMPRESSED) else 1) for path, size in sizes)
    return times * sum(held) if sizes else None


class IndexedRows:
    """The rows of the index that was read last: files of single images share it."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._last: tuple[str, pa.Table] | None = None

    def checked(
        self, shard: Mapping[str, Any], *, fast: bool
    ) -> tuple[Iterator[dict[str, Any]], str]:
        """The rows of the records of a file, and the problem of their index, or an empty text.

        Args:
            shard: its entry in the manifest, with its `IndexPlace` if it has an index.
            fast: whether to compare only the checksum of the index; there are no rows then.

        Raises:
            OSError: a temporary failure.
        """
        if "entry" not in shard:
            return iter(()), ""
        place = IndexPlace(shard["entry"], shard["first"])
        path, problem = join(self._output, place.entry["file"]), ""
        try:
            if place.first == 0 and not storage_of(path).exists(path):
                problem = "the file is missing"
            elif not fast:
                table = self._table(place, shard["file"])
                return index_rows(table.slice(place.first, shard["records"])), ""
            elif place.first == 0:
                crc32c = storage_of(path).checksum(path, size=place.entry["bytes"])
                problem = _CHANGED if crc32c != place.entry["crc32c"] else ""
        except RecordIndexError:
            problem = _CHANGED
        except OSError as error:
            check_final(error, path)
            problem = f"cannot be read: {error.strerror or error}"
        # Files of single images share an index, whose problem is reported once.
        return iter(()), problem if place.first == 0 else ""

    def _table(self, place: IndexPlace, file: str) -> pa.Table:
        name = place.entry["file"]
        if self._last is None or self._last[0] != name:
            table = read_listed_index(self._output, place.entry, ("shard", "split", *COMPARED))
            shard = shard_of_index(name)
            split = ShardName.parse(shard).split
            keys = table.column("key").to_pylist() if "/" in file else []
            gzip = file.endswith(".gz")
            files = image_files([(split, key) for key in keys], gzip=gzip)
            marked = {image_file(split, key, gzip=gzip, is_marked=True) for key in keys}
            if keys and file not in {*files, *marked}:
                # By `--file_name`.
                files = table.column("shard").to_pylist()
            # Earlier versions named files of single images as one shard.
            names = {"shard": (shard, f"{shard}.gz", file, *files), "split": (split,)}
            for column, known in names.items():
                if not {*table.column(column).unique().to_pylist()} <= {*known}:
                    raise RecordIndexError(f"{name} is damaged: its {column} is another one")
            self._last = (name, table.drop_columns([*names]))
        return self._last[1]


# Reads single records of uncompressed files by their places, without Beam and TensorFlow.

# Bytes that neighbors are read in at once.
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
        ranges: of the files below it.
        offsets: the first byte of each record's frame, int64.
        lengths: bytes of each record without its frame, uint32.
        manifest: size and version of the dataset's manifest; None if no file is compared with it.
        digest: of the manifest.
    """

    folder: str
    ranges: Sequence[ShardRange]
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    lengths: np.ndarray[Any, np.dtype[np.uint32]]
    manifest: Stored | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        """Opens nothing."""
        # The place of the first record of each file, and the number of all records.
        takes = (each.take for each in self.ranges)
        self._starts = array("q", itertools.accumulate(takes, initial=0))
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
        records = dict(zip(in_order, self.read_ahead(in_order), strict=True))
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
            run, end = range(place, place + 1), self._starts[self._file(place) + 1]
        if run:
            yield run

    def _bytes(self, run: range) -> int:
        """The bytes of neighbors in one file."""
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
        return bisect_right(self._starts, place) - 1

    def path(self, place: int) -> str:
        """The file that holds a record."""
        return join(self.folder, self.ranges[self._file(place)].file)

    def number(self, place: int) -> int:
        """The number of a record in its file, from 0."""
        file = self._file(place)
        return self.ranges[file].skip + place - self._starts[file]


def _open_file(folder: str, manifest: Stored | None, digest: str, path: str) -> Read:
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
        found = read_manifest(path, may_index=True) or {}
        return bool(digest) and found.get("digest") == digest
    return False


# Opens the published indexes of a split: where its records are, and their keys.

# Keys among which the closest one to a wrong key is looked for; of more, those next to it in order.
_ALL_NEAR, _BESIDE = 5_000, 100


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

    def path(self, file: str) -> str:
        """The index of the records of a file."""
        return join(self._folder, self._places[file].entry["file"])

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
        import numpy as np

        parts: list[tuple[Any, Any]]
        if self._per_image:
            parts = [self._single_records(ranges)]
        else:
            parts = list(storage_of(self._folder).for_each(self._place, ranges))
        columns = zip(*parts, strict=True) if parts else [[np.empty(0, np.int64)]] * 2
        offsets, lengths = map(np.concatenate, columns)
        lengths = lengths.astype("uint32")
        return RecordFiles(self._folder, ranges, offsets, lengths, manifest, self._digest)

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
        return cast("np.ndarray[Any, np.dtype[np.int64]]", ids.to_numpy(zero_copy_only=False))

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
        import numpy as np

        lengths = [self._sizes[each.file] - FRAME_BYTES for each in ranges]
        if lengths and not 0 <= min(lengths) <= max(lengths) <= MAX_RECORD:
            raise RecordIndexError(f"{self._folder} is damaged: a file has an impossible size")
        return np.zeros(len(lengths), np.int64), np.array(lengths, np.int64)

    def _place(self, part: ShardRange) -> tuple[Any, Any]:
        """Offsets and lengths of the records of a range."""
        entry, size = self._places[part.file].entry, self._sizes[part.file]
        table = self._read(entry, ("offset", "length"))
        if len(table) == part.records and not any(column.null_count for column in table.columns):
            offsets, lengths = (column.to_numpy() for column in table.columns)
            # Too large a number must not become a small one.
            if not len(lengths) or 0 <= lengths.min() <= lengths.max() <= min(size, MAX_RECORD):
                ends = (lengths + FRAME_BYTES).cumsum()
                starts = ends - lengths - FRAME_BYTES
                if (int(ends[-1]) if len(ends) else 0) == size and (offsets == starts).all():
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
        self._order = pc.array_sort_indices(keys).to_numpy().astype("uint32")

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
