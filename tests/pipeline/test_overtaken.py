"""Another run ends while this one starts: what counts is what is there when the folder is ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.run import launch
from tests.pipeline.commands import convert, snapshot

Overtake = Callable[..., None]


@pytest.fixture
def flags(photos: Path, tmp_path: Path) -> dict[str, Any]:
    """Flags of a conversion of the photos."""
    return {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out", "num_shards": 2}


@pytest.fixture
def overtake(flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Overtake:
    """Lets a whole other run go first, after the flags are checked and before the lock is taken."""

    def before_the_lock(**other: Any) -> None:
        original = launch.hold_output

        @contextlib.contextmanager
        def held(output: str) -> Iterator[None]:
            monkeypatch.setattr(launch, "hold_output", original)
            assert convert(**{**flags, **other}).code == 0
            with original(output):
                yield

        monkeypatch.setattr(launch, "hold_output", held)

    return before_the_lock


def test_the_same_dataset_is_up_to_date(flags: dict[str, Any], overtake: Overtake) -> None:
    overtake()
    ran = convert(**flags)
    assert ran.code == 0, ran.err
    first = ran.out.splitlines()[0]
    assert first == f"up to date: {flags['output']} holds this dataset already"


@pytest.mark.slow
def test_another_dataset_is_named(flags: dict[str, Any], overtake: Overtake) -> None:
    overtake(num_shards=3)
    ran = convert(**flags)
    assert ran.code == 2
    assert "made with other options: --num_shards is 2, was 3" in ran.error()
    assert len(list(flags["output"].glob("*.tfrecord"))) == 3


def test_without_a_lock_the_job_itself_knows(
    flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On s3://, for example, another run may end at any moment."""
    build = launch.build
    monkeypatch.setattr(launch, "hold_output", lambda _: contextlib.nullcontext())

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(launch, "build", build)
        assert convert(**flags).code == 0
        left.update(snapshot(flags["output"]))
        return build(*arguments)

    left: dict[str, Any] = {}
    monkeypatch.setattr(launch, "build", overtaken)
    ran = convert(**flags)
    assert ran.code == 0, ran.err
    assert "up to date: " in ran.out
    assert {n: s for n, s in snapshot(flags["output"]).items() if n != ".staging"} == left
