"""Reads records of bases: neighbours at once, and those of a compressed file in order."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from transforms.core.examples.tfrecord import TFRecordError, framed_payload
from transforms.core.index.record_index import FRAME_BYTES
from transforms.core.index.stored_images import COMPRESSED, StoredImage
from transforms.storage.files import storage_of
from transforms.stored_records import open_records

# Bytes of neighbours that are read at once; of a remote file, with what is between them: a request
# takes as long as a few megabytes.
_RUN_BYTES = 8 << 20
_REMOTE_GAP_BYTES = 1 << 20

# Runs that are fetched while one is used.
_AHEAD, _REMOTE_AHEAD = 1, 2


class RecordSource(Protocol):
    """Gives some records of one file, each of them once.

    Attributes:
        path: of the file.
        is_at_hand: whether most records are in memory when they are needed.
    """

    path: str
    is_at_hand: bool

    def payload(self, stored: StoredImage) -> bytes:
        """The data of one record; raises OSError or TFRecordError."""


class RecordRun:
    """Neighbours in one file, read by the first thread that needs one of them.

    Attributes:
        path: of the file.
        is_at_hand: see `RecordSource`.
        following: the runs that will probably be needed next.
    """

    def __init__(self, path: str, stored: StoredImage) -> None:
        self.path = path
        self.following: Sequence[RecordRun] = ()
        self._storage = storage_of(path)
        # Neighbours are read at once. Many threads wait for the answers of a bucket.
        self.is_at_hand = not self._storage.is_remote
        self._start = stored.offset
        self._end = stored.offset + stored.length + FRAME_BYTES
        self._left = 1
        self._lock = threading.Lock()
        self._data: bytes | None = None
        self._fetched: Future[bytes] | None = None

    def takes(self, path: str, stored: StoredImage) -> bool:
        """Adds the next record if it follows the others."""
        end = stored.offset + stored.length + FRAME_BYTES
        gap = _REMOTE_GAP_BYTES if self._storage.is_remote else 0
        if path != self.path or not 0 <= stored.offset - self._end <= gap:
            return False
        if end - self._start > _RUN_BYTES:
            return False
        self._end = end
        self._left += 1
        return True

    def payload(self, stored: StoredImage) -> bytes:
        """See `RecordSource`."""
        with self._lock:
            if self._data is None:
                for run in self.following:
                    run.fetch()
                self._data = self._fetched.result() if self._fetched else self._read()
                self._fetched = None
            data = self._data
            self._left -= 1
            if not self._left:
                self._data = None
        return framed_payload(
            data,
            stored.offset - self._start,
            stored.length,
            record=stored.record,
            offset=stored.offset,
        )

    def fetch(self) -> None:
        """Begins to read in another thread, if nobody does."""
        # Whoever holds the lock reads.
        if self._lock.acquire(blocking=False):
            with contextlib.ExitStack() as held:
                held.callback(self._lock.release)
                if self._data is None and self._fetched is None and self._left:
                    self._fetched = _pool().submit(self._read)

    def _read(self) -> bytes:
        length = self._end - self._start
        return self._storage.read_range(self.path, self._start, length, follow_links=False)


class CompressedRecords:
    """Records of a compressed file, which is read once, in order.

    Attributes:
        path: of the file.
        is_at_hand: see `RecordSource`; to decompress takes longer than to change threads.
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
        self._file = contextlib.ExitStack()
        self._records: Iterator[bytes] | None = None

    def payload(self, stored: StoredImage) -> bytes:
        """See `RecordSource`; keeps what other threads will ask for."""
        with self._lock:
            if self._records is None:
                self._records = self._file.enter_context(
                    open_records(self.path, follow_links=False)
                )
            while self._next <= stored.record:
                record = next(self._records, None)
                if record is None:
                    raise TFRecordError(self._next, 0, "the file ends before this record")
                if self._next in self._wanted:
                    self._held[self._next] = record
                self._next += 1
            self._wanted.discard(stored.record)
            if not self._wanted:
                self._file.close()
            data = self._held.pop(stored.record)
        if len(data) != stored.length:
            problem = f"it has {len(data)} bytes, and the index says {stored.length}"
            raise TFRecordError(stored.record, 0, problem)
        return data


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
    for key, path, stored in placed:
        if path.endswith(COMPRESSED):
            in_order = compressed.setdefault(path, [])
            if not in_order or in_order[-1][1].record < stored.record:
                in_order.append((key, stored))
            continue
        if not runs or not runs[-1].takes(path, stored):
            runs.append(RecordRun(path, stored))
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
    return ThreadPoolExecutor(2 * _REMOTE_AHEAD, thread_name_prefix="read-records")


# A fork has the pool without its threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
