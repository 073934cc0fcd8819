"""Pixels to the bytes of a JPEG or PNG file."""

from __future__ import annotations

import io

import numpy as np
import simplejpeg
from PIL import Image

from transforms.core.images import deep_pixels, pillow_images
from transforms.core.images.check import ImageInfo, Limits, check_image
from transforms.core.images.pixel_options import MAX_SIDE
from transforms.core.rejections import Reason, RejectedImageError
from transforms.core.shown_text import shown_size

# Level of zlib: photos take 6% more space than at Pillow's 6, and a third of the time.
_PNG_LEVEL = 3

ALPHA = ("LA", "RGBA")
"""Pillow's modes with an alpha channel."""

# An encoded image below this is within every limit of TensorFlow's decoders.
_TRUSTED_PIXELS = 1 << 27


def encode_image(
    image: Image.Image, format_: str, quality: int, orientation: int, limits: Limits
) -> tuple[bytes, ImageInfo]:
    """The file that holds an image, with its EXIF orientation if that is not 1.

    Args:
        image: of mode `L`, `RGB`, `LA`, `RGBA` or `I;16`; a JPEG takes the first two.
        format_: `jpeg` or `png`.
        quality: of a JPEG, 1 to 100.
        orientation: 1 to 8.
        limits: of the file.

    Raises:
        RejectedImageError: the file would be over a limit, or is more than a JPEG can hold.
    """
    exif = pillow_images.exif_of(orientation) if orientation != 1 else b""
    if format_ == "jpeg":
        data = _encode_jpeg(image, quality, exif)
    else:
        file = io.BytesIO()
        image.save(file, "PNG", exif=exif, compress_level=_PNG_LEVEL)
        data = file.getvalue()
    is_trusted = image.width * image.height < _TRUSTED_PIXELS
    try:
        return data, check_image(data, limits=limits, mode="header" if is_trusted else "full")
    except RejectedImageError as error:
        raise _rejected(format_, error) from None


def encode_deep(
    pixels: deep_pixels.Pixels, orientation: int, limits: Limits
) -> tuple[bytes, ImageInfo]:
    """The PNG that holds pixels of 16 bits, with its EXIF orientation if that is not 1.

    Args:
        pixels: of one to four channels.
        orientation: 1 to 8.
        limits: of the file.

    Raises:
        RejectedImageError: the file would be over a limit.
    """
    height, width, channels = pixels.shape
    if channels == 1:
        return encode_image(Image.fromarray(pixels[:, :, 0]), "png", 0, orientation, limits)
    exif = pillow_images.exif_of(orientation) if orientation != 1 else b""
    data = deep_pixels.encode_color(pixels, _PNG_LEVEL, exif)
    is_trusted = height * width < _TRUSTED_PIXELS
    try:
        return data, check_image(data, limits=limits, mode="header" if is_trusted else "full")
    except RejectedImageError as error:
        raise _rejected("png", error) from None


def _rejected(format_: str, error: RejectedImageError) -> RejectedImageError:
    return RejectedImageError(error.reason, f"re-encoded as {format_}: {error.detail}")


def _encode_jpeg(image: Image.Image, quality: int, exif: bytes) -> bytes:
    """A baseline JPEG; colour in 4:2:0, as `tf.io.encode_jpeg` writes it."""
    if max(image.size) > MAX_SIDE:
        size = shown_size(image.height, image.width)
        detail = f"{size}; a side of a JPEG has at most {MAX_SIDE}"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    is_grey = image.mode == "L"
    pixels = np.asarray(image)
    data: bytes = simplejpeg.encode_jpeg(
        pixels[:, :, None] if is_grey else pixels,
        quality,
        "GRAY" if is_grey else "RGB",
        "Gray" if is_grey else "420",
        fastdct=False,
    )
    if not exif:
        return data
    # After the JFIF segment, which comes first.
    start = 4 + int.from_bytes(data[4:6], "big")
    segment = b"\xff\xe1" + (2 + len(exif)).to_bytes(2, "big") + exif
    return data[:start] + segment + data[start:]


def fitting_jpeg(image: Image.Image) -> Image.Image:
    """The image in 8 bits and without alpha, on a white background."""
    if image.mode == "I;16":
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if not has_alpha(image):
        return image
    white = Image.new("RGBA", image.size, "white")
    flat = Image.alpha_composite(white, image.convert("RGBA"))
    return flat.convert("L" if image.mode == "LA" else "RGB")


def has_alpha(image: Image.Image) -> bool:
    """Whether an image has an alpha channel."""
    return image.mode in ALPHA
