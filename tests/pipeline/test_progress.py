"""On a terminal, progress is a bar with rate and time left; elsewhere it is lines."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import progress
from tests.conftest import draw
from tests.pipeline.commands import check_sound, convert
from transforms.metrics import PROGRESS, Stage


def _run(style: str, written: Callable[[], str]) -> None:
    """A conversion of 40 images that goes on when what it did is shown."""
    with progress.show_progress(style):
        PROGRESS.count("listing", 41)
        _wait_for("listing", written)
        PROGRESS.count("planning", 41)
        PROGRESS.plan(40)
        for done in range(10, 50, 10):
            PROGRESS.advance(10, 1)
            _wait_for(str(done), written)


def _wait_for(text: str, written: Callable[[], str]) -> None:
    deadline = time.monotonic() + 30
    while text not in written():
        assert time.monotonic() < deadline, f"{text!r} is not in {written()!r}"
        threading.Event().wait(0.005)


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
        _run("auto", lambda: b"".join(pieces).decode(errors="ignore"))
    reader.join(10)
    os.close(leader)
    shown = b"".join(pieces).decode()
    bars = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert any(line.startswith("listing   : 41 images [") for line in bars)
    assert any(line.startswith("converting: 100%") for line in bars)
    assert "/40 [" in shown and "images/s" in shown and "rejected=" in shown


def test_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    _run("auto", written.getvalue)
    lines = written.getvalue().splitlines()
    assert lines[0].startswith("listing: 41 images, ")
    assert lines[-1].startswith("converting: ") and "of 40 images" in lines[-1]
    assert " rejected, " in lines[-1] and "s left" in lines[-1]


def test_json_for_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    _run("json", written.getvalue)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert lines[0] == {**lines[0], "stage": "listing", "unit": "images", "planned": 0}
    assert lines[-1] == {**lines[-1], "stage": "converting", "planned": 40}
    assert lines[-1]["rejected"] * 10 == lines[-1]["done"] > 0
    assert {"seconds", "per_second", "seconds_left"} <= set(lines[-1])


def test_workers_on_this_machine_are_counted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their counts come by files, and are gone with the run."""
    seen: set[tuple[str, int, int]] = set()

    def watch(done: threading.Event) -> None:
        finished = False
        while not finished:
            finished = done.wait(0.01)
            seen.update((each.name, each.done, each.total) for each in PROGRESS.stages())

    monkeypatch.setattr(progress, "_print_lines", watch)
    words = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "progress": "plain"}
    ran = convert(*words, output=tmp_path / "out", **flags)
    assert ran.code == 0, ran.err
    assert {("listing", 18, 0), ("converting", 18, 18), ("publishing", 2, 2)} <= seen


def test_the_stages_of_a_run(photos: Path, stems: dict[str, str], tmp_path: Path) -> None:
    """In their order, with all that they did."""
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    (tmp_path / "labels.csv").write_text(f"id,label\n{rows}absent,cat\n")
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv", "num_shards": 2}
    assert convert(output=tmp_path / "out", **flags).code == 0
    assert [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()] == [
        ("listing", 18, 0),
        ("reading", 19, 0),
        ("planning", 19, 0),
        ("converting", 18, 18),
        ("publishing", 2, 2),
    ]
    check_sound(tmp_path / "out")
    assert PROGRESS.stages() == [Stage("verifying", "records", 18, 18, 0)]


def test_the_stages_of_a_run_over_rows_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    flags = {"labels": tmp_path / "t.csv", "layout": "rows", "output": tmp_path / "out"}
    assert convert(**flags).code == 0
    assert [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()] == [
        ("reading", 2, 0),
        ("converting", 2, 2),
        ("publishing", 1, 1),
    ]


def test_off_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with progress.show_progress("off"):
        PROGRESS.count("listing", 41)
    assert written.getvalue() == ""


class TestProgress:
    @pytest.fixture(autouse=True)
    def quicker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that a line falls into each stage of a short run."""
        monkeypatch.setattr(progress, "_LINE_SECONDS", 0.001)

    def test_plain_lines_tell_rate_and_time_left(self, photos: Path, tmp_path: Path) -> None:
        ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", progress="plain")
        assert ran.code == 0
        lines = [line for line in ran.err.splitlines() if line.startswith("converting: ")]
        assert lines
        assert all(" of 18 images, 0 rejected, " in line for line in lines)
        assert all(line.endswith(" s left") and " images/s, " in line for line in lines)
        assert lines[-1].startswith("converting: 18 of 18 images")

    def test_auto_is_plain_where_there_is_no_terminal(self, photos: Path, tmp_path: Path) -> None:
        ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", progress="auto")
        assert "\nconverting: 18 of 18 images" in f"\n{ran.err}"

    def test_rejected_images_count(self, tmp_path: Path) -> None:
        draw(tmp_path / "cat" / "good.jpg")
        (tmp_path / "cat" / "empty.jpg").touch()
        flags = {"images": f"{tmp_path}/cat/*.jpg", "label_from": "directory"}
        ran = convert(**flags, output=tmp_path / "out", max_rejected="50%", progress="json")
        lines = map(json.loads, ran.err.splitlines())
        last = [line for line in lines if line["stage"] == "converting"][-1]
        assert (last["done"], last["planned"], last["rejected"]) == (2, 2, 1)
