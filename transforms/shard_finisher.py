"""Finishes written shards beside the next one: syncing a file takes as long as many images."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

Shard = TypeVar("Shard")

# Shards that are finished while the next one is read. More would only leave more unfinished files
# behind a crash.
_BESIDE = 1


class ShardFinisher(Generic[Shard]):
    """Calls what finishes each shard in a thread of its own, in their order."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="finish-shard")
        self._begun: collections.deque[Future[Shard]] = collections.deque()

    def begin(self, finish: Callable[[], Shard]) -> None:
        """Begins to finish a shard."""
        self._begun.append(self._pool.submit(finish))

    def finished(self) -> Iterator[Shard]:
        """The shards that must be finished before another one is begun.

        Raises:
            Exception: what finishing one of them raises.
        """
        yield from self._first(len(self._begun) - _BESIDE)

    def all_finished(self) -> Iterator[Shard]:
        """All shards that were begun; raises as `finished`."""
        yield from self._first(len(self._begun))

    def _first(self, count: int) -> Iterator[Shard]:
        for _ in range(count):
            yield self._begun.popleft().result()

    def abandon(self) -> None:
        """Waits until nothing is written any more, and forgets all shards and their errors."""
        wait(self._begun)
        self._begun.clear()

    def close(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()
