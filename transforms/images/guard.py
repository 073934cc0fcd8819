"""Images whose decoder may crash or hang: notes of those in flight, and a process for them."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import hashlib
import importlib.abc
import math
import mmap
import os
import pickle
import queue
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from transforms.core.machine import is_private, opened_folder, process_cores, usable_memory
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


# Records which images were being decoded when a process died.
#
# A crashing decoder ends its process, and a rerun would decode the same image again. So each
# process notes in a memory-mapped file which images its threads decode right now: the kernel keeps
# that file when the process dies, for any reason. The next process on the machine finds the notes
# of dead ones and decodes those images in a child process, where a crash costs one image.
# An image that decodes there is cleared.
#
# The owner of a file holds a lock on it (`flock`), which the kernel releases with the process. Each
# file is in a folder of its own that only this user may enter, in the folder for temporary files.
# Anything else there or in its place is neither opened, followed nor removed.

# Bytes of a note, and the maximum number of threads with a note.
_NOTE = 16
_THREADS = 256
_NOTHING = bytes(_NOTE)
_FILE = _NOTE * _THREADS

# Notes of dead processes expire after this time; an empty file, whose owner died
# while creating it, sooner.
_FORGET_SECONDS = 7 * 24 * 3600
_MADE_SECONDS = 60

# The folders, of which so many are read: there is one for each process that runs or was killed.
_PREFIX = f"images-in-flight-{os.getuid()}-"
_MAX_FOLDERS = 10_000
_NAME = "notes"

RUN_VARIABLE = "IMAGE_TFRECORDS_RUN"
"""The environment variable with the name of a supervised run, in all of its processes."""

HANGS = signal.SIGPROF
"""The signal that ends a process of a supervised run whose decoder hangs."""

# How often a process looks at its own notes.
_WATCH_SECONDS = 10.0


def image_note(uri: str, version: int) -> bytes:
    """The note of one image, 16 bytes; a replaced image gets another note."""
    return hashlib.blake2b(f"{version} {uri}".encode(errors="replace"), digest_size=_NOTE).digest()


@contextlib.contextmanager
def _opened(folder: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of the notes in a folder.

    Raises:
        OSError: another user can enter the folder, or it or the file is something else, such as a
            link, a FIFO or a device; or the file is larger than notes are.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with opened_folder(folder) as parent:
        if not is_private(parent):
            raise PermissionError(f"other users can access {folder}")
        descriptor = os.open(_NAME, flags, dir_fd=parent)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE:
            raise FileNotFoundError(f"{folder} has no file of notes")
        yield descriptor
    finally:
        os.close(descriptor)


def _is_alive(descriptor: int) -> bool:
    """Whether the owner of an opened file of notes is running."""
    try:
        # A shared lock: other processes may check at the same time.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _notes_of(data: bytes) -> dict[bytes, int]:
    """The notes in the content of a file, and the byte where each begins."""
    found = {data[at : at + _NOTE]: at for at in range(0, _FILE, _NOTE)}
    return {note: at for note, at in found.items() if len(note) == _NOTE and note != _NOTHING}


class Suspects:
    """The images that processes were decoding when they died."""

    def __init__(self) -> None:
        self._places: dict[bytes, list[tuple[Path, int]]] = {}
        with contextlib.suppress(OSError):
            for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))[:_MAX_FOLDERS]:
                with contextlib.suppress(OSError):
                    self._read(folder)

    def _read(self, folder: Path) -> None:
        with _opened(folder) as file:
            if _is_alive(file):
                return
            data = os.read(file, _FILE)
            age = time.time() - os.fstat(file).st_mtime
        notes = _notes_of(data)
        # An empty file was just created by its owner.
        if age > _FORGET_SECONDS or (not notes and (data or age > _MADE_SECONDS)):
            _remove(folder)
            return
        for note, at in notes.items():
            self._places.setdefault(note, []).append((folder, at))

    def __contains__(self, note: bytes) -> bool:
        return note in self._places

    @property
    def notes(self) -> frozenset[bytes]:
        """The notes of all of them."""
        return frozenset(self._places)

    def clear(self, note: bytes) -> None:
        """Clears an image that decoded without a crash, also for later processes."""
        for folder, at in self._places.pop(note, ()):
            with contextlib.suppress(OSError), _opened(folder, os.O_RDWR) as file:
                # Its owner is dead, so its notes do not change.
                os.pwrite(file, _NOTHING, at)
                if not _notes_of(os.pread(file, _FILE, 0)):
                    _remove(folder)


class InFlight:
    """The notes of this process, in memory alone if no file can be created.

    Attributes:
        patience: the age in seconds at which a note means a hanging decoder; 0 for none.
    """

    def __init__(self, at_once: int) -> None:
        """Takes no note yet; at most `at_once` images are decoded at the same time."""
        self.patience = 0.0
        self._ages: dict[tuple[bytes, int], float] = {}
        # A semaphore in C: one of `threading` costs eight calls of Python functions for each image.
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(min(at_once, _THREADS)):
            self._free.put(_NOTE * number)
        self._notes: mmap.mmap | bytearray = bytearray(_FILE)
        with contextlib.suppress(OSError):
            self._open()

    def _open(self) -> None:
        # Created with mode 0700, under a new random name.
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Held until the process ends: closing it would release the lock.
        self._descriptor = os.open(folder / _NAME, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.ftruncate(self._descriptor, _FILE)
        self._notes = mmap.mmap(self._descriptor, _FILE)
        atexit.register(_remove_own, folder, os.getpid())

    def begin(self, note: bytes) -> int:
        """Waits for a place, keeps the note of an image there until `end`, and returns it."""
        at = self._free.get()
        self._notes[at : at + _NOTE] = note
        return at

    def end(self, at: int) -> None:
        """Removes the note at a place."""
        self._notes[at : at + _NOTE] = _NOTHING
        self._free.put(at)

    def has_hung(self, seconds: float) -> bool:
        """Whether a note is older than `patience`, when `seconds` have passed since the last call.

        A process that is stopped does not count its time.
        """
        former = self._ages
        noted = _notes_of(bytes(self._notes)).items()
        self._ages = {each: former[each] + seconds if each in former else 0.0 for each in noted}
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
def in_flight() -> InFlight:
    """The notes of this process.

    There are many more threads that wait for remote files than cores, and an image is many times as
    large as its file.
    """
    own = InFlight(process_cores())
    if RUN_VARIABLE in os.environ:
        threading.Thread(target=own.watch, name="watch", daemon=True).start()
    return own


def _remove(folder: Path) -> None:
    """Removes a file of notes and its folder."""
    with contextlib.suppress(OSError):
        (folder / _NAME).unlink()
        folder.rmdir()


def _remove_own(folder: Path, owner: int) -> None:
    # A fork of this process also runs this at exit.
    if os.getpid() == owner:
        _remove(folder)


# Calls decoders so that a crash or a hang costs one image, not the run.
#
# A decoder is called in this process, with a note of its image. If the process dies, the next one
# decodes that image in a child process with limits. Other images have no overhead.


# Ratio of the wall-clock limit to the CPU budget of an image, because it shares
# the CPUs with others. In a supervised run, the process ends at this limit.
_SECONDS_OF_PATIENCE = 2


class DecoderGuard:
    """Calls decoders so that a crash costs only its image, on the next try.

    Created before the threads that share it; it knows the crashes up to then.
    """

    def __init__(self, max_pixels: int) -> None:
        """Reads the notes of dead processes.

        Args:
            max_pixels: of the images; the budget of a suspect grows with it.
        """
        self._budget = Budget.of_pixels(max_pixels)
        self._suspects = Suspects()
        self._in_flight = in_flight()
        patience = _SECONDS_OF_PATIENCE * self._budget.seconds
        self._in_flight.patience = max(self._in_flight.patience, patience)

    def call(
        self,
        note: bytes,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Calls a function with a note of its image, or in the child if the image is a suspect.

        The function must do all decoding of an image: a suspect is cleared when it returns.

        Raises:
            RejectedImageError: raised by the function, or see `DecodingChild.call`.
        """
        if note in self._suspects:
            try:
                result = decoding_child().call(self._budget, function, *args, **kwargs)
            except DecoderFailure:
                raise
            except RejectedImageError:
                self._suspects.clear(note)
                raise
            self._suspects.clear(note)
            return result
        at = self._in_flight.begin(note)
        try:
            return function(*args, **kwargs)
        finally:
            self._in_flight.end(at)
