"""Files are read ahead in order and within bounds, in the version that was listed."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.storage.local_storage import LocalStorage
from transforms.storage.read_ahead import ReadAhead

THREADS = 2
AHEAD = 16 * THREADS


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with more cores keeps more items in flight than these tests count."""
    monkeypatch.setattr("transforms.storage.read_ahead.process_cores", lambda: THREADS)


def read_ahead(max_bytes: int = 10**9) -> ReadAhead:
    return ReadAhead(max_bytes=max_bytes, threads=THREADS)


class Counted:
    """Numbers that know how many of them were drawn."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.pulled = 0

    def __iter__(self) -> Iterator[int]:
        for item in range(self._length):
            self.pulled += 1
            yield item


def one_byte(_: object) -> int:
    return 1


def test_results_keep_the_order_of_the_items() -> None:
    def slow(item: int) -> int:
        time.sleep(0.004 * (item % 3 == 0))
        return item * item

    results = read_ahead().map(slow, range(60), size=one_byte)
    assert list(results) == [item * item for item in range(60)]


def test_no_items() -> None:
    assert list(read_ahead().map(str, [], size=one_byte)) == []


def test_items_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(THREADS, timeout=60)
    arrived = read_ahead().map(lambda _: together.wait(), range(THREADS), size=one_byte)
    assert sorted(arrived) == list(range(THREADS))


def test_only_so_many_items_wait() -> None:
    items = Counted(100)

    most = 0
    for taken, _ in enumerate(read_ahead().map(str, items, size=one_byte)):
        most = max(most, items.pulled - taken)
    assert most == AHEAD + 1  # one is drawn and not yet begun
    assert items.pulled == 100


def test_the_first_items_begin_before_a_result_is_wanted() -> None:
    items = Counted(100)
    begun = threading.Event()
    results = read_ahead().map(lambda _: begun.set(), items, size=one_byte)
    assert begun.wait(20)
    assert items.pulled == AHEAD + 1
    assert len(list(results)) == 100


def test_bytes_that_were_taken_make_room() -> None:
    items = Counted(40)

    ahead = [
        items.pulled - taken for taken, _ in enumerate(read_ahead(4).map(str, items, size=one_byte))
    ]
    assert ahead[:36] == [5] * 36  # four in flight, and one is drawn and not yet begun


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 60))
def test_only_so_many_bytes_are_held(sizes: list[int], max_bytes: int) -> None:
    lock = threading.Lock()
    held: dict[int, int] = {}
    seen: list[list[int]] = []

    def hold(item: int) -> int:
        with lock:
            held[item] = sizes[item]
            seen.append(list(held.values()))
        return item

    results = read_ahead(max_bytes).map(hold, range(len(sizes)), size=sizes.__getitem__)
    for item in results:
        with lock:
            del held[item]
    for together in seen:
        # A file larger than the limit still goes, but alone.
        assert sum(together) <= max_bytes or sum(size > 0 for size in together) == 1


def test_what_is_taken_counts_until_the_next_is_asked_for() -> None:
    begun: list[int] = []
    results = read_ahead(10).map(begun.append, range(4), size=lambda _: 6)
    next(results)
    time.sleep(0.05)
    assert begun == [0]
    next(results)
    assert begun == [0, 1]
    results.close()  # type: ignore[attr-defined]


def test_a_failure_surfaces_in_its_place() -> None:
    def fail(item: int) -> int:
        if item == 3:
            raise KeyError("broken")
        return item

    taken: list[int] = []
    with pytest.raises(KeyError, match="broken"):
        taken.extend(read_ahead().map(fail, range(50), size=one_byte))
    assert taken == [0, 1, 2]
    assert list(read_ahead().map(str, range(3), size=one_byte)) == ["0", "1", "2"]


def in_groups(max_bytes: int = 10**9) -> ReadAhead:
    return ReadAhead(max_bytes=max_bytes, threads=THREADS, together=4)


def test_items_of_a_group_keep_their_order_and_fail_in_their_place() -> None:
    def fail(item: int) -> int:
        if item == 6:
            raise KeyError("broken")
        return item

    assert list(in_groups().map(fail, range(6), size=one_byte)) == list(range(6))
    taken: list[int] = []
    with pytest.raises(KeyError, match="broken"):
        taken.extend(in_groups().map(fail, range(50), size=one_byte))
    assert taken == [0, 1, 2, 3, 4, 5]


def test_a_thread_gets_a_group_but_no_more_bytes_than_allowed() -> None:
    def groups(ahead: ReadAhead, sizes: list[int]) -> list[list[int]]:
        return [group for group, _ in ahead._groups(sizes, lambda size: size, None)]

    assert groups(in_groups(), [1] * 9) == [[1] * 4, [1] * 4, [1]]
    assert groups(in_groups(10), [6, 4, 5, 20, 1]) == [[6, 4], [5], [20], [1]]
    # Photos of a few megabytes go one by one, so that none waits for three others.
    assert groups(in_groups(), [2 << 20] * 2) == [[2 << 20]] * 2


@given(cheap=st.lists(st.booleans(), max_size=60), fails_at=st.integers(0, 80))
def test_the_consumer_calls_for_cheap_items_itself(cheap: list[bool], fails_at: int) -> None:
    here = threading.get_ident()

    def thread_of(item: int) -> tuple[int, bool]:
        if item == fails_at:
            raise KeyError("broken")
        return item, threading.get_ident() == here

    results = in_groups().map(
        thread_of, range(len(cheap)), size=one_byte, is_cheap=lambda item: cheap[item]
    )
    taken = []
    if fails_at < len(cheap):
        with pytest.raises(KeyError, match="broken"):
            taken.extend(results)
    else:
        taken.extend(results)
    assert taken == list(enumerate(cheap))[:fails_at]


def test_what_follows_cheap_items_is_begun_before_them() -> None:
    begun = threading.Event()

    def work(item: int) -> int:
        if item == 9:
            begun.set()
        else:
            assert begun.wait(60)
        return item

    results = read_ahead().map(work, range(10), size=one_byte, is_cheap=lambda item: item < 9)
    assert list(results) == list(range(10))


def test_cheap_items_do_not_count_among_those_that_wait() -> None:
    waiting: list[int] = []
    most = 0

    def work(item: int) -> int:
        waiting.append(item)
        return item

    for taken in read_ahead().map(work, range(300), size=one_byte, is_cheap=lambda item: item % 2):
        waiting.remove(taken)
        most = max(most, sum(1 for item in waiting if not item % 2))
    assert 2 <= most <= AHEAD


def test_groups_stop_with_their_consumer() -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def wait(item: int) -> int:
        begun.append(item)
        if item >= 4:
            assert go_on.wait(60)
        return item

    results = in_groups().map(wait, range(100), size=one_byte)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    go_on.set()
    list(read_ahead().map(str, range(AHEAD), size=one_byte))
    # Each thread had begun one item of its group.
    assert len(begun) <= 4 + THREADS


def test_only_so_many_items_of_groups_wait() -> None:
    items = Counted(100)
    most = 0
    for taken, _ in enumerate(in_groups().map(str, items, size=one_byte)):
        most = max(most, items.pulled - taken)
    assert most == AHEAD + 4  # a group is drawn and not yet begun


def test_a_failure_of_the_items_surfaces() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(read_ahead().map(str, items(), size=one_byte))


@pytest.mark.parametrize("how", ["close", "throw"])
def test_who_stops_early_cancels_the_rest(how: str) -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def wait(item: int) -> int:
        begun.append(item)
        if item:
            assert go_on.wait(60)
        return item

    results = read_ahead().map(wait, range(100), size=one_byte)
    assert next(results) == 0
    if how == "close":
        results.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(OSError, match="disk full"):
            results.throw(OSError("disk full"))  # type: ignore[attr-defined]
    go_on.set()
    # The same pool goes through its queue in order.
    list(read_ahead().map(str, range(AHEAD), size=one_byte))
    assert len(begun) <= 1 + THREADS


def test_consumers_share_the_bytes_in_flight() -> None:
    items = Counted(40)

    other = read_ahead(10).map(str, range(40), size=one_byte)
    next(other)
    mine = read_ahead(10).map(str, items, size=one_byte)
    next(mine)
    assert items.pulled == 6  # half of ten in flight, and one is drawn and not yet begun
    other.close()
    next(mine)
    assert items.pulled == 12  # one was taken, all ten are in flight, and one is drawn


def read(path: Path, *, size: int = 1, version: int = 0) -> bytes:
    return LocalStorage().read_listed(str(path), size=size, version=version, max_bytes=1)


def test_files_are_read_as_stored(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg.gz"
    path.write_bytes(gzip.compress(b"text"))
    status = path.stat()
    data = read(path, size=status.st_size, version=status.st_mtime_ns)
    assert data == path.read_bytes()
    path.write_bytes(b"")
    assert read(path, size=0) == b""


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.jpg")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize(("size", "version"), [(4, 7), (6, 7), (0, 7), (5, 8), (5, 1)])
def test_a_file_that_is_not_as_listed(tmp_path: Path, size: int, version: int) -> None:
    path = tmp_path / "1.jpg"
    path.write_bytes(b"12345")
    os.utime(path, ns=(7, 7))
    assert read(path, size=5, version=7) == b"12345"
    with pytest.raises(OSError, match="it was overwritten meanwhile"):
        read(path, size=size, version=version)


def test_what_became_a_fifo_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    path = tmp_path / "1.jpg"
    os.mkfifo(path)
    with pytest.raises(OSError, match="no longer a regular file"):
        read(path)
    with open(os.open(path, os.O_RDWR), "wb", buffering=0) as writer:
        writer.write(b"5")
        with pytest.raises(OSError, match="no longer a regular file"):
            read(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_what_became_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="no longer a regular file"):
        read(tmp_path / "1.jpg", size=0)


@pytest.mark.parametrize(
    "name", ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"]
)
def test_a_file_that_the_kernel_makes_up_is_left_alone(name: str) -> None:
    """Those of /proc say that they are empty, those of /sys that they have 4,096 bytes."""
    if not os.path.exists(name):
        pytest.skip(f"there is no {name}")
    size = os.stat(name).st_size
    with pytest.raises(OSError, match="no longer a regular file"):
        read(Path(name), size=size, version=os.stat(name).st_mtime_ns)


def test_a_fork_reads_with_threads_of_its_own() -> None:
    """As the processes of PyTorch's `DataLoader`, after their parent has read something."""
    script = """
import os
from transforms.storage.read_ahead import ReadAhead
def read():
    return list(ReadAhead(threads=2).map(abs, [-1, -2]))
assert read() == [1, 2]
child = os.fork()
if not child:
    os._exit(read() != [1, 2])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
