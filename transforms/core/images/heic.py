"""HEIC photos, which Pillow reads with an optional package around libheif.

The package is imported for the first HEIC. libheif turns and mirrors the pixels itself, as
properties of the file (`irot`, `imir`) say. Its EXIF orientation, which cameras write too, has no
meaning there: ISO/IEC 23008-12.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from typing import Any, TypeAlias

import numpy as np
from PIL import ImageFile

from transforms.core.formats.headers import CostlyImageError
from transforms.core.images.image_limits import Limits
from transforms.core.rejections import Reason, RejectedImageError
from transforms.core.shown_text import shown_size

DeepSamples: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.uint16]]
"""Samples of 16 bits."""

HEIC = "HEIF"
"""Pillow's name of the format."""

MAX_COPIED = 1 << 30
"""Bytes of metadata, if each of its blocks were all of the file. libheif copies each block, and all
of them may point at the same bytes; cameras write fewer than ten."""

# The first one that is installed is used. pi-heif has the same code and no encoder, but no
# releases any more.
_PACKAGES = ("pillow_heif", "pi_heif")

# The property with the size of an image, and the entry of an item: its version, its type.
_SIZE = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)
_ITEM = re.compile(rb"infe(?:\x02.{7}|\x03.{9})(.{4})", re.DOTALL)
# Encoders make the coded sides multiples of up to so many pixels; a property cuts the rest off.
_PADDING = 64
_IMAGES = frozenset({b"hvc1", b"hev1", b"grid", b"iden", b"iovl", b"tmap"})


def register_heic() -> Any:
    """Makes Pillow read HEIC, and returns the package that does.

    Raises:
        RejectedImageError: with reason `NO_DECODER`; no package is installed.
    """
    for name in _PACKAGES:
        # An installed package may lack its library, too.
        with contextlib.suppress(ImportError):
            package = importlib.import_module(name)
            package.register_heif_opener()
            return package
    detail = "no decoder for HEIC: pip install 'image-tfrecords[heic]'"
    raise RejectedImageError(Reason.NO_DECODER, detail)


def bits_of(opened: ImageFile.ImageFile) -> int:
    """The bits of a sample of an opened HEIC: 8, 10 or 12."""
    return int(opened.info.get("bit_depth", 8))


def deep_samples(data: bytes) -> tuple[DeepSamples, bool]:
    """The samples of a HEIC of 10 or 12 bits, and whether colour is multiplied with alpha.

    Args:
        data: the file, whole, within the limits of `check_heic`.

    Returns:
        uint16 `[height, width, channels]`, see `widened`; 1 channel for grey.
    """
    file = register_heic().open_heif(io.BytesIO(data), convert_hdr_to_8bit=False)
    image = file[file.primary_index]
    pixels = widened(np.asarray(image), image.info["bit_depth"])
    return (pixels if pixels.ndim == 3 else pixels[:, :, None]), image.mode.startswith("RGBa")


def widened(pixels: DeepSamples, bits: int) -> DeepSamples:
    """Samples whose lower bits are 0, as the package decodes them, with all of 0 to 65535.

    >>> [hex(value) for value in widened(np.array([0, 512 << 6, 1023 << 6], np.uint16), 10)]
    ['0x0', '0x8020', '0xffff']
    """
    return pixels | pixels >> np.uint16(bits)


def check_heic(data: bytes, limits: Limits) -> None:
    """Refuses a HEIC that is crafted to be slow or large to decode.

    Args:
        data: the file, whole.
        limits: each image in the file, such as a tile or an alpha channel, must be within them.

    Raises:
        CostlyImageError: more metadata than cameras write.
        RejectedImageError: with reason `TOO_MANY_PIXELS`.
    """
    for found in _SIZE.finditer(data):
        width, height = (int.from_bytes(side) for side in found.groups())
        if max(0, width - _PADDING) * max(0, height - _PADDING) > limits.max_pixels:
            size = shown_size(height, width)
            detail = f"{size} of an image in it, more than {limits.max_pixels}"
            raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)
    blocks = sum(found[1] not in _IMAGES for found in _ITEM.finditer(data))
    if blocks * len(data) > MAX_COPIED:
        raise CostlyImageError(f"{blocks} blocks of metadata, which may be as large as the file")
