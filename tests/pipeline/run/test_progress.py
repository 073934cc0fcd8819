"""On a terminal, progress is bars with rate and time left; elsewhere it is lines."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any

import pytest

from pipeline.run import progress
from pipeline.run.progress import Screen
from tests.marks import cases
from tests.pipeline.commands import ROOT, check_sound, convert
from tests.pipeline.terminal import terminal
from transforms.storage.metrics import _PLACES, PROGRESS, WORKERS_FOLDER, Stage


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_SECONDS", 0.02)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_RATE_SECONDS", 0.0)


# One writer owns the terminal: live lines stay whole whatever else is written.


@pytest.mark.parametrize("columns", [80, 200])
def test_what_others_write_is_above_the_live_lines(columns: int) -> None:
    with terminal(columns) as shown:
        screen = Screen(shown.stream)
        screen.draw(["one: 1", "two: 1"])
        print("a warning of Python", file=shown.stream, flush=True)
        os.write(shown.follower, b"a line of C++\nhalf a ")
        screen.draw(["one: 2", "two: 1", "three: 1"])
        os.write(shown.follower, b"line\n10%\r20%\r\n")
        shown.wait_for(lambda lines: "half a line" in lines and "20%" in lines)
        screen.draw(["one: 3", "two: 2", "three: 2"])
        screen.close()
        print("the summary", file=shown.stream, flush=True)
        lines = shown.close()
    assert lines[:4] == ["a warning of Python", "a line of C++", "half a line", "20%"]
    assert lines[4:] == ["one: 3", "two: 2", "three: 2", "the summary"]


def test_lines_are_cut_to_the_width() -> None:
    with terminal(40) as shown:
        screen = Screen(shown.stream)
        for count in range(3):
            screen.draw([f"{count}" * 100, "short"])
        screen.close()
        assert shown.close() == ["2" * 39, "short"]


def test_what_a_child_writes_is_not_lost_at_the_end() -> None:
    with terminal(80) as shown:
        screen = Screen(shown.stream)
        screen.draw(["bar"])
        code = "import sys; sys.stderr.write('no line feed')"
        subprocess.run([sys.executable, "-c", code], stderr=shown.follower, check=True)
        screen.close()
        assert shown.close() == ["no line feed", "bar"]


def test_a_terminal_that_is_gone_stops_nothing() -> None:
    with terminal(80) as shown:
        screen = Screen(shown.stream)
        os.close(shown._leader)
        screen.draw(["bar"])
        screen.close()
        shown._leader = os.open(os.devnull, os.O_RDONLY)


# The progress of a run.


@pytest.mark.parametrize("columns", [80, 200])
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
                PROGRESS.count("converting", 10, 1)
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


@cases(
    # A shard that is tried again.
    (Stage("converting", "images", 40, 45, 0), 2.0, 22.5, ["converting: 100%|", " 40/40 ["]),
    (Stage("publishing", "files", 40, 4, 0), 20.0, 0.2, [" 4/40 [", "5.00s/files]"]),
    (Stage("converting", "images", 40, 4, 1), 0.5, None, [" 4/40 [00:00, rejected=1]"]),
    (Stage("listing", "images", 0, 52, 0), 0.5, None, ["listing   : 52 images [00:00]"]),
)
def test_a_bar(stage: Stage, seconds: float, rate: float | None, says: list[str]) -> None:
    bar = progress._bar(stage, seconds, rate, 79)
    assert [each for each in says if each not in bar] == []


def test_a_rate_is_one_of_a_second_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_RATE_SECONDS", 1.0)
    now, rates = 100.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = progress._Clock()
    for done, total in ((5, 0), (20, 0), (20, 0), (20, 40), (20, 40), (40, 40), (40, 40)):
        now += 0.8
        [(_, _, rate)] = clock.look([Stage("converting", "images", total, done, 0)])
        rates.append(rate)
    # Not in the first second; while more are known to come, time that passes without one counts.
    assert rates == [None, *map(pytest.approx, (12.5, 12.5, 6.25, 5, 8.3333333, 8.3333333))]


def lines_of(style: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """The lines of a conversion of 40 images that continues when its progress is shown."""
    written = io.StringIO()
    patch.setattr(sys, "stderr", written)
    deadline = time.monotonic() + 1200

    def wait_for(text: str) -> None:
        while text not in written.getvalue():
            assert time.monotonic() < deadline, f"{text!r} is not in {written.getvalue()!r}"
            threading.Event().wait(0.005)

    with progress.show_progress(style):
        PROGRESS.count("listing", 41)
        wait_for("listing")
        PROGRESS.count("planning", 41)
        PROGRESS.plan(40)
        for done in range(10, 50, 10):
            PROGRESS.count("converting", 10, 1)
            wait_for(str(done))
    lines = written.getvalue().splitlines()
    return [json.loads(line) for line in lines] if style == "json" else lines


def test_lines_without_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_RATE_SECONDS", 60.0)
    assert lines_of("plain", monkeypatch)[-1] == "converting: 40 of 40 images, 4 rejected"
    last = lines_of("json", monkeypatch)[-1]
    assert last["per_second"] is None and "seconds_left" not in last


def test_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = lines_of("auto", monkeypatch)
    assert first.startswith("listing: 41 images, ")
    assert last.startswith("converting: ") and "of 40 images" in last
    assert " rejected, " in last and "s left" in last


def test_json_for_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run of many seconds, of which nothing is left at the end."""
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: 20 * clock())
    first, *_, last = lines_of("json", monkeypatch)
    assert first == {**first, "stage": "listing", "unit": "images", "planned": 0}
    assert last == {**last, "stage": "converting", "planned": 40, "done": 40, "rejected": 4}
    assert last["seconds"] > 1 and last["per_second"] > 0 and last["seconds_left"] == 0


def test_off_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with progress.show_progress("off"):
        PROGRESS.count("listing", 41)
    assert written.getvalue() == ""


@pytest.mark.slow
def test_a_run_on_a_terminal(photos: Path, tmp_path: Path) -> None:
    """One file needs TensorFlow, which prints much when it starts."""
    folder = shutil.copytree(photos / "cat", tmp_path / "photos" / "cat")
    data = (folder / "cat-0.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(data[: len(data) // 2])
    words = [f"--images={folder}/*.jpg", "--label_from=none", "--max_rejected=50%"]
    command = [sys.executable, "-m", "pipeline.convert", *words, f"--output={tmp_path}/out"]
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
    live = [line.split(":")[0].strip() for line in lines[first - 2 : last + 1]]
    assert live == ["listing", "planning", "converting", "publishing"], seen
    assert lines[0] == "Decided"
    assert "images   7 matched = 6 written + 1 rejected" in lines[last:]
    assert not [line for line in lines if "█" in line and line not in bars]


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
    """The stages come in order, with all of their counts; a shard and its index are two files."""
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    (tmp_path / "labels.csv").write_text(f"id,label\n{rows}absent,cat\n")
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv", "num_shards": 2}
    assert convert(output=tmp_path / "out", **flags).code == 0
    assert [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()] == [
        *(("listing", 18, 0), ("reading", 19, 0), ("planning", 19, 0)),
        *(("converting", 18, 18), ("publishing", 4, 4)),
    ]
    check_sound(tmp_path / "out")
    assert PROGRESS.stages() == [Stage("verifying", "records", 18, 18, 0)]


def test_the_stages_of_a_run_over_rows_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    flags = {"labels": tmp_path / "t.csv", "layout": "rows", "output": tmp_path / "out"}
    assert convert(**flags).code == 0
    stages = [(stage.name, stage.done, stage.total) for stage in PROGRESS.stages()]
    assert stages == [("reading", 2, 0), ("converting", 2, 2), ("publishing", 2, 2)]


@pytest.mark.parametrize("by", ["class_names", "labels"])
def test_what_is_rejected_before_it_reaches_a_shard_is_done_too(
    by: str, photos: Path, stems: dict[str, str], tmp_path: Path
) -> None:
    """The bar ended below 100%, and the summary names it among the rejected."""
    rows = [f"{stem},{label}" for stem, label in sorted(stems.items())]
    lines = ["cat", "dog"] if by == "class_names" else ["id,label", *rows[6:]]
    (tmp_path / "file.txt").write_text("\n".join(lines))
    flags = {"images": f"{photos}/*/*.jpg", by: tmp_path / "file.txt"}
    ran = convert(output=tmp_path / "out", max_rejected="50%", **flags)
    assert "images   18 matched = 12 written + 6 rejected" in ran.out
    stage = next(stage for stage in PROGRESS.stages() if stage.name == "converting")
    assert stage == Stage("converting", "images", 18, 18, 6)


def test_plain_lines_tell_rate_and_time_left(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` is plain where there is no terminal."""
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.001)
    ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", progress="auto")
    lines = [line for line in ran.err.splitlines() if line.startswith("converting: ")]
    assert ran.code == 0 and lines[-1].startswith("converting: 18 of 18 images, 0 rejected, ")
    assert all(line.endswith(" s left") and " images/s, " in line for line in lines)
