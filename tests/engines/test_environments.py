"""What the engines need is made once, also by several processes at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines import environments


def test_it_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is of an open file, so threads wait for each other as processes do."""
    commands: list[str] = []
    begun, other_begun = threading.Event(), threading.Event()

    def run(*command: str, cwd: Path, **_: str) -> None:
        commands.append(command[0])
        if begun.is_set():
            other_begun.set()
        begun.set()
        other_begun.wait(0.3)
        (cwd / "prism").write_text("made")

    monkeypatch.setattr(environments, "FOLDER", tmp_path / "engines")
    monkeypatch.setattr(environments, "_run", run)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(environments.prism)
        begun.wait()
        second = threads.submit(environments.prism)
    assert first.result() == second.result() == environments.prism()
    assert (commands, first.result().read_text()) == (["go"], "made")


def test_what_failed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str, cwd: Path, **__: str) -> None:
        (cwd / "prism").write_text("half")
        raise environments.NotThereError("no registry")

    monkeypatch.setattr(environments, "FOLDER", tmp_path / "engines")
    monkeypatch.setattr(environments, "_run", fail)
    for _ in range(2):
        with pytest.raises(environments.NotThereError, match="no registry"):
            environments.prism()
