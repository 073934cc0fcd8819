"""Shards overlap with the next one, are finished in their order, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from transforms.write_shards import ShardOverlap, Writing


def writing(
    shard: str, done: list[str], fails_at: str = "", waits_for: threading.Event | None = None
) -> Writing[str]:
    def do(what: str) -> None:
        done.append(f"{what} {shard}")
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
        done.append(f"close {shard}")
    return finish


def test_one_shard_is_finished_beside_the_next() -> None:
    overlap, done, go = ShardOverlap[str](), list[str](), threading.Event()
    assert overlap.write(writing("a", done, waits_for=go)) == []
    assert overlap.write(writing("b", done)) == []
    assert "finish a" not in done
    go.set()
    assert overlap.write(writing("c", done)) == ["a"]
    assert overlap.complete() == ["b", "c"]
    assert overlap.complete() == []
    overlap.close()


def test_an_error_is_raised_instead_of_its_shard() -> None:
    overlap, done = ShardOverlap[str](), list[str]()
    assert overlap.write(writing("a", done, "finish")) == []
    with pytest.raises(OSError, match="Input/output error"):
        overlap.complete()
    assert overlap.complete() == []
    overlap.close()


def test_what_is_abandoned_has_ended() -> None:
    overlap, done, go = ShardOverlap[str](), list[str](), threading.Event()
    overlap.write(writing("a", done, waits_for=go))
    overlap.write(writing("b", done, "finish"))
    threading.Timer(0.1, go.set).start()
    overlap.abandon()
    assert done[-2:] == ["close b", "finish a"]
    assert overlap.complete() == []
    overlap.close()


def test_a_shard_is_read_before_the_last_records_of_the_former_one() -> None:
    overlap, done = ShardOverlap[str](), list[str]()
    overlap.write(writing("a", done))
    overlap.write(writing("b", done))
    first = ["read a", "write a", "read b", "complete a", "close a", "write b"]
    assert [each for each in done if each != "finish a"] == first
    overlap.complete()
    overlap.complete()
    overlap.close()
    whole = [*first, "complete b", "close b"]
    assert [each for each in done if not each.startswith("finish")] == whole


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
    overlap, done = ShardOverlap[str](), list[str]()
    overlap.write(writing("a", done))
    del done[:]
    with pytest.raises(OSError, match="Input/output"):
        overlap.write(writing("b", done, fails_at))
    overlap.close()
    assert sorted(done) == sorted([*expected, "finish a"])
    assert [each for each in done if each != "finish a"] == expected


def test_a_shard_that_cannot_be_completed_closes_the_next_one() -> None:
    overlap, done = ShardOverlap[str](), list[str]()
    overlap.write(writing("a", done, "complete"))
    with pytest.raises(OSError, match="Input/output"):
        overlap.write(writing("b", done))
    assert done[2:] == ["read b", "complete a", "close a", "close b"]


def test_an_abandoned_shard_is_closed() -> None:
    overlap, done = ShardOverlap[str](), list[str]()
    overlap.write(writing("a", done))
    overlap.abandon()
    assert overlap.complete() == []
    assert done == ["read a", "write a", "close a"]
    overlap.close()
