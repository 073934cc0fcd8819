"""Thumbnails for the report: small JPEGs as data URIs.

libjpeg-turbo decodes JPEGs, nearly all images, at about the scale of their thumbnail, in half of
Pillow's time. Pillow is imported for the first image of another kind, and for rejected files, of
which it shows as much as can be decoded.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import simplejpeg

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import checked_header
from transforms.images.pixel_options import Limits

if TYPE_CHECKING:
    from PIL.Image import Image

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


def thumbnail(data: bytes, *, edge: int, max_bytes: int) -> str:
    """A small JPEG of an image, with the pixels that TensorFlow would decode.

    Args:
        data: the file.
        edge: pixels of the longer side: three quarters to four thirds of it, less for small images.
        max_bytes: of the JPEG; its quality, and then its size, is reduced until it fits.

    Returns:
        A data URI, or an empty text if there is none: it cannot be read, or is too large.
    """
    try:
        header = checked_header(data, LIMITS)
    except RejectedImageError:
        return ""
    if header.format == "jpeg" and header.plain:
        picture = _of_jpeg(data, header.height, header.width, edge)
        if picture is not None:
            return as_uri(_fitting(picture, max_bytes))

    return pillow_thumbnail(data, edge=edge, max_bytes=max_bytes)


def as_uri(picture: bytes) -> str:
    """The data URI of a JPEG."""
    return _HEAD + base64.b64encode(picture).decode()


def smaller(edge: int) -> int:
    """The longer side of a thumbnail that had too many bytes with `edge` pixels."""
    return edge * 2 // 3


def _of_jpeg(data: bytes, height: int, width: int, edge: int) -> Any:
    """Pixels `[rows, columns, 3]`, see `thumbnail`; None if libjpeg-turbo has none."""
    is_small = max(height, width) <= edge
    rows, columns = _within(height, width, edge if is_small else edge * 3 // 4)
    try:
        # At the smallest of eight scales that is not too small.
        pixels = simplejpeg.decode_jpeg(
            data, "RGB", min_height=rows, min_width=columns, min_factor=1
        )
    except ValueError:
        return None
    longer = max(pixels.shape[:2])
    return pixels if longer <= edge * 4 // 3 else _averaged(pixels, *_within(height, width, edge))


def _within(height: int, width: int, edge: int) -> tuple[int, int]:
    """The size of an image whose longer side is at most `edge`.

    >>> _within(300, 400, 100), _within(30, 40, 100), _within(1, 4000, 100)
    ((75, 100), (30, 40), (1, 100))
    """
    longer = max(height, width)
    if longer <= edge:
        return height, width
    return max(1, round(height * edge / longer)), max(1, round(width * edge / longer))


def _averaged(pixels: Any, rows: int, columns: int) -> Any:
    """The averages of the pixels under each pixel of a smaller picture, uint8."""
    if pixels.shape[:2] == (rows, columns):
        return pixels
    turned = _averaged_rows(_averaged_rows(pixels, rows).swapaxes(0, 1), columns)
    # The encoder needs rows without gaps.
    return np.ascontiguousarray(np.rint(turned.swapaxes(0, 1)).astype(np.uint8))


def _averaged_rows(pixels: Any, rows: int) -> Any:
    """The same for rows alone, float64.

    Differences of sums, not products of matrices: those would start a thread on each core.
    """
    height = len(pixels)
    sums = np.zeros((height + 1, *pixels.shape[1:]))
    np.cumsum(pixels, axis=0, out=sums[1:])
    ends = np.arange(rows + 1) * (height / rows)
    before = np.minimum(ends.astype(np.int64), height - 1)
    part = (ends - before)[:, None, None]
    return np.diff(sums[before] * (1 - part) + sums[before + 1] * part, axis=0) * (rows / height)


def _fitting(picture: Any, max_bytes: int) -> bytes:
    while True:
        for quality in QUALITIES:
            file: bytes = simplejpeg.encode_jpeg(picture, quality, colorsubsampling="420")
            if len(file) <= max_bytes or max(picture.shape) <= _SMALLEST:
                return file
        height, width, _ = picture.shape
        picture = _averaged(picture, *_within(height, width, smaller(max(height, width))))


def pillow_thumbnail(
    data: bytes, *, edge: int, max_bytes: int, formats: tuple[str, ...] = _FORMATS
) -> str:
    """As `thumbnail`, for all `formats`, which are Pillow's names."""
    from transforms.images.pillow_images import decode, flattened, open_image

    try:
        image = open_image(data, formats, LIMITS)
        # For a JPEG, libjpeg decodes only what is needed.
        image.draft(None, (edge, edge))
        picture = flattened(decode(image), _BEHIND).convert("RGB")
    except RejectedImageError:
        return ""
    picture.thumbnail((edge, edge), reducing_gap=2.0)
    return as_uri(_fitting_picture(picture, max_bytes))


def rejected_thumbnail(data: bytes, *, edge: int, max_bytes: int) -> str:
    """The thumbnail of a rejected file, decoded as far as possible; see `thumbnail`.

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
    return pillow_thumbnail(data, edge=edge, max_bytes=max_bytes, formats=formats)


def _fitting_picture(picture: Image, max_bytes: int) -> bytes:
    while True:
        for quality in QUALITIES:
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=quality, optimize=True)
            if file.tell() <= max_bytes or max(picture.size) <= _SMALLEST:
                return file.getvalue()
        picture.thumbnail((smaller(max(picture.size)),) * 2)
