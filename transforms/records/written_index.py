"""Records and indexes of a written dataset."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import google_crc32c

from transforms.core.messages import check_final, parse_json
from transforms.core.rejections import RETRIED
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.output_names import REJECTED, STAGING, image_files, index_file
from transforms.examples.tfrecord import LARGEST_RECORD, read_records
from transforms.labels.shards import ShardName
from transforms.records.record_index import (
    COMPARED,
    IndexPlace,
    RecordIndexError,
    index_rows,
    read_index,
    shard_of_index,
)
from transforms.storage.files import join, read_dataset_file, storage_of

if TYPE_CHECKING:
    import pyarrow as pa


# Reads back a dataset: its TFRecord files, and the images that it left out.

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
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
        self._crc = 0
        self._ahead = b""
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    def peek(self, size: int) -> bytes:
        """The next bytes, without consuming them; fewer only at the end of the stream."""
        while len(self._ahead) < size and (more := self._stream.read(size - len(self._ahead))):
            self._ahead += more
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
    digest = hashlib.sha256()
    with open_stored(path, follow_links=False) as stored:
        while chunk := stored.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


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
    stream = cast(BinaryIO, stored)
    if stored.peek(2) == _GZIP_MAGIC:
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    return read_records(stream, max_bytes=max_bytes)


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
        TFRecordError: while reading, at the first record that is damaged.
        OSError: when the file cannot be opened.
    """
    with open_stored(path, follow_links=follow_links) as stored:
        yield stored_records(stored, max_bytes=max_bytes)


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
    entry = {
        "records": summary.records,
        "bytes": summary.index_bytes,
        "crc32c": summary.index_crc32c,
    }
    for name in (f"{STAGING}/{summary.staged_index}", index_file(summary.file)):
        if not storage_of(output).exists(join(output, name)):
            continue
        try:
            return read_listed_index(output, {**entry, "file": name}, columns)
        except RecordIndexError:
            return None
    return None


def read_listed_index(
    output: str,
    entry: Mapping[str, Any],
    columns: Sequence[str] | None = None,
    *,
    changed: str = _CHANGED,
) -> pa.Table:
    """The index of a shard, as the manifest lists it.

    Args:
        output: the dataset's folder.
        entry: file, number of records, bytes and checksum.
        columns: those to read; None for all.
        changed: what is said of an index that is not as the manifest lists it.

    Raises:
        RecordIndexError: it was changed since it was written.
        OSError: it cannot be read.
    """
    path = join(output, entry["file"])
    data = read_dataset_file(path, entry)
    if data is None:
        raise RecordIndexError(f"{path} {changed}")
    return read_index(data, path, records=entry["records"], columns=columns)


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
            files = image_files([(split, key) for key in keys], gzip=file.endswith(".gz"))
            # Earlier versions named files of single images as one shard.
            names = {"shard": (shard, f"{shard}.gz", *files), "split": (split,)}
            for column, known in names.items():
                if not {*table.column(column).unique().to_pylist()} <= {*known}:
                    raise RecordIndexError(f"{name} is damaged: its {column} is another one")
            self._last = (name, table.drop_columns([*names]))
        return self._last[1]
