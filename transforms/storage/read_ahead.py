"""Reading ahead: applies a function to files in the process's threads, in order and bounded."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from transforms.core.machine import process_cores, process_count
from transforms.storage.files import storage_of
from transforms.storage.gcs_requests import throttling_counted
from transforms.storage.interface import READERS, Item, Result

# Results of the first items of a group, and the error of the next one.
_Done: TypeAlias = tuple[list[Result], BaseException | None]

# Files in flight per core, so that no thread is idle while the consumer works on a batch; a fourth
# of that, if they are groups of files that a thread gets at once.
_AHEAD_OF_CORE = 16

# Bytes read ahead on this machine, whatever the number of consumers; and the least that keeps one
# core of a process busy where many processes share them, with images that are decoded meanwhile.
_MAX_BYTES = 64 << 20
_CORE_BYTES = 16 << 20

# Files and bytes that a thread gets at once, where it seldom waits: it tells the consumer once for
# all of them, which costs as much Python as checking one. More would leave a thread without work
# while another one has the last files of a shard: four photos, or many icons.
TOGETHER = 32
_TOGETHER_BYTES = 1 << 19

# What a cheap item may take, three times as much as it usually does; and how much more all of them
# may take until other threads get the next ones. Finishing a shard beside them slows them down.
_CHEAP_SECONDS, _LATE_SECONDS = 0.001, 1.0


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


# A fork has the pool without its threads.
os.register_at_fork(after_in_child=_shared_pool.cache_clear)


# An item for each active reader in this process; they share the bytes in flight. To add one, or to
# take one out, is one step of Python.
_CONSUMERS: list[None] = []


class ReadAhead:
    """Applies a function to items in the threads of a pool that the process shares.

    Attributes:
        max_bytes: bytes that all consumers of the process may have in flight at once; an item
            larger than a consumer's share is read alone. None for `read_ahead_bytes`.
        threads: threads of the pool, or None for the process's share of the cores.
        together: items that a thread gets at once, see `TOGETHER`.
    """

    def __init__(
        self, *, max_bytes: int | None = None, threads: int | None = None, together: int = 1
    ) -> None:
        cores = process_cores()
        self._threads = threads or cores
        self._together = together
        # Two for each thread that mostly waits for an answer.
        self._max_groups = max(_AHEAD_OF_CORE * cores, 2 * self._threads) // min(4, together)
        self._max_bytes = max_bytes or read_ahead_bytes(process_count(), cores)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        size: Callable[[Item], int] = lambda _: 0,
        is_cheap: Callable[[Item], bool] | None = None,
    ) -> Iterator[Result]:
        """Results in the order of the items; a bounded number of them is buffered.

        Args:
            function: called in another thread, but for cheap items.
            items: the arguments of the calls.
            size: bytes of an item's result; by default, too few to count.
            is_cheap: whether the consumer calls the function itself, when it requests the result,
                because that takes less than to pass Python's lock to another thread and back; by
                default, no item is. Any number of cheap items is drawn to find the next other one.
                After cheap items that took long, as on a slow disk, none is.
        """
        late = 0.0

        def is_quick(item: Item) -> bool:
            return late < _LATE_SECONDS and is_cheap is not None and is_cheap(item)

        pool = _shared_pool(self._threads)
        # What gives the results of some items, and how many groups in threads and bytes these are.
        waiting: collections.deque[tuple[Callable[[], _Done[Result]], int, int]]
        waiting = collections.deque()
        held_groups = held_bytes = 0
        stopped = threading.Event()
        _CONSUMERS.append(None)
        with contextlib.ExitStack() as stack:
            stack.callback(_CONSUMERS.pop)
            # Threads return at once from what has not begun.
            stack.callback(stopped.set)
            # Beam's counters belong to the thread that runs the step, not to the pool's.
            stack.enter_context(throttling_counted())
            for group, group_bytes in self._groups(items, size, is_quick):
                if group_bytes is None:
                    of_cheap = functools.partial(_apply, function, group, stopped)
                    waiting.append((of_cheap, 0, 0))
                    while waiting and not held_groups:
                        began = time.monotonic()
                        done = waiting.popleft()[0]()
                        late = max(0, late + time.monotonic() - began - _CHEAP_SECONDS)
                        yield from _each(*done)
                    continue
                while held_groups and (
                    held_groups == self._max_groups
                    or held_bytes + group_bytes > self._max_bytes // len(_CONSUMERS)
                ):
                    results, done_groups, done_bytes = waiting.popleft()
                    yield from _each(*results())
                    held_groups -= done_groups
                    held_bytes -= done_bytes
                future = pool.submit(_apply, function, group, stopped)
                waiting.append((future.result, 1, group_bytes))
                held_groups += 1
                held_bytes += group_bytes
            while waiting:
                yield from _each(*waiting.popleft()[0]())

    def _groups(
        self,
        items: Iterable[Item],
        size: Callable[[Item], int],
        is_cheap: Callable[[Item], bool],
    ) -> Iterator[tuple[list[Item], int | None]]:
        """Items for one thread, and their bytes; None for a cheap item."""
        most = min(_TOGETHER_BYTES, self._max_bytes)
        group: list[Item] = []
        group_bytes = 0
        for item in items:
            is_alone = is_cheap(item)
            item_bytes = 0 if is_alone else size(item)
            if group and (is_alone or group_bytes + item_bytes > most):
                yield group, group_bytes
                group, group_bytes = [], 0
            if is_alone:
                yield [item], None
                continue
            group.append(item)
            group_bytes += item_bytes
            if len(group) >= self._together or group_bytes >= most:
                yield group, group_bytes
                group, group_bytes = [], 0
        if group:
            yield group, group_bytes


def _each(results: list[Result], error: BaseException | None) -> Iterator[Result]:
    """Results of the first items of a group; then raises the error of the next one."""
    yield from results
    if error is not None:
        raise error


def _apply(
    function: Callable[[Item], Result], items: Sequence[Item], stopped: threading.Event
) -> _Done[Result]:
    """Applies a function to items, up to one that fails or until nobody wants the results."""
    results: list[Result] = []
    for item in items:
        if stopped.is_set():
            break
        try:
            results.append(function(item))
        except BaseException as error:  # raised where the results are wanted
            return results, error
    return results, None
