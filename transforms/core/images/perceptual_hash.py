"""The perceptual hash of an image: 64 bits that hardly change when it is resized or compressed.

A difference hash: the image is averaged down to 8 rows of 9 cells, and each bit says whether a
cell is brighter than its left neighbour. All sums are of whole numbers, so the same pixels give the
same bits on every machine.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

ROWS, COLUMNS = 8, 9

# Minimum grey pixels per side from which cells are averaged, if available: with fewer, the
# hashes of an image and of its half-size copy differ in too many bits.
MIN_SIDE = 24

# Maximum pixels per side of a decoded image to use; more do not change the hash.
_ENOUGH = 96

# Minimum grey levels between darkest and brightest cell: blank images have no useful hash.
_MIN_CONTRAST = 4

_LUMA = np.array([299, 587, 114], np.int64)


def grey_scale(height: int, width: int) -> int:
    """How many times smaller an image may be decoded for its hash: 8, 4, 2 or 1.

    >>> grey_scale(375, 500), grey_scale(100, 100), grey_scale(28, 28)
    (8, 4, 1)
    """
    side = min(height, width)
    return next((scale for scale in (8, 4, 2) if side >= MIN_SIDE * scale), 1)


def hash_of_grey(grey: Any, height: int, width: int, scale: int) -> int | None:
    """The perceptual hash of grey pixels.

    Args:
        grey: uint8 or int64 `[rows, columns]`, values 0 to 255; each pixel is `scale` pixels high
            and wide, the last ones less.
        height: of the image, in pixels.
        width: of the image, in pixels.
        scale: how many times smaller `grey` is.

    Returns:
        64 bits, or None for a blank image.
    """
    rows = _weights(grey.shape[0], height, scale, ROWS)
    columns = _weights(grey.shape[1], width, scale, COLUMNS)
    # Whole numbers below 2**53: no order of adding them up rounds.
    cells = rows @ grey.astype(np.float64) @ columns.T
    # Python is faster than NumPy with so few numbers.
    values = cells.ravel().tolist()
    if max(values) - min(values) < _MIN_CONTRAST * height * width:
        return None
    return int.from_bytes(np.packbits(cells[:, 1:] > cells[:, :-1]).tobytes(), "big")


def hash_of_pixels(pixels: Any) -> int | None:
    """The perceptual hash of a decoded image; transparent pixels count as white.

    Args:
        pixels: uint8 `[height, width, channels]`: grey or colour, with or without alpha.

    Returns:
        64 bits, or None for a blank image.
    """
    height, width, channels = pixels.shape
    step = max(1, min(height, width) // _ENOUGH)
    few = pixels[::step, ::step].astype(np.int64)
    grey = few[:, :, 0] if channels < 3 else few[:, :, :3] @ _LUMA // 1000
    if channels in (2, 4):
        alpha = few[:, :, -1]
        grey = (grey * alpha + 255 * (255 - alpha)) // 255
    return hash_of_grey(grey, height, width, step)


@functools.lru_cache(maxsize=256)
def _weights(pixels: int, size: int, scale: int, cells: int) -> Any:
    """How much of each cell each pixel covers, `[cells, pixels]`, in units of 1/cells pixels."""
    cell, pixel = np.arange(cells)[:, None], np.arange(pixels)[None, :]
    end = np.minimum((cell + 1) * size, np.minimum((pixel + 1) * scale, size) * cells)
    start = np.maximum(cell * size, pixel * scale * cells)
    return np.clip(end - start, 0, None).astype(np.float64)
