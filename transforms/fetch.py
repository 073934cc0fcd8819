"""Reading ahead: whole files from local disk or any Beam FileSystem, in order and bounded."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.match import is_local

Item = TypeVar("Item")
Result = TypeVar("Result")

# Files in flight for each thread: while the consumer works on a batch, no thread may run dry.
_AHEAD = 16

# Bytes read ahead of one consumer.
_MAX_BYTES = 64 << 20


def read_file(uri: str) -> bytes:
    """The bytes of one file as stored, never decompressed.

    Raises:
        OSError: when it cannot be read.
    """
    if is_local(uri):
        with open(uri, "rb", buffering=0) as file:
            return file.read()
    with FileSystems.open(uri, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


@functools.lru_cache(maxsize=1)
def _shared_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")


class ReadAhead:
    """Applies a function to items in the threads of a pool that the process shares.

    Attributes:
        max_bytes: bytes that may be in flight at once; one item larger than that goes alone.
    """

    def __init__(self, *, max_bytes: int = _MAX_BYTES, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._max_bytes = max_bytes

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        size: Callable[[Item], int],
    ) -> Iterator[Result]:
        """Results in the order of the items; at most `max_bytes` of them wait to be taken.

        Args:
            function: called in another thread.
            items: what to call it with.
            size: bytes that an item's result holds.
        """
        pool = _shared_pool(self._threads)
        waiting: collections.deque[tuple[Future[Result], int]] = collections.deque()
        in_flight = 0
        try:
            for item in items:
                item_bytes = size(item)
                while waiting and (
                    len(waiting) >= _AHEAD * self._threads
                    or in_flight + item_bytes > self._max_bytes
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
