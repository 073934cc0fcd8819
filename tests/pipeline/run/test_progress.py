"""On a terminal, progress is a bar with rate and time left; elsewhere it is lines."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.run import progress
from tests.pipeline.commands import ROOT, check_sound, convert
from tests.pipeline.terminal import terminal
from transforms.storage.metrics import _PLACES, PROGRESS, WORKERS_FOLDER, Stage


def _run(style: str, written: Callable[[], str]) -> None:
    """A conversion of 40 images that continues when its progress is shown."""
    with progress.show_progress(style):
        PROGRESS.count("listing", 41)
        _wait_for("listing", written)
        PROGRESS.count("planning", 41)
        PROGRESS.plan(40)
        for done in range(10, 50, 10):
            PROGRESS.advance(10, 1)
            _wait_for(str(done), written)


def _wait_for(text: str, written: Callable[[], str]) -> None:
    deadline = time.monotonic() + 60
    while text not in written():
        assert time.monotonic() < deadline, f"{text!r} is not in {written()!r}"
        threading.Event().wait(0.005)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_SECONDS", 0.02)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_RATE_SECONDS", 0.0)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_bars_on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the screen, with what libraries write in between and the summary behind."""
    with terminal(columns) as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        with progress.show_progress("auto"):
            PROGRESS.count("listing", 41)
            shown.wait_for(lambda lines: any(line.startswith("listing") for line in lines))
            PROGRESS.count("planning", 40)
            PROGRESS.plan(40)
            for done in range(10, 50, 10):
                os.write(shown.follower, f"I0000 a line of C++ {done}\n".encode())
                PROGRESS.advance(10, 1)
                shown.wait_for(lambda lines, done=done: f" {done}/40 [" in "".join(lines))  # type: ignore[misc]
            # Counted at the very end: nobody would draw it any more.
            PROGRESS.count("listing", 1)
            PROGRESS.begin("publishing", 2)
            PROGRESS.count("publishing", 2)
        print("split   records", file=shown.stream, flush=True)
        monkeypatch.undo()
        lines = shown.close()
    assert lines[:4] == [f"I0000 a line of C++ {done}" for done in range(10, 50, 10)]
    listing, planning, converting, publishing, summary = lines[4:]
    assert listing.startswith("listing   : 42 images [")
    assert planning.startswith("planning  : 40 names [")
    assert converting.startswith("converting: 100%|")
    assert " 40/40 [" in converting and converting.endswith(" images/s, rejected=4]")
    assert publishing.startswith("publishing: 100%|") and " 2/2 [" in publishing
    assert all(len(line) < columns for line in lines)
    assert summary == "split   records"


def test_a_bar_of_a_shard_that_is_tried_again_ends_at_all() -> None:
    bar = progress._bar(Stage("converting", "images", 40, 45, 0), 2.0, 22.5, 79)
    assert bar.startswith("converting: 100%|") and " 40/40 [" in bar
    bar = progress._bar(Stage("publishing", "files", 40, 4, 0), 20.0, 0.2, 79)
    assert " 4/40 [" in bar and "5.00s/files]" in bar


def test_a_rate_is_one_of_a_second_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_RATE_SECONDS", 1.0)
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = progress._Clock()
    rates = []
    for done, total in ((5, 0), (20, 0), (20, 0), (20, 40), (20, 40), (40, 40), (40, 40)):
        now += 0.8
        stage = Stage("converting", "images", total, done, 0)
        [(_, _, rate)] = clock.look([stage])
        rates.append(rate)
    # Not in the first second; while more are known to come, time that passes without one counts.
    assert rates == [
        None,
        *(pytest.approx(each) for each in (12.5, 12.5, 6.25, 5, 8.3333333, 8.3333333)),
    ]


def test_lines_without_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_RATE_SECONDS", 60.0)
    for style in ("plain", "json"):
        written = io.StringIO()
        monkeypatch.setattr(sys, "stderr", written)
        _run(style, written.getvalue)
        last = written.getvalue().splitlines()[-1]
        if style == "plain":
            assert last == "converting: 40 of 40 images, 4 rejected"
        else:
            assert json.loads(last)["per_second"] is None and "seconds_left" not in last
    bar = progress._bar(Stage("converting", "images", 40, 4, 1), 0.5, None, 79)
    assert " 4/40 [00:00, rejected=1]" in bar
    bar = progress._bar(Stage("listing", "images", 0, 52, 0), 0.5, None, 79)
    assert bar == "listing   : 52 images [00:00]"


@pytest.mark.slow
def test_a_run_on_a_terminal(photos: Path, tmp_path: Path) -> None:
    """One file needs TensorFlow, which prints much when it starts."""
    folder = tmp_path / "photos"
    shutil.copytree(photos / "cat", folder / "cat")
    data = (folder / "cat" / "cat-0.jpg").read_bytes()
    (folder / "cat" / "cut.jpg").write_bytes(data[: len(data) // 2])
    words = ["--images", f"{folder}/*/*.jpg", "--label_from", "directory", "--max_rejected", "50%"]
    command = [sys.executable, "-m", "pipeline.convert", *words, "--output", str(tmp_path / "out")]
    with terminal(80) as shown:
        done = subprocess.run(command, cwd=ROOT, stdout=shown.follower, stderr=shown.follower)
        lines = shown.close()
    seen = "\n".join(lines)
    assert done.returncode == 0, seen
    bars = [line for line in lines if ": 100%|" in line]
    assert [bar.split(":")[0].strip() for bar in bars] == ["converting", "publishing"], seen
    assert " 7/7 [" in bars[0] and "rejected=1" in bars[0]
    first, last = lines.index(bars[0]), lines.index(bars[-1])
    # The live lines are together, after what was decided and before the summary.
    assert [line.split(":")[0].strip() for line in lines[first - 2 : last + 1]] == [
        *("listing", "planning", "converting", "publishing")
    ], seen
    assert lines[0] == "Decided"
    assert "images   7 matched = 6 written + 1 rejected" in lines[last:]
    assert not [line for line in lines if "█" in line and line not in bars]


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


def test_nothing_is_left_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    written, clock = io.StringIO(), time.monotonic
    monkeypatch.setattr(sys, "stderr", written)
    # A run of many seconds.
    monkeypatch.setattr(time, "monotonic", lambda: 20 * clock())
    _run("json", written.getvalue)
    last = json.loads(written.getvalue().splitlines()[-1])
    assert last["seconds"] > 1 and (last["done"], last["seconds_left"]) == (40, 0)


@pytest.mark.slow
def test_workers_on_this_machine_are_counted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their counts come by files, and are gone with the run; each converts its shard."""
    seen: set[tuple[str, int, int]] = set()
    by_worker: dict[str, int] = {}

    def watch(_: object, done: threading.Event) -> None:
        finished = False
        while not finished:
            finished = done.wait(0.01)
            seen.update((each.name, each.done, each.total) for each in PROGRESS.stages())
            for file in Path(os.environ[WORKERS_FOLDER]).iterdir():
                cells = array("q", file.read_bytes())
                by_worker[file.name] = cells[_PLACES["converting"] + 2] if cells else 0

    monkeypatch.setattr(progress, "_print_every", watch)
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "progress": "plain"}
    ran = convert("--workers=2", output=tmp_path / "out", **flags)
    assert ran.code == 0, ran.err
    assert {("listing", 18, 0), ("converting", 18, 18), ("publishing", 4, 4)} <= seen
    assert len(by_worker) == 2 and all(by_worker.values()) and sum(by_worker.values()) == 18


def test_the_stages_of_a_run(photos: Path, stems: dict[str, str], tmp_path: Path) -> None:
    """The stages come in order, with all of their counts."""
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    (tmp_path / "labels.csv").write_text(f"id,label\n{rows}absent,cat\n")
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv", "num_shards": 2}
    assert convert(output=tmp_path / "out", **flags).code == 0
    assert [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()] == [
        ("listing", 18, 0),
        ("reading", 19, 0),
        ("planning", 19, 0),
        ("converting", 18, 18),
        ("publishing", 4, 4),  # each shard and its index
    ]
    check_sound(tmp_path / "out")
    assert PROGRESS.stages() == [Stage("verifying", "records", 18, 18, 0)]


def test_what_planning_rejects_is_done_too(photos: Path, tmp_path: Path) -> None:
    """The bar ended below 100%: such an image reaches no shard."""
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    flags = {"images": f"{photos}/*/*.jpg", "class_names": tmp_path / "classes.txt"}
    assert convert(output=tmp_path / "out", max_rejected="50%", **flags).code == 0
    stage = next(stage for stage in PROGRESS.stages() if stage.name == "converting")
    assert stage == Stage("converting", "images", 18, 18, 6)


def test_what_the_join_rejects_is_counted_as_in_the_summary(
    photos: Path, stems: dict[str, str], tmp_path: Path
) -> None:
    """It reaches no shard, but the summary names it among the rejected."""
    rows = [f"{stem},{label}" for stem, label in sorted(stems.items())][2:]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows]))
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv"}
    ran = convert(output=tmp_path / "out", max_rejected="50%", **flags)
    assert "images   18 matched = 16 written + 2 rejected" in ran.out
    stage = next(stage for stage in PROGRESS.stages() if stage.name == "converting")
    assert stage == Stage("converting", "images", 18, 18, 2)


def test_the_stages_of_a_run_over_rows_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    flags = {"labels": tmp_path / "t.csv", "layout": "rows", "output": tmp_path / "out"}
    assert convert(**flags).code == 0
    assert [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()] == [
        ("reading", 2, 0),
        ("converting", 2, 2),
        ("publishing", 2, 2),
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
        """Prints more often, so that each stage of a short run prints a line."""
        monkeypatch.setattr(progress, "_LINE_SECONDS", 0.001)

    def test_plain_lines_tell_rate_and_time_left(self, photos: Path, tmp_path: Path) -> None:
        ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", progress="plain")
        assert ran.code == 0
        lines = [line for line in ran.err.splitlines() if line.startswith("converting: ")]
        assert lines
        assert all(" of 18 images, 0 rejected, " in line for line in lines)
        assert all(line.endswith(" s left") and " images/s, " in line for line in lines)
        assert lines[-1].startswith("converting: 18 of 18 images")

    @pytest.mark.slow
    def test_auto_is_plain_where_there_is_no_terminal(self, photos: Path, tmp_path: Path) -> None:
        ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", progress="auto")
        assert "\nconverting: 18 of 18 images" in f"\n{ran.err}"
