"""Items are worked on ahead: in order, within bounds, and no longer than somebody asks."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.storage.read_ahead import ReadAhead

THREADS = 2
AHEAD = 16 * THREADS


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with more cores keeps more items in flight than these tests count."""
    monkeypatch.setattr("transforms.storage.read_ahead.process_cores", lambda: THREADS)


def read_ahead(max_bytes: int = 10**9, *, together: int = 1) -> ReadAhead:
    return ReadAhead(max_bytes=max_bytes, threads=THREADS, together=together)


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


@pytest.mark.parametrize("together", [1, 4])
def test_results_keep_the_order_of_the_items(together: int) -> None:
    def slow(item: int) -> int:
        time.sleep(0.004 * (item % 3 == 0))
        return item * item

    reader = read_ahead(together=together)
    assert list(reader.map(slow, range(60), size=one_byte)) == [n * n for n in range(60)]
    assert list(reader.map(slow, [], size=one_byte)) == []


@cases((10**9, 1, AHEAD + 1), (10**9, 8, 8 * 8 + 8), (4, 1, 4 + 1))
def test_only_so_many_items_and_bytes_wait(max_bytes: int, together: int, most: int) -> None:
    items = Counted(100)
    results = read_ahead(max_bytes, together=together).map(str, items, size=one_byte)
    ahead = [items.pulled - taken for taken, _ in enumerate(results)]
    assert max(ahead) == most
    # What was taken makes room.
    assert min(ahead[: 100 - most - together]) >= most - together
    assert (items.pulled, len(ahead)) == (100, 100)


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


def test_consumers_share_the_bytes_in_flight() -> None:
    items = Counted(40)
    other = read_ahead(10).map(str, range(40), size=one_byte)
    next(other)
    mine = read_ahead(10).map(str, items, size=one_byte)
    next(mine)
    assert items.pulled == 6  # half of ten in flight, and one is drawn and not yet begun
    other.close()  # type: ignore[attr-defined]
    next(mine)
    assert items.pulled == 12  # one was taken, all ten are in flight, and one is drawn


# Failures.


@pytest.mark.parametrize("together", [1, 4])
def test_a_failure_surfaces_in_its_place(together: int) -> None:
    def fail(item: int) -> int:
        if item == 6:
            raise KeyError("broken")
        return item

    taken: list[int] = []
    with pytest.raises(KeyError, match="broken"):
        taken.extend(read_ahead(together=together).map(fail, range(50), size=one_byte))
    assert taken == [0, 1, 2, 3, 4, 5]
    assert list(read_ahead().map(str, range(3), size=one_byte)) == ["0", "1", "2"]


def test_a_failure_of_the_items_surfaces() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(read_ahead().map(str, items(), size=one_byte))


def close(results: Any) -> None:
    results.close()


def throw(results: Any) -> None:
    with pytest.raises(OSError, match="disk full"):
        results.throw(OSError("disk full"))


@pytest.mark.parametrize(("stop", "together"), [(close, 1), (throw, 1), (close, 4)])
def test_who_stops_early_cancels_the_rest(stop: Callable[[Any], None], together: int) -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def wait(item: int) -> int:
        begun.append(item)
        if item >= together:
            assert go_on.wait(60)
        return item

    results = read_ahead(together=together).map(wait, range(100), size=one_byte)
    assert next(results) == 0
    stop(results)
    go_on.set()
    # The same pool goes through its queue in order.
    list(read_ahead().map(str, range(AHEAD), size=one_byte))
    # Each thread had begun one item of its group.
    assert len(begun) <= together + THREADS


# Cheap items.


@given(cheap=st.lists(st.booleans(), max_size=60), fails_at=st.integers(0, 80))
def test_the_consumer_calls_for_cheap_items_itself(cheap: list[bool], fails_at: int) -> None:
    here = threading.get_ident()

    def thread_of(item: int) -> tuple[int, bool]:
        if item == fails_at:
            raise KeyError("broken")
        return item, threading.get_ident() == here

    results = read_ahead(together=4).map(
        thread_of, range(len(cheap)), size=one_byte, is_cheap=lambda item: cheap[item]
    )
    taken = []
    if fails_at < len(cheap):
        with pytest.raises(KeyError, match="broken"):
            taken.extend(results)
    else:
        taken.extend(results)
    assert taken == list(enumerate(cheap))[:fails_at]


def test_while_a_thread_works_others_are_found_before_cheap_items() -> None:
    begun = threading.Event()

    def work(item: int) -> int:
        if item == 9:
            begun.set()
        else:
            assert not item or begun.wait(60)
        return item

    results = read_ahead().map(work, range(10), size=one_byte, is_cheap=lambda item: item % 9 > 0)
    assert list(results) == list(range(10))


def test_threads_get_what_is_not_as_cheap_as_it_seems() -> None:
    here = threading.get_ident()

    def is_here(item: int) -> bool:
        time.sleep(0.05)
        return threading.get_ident() == here

    found = list(read_ahead().map(is_here, range(40), size=one_byte, is_cheap=lambda _: True))
    assert found[0]
    assert not any(found[30:])


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
