"""One writer owns the terminal: live lines stay whole whatever else is written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline.run.progress import Screen
from tests.pipeline.terminal import terminal


@pytest.mark.parametrize("columns", [80, 120, 200])
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
        assert shown.close() == [
            "a warning of Python",
            "a line of C++",
            "half a line",
            "20%",
            "one: 3",
            "two: 2",
            "three: 2",
            "the summary",
        ]


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
