"""Thumbnails with Pillow: of all formats, and of rejected files as far as they can be decoded."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageFile

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import checked_header
from transforms.images.pillow_images import FOREIGN, decode, open_image, quiet_pillow
from transforms.report.thumbnails import LIMITS, QUALITIES, as_uri, smaller

_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
# Formats with a signature that TensorFlow cannot read.
_REJECTED_FORMATS = (*_FORMATS, *(name for name in FOREIGN if name not in ("PPM", "TGA")))


def pillow_thumbnail(
    data: bytes, *, edge: int, max_bytes: int, formats: tuple[str, ...] = _FORMATS
) -> str:
    """As `thumbnail`, for all `formats`, which are Pillow's names."""
    try:
        image = open_image(data, formats, LIMITS)
        # For a JPEG, libjpeg decodes only what is needed.
        image.draft(None, (edge, edge))
        picture = _on_grey(decode(image))
    except RejectedImageError:
        return ""
    picture.thumbnail((edge, edge), reducing_gap=2.0)
    return as_uri(_fitting_picture(picture, max_bytes))


def rejected_thumbnail(data: bytes, *, edge: int, max_bytes: int) -> str:
    """The thumbnail of a rejected file, decoded as far as possible; see `thumbnail`.

    Must run in its own process: it makes Pillow accept truncated files for the whole
    process, and damaged files can crash decoders.
    """
    quiet_pillow()
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    if not _is_cheap(data):
        return ""
    return pillow_thumbnail(data, edge=edge, max_bytes=max_bytes, formats=_REJECTED_FORMATS)


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


def _fitting_picture(picture: Image.Image, max_bytes: int) -> bytes:
    while True:
        for quality in QUALITIES:
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=quality, optimize=True)
            if file.tell() <= max_bytes or max(picture.size) <= 8:
                return file.getvalue()
        picture.thumbnail((smaller(max(picture.size)),) * 2)
