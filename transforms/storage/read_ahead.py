"""Reading ahead: applies a function to files in the process's threads, in order and bounded."""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from transforms.core.machine import process_cores, process_count
from transforms.storage.files import storage_of
from transforms.storage.gcs_retry import GATE, count_since
from transforms.storage.interface import READERS, Item, Result

# Files in flight per core, so that no thread is idle while the consumer works on a batch.
_AHEAD_OF_CORE = 16

# Files in flight per thread that mostly waits for an answer.
_AHEAD_OF_THREAD = 2

# Bytes read ahead on this machine, whatever the number of consumers; and the least that keeps one
# core of a process busy where many processes share them, with images that are decoded meanwhile.
_MAX_BYTES = 64 << 20
_CORE_BYTES = 16 << 20


def reading_threads(root: str, *, waits: bool = False) -> int:
    """The number of threads that keep the cores busy; more for remote files, which are waited for.

    Args:
        root: a folder.
        waits: whether some files are remote though `root` is local.
    """
    waits = waits or storage_of(root).is_remote
    return max(READERS, process_cores()) if waits else process_cores()


def read_ahead_bytes(processes: int, cores: int) -> int:
    """The bytes that one process may read ahead.

    Args:
        processes: of this machine, which share 64 MB.
        cores: of the process; each has at least 16 MB, up to 64 MB for all of them.

    >>> [read_ahead_bytes(*shared) >> 20 for shared in [(1, 96), (2, 1), (24, 4), (96, 1)]]
    [64, 32, 64, 16]
    """
    return min(_MAX_BYTES, max(_MAX_BYTES // processes, _CORE_BYTES * cores))


@functools.lru_cache
def _shared_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")


class _Consumers:
    """The number of active readers in this process; they share the bytes in flight."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Counts one until the block ends."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1


_CONSUMERS = _Consumers()


class ReadAhead:
    """Applies a function to items in the threads of a pool that the process shares.

    Attributes:
        max_bytes: bytes that all consumers of the process may have in flight at once; an item
            larger than a consumer's share is read alone. None for `read_ahead_bytes`.
        threads: threads of the pool, or None for the process's share of the cores.
    """

    def __init__(self, *, max_bytes: int | None = None, threads: int | None = None) -> None:
        cores = process_cores()
        self._threads = threads or cores
        self._max_items = max(_AHEAD_OF_CORE * cores, _AHEAD_OF_THREAD * self._threads)
        self._max_bytes = max_bytes or read_ahead_bytes(process_count(), cores)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        size: Callable[[Item], int] = lambda _: 0,
    ) -> Iterator[Result]:
        """Results in the order of the items; a bounded number of them is buffered.

        Args:
            function: called in another thread.
            items: the arguments of the calls.
            size: bytes of an item's result; by default, too few to count.
        """
        pool = _shared_pool(self._threads)
        waiting: collections.deque[tuple[Future[Result], int]] = collections.deque()
        in_flight = 0
        shut = GATE.shut_seconds
        with _CONSUMERS.one_more():
            try:
                for item in items:
                    item_bytes = size(item)
                    while waiting and (
                        len(waiting) >= self._max_items
                        or in_flight + item_bytes > self._max_bytes // _CONSUMERS.count
                    ):
                        future, future_bytes = waiting.popleft()
                        yield future.result()
                        in_flight -= future_bytes
                    waiting.append((pool.submit(function, item), item_bytes))
                    in_flight += item_bytes
                while waiting:
                    yield waiting.popleft()[0].result()
            finally:
                for future, _ in waiting:
                    future.cancel()
                # Beam's counters belong to the thread that runs the step, not to the pool's.
                count_since(shut)
