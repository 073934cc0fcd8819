"""A child process that decodes untrusted files one by one, with limits on memory and time.

There, a decoder that crashes, hangs or fills the memory costs only its image.
The limits are set in the child by itself, for each call, so that the kernel enforces them in
whatever code the decoder is:

- the address space (`RLIMIT_AS`) may grow by `Budget.bytes` and eight times the arguments' bytes
  over what the process has mapped when the call begins, and by 2 GB more once TensorFlow is
  imported;
- processor time (`ITIMER_PROF`) is limited to `Budget.seconds`, and the time on the clock
  (`ITIMER_REAL`) to five times as much, for a decoder that waits.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import importlib.abc
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

from transforms.core.rejections import Reason, RejectedImageError

_MODULE = "transforms.images.decoding_child"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Address space of a call: bytes per allowed pixel, and a constant.
_PIXEL_BYTES = 16
_LEAST_BYTES = 512 << 20
_TIMES_OF_ARGUMENTS = 8
_TENSORFLOW_BYTES = 2 << 30

# CPU seconds of a call for up to the default limit of pixels; for more
# they grow in proportion, up to an hour.
_SECONDS = 60.0
_PIXELS_IN_TIME = 178_956_970
_MOST_SECONDS = 3600.0
_TIMES_ON_THE_CLOCK = 5

# Threads of TensorFlow and arenas of malloc each map memory that is never used.
_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "2",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

# Starts a child with the modules of this process, regardless of its working directory.
_START = "import sys; sys.path[:] = sys.argv[1:]; from {} import answer; answer()"

# Signals of the limits. SIGXCPU comes from a limit that an administrator sets.
_TIME_LIMITS = {signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU}


class Budget(NamedTuple):
    """The limits of one call.

    Attributes:
        bytes: of address space, in addition to that of the process and the arguments.
        seconds: of processor time.
    """

    bytes: int
    seconds: float

    @classmethod
    def of_pixels(cls, max_pixels: int) -> Budget:
        """The limits for decoding an image of at most this many pixels.

        >>> Budget.of_pixels(1_000_000)
        Budget(bytes=552870912, seconds=60.0)
        """
        try:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            memory = 16 << 30
        # A number from a manifest may be invalid.
        size = min(_PIXEL_BYTES * max_pixels, memory) + _LEAST_BYTES
        seconds = _SECONDS * max(1.0, max_pixels / _PIXELS_IN_TIME)
        return cls(size, min(seconds, _MOST_SECONDS))

    @property
    def clock_seconds(self) -> float:
        """The wall-clock limit."""
        return _TIMES_ON_THE_CLOCK * self.seconds


class DecoderFailure(RejectedImageError):
    """A decoder harmed its process; not an error that the decoder reported."""


class DecodingChild:
    """A process that is started at the first call, and again after a call that ended it.

    It ends with this process. Threads take turns.

    Attributes:
        started: how many processes were started.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0

    def call(
        self,
        budget: Budget,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Calls a function of a module in the child.

        Raises:
            RejectedImageError: raised by the function.
            DecoderFailure: with reason `TOO_COSTLY` when it exceeds the budget, with
                `DECODER_CRASH` when the process dies otherwise.
            Exception: any other that the function raises.
        """
        with self._lock:
            answer = self._ask((budget, function, args, kwargs))
        if isinstance(answer, Exception):
            raise answer
        result: Result = answer
        return result

    def _ask(self, task: tuple[Budget, Any, Any, Any]) -> Any:
        process = self._running()
        assert process.stdin and process.stdout
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            code = process.wait()
            self._end()
            return _explained(code, task[0])
        except BaseException:
            # Interrupted before the answer: the next call would get the answer of this one.
            self._end()
            raise

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(_MODULE), *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ENVIRONMENT},
                # An interrupt of this process must not cause a traceback in the child's imports.
                start_new_session=True,
            )
            if not self.started:
                atexit.register(self.kill)
            self.started += 1
        return self._process

    def kill(self) -> None:
        """Ends the process, even during a call; the next call starts another."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process after the current call."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # Leaving the block closes the pipes, one of which may be broken.
            with contextlib.suppress(OSError), process:
                process.kill()


def _explained(code: int, budget: Budget) -> Exception:
    """The error for a process that ended with this code instead of an answer."""
    if code >= 0:
        return RuntimeError(f"the process of {_MODULE} ended with exit code {code}")
    number = signal.Signals(-code)
    if number not in _TIME_LIMITS:
        detail = f"a decoder crashes with {number.name}"
        return DecoderFailure(Reason.DECODER_CRASH, detail)
    if number is signal.SIGALRM:
        detail = f"decoding does not end within {budget.clock_seconds:.0f} s"
    else:
        detail = f"decoding takes more than {budget.seconds:.0f} s of CPU time"
    return DecoderFailure(Reason.TOO_COSTLY, detail)


@functools.lru_cache(maxsize=1)
def decoding_child() -> DecodingChild:
    """The child that all guards of this process share."""
    return DecodingChild()


class _RoomForTensorFlow(importlib.abc.MetaPathFinder):
    """An import hook that raises the memory limit when TensorFlow is imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Called with the name of each module that is not imported yet."""
        if fullname == "tensorflow":
            soft, _ = resource.getrlimit(resource.RLIMIT_AS)
            if soft != resource.RLIM_INFINITY:
                _limit_memory(soft + _TENSORFLOW_BYTES)


def _limit_memory(size: int | None) -> None:
    """Sets the limit of the address space, within any limit set from outside."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [each for each in (size, hard) if each not in (None, resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(known, default=resource.RLIM_INFINITY), hard))


def _mapped_bytes() -> int | None:
    """The address space that this process has mapped; None if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


@contextlib.contextmanager
def _limited(budget: Budget, arguments: int) -> Iterator[None]:
    mapped = _mapped_bytes()
    if mapped is not None:
        _limit_memory(mapped + budget.bytes + _TIMES_OF_ARGUMENTS * arguments)
    signal.setitimer(signal.ITIMER_PROF, budget.seconds)
    signal.setitimer(signal.ITIMER_REAL, math.ceil(budget.clock_seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _limit_memory(None)


def _result(budget: Budget, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function returns, or the exception that it raises."""
    arguments = sum(len(each) for each in args if isinstance(each, bytes))
    try:
        with _limited(budget, arguments):
            return function(*args, **kwargs)
    except MemoryError:
        pass
    except Exception as error:
        # TensorFlow's error of this name says that an allocation failed.
        is_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
        if type(error).__name__ != "ResourceExhaustedError" and not is_memory:
            return error
    detail = f"decoding takes more than {budget.bytes >> 20} MB of memory"
    return DecoderFailure(Reason.TOO_COSTLY, detail)


def answer() -> None:
    """Serves the calls of `DecodingChild` from standard input until it ends."""
    for number in _TIME_LIMITS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TIME_LIMITS)
    # No core dump of a crashing decoder: the image reproduces the crash.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.meta_path.insert(0, _RoomForTensorFlow())
    # Output of libraries must not get into the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The parent may be gone.
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            result = _result(*pickle.load(sys.stdin.buffer))
            answers.write(_pickled(result))
            answers.flush()


def _pickled(result: Any) -> bytes:
    try:
        data = pickle.dumps(result)
        if isinstance(result, Exception):
            # Some exceptions cannot be recreated from their arguments.
            pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(result).__name__}: {result}"))
