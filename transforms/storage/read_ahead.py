"""Reading ahead: whole files from local disk or any Beam FileSystem, in order and bounded."""

from __future__ import annotations

import collections
import contextlib
import errno
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import TypeVar

from transforms.core.file_errors import ChangedError, is_final
from transforms.core.shown_text import first_line
from transforms.metrics import count_throttled
from transforms.storage import files, gcs
from transforms.storage.gcs_retry import GATE
from transforms.storage.listing import is_local
from transforms.storage.ordinary_files import is_ordinary

Item = TypeVar("Item")
Result = TypeVar("Result")

# Files in flight for each core: while the consumer works on a batch, no thread may run dry.
_AHEAD_OF_CORE = 16

# Files in flight for each thread that mostly waits for an answer.
_AHEAD_OF_THREAD = 2

# Seconds between the tries to read a local file that fails for a reason that may pass.
_PAUSES = (0.1, 0.5, 2.0)

# Bytes read ahead in this process, whatever the number of consumers.
_MAX_BYTES = 64 << 20


def read_file(uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
    """The bytes of one file as stored; objects that a bucket keeps as gzip are decompressed.

    What a shard's recipe names is what is read: a local file that is no longer of the listed size
    and time, and an object that is no longer of the listed generation, is an error.

    Args:
        uri: local path or URL.
        size: bytes, as listed.
        version: what the listing said of its content; 0 when it said nothing.
        max_bytes: bytes that a compressed object may grow to.

    Raises:
        OSError: it cannot be read, or was overwritten since it was listed.
    """
    if is_local(uri):
        return _read_local(uri, size, version)
    if gcs.is_gcs(uri):
        return gcs.read(uri, generation=version, max_bytes=max_bytes)
    return _read_elsewhere(uri)


def _read_local(path: str, size: int, version: int) -> bytes:
    """A local file; on a network file system, many an error passes."""
    for pause in _PAUSES:
        try:
            return _read_once(path, size, version)
        except OSError as error:
            if is_final(error):
                raise
        time.sleep(pause)
    return _read_once(path, size, version)


def _read_elsewhere(uri: str) -> bytes:
    """A file through Beam, whose file systems raise whatever their clients do.

    Raises:
        OSError: of a kind that `is_final` knows.
    """
    try:
        return files.read_bytes(uri)
    except Exception as error:
        code = getattr(error, "code", None)
        if code == HTTPStatus.FORBIDDEN:
            raise PermissionError(errno.EACCES, first_line(error), uri) from error
        if code == HTTPStatus.NOT_FOUND or not files.exists(uri):
            raise FileNotFoundError(errno.ENOENT, "no such file", uri) from error
        raise OSError(errno.EIO, first_line(error), uri) from error


def _read_once(path: str, size: int, version: int) -> bytes:
    # Otherwise it would wait for somebody to write to what has become a FIFO.
    with open(path, "rb", buffering=0, opener=_open_without_waiting) as file:
        _check_unchanged(file.fileno(), path, size, version)
        data = file.read(size + 1)
        while 0 < len(data) < size and (more := file.read(size - len(data))):
            data += more
        _check_unchanged(file.fileno(), path, size, version)
        if len(data) != size:
            raise _overwritten(path)
        return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _check_unchanged(descriptor: int, path: str, size: int, version: int) -> None:
    status = os.fstat(descriptor)
    if not is_ordinary(status):
        raise OSError(errno.EINVAL, "it is no regular file any more", path)
    if status.st_size != size or version not in (0, status.st_mtime_ns):
        raise _overwritten(path)


def _overwritten(path: str) -> OSError:
    return ChangedError(errno.ESTALE, "it was overwritten meanwhile", path)


def reading_threads(root: str, *, waits: bool = False) -> int:
    """Threads that keep the cores busy with the files below `root`: remote ones are waited for.

    Args:
        root: a folder.
        waits: whether some files are remote though `root` is local.
    """
    return _cores() if is_local(root) and not waits else max(gcs.READERS, _cores())


def _cores() -> int:
    return os.cpu_count() or 1


@functools.lru_cache
def _shared_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")


class _Consumers:
    """How many read ahead in this process right now; they share the bytes in flight."""

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
            larger than a consumer's share goes alone.
        threads: threads of the pool, or None for the number of cores.
    """

    def __init__(self, *, max_bytes: int = _MAX_BYTES, threads: int | None = None) -> None:
        self._threads = threads or _cores()
        self._max_items = max(_AHEAD_OF_CORE * _cores(), _AHEAD_OF_THREAD * self._threads)
        self._max_bytes = max_bytes

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        size: Callable[[Item], int] = lambda _: 0,
    ) -> Iterator[Result]:
        """Results in the order of the items; only so many of them wait to be taken.

        Args:
            function: called in another thread.
            items: what to call it with.
            size: bytes that an item's result holds; by default, none worth counting.
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
                count_throttled(GATE.shut_seconds - shut)
