"""Progress of an in-process run: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tqdm import tqdm

from transforms.metrics import PROGRESS

_BAR_SECONDS = 0.2
_LINE_SECONDS = 5.0


@contextlib.contextmanager
def show_progress(style: str) -> Iterator[None]:
    """Shows how far the conversion in this process is, until the block ends.

    Args:
        style: `bar`, `plain`, `json` or `off`; `auto` is a bar on a terminal, else plain lines.
    """
    if style == "auto":
        style = "bar" if sys.stderr.isatty() else "plain"
    if style == "off":
        yield
        return
    done = threading.Event()
    watch = {"bar": _show_bar, "plain": _print_lines, "json": _print_json}[style]
    thread = threading.Thread(target=watch, args=(done,), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show_bar(done: threading.Event) -> None:
    with tqdm(total=0, unit=" images", desc="planning", dynamic_ncols=True, leave=False) as bar:
        finished = False
        while not finished:
            finished = done.wait(_BAR_SECONDS)
            if PROGRESS.planned and bar.total != PROGRESS.planned:
                bar.reset(PROGRESS.planned)
                bar.set_description("converting")
            bar.set_postfix(rejected=PROGRESS.rejected, refresh=False)
            bar.update(PROGRESS.done - bar.n)


def _print_lines(done: threading.Event) -> None:
    def line(seconds: float) -> str:
        rate = PROGRESS.done / seconds
        left = (PROGRESS.planned - PROGRESS.done) / rate if rate else 0
        return (
            f"{PROGRESS.done} of {PROGRESS.planned} images, {PROGRESS.rejected} rejected, "
            f"{rate:.0f} images/s, {left:.0f} s left"
        )

    _print_every(done, line)


def _print_json(done: threading.Event) -> None:
    def line(seconds: float) -> str:
        counts = {"done": PROGRESS.done, "planned": PROGRESS.planned, "rejected": PROGRESS.rejected}
        return json.dumps({**counts, "seconds": round(seconds, 1)})

    _print_every(done, line)


def _print_every(done: threading.Event, line: Callable[[float], str]) -> None:
    started = time.monotonic()
    while not done.wait(_LINE_SECONDS):
        if PROGRESS.planned:
            print(line(time.monotonic() - started), file=sys.stderr, flush=True)
