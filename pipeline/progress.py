"""Progress of a run: a bar for each stage on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apache_beam.metrics import MetricsFilter
from tqdm import tqdm

from transforms.core.scratch import scratch_folder
from transforms.metrics import NAMESPACE, PROGRESS, STAGES, WORKERS_FOLDER, Stage

_BAR_SECONDS = 0.2
_LINE_SECONDS = 5.0
_POLL_SECONDS = 10.0


@contextlib.contextmanager
def show_progress(style: str) -> Iterator[None]:
    """Shows how far the run in this process is, or in its workers, until the block ends.

    Args:
        style: `bar`, `plain`, `json` or `off`; `auto` is a bar on a terminal, else plain lines.
    """
    if style == "auto":
        style = "bar" if sys.stderr.isatty() else "plain"
    if style == "off":
        PROGRESS.clear()
        yield
        return
    watch = {"bar": _show_bars, "plain": _print_lines, "json": _print_json}[style]
    with _workers_counts(), _thread(watch):
        yield


@contextlib.contextmanager
def poll_metrics(read: Callable[[], Mapping[str, int]]) -> Iterator[None]:
    """Puts the counters of a job that runs elsewhere into `PROGRESS` until the block ends.

    Args:
        read: asks for them; what it raises is left for another try.
    """

    def poll(done: threading.Event) -> None:
        while not done.wait(_POLL_SECONDS):
            with contextlib.suppress(Exception):
                _take_over(read())

    with _thread(poll):
        yield


def read_counters(result: Any) -> dict[str, int]:
    """The project's counters of a job by name, as far as its runner knows them by now."""
    counters: dict[str, int] = {}
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    for each in found:
        name = each.key.metric.name
        value = each.attempted if each.committed is None else each.committed
        counters[name] = counters.get(name, 0) + (value or 0)
    return dict(sorted(counters.items()))


def _take_over(counters: Mapping[str, int]) -> None:
    found, rejected = counters.get("images_found", 0), counters.get("images_rejected", 0)
    done = counters.get("images_written", 0) + rejected
    for stage, count in {"listing": found, "reading": counters.get("rows_read", 0)}.items():
        if count:
            PROGRESS.replace(stage, total=0, done=count, rejected=0)
    if done:
        PROGRESS.replace("converting", total=found, done=done, rejected=rejected)


@contextlib.contextmanager
def _workers_counts() -> Iterator[None]:
    """Lets worker processes that are started in the block leave their counts in a folder."""
    with scratch_folder() as folder:
        PROGRESS.clear(workers=folder)
        os.environ[WORKERS_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[WORKERS_FOLDER]


@contextlib.contextmanager
def _thread(target: Callable[[threading.Event], None]) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=target, args=(done,), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show_bars(done: threading.Event) -> None:
    bars: dict[str, tqdm[Any]] = {}
    finished = False
    while not finished:
        finished = done.wait(_BAR_SECONDS)
        for stage in PROGRESS.stages():
            if stage.name not in bars:
                bars[stage.name] = _new_bar(stage)
            _update(bars[stage.name], stage)
        _close_earlier(bars)
    for bar in bars.values():
        bar.close()


def _new_bar(stage: Stage) -> tqdm[Any]:
    return tqdm(desc=f"{stage.name:<10}", unit=f" {stage.unit}", dynamic_ncols=True)


def _update(bar: tqdm[Any], stage: Stage) -> None:
    if bar.disable:
        # It was closed: a later stage is on.
        return
    bar.total = stage.total or None
    if stage.name == "converting":
        bar.set_postfix(rejected=stage.rejected, refresh=False)
    bar.update(stage.done - bar.n)


def _close_earlier(bars: Mapping[str, tqdm[Any]]) -> None:
    """Ends the bars before the last one, whose rates would fall; inputs are read side by side."""
    last = max((list(STAGES).index(name) for name in bars), default=0)
    for name, bar in bars.items():
        if list(STAGES).index(name) < last and last >= list(STAGES).index("planning"):
            bar.close()


def _print_lines(done: threading.Event) -> None:
    def line(stage: Stage, seconds: float) -> str:
        rate = stage.done / seconds
        if not stage.total:
            return f"{stage.name}: {stage.done} {stage.unit}, {rate:.0f} {stage.unit}/s"
        rejected = f"{stage.rejected} rejected, " if stage.name == "converting" else ""
        return (
            f"{stage.name}: {stage.done} of {stage.total} {stage.unit}, {rejected}"
            f"{rate:.0f} {stage.unit}/s, {_seconds_left(stage, rate):.0f} s left"
        )

    _print_every(done, line)


def _print_json(done: threading.Event) -> None:
    def line(stage: Stage, seconds: float) -> str:
        rate = stage.done / seconds
        told: dict[str, Any] = {
            "stage": stage.name,
            "unit": stage.unit,
            "done": stage.done,
            "planned": stage.total,
            "rejected": stage.rejected,
            "seconds": round(seconds, 1),
            "per_second": round(rate, 1),
        }
        if stage.total:
            told["seconds_left"] = round(_seconds_left(stage, rate))
        return json.dumps(told)

    _print_every(done, line)


def _seconds_left(stage: Stage, rate: float) -> float:
    return max(0, stage.total - stage.done) / rate if rate else 0


def _print_every(done: threading.Event, line: Callable[[Stage, float], str]) -> None:
    """Prints a line about the stage that is on, and others that went on since their last line.

    The seconds of a stage count from when it was first seen.
    """
    started: dict[str, float] = {}
    told: dict[str, Stage] = {}
    waited = 0.0
    while not done.wait(min(_BAR_SECONDS, _LINE_SECONDS)):
        now = time.monotonic()
        stages = PROGRESS.stages()
        for stage in stages:
            started.setdefault(stage.name, now)
        waited += min(_BAR_SECONDS, _LINE_SECONDS)
        if waited < _LINE_SECONDS:
            continue
        waited = 0.0
        for stage in stages:
            if stage != told.get(stage.name) or stage is stages[-1]:
                seconds = max(now - started[stage.name], 1e-3)
                print(line(stage, seconds), file=sys.stderr, flush=True)
            told[stage.name] = stage
