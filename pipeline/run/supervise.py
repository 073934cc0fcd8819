"""Runs a command in a child process, so that a decoder that crashes or hangs does not end the run.

The child and its processes ignore SIGINT: Ctrl-C reaches a whole process group, and one
that is just importing would print a traceback. Only the parent handles it and passes it on to the
child, once, as SIGUSR1.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import re
import resource
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from pipeline.errors import INTERRUPTED, open_standard_streams
from transforms.core.machine import kill_processes
from transforms.images.guard import AGAIN, HANGS, RUN_VARIABLE

# Signals that end a process by a decoder: those of bugs in native code, and the one of our watch.
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, HANGS}

# The parent passes SIGINT on to the child as this signal.
_INTERRUPT = signal.SIGUSR1

# How long a child may take to end by itself after an interrupt or a lost worker.
_GRACE_SECONDS = 10.0

# Beam's name of the thread that waits for a worker process; it fails when the process does.
_BEAM_WORKER_THREAD = "run_worker"

# What that thread raises; a shell around the worker adds 128 to a signal's number.
_EXIT_CODE = re.compile(r"exited with return code (?P<code>-?\d+)")

# Set in the child when a worker has ended, and was not ended by a crash.
_worker_ended = threading.Event()

# What other threads raise when a worker ends; its name, because gRPC is not imported here.
_LOST_CONNECTION = "RpcError"

_KILLED = (
    "the run was killed (SIGKILL), probably because the machine had no memory left; run the same "
    "command again"
)


def supervise(command: Callable[[], int]) -> int:
    """Runs a command in a child process, and once again if a decoder crashed or hung in it.

    Then, all images are decoded in another process, see `transforms.images.guard`; finished shards
    are not written again. SIGINT is ignored once the command has ended: this process is about to
    end, too.

    Returns:
        the command's exit code; 128 plus the signal's number if a signal ended it.
    """
    open_standard_streams()
    code = _code_of(command, run := uuid.uuid4().hex)
    if -code in _CRASHES:
        crashed = f"the run crashed ({signal.Signals(-code).name}), probably in a decoder"
        why = "a decoder hangs" if -code == HANGS else crashed
        print(f"{why}; running again, with decoders in a process of their own", file=sys.stderr)
        code = _code_of(command, AGAIN + run)
    return code if code >= 0 else 128 - code


def _code_of(command: Callable[[], int], run: str) -> int:
    """The exit code of a command in a child process; a signal as a negative number."""
    code = os.waitstatus_to_exitcode(_run_child(command, run))
    if code < 0:
        _kill_started(run)
    if code == -signal.SIGKILL:
        print(_KILLED, file=sys.stderr)
    # Python was exiting, and had removed its handlers.
    return INTERRUPTED if -code == _INTERRUPT else code


@contextlib.contextmanager
def in_thread(target: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Calls a function in another thread until the block ends, which its argument says."""
    done = threading.Event()
    thread = threading.Thread(target=target, args=(done,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _run_child(command: Callable[[], int], run: str) -> int:
    """The status of a child process that ran the command, with the name of the run."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent_reads, parent_lives = os.pipe()
    # Blocked until each side is ready for them.
    signals = {signal.SIGINT, signal.SIGTERM, _INTERRUPT}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        os.close(parent_lives)
        _be_child(command, run, parent_reads, former)
    os.close(parent_reads)
    try:
        with _passing_signals_on(child):
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
            return os.waitpid(child, 0)[1]
    finally:
        os.close(parent_lives)


def _be_child(command: Callable[[], int], run: str, parent: int, mask: Iterable[int]) -> NoReturn:
    """Runs the command and ends this process."""
    os.environ[RUN_VARIABLE] = run
    is_interrupted = False
    codes = ending_at_once()

    def end_now(_: int, __: FrameType | None) -> None:
        os._exit(INTERRUPTED)

    def interrupt(_: int, __: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        # A second Ctrl-C means that the user does not want to wait.
        signal.signal(_INTERRUPT, end_now)
        # Beam waits for its workers, which do not get the signal.
        _kill_started(os.environ[RUN_VARIABLE])
        _end_after(_GRACE_SECONDS, lambda: _end_all(INTERRUPTED))
        raise KeyboardInterrupt

    def unraisable(failure: sys.UnraisableHookArgs) -> None:
        if isinstance(failure.exc_value, KeyboardInterrupt):
            # It arrived during an object's finalizer, which cannot raise: send it again.
            signal.signal(_INTERRUPT, interrupt)
            os.kill(os.getpid(), _INTERRUPT)
        elif not is_interrupted:
            sys.__unraisablehook__(failure)

    def thread_failed(failure: threading.ExceptHookArgs) -> None:
        if is_interrupted:
            return
        if failure.thread is not None and failure.thread.name == _BEAM_WORKER_THREAD:
            _end_likewise(str(failure.exc_value))
            _worker_ended.set()
            _end_after(_GRACE_SECONDS, lambda: _end_without_worker(failure.exc_value))
        elif failure.exc_type.__name__ != _LOST_CONNECTION:
            threading.__excepthook__(failure)

    sys.unraisablehook = unraisable
    threading.excepthook = thread_failed
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(_INTERRUPT, interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = command()
    except BaseException:
        if not is_interrupted:
            raise
        # Some libraries replace it with their own error while they are imported.
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    # Python would now only wait for threads, and print a traceback.
    signal.signal(_INTERRUPT, end_now if is_interrupted else signal.SIG_IGN)
    codes.append(code)
    # `sys.exit` in the child must not run the parent's code.
    sys.exit(code)


def ending_at_once() -> list[int]:
    """A list for an exit code, with which this process ends once exit handlers have run.

    Python would free each object of all modules first, which takes 35 ms, and threads of Arrow that
    still start then may abort the process.
    """
    codes: list[int] = []
    # Exit handlers are called in the reverse order: this is the last one, if it is the first here.
    atexit.register(_end_at_once, codes)
    return codes


def _end_at_once(codes: Sequence[int]) -> None:
    for code in codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_after(seconds: float, end: Callable[[], None]) -> None:
    """Ends this process if it has not ended by itself."""
    grace = threading.Timer(seconds, end)
    grace.daemon = True
    grace.start()


def wait_for_lost_worker() -> None:
    """Waits until it is known how a lost worker ended; if it crashed, so does this process."""
    if RUN_VARIABLE in os.environ:
        _worker_ended.wait(_GRACE_SECONDS)


def _end_likewise(error: str) -> None:
    """Ends this process by the signal that ended its worker, if a decoder was the cause.

    The parent then continues without the images that the worker was decoding.
    """
    found = _EXIT_CODE.search(error)
    code = int(found["code"]) if found else 0
    number = -code if code < 0 else code - 128
    if number not in _CRASHES:
        return
    _kill_started(os.environ[RUN_VARIABLE])
    # This process has no bug to report.
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), number)


def _end_without_worker(error: BaseException | None) -> None:
    """Ends this process: Beam waits forever for a worker that was killed while starting."""
    print(
        f"the job cannot continue ({error}): a worker ended while it started. If the machine has "
        "no memory for that many, lower --workers; then run the same command again",
        file=sys.stderr,
    )
    _end_all(1)


def _end_all(code: int) -> None:
    """Ends this process, and the processes that it started."""
    _kill_started(os.environ[RUN_VARIABLE])
    os._exit(code)


def _kill_started(run: str) -> None:
    """Kills the processes that a run has started, which have its name.

    The one that runs the command got the name later, and is not found by it.
    """
    kill_processes(RUN_VARIABLE, run)


def _end_with_parent(parent: int) -> None:
    """Ends this process and its workers when its parent is gone, even if that was killed."""
    os.read(parent, 1)
    _end_all(128 + signal.SIGKILL)


@contextlib.contextmanager
def _passing_signals_on(child: int) -> Iterator[None]:
    """Makes a signal that ends only the parent end the child too."""

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, _INTERRUPT if number == signal.SIGINT else number)

    former: Any = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, pass_on)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, former)
