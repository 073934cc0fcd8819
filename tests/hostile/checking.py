"""Checks images in a child process with a ceiling on its memory and a time limit for each.

    python -m tests.hostile.checking MAX_PIXELS MAX_BYTES BYTES HOW

reads images from the standard input, each after its length in 8 bytes, and says what became of it
in a line of JSON. HOW is `check`, or `pixels`: then the pixels of each image are changed in several
ways, and its thumbnail for the report is made. The ceiling is on what the process takes in addition
what it had after it imported TensorFlow and decoded an image of each kind.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import IO, Any, NamedTuple

from tests.hostile.limited import ENVIRONMENT
from tests.images import picture, saved
from tests.pipeline.commands import ROOT
from transforms.core.rejections import RejectedImageError
from transforms.images.check import check_image, import_tensorflow
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels
from transforms.report.thumbnails import rejected_thumbnail

# Of a core, for each image; on a busy machine that takes longer on the clock.
SECONDS = 10
_PATIENCE = 8
_START_SECONDS = 120
_LENGTH = struct.Struct("<Q")
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
# What each image goes through if its pixels are changed.
_OPTIONS = (
    PixelOptions(transcode="auto", exif_orientation="apply"),
    PixelOptions(transcode="jpeg", resize=Resize.parse("shorter=64")),
    PixelOptions(transcode="png", color="gray"),
)


class Checked(NamedTuple):
    """What became of one image.

    Attributes:
        reason: of its rejection, empty when it was accepted.
        detail: of its rejection, else height, width and channels.
        seconds: of a core that the check took.
    """

    reason: str
    detail: str
    seconds: float


class BrokenCheckError(AssertionError):
    """The check ended the process, hung, or raised what it must not."""


class Checker:
    """A child process that checks images; one that dies or hangs is replaced for the next image.

    Attributes:
        checked: images so far.
        slowest: the most seconds that one took.
        growth: the most bytes of memory that were added to those after the start.
    """

    def __init__(self, limits: Limits, ceiling: int, how: str = "check") -> None:
        # Changing pixels decodes an image once for each way, and once for its thumbnail.
        self._seconds = SECONDS * {"check": 1, "pixels": len(_OPTIONS) + 1}[how]
        self._command = [sys.executable, "-m", __name__, *map(str, (*limits, ceiling)), how]
        self._process: subprocess.Popen[bytes] | None = None
        self.checked = 0
        self.slowest = 0.0
        self.growth = 0

    def check(self, data: bytes, name: str = "") -> Checked:
        """What becomes of an image, in both modes of the check.

        Raises:
            BrokenCheckError: anything but that it is accepted or rejected, in time.
        """
        process = self._running()
        assert process.stdin
        # If it is gone, its answer says so.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(_LENGTH.pack(len(data)) + data)
            process.stdin.flush()
        answer = self._answer(self._seconds * _PATIENCE, name)
        if answer["seconds"] > self._seconds:
            raise BrokenCheckError(f"{name}: {answer['seconds']:.1f} s, more than {self._seconds}")
        self.checked += 1
        self.slowest = max(self.slowest, answer["seconds"])
        self.growth = max(self.growth, answer["growth"])
        if "error" in answer:
            raise BrokenCheckError(f"{name}: {answer['error']}")
        return Checked(answer["reason"], answer["detail"], answer["seconds"])

    def kill(self) -> None:
        """Kills the child process, as a decoder could."""
        self._running().kill()

    def stop(self) -> None:
        """Ends the child process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._answer(_START_SECONDS, "the start")
        return self._process

    def _answer(self, seconds: float, name: str) -> Any:
        assert self._process is not None and self._process.stdout
        line = _line_within(self._process.stdout, seconds)
        if line:
            return json.loads(line)
        if line is None:
            self.stop()
            raise BrokenCheckError(f"{name}: no answer in {seconds} s")
        code = self._process.wait()
        self.stop()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise BrokenCheckError(f"{name}: it ended the process with {how}")


def _line_within(stream: IO[bytes], seconds: float) -> bytes | None:
    """The next line of a pipe; nothing when it has ended, None when none comes in time."""
    deadline = time.monotonic() + seconds
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0, deadline - time.monotonic())):
                return None
            more = os.read(stream.fileno(), 1 << 16)
            if not more:
                return b""
            line += more
    return line


def main() -> None:
    """Answers for one image after the other until the input ends."""
    max_pixels, max_bytes, ceiling = map(int, sys.argv[1:4])
    check = {"check": _check, "pixels": _change}[sys.argv[4]]
    limits = Limits(max_pixels=max_pixels, max_bytes=max_bytes)
    answers = os.fdopen(os.dup(1), "w")
    import_tensorflow()
    for format_ in _FORMATS:
        check_image(saved(picture("RGB"), format_), limits=limits)
    check_image(saved(picture("CMYK"), "JPEG"), limits=limits)
    had = _memory("VmRSS")
    most = _memory("VmSize") + ceiling
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    _forget_peak()
    print("{}", file=answers, flush=True)
    while length := sys.stdin.buffer.read(_LENGTH.size):
        data = sys.stdin.buffer.read(*_LENGTH.unpack(length))
        answer = check(data, limits)
        growth = _memory("VmHWM") - had
        print(json.dumps({**answer, "growth": growth}), file=answers, flush=True)
        del data


def _check(data: bytes, limits: Limits) -> dict[str, Any]:
    started = time.process_time()
    answer: dict[str, Any] = {"reason": ""}
    for mode in ("header", "full"):
        try:
            answer["detail"] = str(check_image(data, limits=limits, mode=mode)[1:])
        except RejectedImageError as error:
            answer.update(reason=error.reason.code, detail=error.detail)
        except BaseException as error:
            answer["error"] = repr(error)
    return {**answer, "seconds": time.process_time() - started}


def _change(data: bytes, limits: Limits) -> dict[str, Any]:
    started = time.process_time()
    answer: dict[str, Any] = {"reason": "", "detail": ""}
    for options in _OPTIONS:
        try:
            answer["detail"] = str(change_pixels(data, options, limits=limits).info[1:])
        except RejectedImageError as error:
            answer.update(reason=error.reason.code, detail=error.detail)
        except BaseException as error:
            answer["error"] = repr(error)
    try:
        rejected_thumbnail(data[: 8 << 20], edge=112, max_bytes=4096)
    except BaseException as error:
        answer["error"] = repr(error)
    return {**answer, "seconds": time.process_time() - started}


def _memory(name: str) -> int:
    """A figure of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{name}:"))


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


if __name__ == "__main__":
    main()
