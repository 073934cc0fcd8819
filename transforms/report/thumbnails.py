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
from transforms.images.check import checked_header
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

# What is odd in a picture: cleanvision's measures and limits, of pixels of about this longer side.
_SIDE = 64
_DARK, _BRIGHT, _BLURRY, _FLAT = 0.32, 0.95, 0.29, 3.0

# The share of red, green and blue in brightness, of their squares, and in grey.
_BRIGHTNESS, _GREY = (0.241, 0.691, 0.068), (0.299, 0.587, 0.114)

# The share up to which an even histogram says nothing of the sharpness.
_EVEN = 0.18

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
        **look(picture),
    }


def look(pixels: Any) -> dict[str, Any]:
    """What the pixels of a thumbnail tell of an image.

    Args:
        pixels: uint8 `[rows, columns, 3]`.

    Returns:
        What is odd as `looks` (`dark`, `bright`, `blurry`, `flat`); the `mean` of each channel,
        from 0 to 1, and that of its `square`.
    """
    few = pixels[:: max(1, len(pixels) // 120), :: max(1, pixels.shape[1] // 120)]
    counts = np.stack([np.bincount(few[..., at].ravel(), minlength=256) for at in range(3)])
    shares, levels = counts / few[..., 0].size, np.arange(256) / 255
    part = shares[shares > 0] / 3
    small = _averaged(pixels, max(1, round(max(pixels.shape) / _SIDE))).astype(np.float64)
    least, most = np.percentile(np.sqrt(small**2 @ _BRIGHTNESS) / 255, (5, 99))
    odd = {
        "dark": most < _DARK,
        "bright": least > _BRIGHT,
        "blurry": _sharpness(np.rint(small @ _GREY)) < _BLURRY,
        "flat": -(part * np.log2(part)).sum() < _FLAT,
    }
    means = {"mean": (shares @ levels).tolist(), "square": (shares @ levels**2).tolist()}
    return {"looks": [name for name, is_so in odd.items() if is_so], **means}


def _sharpness(grey: Any) -> float:
    """From 0 to 1, by the edges and the histogram of whole grey levels `[rows, columns]`."""
    rows, columns = (side - 2 for side in grey.shape)
    edges = grey.copy()
    if rows > 0 and columns > 0:
        squares = [grey[y : y + rows, x : x + columns] for y in range(3) for x in range(3)]
        edges[1:-1, 1:-1] = np.clip(9 * grey[1:-1, 1:-1] - sum(squares), 0, 255)
    # As many pixels as at the size for which the limits are.
    scale = _SIDE**2 * min(grey.shape) / max(grey.shape) / grey.size
    spread = scale * np.bincount(grey.astype(int).ravel(), minlength=256).std()
    sharp, uneven = (1 - np.exp(-0.01 * each) for each in (edges.std(), spread))
    return float(sharp + (uneven if uneven > _EVEN else 0))


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
    return _averaged(pixels, -(-max(pixels.shape[:2]) // (edge * 4 // 3)))


def _averaged(pixels: Any, step: int) -> Any:
    """The averages of squares of `step` pixels, uint8; what is left at the ends is cut off."""
    if step == 1:
        return pixels
    across, along = (min(step, side) for side in pixels.shape[:2])
    rows, columns = pixels.shape[0] // across, pixels.shape[1] // along
    whole = np.ascontiguousarray(pixels[: rows * across, : columns * along])
    # Rows of a square first: neighbors in memory are added at once, at most 257 of them.
    sums = whole.reshape(rows, across, -1).sum(1, dtype=np.uint16 if across < 257 else np.uint32)
    sums = sums.reshape(rows, columns, along, 3).sum(2, dtype=np.uint32)
    return np.rint(sums / (across * along)).astype(np.uint8)


def _uri(picture: Any, max_bytes: int) -> str:
    """The data URI of pixels as a JPEG that fits."""
    while True:
        for quality in QUALITIES:
            file: bytes = simplejpeg.encode_jpeg(picture, quality, colorsubsampling="420")
            if len(file) <= max_bytes or max(picture.shape) <= _SMALLEST:
                return _HEAD + base64.b64encode(file).decode()
        picture = _averaged(picture, 2)


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
