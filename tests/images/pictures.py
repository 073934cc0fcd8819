"""Pictures without a file, and the files that Pillow makes of them."""

import io
from typing import Any

import numpy as np
from PIL import Image


def pixels(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """A smooth picture with some noise: uint8 `[height, width, channels]`."""
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, channels))
    base = (3 * rows + 5 * columns)[:, :, None] + 60 * np.arange(channels)
    return np.asarray((base + noise) % 256, dtype=np.uint8)


def picture(mode: str, height: int = 37, width: int = 45, seed: int = 0) -> Image.Image:
    """A Pillow image of `mode`, never larger than it says."""
    if mode in ("1", "P"):
        return picture("RGB", height, width, seed).convert(mode)
    drawn = pixels(height, width, len(Image.new(mode, (1, 1)).getbands()), seed)
    return Image.frombytes(mode, (width, height), drawn.tobytes())


def indexed(gray: Image.Image) -> Image.Image:
    """A gray image whose values are indices of a palette now."""
    image = Image.frombytes("P", gray.size, gray.tobytes())
    image.putpalette([(37 * at) % 256 for at in range(768)])
    return image


def scene(seed: int, height: int = 375, width: int = 500) -> Image.Image:
    """A smooth picture in colour, of which smaller and worse copies look alike."""
    few = np.random.default_rng(seed).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    return Image.fromarray(few).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, format_: str, **options: Any) -> bytes:
    """The bytes of the file that Pillow writes."""
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()
