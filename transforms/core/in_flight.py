"""Remembers the images that were being decoded when a process died.

A decoder that crashes takes its process along, and a rerun would meet the same image again. So
each process notes in a memory-mapped file which images its threads decode right now: the kernel
keeps that file when the process dies, whatever killed it. The next process on the machine finds
the notes of dead ones and decodes those few images in a child process, where a crash costs one
image.

The owner of a file holds a lock on it (`flock`), which the kernel lets go with the process.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

from transforms.core.rejections import Reason, RejectedImageError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Bytes of a note, and how many threads can leave one at a time.
_NOTE = 16
_THREADS = 256
_NOTHING = bytes(_NOTE)

# What dead processes left is forgotten after this time.
_FORGET_SECONDS = 7 * 24 * 3600


def image_note(uri: str, version: int) -> bytes:
    """The note of one image, 16 bytes; an image that is replaced gets another."""
    return hashlib.blake2b(f"{version} {uri}".encode(errors="replace"), digest_size=_NOTE).digest()


def notes_folder() -> Path:
    """Where the processes of this user on this machine leave their notes."""
    return Path(tempfile.gettempdir(), f"images-in-flight-{os.getuid()}")


def suspects() -> frozenset[bytes]:
    """The notes that dead processes left; what they left long ago is removed."""
    found: set[bytes] = set()
    with contextlib.suppress(OSError):
        for path in sorted(notes_folder().iterdir()):
            with contextlib.suppress(OSError):
                found |= _left_in(path)
    return frozenset(found)


def _left_in(path: Path) -> set[bytes]:
    with path.open("rb") as file:
        try:
            # Shared: others may be looking at the same time.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return set()
        data = file.read()
        notes = {data[at : at + _NOTE] for at in range(0, len(data), _NOTE)} - {_NOTHING}
        age = time.time() - os.fstat(file.fileno()).st_mtime
        # A file without bytes is one that its owner has just made.
        if data and (not notes or age > _FORGET_SECONDS):
            path.unlink(missing_ok=True)
            return set()
        return notes


class InFlight:
    """The notes of this process; where no file can be made, none are taken."""

    def __init__(self) -> None:
        self._slots = threading.local()
        self._lock = threading.Lock()
        self._used = 0
        self._notes: mmap.mmap | bytearray = bytearray(_NOTE * _THREADS)
        with contextlib.suppress(OSError):
            self._open()

    def _open(self) -> None:
        notes_folder().mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=notes_folder())
        # Held until the process ends: closing it would let go of the lock.
        self._descriptor = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, _NOTE * _THREADS)
        self._notes = mmap.mmap(descriptor, _NOTE * _THREADS)
        atexit.register(_remove, Path(name))

    @contextlib.contextmanager
    def noted(self, note: bytes) -> Iterator[None]:
        """Keeps the note of an image until the block ends."""
        at = self._slot() * _NOTE
        if at >= len(self._notes):
            yield
            return
        self._notes[at : at + _NOTE] = note
        try:
            yield
        finally:
            self._notes[at : at + _NOTE] = _NOTHING

    def _slot(self) -> int:
        slot: int | None = getattr(self._slots, "number", None)
        if slot is None:
            with self._lock:
                slot = self._slots.number = self._used
                self._used += 1
        return slot


@functools.lru_cache(maxsize=1)
def in_flight() -> InFlight:
    """The notes of this process."""
    return InFlight()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()


def call_in_child(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Calls a function in a process of its own, which ends with this one.

    Raises:
        RejectedImageError: what the function raises, or with reason `DECODER_CRASH` when that
            process dies.
    """
    task = pickle.dumps((function, args, kwargs))
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=task, stdout=subprocess.PIPE, check=False)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise RejectedImageError(Reason.DECODER_CRASH, f"a decoder ends its process with {name}")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
    result: Result | RejectedImageError = pickle.loads(done.stdout)
    if isinstance(result, RejectedImageError):
        raise result
    return result


class DecoderGuard:
    """Calls decoders so that one that crashes costs its image, on the next try.

    Made before the threads that share it; it knows what had crashed by then.
    """

    def __init__(self) -> None:
        self._suspects = suspects()
        self._in_flight = in_flight()

    def call(
        self,
        note: bytes,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Calls a function under the note of its image, or elsewhere if that is a suspect.

        Raises:
            RejectedImageError: what the function raises, or see `call_in_child`.
        """
        if note in self._suspects:
            return call_in_child(function, *args, **kwargs)
        with self._in_flight.noted(note):
            return function(*args, **kwargs)


def _answer() -> None:
    """Does what `call_in_child` asks for on the standard input, and answers on the output."""
    # What libraries print must not get into the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function, args, kwargs = pickle.load(sys.stdin.buffer)
    try:
        result = function(*args, **kwargs)
    except RejectedImageError as error:
        result = error
    # Whoever asked may have crashed meanwhile.
    with contextlib.suppress(BrokenPipeError), answer:
        pickle.dump(result, answer)


if __name__ == "__main__":
    _answer()
