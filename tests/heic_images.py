"""Draws HEIC photos by code, with the encoder of the package that also decodes them."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

# Coded without loss, so that every pixel comes back.
_LOSSLESS = {"quality": -1, "chroma": 444, "matrix_coefficients": 0}


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
