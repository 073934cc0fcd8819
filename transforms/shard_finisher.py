"""Overlaps each shard with the next one, so that no core waits between them.

The next one is read while the last records of a shard are written, and while the shard is synced
and renamed, which takes as long as many images.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeAlias, TypeVar

Shard = TypeVar("Shard")

# Writes a shard, and pauses twice: when its images are being read, and before its last records.
Writing: TypeAlias = Generator[None, None, None]

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


class ShardOverlap:
    """Writes shards one after the other; each is read before the former one is complete."""

    def __init__(self) -> None:
        self._former: Writing | None = None

    def write(self, shard: Writing) -> None:
        """Begins to read a shard, completes the former one, and writes this one up to its end.

        Raises:
            Exception: what writing one of them raises; the former one is complete if it can be.
        """
        try:
            next(shard)
        finally:
            try:
                self.complete()
            except BaseException:
                shard.close()
                raise
        self._former = shard
        next(shard)

    def complete(self) -> None:
        """Writes the last records of the shard that is not complete, if there is one.

        Raises:
            Exception: what writing them raises.
        """
        former, self._former = self._former, None
        for _ in former or ():
            raise AssertionError("a shard pauses twice")

    def abandon(self) -> None:
        """Forgets a shard that is not complete, and closes its file."""
        former, self._former = self._former, None
        if former is not None:
            former.close()
