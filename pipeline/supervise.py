"""Runs a command in a child process, so that a crashing decoder does not end the run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from transforms.core.in_flight import suspects

# Signals that a process sends to itself by a bug in native code.
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}


def supervise(command: Callable[[], int]) -> int:
    """Runs a command in a child process, and again when a decoder crashed it.

    Each time at least one more image is known that must be decoded elsewhere, see
    `transforms.core.in_flight`; finished shards are not written again.

    Returns:
        the command's exit code; 128 and the signal's number when one ended it.
    """
    while True:
        known = suspects()
        status = _run_child(command)
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return code
        if -code not in _CRASHES or suspects() <= known:
            return 128 - code
        name = signal.Signals(-code).name
        print(f"a decoder crashed ({name}); going on without the image", file=sys.stderr)


def _run_child(command: Callable[[], int]) -> int:
    """The status of a child process that ran the command, as `os.waitpid` gives it."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent_reads, parent_lives = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(parent_lives)
        threading.Thread(target=_end_with_parent, args=(parent_reads,), daemon=True).start()
        # What `sys.exit` in the child must not do is run the parent's code.
        sys.exit(command())
    os.close(parent_reads)
    try:
        with _passing_signals_on(child):
            _, status = os.waitpid(child, 0)
            return status
    finally:
        os.close(parent_lives)


def _end_with_parent(parent: int) -> None:
    """Ends this process when its parent is gone, even if that was killed."""
    os.read(parent, 1)
    os._exit(128 + signal.SIGKILL)


@contextlib.contextmanager
def _passing_signals_on(child: int) -> Iterator[None]:
    """A terminal sends Ctrl-C to both; what ends only the parent must end the child too."""

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    former = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
