"""Progress of a run, on a screen or in lines."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from apache_beam.metrics import MetricsFilter
from tqdm import tqdm

from pipeline.run.supervise import in_thread
from transforms.core.machine import scratch_folder
from transforms.storage.metrics import NAMESPACE, PROGRESS, WORKERS_FOLDER, Stage

# The one writer of a terminal while a run shows live lines on it.

# How long to wait for output written before the end; child processes may hold the pipe longer.
_DRAIN_SECONDS = 1.0

# Cursor up by some lines, and clear from there to the end of the screen.
_BACK = "\x1b[{rows}A\x1b[J"


class Screen:
    """Shows live lines at the bottom of a terminal, and all other output above them.

    All output of this process and its children to the streams, C++ libraries included,
    goes through a pipe and is printed line by line above the live lines. Each live line ends in
    a line feed: a killed process leaves the cursor at the start of an empty line.
    """

    def __init__(self, *streams: TextIO) -> None:
        """Takes the terminal over.

        Args:
            streams: open on one terminal, such as standard error and standard output.
        """
        self._lock = threading.Lock()
        self._lines: Sequence[str] = ()
        self._rest = b""
        self._terminal = os.dup(streams[0].fileno())
        self._saved: list[tuple[int, int]] = []
        source, sink = os.pipe()
        for stream in streams:
            stream.flush()
            self._saved.append((stream.fileno(), os.dup(stream.fileno())))
            os.dup2(sink, stream.fileno())
        os.close(sink)
        self._streams = streams
        self._reader = threading.Thread(
            target=self._read, args=(source,), name="screen", daemon=True
        )
        self._reader.start()

    @property
    def width(self) -> int:
        """Columns that a live line may fill."""
        with contextlib.suppress(OSError):
            if columns := os.get_terminal_size(self._terminal).columns:
                return columns - 1
        return 79

    def draw(self, lines: Sequence[str]) -> None:
        """Replaces the live lines; lines wider than the terminal are cut."""
        width = self.width
        with self._lock:
            erased = self._erase()
            self._lines = [line[:width] for line in lines]
            self._write(erased + self._drawn())

    def close(self) -> None:
        """Gives the terminal back; the live lines stay as they are."""
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.flush()
        for number, saved in self._saved:
            os.dup2(saved, number)
            os.close(saved)
        # The pipe ends when no process holds it any more.
        self._reader.join(_DRAIN_SECONDS)
        with self._lock:
            rest, self._rest = self._rest, b""
            self._write(self._erase() + _text(rest) + ("\n" if rest else "") + self._drawn())
            self._lines = ()
            # A reader that still waits for child processes prints their output.
            if not self._reader.is_alive():
                os.close(self._terminal)

    def _read(self, source: int) -> None:
        with open(source, "rb", buffering=0) as pipe:
            while data := pipe.read(65536):
                with self._lock:
                    self._print(data)

    def _print(self, data: bytes) -> None:
        """Prints complete lines above the live ones, and keeps an incomplete line."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if whole:
            # Of a line that was overwritten in place, the last version counts.
            shown = (_text(line.rstrip(b"\r").rpartition(b"\r")[2]) for line in whole)
            self._write(self._erase() + "".join(f"{line}\n" for line in shown) + self._drawn())

    def _erase(self) -> str:
        """The codes that remove the live lines, which a narrower terminal has wrapped."""
        width = self.width + 1
        rows = sum(max(1, -(-len(line) // width)) for line in self._lines)
        return _BACK.format(rows=rows) if rows else ""

    def _drawn(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        # The terminal is gone; the run continues.
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._terminal, data) :]


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


# Progress of a run: a bar for each stage on a terminal, lines elsewhere.

_BAR_SECONDS = 0.2
_LINE_SECONDS = 5.0
_POLL_SECONDS = 10.0

# A rate is not shown before a stage has counted for this long.
_RATE_SECONDS = 1.0


@contextlib.contextmanager
def show_progress(style: str) -> Iterator[None]:
    """Shows the progress of this process and its workers until the block ends.

    Args:
        style: `bar`, `plain`, `json` or `off`; `auto` is a bar on a terminal, else plain lines.
    """
    if style == "auto":
        style = "bar" if sys.stderr.isatty() else "plain"
    if style == "off":
        PROGRESS.clear()
        yield
        return
    lines = {"plain": _plain_line, "json": _json_line}
    watch = functools.partial(_print_every, lines[style]) if style in lines else _show_bars
    # Worker processes that are started in the block write their counts to a folder.
    with scratch_folder() as folder:
        PROGRESS.clear(workers=folder)
        os.environ[WORKERS_FOLDER] = folder
        try:
            with in_thread(watch, "progress"):
                yield
        finally:
            del os.environ[WORKERS_FOLDER]


@contextlib.contextmanager
def poll_metrics(read: Callable[[], Mapping[str, int]]) -> Iterator[None]:
    """Puts the counters of a job that runs elsewhere into `PROGRESS` until the block ends.

    Args:
        read: reads them; if it raises, it is tried again later.
    """

    def poll(done: threading.Event) -> None:
        while not done.wait(_POLL_SECONDS):
            with contextlib.suppress(Exception):
                _take_over(read())

    with in_thread(poll, "progress"):
        yield
    # The job is done: its runner's counters are final.
    with contextlib.suppress(Exception):
        _take_over(read(), is_done=True)


def read_counters(result: Any) -> dict[str, int]:
    """The project's counters of a job by name, as far as its runner has them."""
    counters: dict[str, int] = {}
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    for each in found:
        name = each.key.metric.name
        value = each.attempted if each.committed is None else each.committed
        counters[name] = counters.get(name, 0) + (value or 0)
    return dict(sorted(counters.items()))


def _take_over(counters: Mapping[str, int], *, is_done: bool = False) -> None:
    found, rejected = counters.get("images_found", 0), counters.get("images_rejected", 0)
    done = counters.get("images_written", 0) + rejected
    for stage, count in {"listing": found, "reading": counters.get("rows_read", 0)}.items():
        if count:
            PROGRESS.replace(stage, total=0, done=count, rejected=0)
    if done:
        total = done if is_done else max(found, done)
        PROGRESS.replace("converting", total=total, done=done, rejected=rejected)


def _show_bars(done: threading.Event) -> None:
    """Draws a line for each stage until the event is set, and once more at the end."""
    clock = _Clock()
    streams = [sys.stderr, *([sys.stdout] if sys.stdout.isatty() else [])]
    screen = Screen(*streams)
    try:
        finished = False
        while not finished:
            finished = done.wait(_BAR_SECONDS)
            width = screen.width
            screen.draw([_bar(*timed, width) for timed in clock.look(PROGRESS.stages())])
    finally:
        screen.close()


def _bar(stage: Stage, seconds: float, rate: float | None, width: int) -> str:
    """One line of at most `width` columns, with a bar if the total is known."""
    encoding = (getattr(sys.stderr, "encoding", "") or "").lower()
    # A retried shard counts again.
    done = min(stage.done, stage.total) if stage.total else stage.done
    line: str = tqdm.format_meter(
        done,
        stage.total or None,
        seconds,
        ncols=width,
        prefix=f"{stage.name:<10}",
        ascii=not encoding.startswith("utf"),
        unit=f" {stage.unit}",
        postfix=f"rejected={stage.rejected}" if stage.name == "converting" else "",
        rate=rate,
        bar_format=None if rate else _WITHOUT_RATE[bool(stage.total)],
    )
    # tqdm turns slow rates round: "2.00s/ images".
    return line.replace("s/ ", "s/")[:width]


# Formats of tqdm, by whether the total is known.
_WITHOUT_RATE = {
    False: "{desc}: {n_fmt}{unit} [{elapsed}{postfix}]",
    True: "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
}


class _Clock:
    """How long each stage has taken, and how fast it is."""

    def __init__(self) -> None:
        self._now = time.monotonic()
        self._began: dict[str, float] = {}
        self._moved: dict[str, tuple[Stage, float]] = {}

    def look(self, stages: Sequence[Stage]) -> Iterator[tuple[Stage, float, float | None]]:
        """Stages with their seconds and items per second; one began after the previous call.

        The seconds end now, or at the last change if a later stage runs. Those of the rate end at
        the last change, unless more items are known to come: names wait for the shuffle long after
        all of them are counted. A stage that has not counted for long enough has no rate.
        """
        before, self._now = self._now, time.monotonic()
        for stage in stages:
            began = self._began.setdefault(stage.name, before)
            former, moved = self._moved.get(stage.name, (None, before))
            if former != stage:
                moved = self._now
                self._moved[stage.name] = stage, moved
            counted = (self._now if 0 < stage.done < stage.total else moved) - began
            rate = stage.done / counted if stage.done and counted >= _RATE_SECONDS else None
            yield stage, (self._now if stage is stages[-1] else moved) - began, rate


def _plain_line(stage: Stage, _: float, rate: float | None) -> str:
    of_total = f" of {stage.total}" if stage.total else ""
    parts = [f"{stage.name}: {stage.done}{of_total} {stage.unit}"]
    if stage.name == "converting":
        parts.append(f"{stage.rejected} rejected")
    if rate:
        parts.append(f"{rate:.{0 if rate >= 10 else 1}f} {stage.unit}/s")
        if stage.total:
            parts.append(f"{_seconds_left(stage, rate):.0f} s left")
    return ", ".join(parts)


def _json_line(stage: Stage, seconds: float, rate: float | None) -> str:
    fields: dict[str, Any] = {
        "stage": stage.name,
        "unit": stage.unit,
        "done": stage.done,
        "planned": stage.total,
        "rejected": stage.rejected,
        "seconds": round(seconds, 1),
        "per_second": rate and round(rate, 1),
    }
    if stage.total and rate:
        fields["seconds_left"] = round(_seconds_left(stage, rate))
    return json.dumps(fields)


def _seconds_left(stage: Stage, rate: float) -> float:
    return max(0, stage.total - stage.done) / rate


def _print_every(line: Callable[[Stage, float, float | None], str], done: threading.Event) -> None:
    """Prints a line about the current stage, and about others that changed since their last line.

    A run that was long enough for a line ends with one about its result. The seconds of a
    stage count from when it was first seen.
    """
    clock = _Clock()
    printed: dict[str, Stage] = {}
    period = min(_BAR_SECONDS, _LINE_SECONDS)
    waited = 0.0
    finished = False
    while not finished:
        finished = done.wait(period)
        timed = list(clock.look(PROGRESS.stages()))
        waited += period
        if waited < _LINE_SECONDS and not (finished and printed):
            continue
        waited = 0.0
        for number, (stage, seconds, rate) in enumerate(timed, 1):
            is_current = number == len(timed) and not finished
            if stage != printed.get(stage.name) or is_current:
                print(line(stage, seconds, rate), file=sys.stderr, flush=True)
            printed[stage.name] = stage
