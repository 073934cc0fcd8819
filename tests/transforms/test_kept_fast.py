"""What one image costs, counted: a quick suite cannot time, but a further decode or copy fails.

A number may fall. One that rises needs its reason next to it.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from tests.images import picture, saved
from transforms.convert_images import ImageConverter
from transforms.core.records import PlannedImage
from transforms.core.rejections import Rejection
from transforms.examples.layouts import LAYOUTS
from transforms.images import check
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, PixelOptions, Resize
from transforms.records import image_origins
from transforms.records.image_origins import Origins, read_accepted

PHOTO = saved(picture("RGB", 300, 400), "JPEG")
TURNED = Image.Exif()
TURNED[0x0112] = 6
TAGGED = saved(picture("RGB", 300, 400), "JPEG", exif=TURNED.tobytes())
SMALL = picture("RGB", 30, 40)

# One `open`, `read` and `close`; `fstat` before and after reading, to notice a file that was
# replaced or changed meanwhile. A thread gives up Python's lock in each, and waits for it.
READ = {"open": 1, "fstat": 2, "read": 1, "close": 1}

# Of each: its file, the options, and how often libjpeg-turbo and TensorFlow may decode it.
COSTS = {
    # Decoded once, at 1/8 scale: the check and the perceptual hash share these pixels. One walk of
    # its markers finds its size and whether it may have an EXIF orientation.
    "jpeg": (PHOTO, AS_THEY_ARE, 1, 0),
    # A second walk over the markers finds the orientation, since there is a block for it.
    "jpeg with a tag": (TAGGED, AS_THEY_ARE, 1, 0),
    # Resized by Pillow, from pixels that libjpeg-turbo decodes; the result is not decoded again. 60
    # of the calls reduce it for the perceptual hash, in a quarter of the time of fewer in NumPy.
    "resized": (PHOTO, PixelOptions(resize=Resize.parse("shorter=64")), 1, 0),
    # Inflated once, in pieces; no pixel is decoded.
    "png": (saved(SMALL, "PNG"), AS_THEY_ARE, 0, 0),
    # Decoded once, by Pillow's libwebp.
    "webp": (saved(SMALL, "WEBP"), AS_THEY_ARE, 0, 0),
    # Its pixels are those of the file.
    "bmp": (saved(SMALL, "BMP"), AS_THEY_ARE, 0, 0),
    # Only TensorFlow can tell whether it decodes it; it decodes it once.
    "gif": (saved(SMALL, "GIF"), AS_THEY_ARE, 0, 1),
    # Opened and encoded by Pillow, whose functions these mostly are: room for another Pillow. What
    # it encoded is a PNG, which is inflated.
    "tiff": (saved(SMALL, "TIFF"), PixelOptions(transcode="auto"), 0, 0),
    # libjpeg-turbo finds the damage, and TensorFlow decides.
    "doubt": (PHOTO[:-2], AS_THEY_ARE, 1, 1),
    # No decoder sees it.
    "text": (b"no image", AS_THEY_ARE, 0, 0),
    # Read like any other file: it may have been filled since it was listed.
    "empty": (b"", AS_THEY_ARE, 0, 0),
}


def prepared(
    folder: Path, data: bytes, pixels: PixelOptions = AS_THEY_ARE
) -> tuple[ImageConverter, PlannedImage]:
    """A converter that is set up, and the plan of an image with this data."""
    path = folder / "a.jpg"
    path.write_bytes(data)
    status = path.stat()
    planned = PlannedImage(1, "a", "a.jpg", status.st_size, status.st_mtime_ns, "cat", 0)
    converter = ImageConverter(
        origins=Origins(str(folder)),
        features=LAYOUTS["slim"],
        checks=CheckOptions(max_pixels=10**6, max_bytes=10**6, dedupe="report"),
        pixels=pixels,
    )
    converter.setup()
    return converter, planned


@pytest.mark.parametrize("kind", COSTS)
def test_one_image(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, pixels, *most = COSTS[kind]
    converter, planned = prepared(tmp_path, data, pixels)

    def one() -> Any:
        [loaded] = converter.load([planned])
        return loaded if isinstance(loaded, Rejection) else next(converter.encode([loaded]))

    decoded: list[str] = []
    monkeypatch.setattr(check, "decode_pixels", _noted(decoded))
    # What is made once for all images is made now.
    first = one()
    calls: Counter[str] = Counter()
    decoded.clear()
    with monkeypatch.context() as patch:
        for name in READ:
            patch.setattr(os, name, _counted(calls, name, getattr(os, name)))
        patch.setattr(simplejpeg, "decode_jpeg", _counted(calls, "decode", simplejpeg.decode_jpeg))
        again = one()
    assert again == first
    assert {name: calls[name] for name in READ} == READ
    assert [calls["decode"], len(decoded)] == most


@pytest.mark.parametrize("kind", ["jpeg", "jpeg with a tag", "png", "gif", "bmp", "webp"])
def test_bytes_are_copied_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the record: what is stored is the object that was read."""
    monkeypatch.setattr(check, "decode_pixels", _noted([]))
    converter, planned = prepared(tmp_path, COSTS[kind][0])
    files: list[bytes] = []

    def read(*arguments: Any) -> bytes:
        files.append(read_accepted(*arguments))
        return files[0]

    monkeypatch.setattr(image_origins, "read_accepted", read)
    [checked] = converter.load([planned])
    assert isinstance(checked, CheckedImage) and checked.data is files[0]


def _noted(decoded: list[str]) -> Callable[..., Any]:
    """In place of TensorFlow: notes the call, and gives black pixels."""

    def accept(data: bytes, format_: str, **_: Any) -> Any:
        decoded.append(format_)
        return np.zeros((300, 400, 3), np.uint8)

    return accept


def _counted(calls: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return function(*args, **kwargs)

    return counted
