"""PPM and PGM files that Pillow would read sample by sample in Python, half a second a megabyte.

Reference: the Netpbm formats `ppm(5)` and `pgm(5)`.
"""

from __future__ import annotations

import re

import numpy as np
from PIL import Image, ImageFile

from transforms.core.formats.headers import CostlyImageError

MAX_PLAIN_SAMPLES = 1 << 22
"""Samples of a file in plain text; Pillow takes a microsecond for each."""

MAX_HEADER_BYTES = 1 << 16
"""Bytes of a header with its comments, which Pillow reads one by one: 4 MB a second."""

_MAGIC = re.compile(rb"P[1-6fy]")
_COMMENT = re.compile(rb"#[^\r\n]*")

_TOP = {"I": 65_535, "L": 255, "RGB": 255}


def check_header(data: bytes) -> None:
    """Refuses files with a header of megabytes, all of it comments or white space.

    Raises:
        CostlyImageError: it has more than `MAX_HEADER_BYTES`.
    """
    if _MAGIC.match(data) and len(data) > MAX_HEADER_BYTES:
        words = _COMMENT.sub(b"", data[:MAX_HEADER_BYTES]).split(maxsplit=4)
        # The kind of map, its width and height, and, except for bitmaps, the largest value.
        if len(words) < (3 if data.startswith((b"P1", b"P4")) else 4):
            raise CostlyImageError(f"a header of more than {MAX_HEADER_BYTES} bytes")


def check_portable_map(opened: ImageFile.ImageFile) -> None:
    """Refuses files in plain text that are too large.

    Raises:
        CostlyImageError: more samples than `MAX_PLAIN_SAMPLES`.
    """
    samples = opened.width * opened.height * len(opened.getbands())
    if opened.tile and opened.tile[0].codec_name == "ppm_plain" and samples > MAX_PLAIN_SAMPLES:
        raise CostlyImageError(f"{samples} samples in plain text, more than {MAX_PLAIN_SAMPLES}")


def is_scaled(opened: ImageFile.ImageFile) -> bool:
    """Whether this is a binary file whose largest value is neither 255 nor 65,535."""
    return bool(opened.tile) and opened.tile[0].codec_name == "ppm"


def decode_scaled(opened: ImageFile.ImageFile) -> Image.Image:
    """The image of a binary file, its values scaled to 8 or 16 bits as Pillow scales them.

    Args:
        opened: for which `is_scaled` holds.

    Returns:
        An image of mode `L`, `RGB` or `I;16`.

    Raises:
        ValueError: the file ends too soon.
    """
    _, _, start, arguments = opened.tile[0]
    assert isinstance(arguments, tuple) and opened.fp is not None
    opened.fp.seek(start)
    maxval, top = int(arguments[-1]), _TOP[opened.mode]
    shape = (opened.height, opened.width, *([3] if opened.mode == "RGB" else []))
    values = np.frombuffer(opened.fp.read(), ">u2" if maxval > 255 else "u1", int(np.prod(shape)))
    # Halves are rounded to even numbers, as Python's `round` does.
    table = np.minimum(np.rint(np.arange(maxval + 1) / maxval * top), top)
    scaled = table.astype(np.uint16 if opened.mode == "I" else np.uint8)
    return Image.fromarray(scaled[np.minimum(values, maxval)].reshape(shape))
