"""Shards overlap with the next one, are finished in their order, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from transforms.write_shards import ShardFinisher, ShardOverlap, Writing


def test_one_shard_is_finished_beside_the_next() -> None:
    finisher: ShardFinisher[str] = ShardFinisher()
    go = threading.Event()
    finisher.begin(lambda: "a" if go.wait(60) else "late")
    assert list(finisher.finished()) == []
    go.set()
    finisher.begin(lambda: "b")
    assert list(finisher.finished()) == ["a"]
    assert list(finisher.finished()) == []
    assert list(finisher.all_finished()) == ["b"]
    assert list(finisher.all_finished()) == []
    finisher.close()


def test_an_error_is_raised_instead_of_its_shard() -> None:
    finisher: ShardFinisher[str] = ShardFinisher()

    def fail() -> str:
        raise OSError(28, "No space left on device")

    finisher.begin(fail)
    with pytest.raises(OSError, match="No space left"):
        list(finisher.all_finished())
    finisher.close()


def test_what_is_abandoned_has_ended() -> None:
    finisher: ShardFinisher[str] = ShardFinisher()
    done = []

    def finish(shard: str, seconds: float) -> str:
        done.append(f"{shard} {1 / seconds}")
        return shard

    finisher.begin(lambda: finish("a", 1))
    finisher.begin(lambda: finish("b", 0))
    finisher.abandon()
    assert done == ["a 1.0"]
    assert list(finisher.all_finished()) == []
    finisher.close()


def writing(shard: str, done: list[str], fails_at: str = "") -> Writing:
    def do(what: str) -> None:
        done.append(f"{what} {shard}")
        if what == fails_at:
            raise OSError(5, "Input/output error")

    try:
        do("read")
        yield
        do("write")
        yield
        do("complete")
    finally:
        done.append(f"close {shard}")


def test_a_shard_is_read_before_the_last_records_of_the_former_one() -> None:
    overlap, done = ShardOverlap(), list[str]()
    overlap.write(writing("a", done))
    overlap.write(writing("b", done))
    first = ["read a", "write a", "read b", "complete a", "close a", "write b"]
    assert done == first
    overlap.complete()
    overlap.complete()
    overlap.abandon()
    assert done == [*first, "complete b", "close b"]


@pytest.mark.parametrize(
    ("fails_at", "expected"),
    [
        # The former shard is complete, and a rerun finds it.
        ("read", ["read b", "close b", "complete a", "close a"]),
        ("write", ["read b", "complete a", "close a", "write b", "close b"]),
    ],
)
def test_a_shard_that_fails_leaves_the_former_one_complete(
    fails_at: str, expected: list[str]
) -> None:
    overlap, done = ShardOverlap(), list[str]()
    overlap.write(writing("a", done))
    del done[:]
    with pytest.raises(OSError, match="Input/output"):
        overlap.write(writing("b", done, fails_at))
    overlap.abandon()
    assert done == expected


def test_a_shard_that_cannot_be_completed_closes_the_next_one() -> None:
    overlap, done = ShardOverlap(), list[str]()
    overlap.write(writing("a", done, "complete"))
    with pytest.raises(OSError, match="Input/output"):
        overlap.write(writing("b", done))
    assert done[2:] == ["read b", "complete a", "close a", "close b"]


def test_an_abandoned_shard_is_closed() -> None:
    overlap, done = ShardOverlap(), list[str]()
    overlap.write(writing("a", done))
    overlap.abandon()
    overlap.complete()
    assert done == ["read a", "write a", "close a"]
