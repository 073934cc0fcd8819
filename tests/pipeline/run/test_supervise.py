"""A command ends with all that it has printed, whether it runs in a child or not."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from pipeline.command_line import start

class Held:
    def __del__(self):
        print("freed")

held = Held()

def command():
    atexit.register(print, "exit handler")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    print("written", end=" ")
    {end}

sys.exit(start({name!r}, command))
"""


def run(end: str, name: str = "convert") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(end=end, name=name)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "code"), [("convert", 0), ("convert", 3), ("show", 0), ("show", 3)]
)
def test_nothing_is_lost_at_exit(name: str, code: int) -> None:
    ran = run(f"return {code}", name)
    # Objects are not freed in the process that runs the command; the parent frees its own.
    assert ran.stdout == "written thread\nexit handler\n" + "freed\n" * (name == "convert")
    assert (ran.returncode, ran.stderr) == (code, "")


def test_an_error_of_the_program_has_a_traceback() -> None:
    ran = run("raise LookupError('a bug')")
    assert ran.returncode == 1
    assert ran.stdout.startswith("written thread\nexit handler\n")
    assert ran.stderr.rstrip().endswith("LookupError: a bug")


def test_a_crash_outside_of_decoders_is_tried_once_more() -> None:
    ran = run("import os; print('run', file=sys.stderr, flush=True); os.abort()")
    assert ran.returncode == 128 + 6
    first, message, second = ran.stderr.splitlines()
    assert first == second == "run" and message.startswith("the run crashed (SIGABRT), probably")
