"""Thumbnails for the report: small JPEGs as data URIs, of stored images and of rejected files."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image, ImageFile

from transforms.core.images.check import Limits, checked_header
from transforms.core.images.pillow_images import FOREIGN, decode, open_image, quiet_pillow
from transforms.core.rejections import Reason, RejectedImageError

# Limits for files opened for a thumbnail: a report must not cost more than the conversion.
LIMITS = Limits(max_pixels=50_000_000, max_bytes=32 << 20)

_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
# Formats with a signature that TensorFlow cannot read.
_REJECTED_FORMATS = (*_FORMATS, *(name for name in FOREIGN if name not in ("PPM", "TGA")))

_QUALITIES = (80, 60, 40, 25)

# A data URI takes four characters for three bytes.
_HEAD = "data:image/jpeg;base64,"


def thumbnail(
    data: bytes, *, edge: int, max_bytes: int, formats: tuple[str, ...] = _FORMATS
) -> str:
    """A small JPEG of an image, with the pixels that TensorFlow would decode.

    Args:
        data: the file.
        edge: pixels of the longer side, at most.
        max_bytes: of the JPEG; its quality, and then its size, is reduced until it fits.
        formats: names of Pillow's formats.

    Returns:
        A data URI, or an empty text if there is none: Pillow cannot read it, or it is
        too large.
    """
    try:
        image = open_image(data, formats, LIMITS)
        # For a JPEG, libjpeg decodes only what is needed.
        image.draft(None, (edge, edge))
        picture = _on_grey(decode(image))
    except RejectedImageError:
        return ""
    picture.thumbnail((edge, edge), reducing_gap=2.0)
    return _HEAD + base64.b64encode(_fitting(picture, max_bytes)).decode()


def rejected_thumbnail(data: bytes, *, edge: int, max_bytes: int) -> str:
    """The thumbnail of a rejected file, decoded as far as possible; see `thumbnail`.

    Must run in its own process: it makes Pillow accept truncated files for the whole
    process, and damaged files can crash decoders.
    """
    quiet_pillow()
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    if not _is_cheap(data):
        return ""
    return thumbnail(data, edge=edge, max_bytes=max_bytes, formats=_REJECTED_FORMATS)


def _is_cheap(data: bytes) -> bool:
    """Whether the header of a possibly unchecked file is within the limits."""
    try:
        checked_header(data, LIMITS)
    except RejectedImageError as error:
        # A header that only Pillow can read is limited there.
        return error.reason in (Reason.NOT_AN_IMAGE, Reason.CORRUPT_IMAGE)
    return True


def _on_grey(image: Image.Image) -> Image.Image:
    """An RGB image with grey for transparency, which is visible on light and dark pages."""
    if image.mode == "I;16":
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode not in ("LA", "RGBA"):
        return image.convert("RGB")
    with_alpha = image.convert("RGBA")
    behind = Image.new("RGBA", image.size, (160, 160, 160, 255))
    return Image.alpha_composite(behind, with_alpha).convert("RGB")


def _fitting(picture: Image.Image, max_bytes: int) -> bytes:
    while True:
        for quality in _QUALITIES:
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=quality, optimize=True)
            if file.tell() <= max_bytes or max(picture.size) <= 8:
                return file.getvalue()
        picture.thumbnail((max(picture.size) * 2 // 3,) * 2)
