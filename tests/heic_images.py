"""Draws HEIC photos by code, with the encoder of the package that also decodes them."""

import io
from typing import Any

import numpy as np
from PIL import Image

# Coded without loss, so that every pixel comes back.
_LOSSLESS = {"quality": -1, "chroma": 444, "matrix_coefficients": 0}

DEEP_SHAPE = (30, 40)
"""Height and width of `deep_heic`."""


def heic(*pictures: Image.Image, **options: Any) -> bytes:
    """A HEIC of these pictures, of which the first is the primary one.

    Args:
        pictures: top-level images of the file.
        options: of the encoder; an `exif` with an orientation sets the properties too that turn the
            pixels, as cameras do.
    """
    import pillow_heif

    pillow_heif.register_heif_opener()
    file = io.BytesIO()
    first, *more = pictures
    options = {**_LOSSLESS, **options}
    first.save(file, "HEIF", save_all=bool(more), append_images=more, **options)
    return file.getvalue()


def deep_heic(bits: int, channels: int, **options: Any) -> tuple[Any, bytes]:
    """A lossless HEIC of 10 or 12 bits, after its samples `[height, width, channels]`.

    Args:
        bits: of a sample.
        channels: 1, 3 or 4.
        options: of the encoder, such as `exif`.
    """
    import pillow_heif

    height, width = DEEP_SHAPE
    pixels = np.arange(height * width * channels, dtype=np.uint16) * 7 % (1 << bits)
    pixels[:2] = 0, (1 << bits) - 1
    mode = {1: "I;16", 3: "RGB;16", 4: "RGBA;16"}[channels]
    samples = pixels << (16 - bits)
    picture = pillow_heif.from_bytes(mode, (width, height), samples.astype("<u2").tobytes())
    file = io.BytesIO()
    former = pillow_heif.options.SAVE_HDR_TO_12_BIT
    pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    try:
        picture.save(file, **{**_LOSSLESS, **options})
    finally:
        pillow_heif.options.SAVE_HDR_TO_12_BIT = former
    return pixels.reshape(height, width, channels), file.getvalue()
