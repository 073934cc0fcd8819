"""Decodes the image of a record for training, with simplejpeg and Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import simplejpeg

from transforms.core.images.check import checked_header, decode_pixels
from transforms.core.images.image_limits import Limits
from transforms.core.images.pillow_images import decode, open_image
from transforms.core.rejections import RejectedImageError

# Formats that Pillow decodes to the pixels that TensorFlow gives.
_OF_PILLOW = {"gif": "GIF", "png": "PNG", "webp": "WEBP"}


def stored_pixels(data: bytes, channels: int, limits: Limits, *, depth: int = 8) -> Any:
    """The pixels of a stored image, those that `tf.io.decode_image` gives.

    JPEG, PNG, WebP and GIF need no TensorFlow. BMP, JPEG XL, CMYK and files with a defect that
    TensorFlow ignores are decoded by it; the first one imports it.

    Args:
        data: the file, whole.
        channels: 3, or 1 if all images are gray. Alpha is dropped.
        limits: of every image, checked before anything is decoded.
        depth: bits of the samples, 8 or 16.

    Returns:
        uint8 `[height, width, channels]`, or uint16; of an animation, the first frame.

    Raises:
        RejectedImageError: it is above the limits, or neither reads it.
    """
    header = checked_header(data, limits)
    format_, pixels = header.format, None
    if depth == 16:
        return _of_channels(_deep_pixels(data, format_, channels, limits), channels)
    if format_ == "jpeg" and header.plain:
        pixels = _jpeg_pixels(data, channels)
    elif format_ in _OF_PILLOW:
        pixels = _pillow_pixels(data, _OF_PILLOW[format_], limits)
    if pixels is None:
        pixels = decode_pixels(data, format_, expand_animations=False).numpy()
    return _of_channels(pixels, channels)


def _deep_pixels(data: bytes, format_: str, channels: int, limits: Limits) -> Any:
    """uint16; of 8 bits, those that `tf.io.decode_image` gives for this dtype."""
    from transforms.core.images.deep_pixels import deep_pixels

    deep = deep_pixels(data, format_, None, limits)
    if deep is not None:
        return deep
    pixels = stored_pixels(data, channels, limits)
    return pixels * np.uint16(257 if format_ == "png" else 256)


def _of_channels(pixels: Any, channels: int) -> Any:
    if pixels.shape[2] < 3:
        return np.repeat(pixels[:, :, :1], channels, axis=2)
    return pixels if pixels.shape[2] == channels else np.ascontiguousarray(pixels[:, :, :channels])


def _jpeg_pixels(data: bytes, channels: int) -> Any:
    """A JPEG as TensorFlow decodes it; None in doubt."""
    wanted = "RGB" if channels == 3 else "GRAY"
    try:
        return simplejpeg.decode_jpeg(data, wanted, fastdct=True, fastupsample=False, strict=True)
    except ValueError:
        return None


def _pillow_pixels(data: bytes, format_: str, limits: Limits) -> Any:
    """The first frame; None in doubt."""
    try:
        # A copy, which may be written to.
        pixels = np.array(decode(open_image(data, (format_,), limits)))
    except RejectedImageError:
        return None
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
