"""Checks images in the child that decodes suspects, with limits on what each may take."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.images import picture, saved
from transforms.core.rejections import RejectedImageError
from transforms.images.check import check_image, import_tensorflow
from transforms.images.guard import Budget, DecodingChild
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels
from transforms.report.thumbnails import rejected_thumbnail

# Of a core, for each image.
SECONDS = 10
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
        growth: the most bytes of memory so far that were added to those after the start.
    """

    reason: str
    detail: str
    seconds: float
    growth: int


class Checker:
    """Checks images in both modes, or changes the `pixels` of each in several ways.

    Attributes:
        checked: images so far.
        growth: the most bytes of memory that were added to those after the start.
    """

    def __init__(self, limits: Limits, ceiling: int, how: str = "check") -> None:
        self._child, self._limits, self._ceiling, self._how = DecodingChild(), limits, ceiling, how
        self._child.call(Budget(8 << 30, 120), _memory_at_start)
        self.checked = self.growth = 0

    def check(self, data: bytes, name: str = "") -> Checked:
        """What becomes of an image: it is accepted or rejected, in time and within the ceiling.

        Raises:
            RejectedImageError: it ends the process, hangs, or needs more memory.
        """
        seconds = SECONDS * len([*_calls(self._how)])
        budget = Budget(self._ceiling, 8 * seconds)
        checked = self._child.call(budget, _check, data, self._limits, self._how)
        assert checked.seconds <= seconds, name
        assert checked.growth < self._ceiling, name
        self.checked += 1
        self.growth = checked.growth
        return checked

    def stop(self) -> None:
        """Ends the child process."""
        self._child.close()


@functools.cache
def _memory_at_start() -> int:
    """Of the child, after it imported TensorFlow and decoded an image of each kind."""
    import_tensorflow()
    for format_ in ("JPEG", "PNG", "GIF", "BMP", "WEBP"):
        check_image(saved(picture("RGB"), format_), limits=Limits(1 << 20, 1 << 20))
    check_image(saved(picture("CMYK"), "JPEG"), limits=Limits(1 << 20, 1 << 20))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _memory("VmRSS")


def _calls(how: str) -> Iterator[Callable[[bytes, Limits], Any]]:
    """What an image goes through; the answers are its size."""
    for mode in ("header", "full") if how == "check" else ():
        yield lambda data, limits, mode=mode: check_image(data, limits=limits, mode=mode)[1:]
    for options in {"pixels": _OPTIONS, "scaled": _OPTIONS[1:2]}.get(how, ()):
        yield lambda data, limits, options=options: change_pixels(
            data, options, limits=limits
        ).info[1:]


def _check(data: bytes, limits: Limits, how: str) -> Checked:
    had, started = _memory_at_start(), time.process_time()
    reason = detail = ""
    for call in _calls(how):
        try:
            detail = str(call(data, limits))
        except RejectedImageError as error:
            reason, detail = error.reason.code, error.detail
    if how == "pixels":
        try:
            rejected_thumbnail(data[: 8 << 20], edge=112, max_bytes=4096)
        except RejectedImageError as error:
            raise AssertionError("a thumbnail is drawn or left out") from error
    return Checked(reason, detail, time.process_time() - started, _memory("VmHWM") - had)


def _memory(name: str) -> int:
    """A figure of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{name}:"))
