"""Images whose decoder may crash or hang, and a process for them."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import importlib.abc
import itertools
import math
import os
import pickle
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

from transforms.core.machine import mapped_bytes, process_cores, usable_memory
from transforms.core.rejections import Reason, RejectedImageError

# A child process that decodes untrusted files one by one, with limits on memory and time.
#
# There, a decoder that crashes, hangs or fills the memory costs only its image.
# The limits are set in the child by itself, for each call, so that the kernel enforces them in
# whatever code the decoder is:
#
# - the address space (`RLIMIT_AS`) may grow by `Budget.bytes` and eight times the arguments' bytes
#   over what the process has mapped when the call begins, and by 2 GB more once TensorFlow is
#   imported;
# - processor time (`ITIMER_PROF`) is limited to `Budget.seconds`, and the time on the clock
#   (`ITIMER_REAL`) to five times as much, for a decoder that waits.

_MODULE = "transforms.images.guard"

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
        memory = usable_memory() or 16 << 30
        # A number from a manifest may be invalid.
        size = min(_PIXEL_BYTES * max_pixels, memory) + _LEAST_BYTES
        return cls(size, min(_SECONDS * max(1.0, max_pixels / _PIXELS_IN_TIME), _MOST_SECONDS))

    @property
    def clock_seconds(self) -> float:
        """The wall-clock limit."""
        return _TIMES_ON_THE_CLOCK * self.seconds


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
            RejectedImageError: raised by the function; with reason `TOO_COSTLY` when it exceeds the
                budget, with `DECODER_CRASH` when the process dies otherwise.
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
                atexit.register(self._end)
            self.started += 1
        return self._process

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
        return RejectedImageError(Reason.DECODER_CRASH, f"a decoder crashes with {number.name}")
    if number is signal.SIGALRM:
        detail = f"decoding does not end within {budget.clock_seconds:.0f} s"
    else:
        detail = f"decoding takes more than {budget.seconds:.0f} s of CPU time"
    return RejectedImageError(Reason.TOO_COSTLY, detail)


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


@contextlib.contextmanager
def _limited(budget: Budget, arguments: int) -> Iterator[None]:
    mapped = mapped_bytes()
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
    return RejectedImageError(Reason.TOO_COSTLY, detail)


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


# Lets as many images be decoded at once as there are cores, and ends a process in which one hangs.

RUN_VARIABLE = "IMAGE_TFRECORDS_RUN"
"""The environment variable with the name of a supervised run, in all of its processes."""

AGAIN = "again-"
"""What the name of a run begins with that was begun again, after its process died."""

HANGS = signal.SIGPROF
"""The signal that ends a process whose decoder hangs."""

# How often a process looks at its own decoders.
_WATCH_SECONDS = 10.0


def is_supervised() -> bool:
    """Whether a command is run again if its process dies over an image."""
    return RUN_VARIABLE in os.environ


def is_again() -> bool:
    """Whether it runs again, because its process died: probably over an image."""
    return os.environ.get(RUN_VARIABLE, "").startswith(AGAIN)


class Turns:
    """The decoders that run in this process.

    Attributes:
        patience: seconds after which a decoder hangs; 0 for any number.
    """

    def __init__(self, at_once: int) -> None:
        """At most `at_once` images are decoded at the same time."""
        self.patience = 0.0
        self._ages: dict[tuple[int, int], float] = {}
        # A semaphore in C: one of `threading` costs eight calls of Python functions for each image.
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(at_once):
            self._free.put(place)
        # The number of the turn that each place is for; 0 for none.
        self._turns = [0] * at_once
        self._numbers = itertools.count(1)

    def begin(self) -> int:
        """Waits for a place, and takes it until `end`."""
        place = self._free.get()
        self._turns[place] = next(self._numbers)
        return place

    def end(self, place: int) -> None:
        """Gives a place back."""
        self._turns[place] = 0
        self._free.put(place)

    def has_hung(self, seconds: float) -> bool:
        """Whether a turn is older than `patience`, when `seconds` have passed since the last call.

        A process that is stopped does not count its time.
        """
        former = self._ages
        running = [each for each in enumerate(self._turns) if each[1]]
        self._ages = {each: former[each] + seconds if each in former else 0.0 for each in running}
        return max(self._ages.values(), default=0.0) > self.patience > 0

    def watch(self) -> None:
        """Ends this process when a decoder hangs in it."""
        while True:
            # A decoder that does not let this thread run again uses all of this time on one core.
            limit = self.patience + 2 * (os.cpu_count() or 1) * _WATCH_SECONDS
            signal.setitimer(signal.ITIMER_PROF, limit if self.patience else 0)
            time.sleep(_WATCH_SECONDS)
            if self.has_hung(_WATCH_SECONDS):
                os.kill(os.getpid(), HANGS)


@functools.lru_cache(maxsize=1)
def turns() -> Turns:
    """The decoders of this process.

    There are many more threads that wait for remote files than cores, and an image is many times as
    large as its file.
    """
    return Turns(process_cores())


@functools.lru_cache(maxsize=1)
def end_hangs() -> None:
    """From now on, a decoder that hangs ends this process, whose work somebody repeats."""
    threading.Thread(target=turns().watch, name="watch", daemon=True).start()


# Calls decoders so that a crash or a hang costs one image, not the run.
#
# A decoder is called in this process. If that dies, the images that it may have died over are
# suspects in the next one, which decodes them in a child process with limits: all images of a
# command that runs again, and on other runners those of a shard that was begun before. Other images
# have no overhead.


# Ratio of the wall-clock limit to the CPU budget of an image, because it shares
# the CPUs with others. The process ends at this limit.
_SECONDS_OF_PATIENCE = 2


class DecoderGuard:
    """Calls decoders so that a crash costs only its image, on the next try.

    Attributes:
        suspects: the keys of images that are decoded in the child.
    """

    def __init__(self, max_pixels: int, *, isolates: bool = False) -> None:
        """Sets the limits.

        Args:
            max_pixels: of the images; the budget of a suspect grows with it.
            isolates: whether every image is a suspect.
        """
        self.suspects: set[str] = set()
        self._isolates = isolates
        self._budget = Budget.of_pixels(max_pixels)
        self._turns = turns()
        patience = _SECONDS_OF_PATIENCE * self._budget.seconds
        self._turns.patience = max(self._turns.patience, patience)
        if is_supervised():
            end_hangs()

    def call(
        self,
        key: str,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Calls a function in its turn, or in the child if the image of this key is a suspect.

        Raises:
            RejectedImageError: raised by the function, or see `DecodingChild.call`.
        """
        if self._isolates or key in self.suspects:
            return decoding_child().call(self._budget, function, *args, **kwargs)
        place = self._turns.begin()
        try:
            return function(*args, **kwargs)
        finally:
            self._turns.end(place)
