"""On a terminal, progress is a bar with rate and time left; elsewhere it is lines."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading

import pytest

from pipeline import progress
from transforms.metrics import PROGRESS


def _run(style: str) -> None:
    """A conversion of 40 images that shows itself as it goes."""
    PROGRESS.plan(40)
    with progress.show_progress(style):
        for _ in range(4):
            PROGRESS.advance(10, 1)
            threading.Event().wait(0.06)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_SECONDS", 0.02)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    pieces: list[bytes] = []

    def read() -> None:
        # The terminal's buffer is small: a writer whom nobody reads would wait for ever.
        with contextlib.suppress(OSError):
            while piece := os.read(leader, 4096):
                pieces.append(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(follower, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        _run("auto")
    reader.join(10)
    os.close(leader)
    shown = b"".join(pieces).decode()
    assert "converting" in shown
    assert "/40 [" in shown and "images/s" in shown and "rejected=" in shown


def test_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    _run("auto")
    lines = written.getvalue().splitlines()
    assert lines and all("of 40 images" in line and "s left" in line for line in lines)


def test_off_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    _run("off")
    assert written.getvalue() == ""
