"""A supervised command ends as one that is run directly."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from pipeline.run.supervise import supervise

class Held:
    def __del__(self):
        print("freed")

held = Held()

def command():
    atexit.register(print, "exit handler")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    print("written", end=" ")
    {end}

sys.exit(supervise(command))
"""


def run(end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(end=end)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("code", [0, 3])
def test_nothing_is_lost_at_exit(code: int) -> None:
    ran = run(f"return {code}")
    # The child ends before its objects are freed; the parent frees its own.
    assert ran.stdout == "written thread\nexit handler\nfreed\n"
    assert (ran.returncode, ran.stderr) == (code, "")


def test_an_error_of_the_program_has_a_traceback() -> None:
    ran = run("raise LookupError('a bug')")
    assert ran.returncode == 1
    assert ran.stdout.startswith("written thread\nexit handler\n")
    assert ran.stderr.rstrip().endswith("LookupError: a bug")
