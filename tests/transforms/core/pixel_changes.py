"""Changes the pixels of every kind of image, and says what TensorFlow shows of the result."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import foreign_images
from tests.images import whole_images
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import check
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels

LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)
WHOLE = whole_images()
FOREIGN = foreign_images()
AUTO = PixelOptions("auto")
HALF = PixelOptions(resize=Resize("exact", 18, 22))

Pixels = np.ndarray[Any, np.dtype[Any]]


def changed(data: bytes, options: PixelOptions, limits: Limits = LIMITS) -> CheckedImage:
    return change_pixels(data, options, limits=limits)


def outcome(data: bytes, options: PixelOptions) -> CheckedImage | RejectedImageError:
    try:
        return changed(data, options)
    except RejectedImageError as rejected:
        return rejected


def reason(data: bytes, options: PixelOptions, limits: Limits = LIMITS) -> Reason:
    with pytest.raises(RejectedImageError) as caught:
        changed(data, options, limits)
    return caught.value.reason


def shown(data: bytes) -> Pixels:
    """What TensorFlow shows of a file: the first frame."""
    decoded: Pixels = check.decode_pixels(data, "jpeg").numpy()
    return decoded[0] if decoded.ndim == 4 else decoded


def slopes(height: int = 37, width: int = 45) -> Image.Image:
    """A picture without noise, which loses next to nothing in a JPEG, of which no turn is alike."""
    rows, columns = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    values = [70 + 90 * columns, 60 + 110 * rows, 90 + 60 * columns * rows]
    return Image.fromarray(np.stack(values, axis=2).astype(np.uint8))


def distance(one: Any, other: Any) -> float:
    """The mean difference of two pictures, in steps of 255."""
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).mean())
