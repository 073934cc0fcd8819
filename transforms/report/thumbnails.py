"""Thumbnails for the report: small JPEGs as data URIs.

libjpeg-turbo decodes JPEGs, nearly all images, at about the scale of their thumbnail, in half of
Pillow's time. Pillow is imported for the first image of another kind, and for rejected files, of
which it shows as much as can be decoded.
"""

from __future__ import annotations

import base64
import functools
from typing import Any

import numpy as np
import simplejpeg

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import averaged, checked_header
from transforms.images.pixel_options import Limits

# Limits for files opened for a thumbnail: a report must not cost more than the conversion.
LIMITS = Limits(max_pixels=50_000_000, max_bytes=32 << 20)

QUALITIES = (80, 60, 40, 25)
"""Qualities of a thumbnail, tried in turn."""

# Pillow's names of formats that TensorFlow reads.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")

# Grey for transparency, which is visible on light and dark pages.
_BEHIND = (160, 160, 160, 255)

# A data URI takes four characters for three bytes.
_HEAD = "data:image/jpeg;base64,"

# Pixels of the longer side of a thumbnail that is not made smaller, however many bytes it has.
_SMALLEST = 8


def thumbnail(data: bytes, *, edge: int, max_bytes: int) -> dict[str, Any]:
    """A small JPEG of an image, with the pixels that TensorFlow would decode.

    Args:
        data: the file.
        edge: pixels of the longer side: two to four thirds of it, less for small images.
        max_bytes: of the JPEG; its quality, and then its size, is reduced until it fits.

    Returns:
        A data URI as `uri`, `height` and `width` of the image, and its `look`; nothing if it cannot
        be read, or is too large.
    """
    try:
        header = checked_header(data, LIMITS)
    except RejectedImageError:
        return {}
    picture = None
    if header.format == "jpeg" and header.plain:
        picture = _of_jpeg(data, header.height, header.width, edge)
    if picture is None:
        picture = _of_pillow(data, edge)
    if picture is None:
        return {}
    return {
        "uri": _uri(picture, max_bytes),
        "height": header.height,
        "width": header.width,
        **_channels(picture),
    }


def _channels(pixels: Any) -> dict[str, Any]:
    """The `mean` of each channel, from 0 to 1, and that of its `square`."""
    few = pixels[:: max(1, len(pixels) // 120), :: max(1, pixels.shape[1] // 120)] / 255
    return {"mean": few.mean((0, 1)).tolist(), "square": (few * few).mean((0, 1)).tolist()}


def _of_jpeg(data: bytes, height: int, width: int, edge: int) -> Any:
    """Pixels `[rows, columns, 3]`, see `thumbnail`; None if libjpeg-turbo has none."""
    longer = max(height, width)
    scale = edge * 3 / 4 / longer if longer > edge else 1.0
    rows, columns = (max(1, round(side * scale)) for side in (height, width))
    try:
        # At the smallest of eight scales that is not too small.
        pixels = simplejpeg.decode_jpeg(
            data, "RGB", min_height=rows, min_width=columns, min_factor=1
        )
    except ValueError:
        return None
    return averaged(pixels, -(-max(pixels.shape[:2]) // (edge * 4 // 3)))


def _uri(picture: Any, max_bytes: int) -> str:
    """The data URI of pixels as a JPEG that fits."""
    while True:
        for quality in QUALITIES:
            file: bytes = simplejpeg.encode_jpeg(picture, quality, colorsubsampling="420")
            if len(file) <= max_bytes or max(picture.shape) <= _SMALLEST:
                return _HEAD + base64.b64encode(file).decode()
        picture = averaged(picture, 2)


def _of_pillow(data: bytes, edge: int, formats: tuple[str, ...] = _FORMATS) -> Any:
    """As `_of_jpeg`, for all `formats`, which are Pillow's names."""
    from transforms.images.pillow_images import decode, in_mode, in_strips, open_image

    try:
        image = open_image(data, formats, LIMITS)
        # For a JPEG, libjpeg decodes only what is needed.
        image.draft(None, (edge, edge))
        decoded = decode(image)
    except RejectedImageError:
        return None
    flat = functools.partial(in_mode, mode="RGB", behind=_BEHIND)
    picture = in_strips(decoded, "RGB", decoded.width, flat)
    picture.thumbnail((edge, edge), reducing_gap=2.0)
    return np.asarray(picture)


def rejected_thumbnail(data: bytes, *, edge: int, max_bytes: int) -> str:
    """The data URI of a rejected file, decoded as far as possible, or an empty text.

    Must run in its own process: it makes Pillow accept truncated files for the whole
    process, and damaged files can crash decoders.
    """
    from PIL import ImageFile

    from transforms.images.pillow_images import FOREIGN, quiet_pillow

    quiet_pillow()
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        checked_header(data, LIMITS)
    except RejectedImageError as error:
        # A header that only Pillow can read is limited there.
        if error.reason not in (Reason.NOT_AN_IMAGE, Reason.CORRUPT_IMAGE):
            return ""
    # Also those with a signature that TensorFlow cannot read.
    foreign = (name for name in FOREIGN if name not in ("PPM", "TGA"))
    formats = (*_FORMATS, *foreign)
    picture = _of_pillow(data, edge, formats)
    return "" if picture is None else _uri(picture, max_bytes)
