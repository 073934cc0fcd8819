"""Shards overlap with the next one, are finished in their order, and no error is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from transforms.write_shards import ShardOverlap, Writing


class Overlap(ShardOverlap):
    """One that notes what is done with each shard."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def add(
        self, shard: str, fails_at: str = "", waits_for: threading.Event | None = None
    ) -> list[str]:
        return self.write(self._writing(shard, fails_at, waits_for))

    def _writing(self, shard: str, fails_at: str, waits_for: threading.Event | None) -> Writing:
        def do(what: str) -> None:
            self.done.append(f"{what} {shard}")
            if what == fails_at:
                raise OSError(5, "Input/output error")

        def finish() -> str:
            if waits_for is not None and not waits_for.wait(60):
                return "late"
            do("finish")
            return shard

        try:
            do("read")
            yield
            do("write")
            yield
            do("complete")
        finally:
            self.done.append(f"close {shard}")
        return finish

    def in_order(self) -> list[str]:
        """What was done but for finishing, which another thread does."""
        return [each for each in self.done if not each.startswith("finish")]


@pytest.fixture
def overlap() -> Iterator[Overlap]:
    made = Overlap()
    yield made
    made.close()


def test_one_shard_is_finished_beside_the_next(overlap: Overlap) -> None:
    go = threading.Event()
    assert overlap.add("a", waits_for=go) == overlap.add("b") == []
    assert "finish a" not in overlap.done
    go.set()
    assert overlap.add("c") == ["a"]
    assert overlap.complete() == ["b", "c"]
    assert overlap.complete() == []


def test_a_shard_is_read_before_the_last_records_of_the_former_one(overlap: Overlap) -> None:
    overlap.add("a")
    overlap.add("b")
    assert overlap.complete() == ["a", "b"]
    whole = ["read a", "write a", "read b", "complete a", "close a", "write b", "complete b"]
    assert overlap.in_order() == [*whole, "close b"]


def test_an_error_is_raised_instead_of_its_shard(overlap: Overlap) -> None:
    assert overlap.add("a", "finish") == []
    with pytest.raises(OSError, match="Input/output error"):
        overlap.complete()
    assert overlap.complete() == []


def test_what_is_abandoned_has_ended(overlap: Overlap) -> None:
    go = threading.Event()
    overlap.add("a", waits_for=go)
    overlap.add("b", "finish")
    threading.Timer(0.1, go.set).start()
    overlap.abandon()
    assert overlap.done[-2:] == ["close b", "finish a"]
    assert overlap.complete() == []


@pytest.mark.parametrize(
    ("first_fails_at", "second_fails_at", "expected"),
    [
        # The former shard is complete, and a rerun finds it.
        ("", "read", ["read b", "close b", "complete a", "close a", "finish a"]),
        ("", "write", ["read b", "complete a", "close a", "finish a", "write b", "close b"]),
        # One that cannot be completed closes the next one.
        ("complete", "", ["read b", "complete a", "close a", "close b"]),
    ],
)
def test_a_shard_that_fails(first_fails_at: str, second_fails_at: str, expected: list[str]) -> None:
    overlap = Overlap()
    overlap.add("a", first_fails_at)
    del overlap.done[:]
    with pytest.raises(OSError, match="Input/output"):
        overlap.add("b", second_fails_at)
    overlap.close()
    assert sorted(overlap.done) == sorted(expected)
    assert overlap.in_order() == [each for each in expected if each != "finish a"]


def test_an_abandoned_shard_is_closed(overlap: Overlap) -> None:
    overlap.add("a")
    overlap.abandon()
    assert overlap.complete() == []
    assert overlap.done == ["read a", "write a", "close a"]
