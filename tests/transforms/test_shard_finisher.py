"""Shards are finished in their order, beside the next one, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from transforms.shard_finisher import ShardFinisher


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
