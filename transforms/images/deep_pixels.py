"""Images of more than 8 bits a channel as uint16 arrays, for `--depth 16`; TIFFs of 32-bit numbers.

Pillow has grey of 16 bits, but no color. TensorFlow decodes and encodes such PNGs, and is imported
for the first of them. Of a TIFF, Pillow unpacks the high byte of each sample or, if it is told the
other byte order, the low one. It decodes AVIF to 8 bits.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageFile
from PIL.TiffImagePlugin import TiffImageFile

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import (
    Array,
    as_object,
    assembled,
    check_image,
    import_tensorflow,
    strips,
)
from transforms.images.headers import Header
from transforms.images.pillow_images import (
    Pixels,
    array_of,
    bits_of,
    check_pixels,
    decode,
    decode_as_stored,
    deep_samples,
    open_image,
    scaled,
    strips_of,
)
from transforms.images.pixel_options import Limits
from transforms.images.tags import exif_chunk

_Band: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_TOP = 65_535
_BITS_PER_SAMPLE = 258

# Modes of numbers of 32 bits: floating point, and integers.
_NUMBERS = ("F", "I")

# Modes in which Pillow unpacks 16 bits of a pixel, or of one of its channels.
_DEEP_COLOR = re.compile(r"(RGB[AaX]?|[RGBA]);16([LBN])")

# Weights of red, green and blue in grey, of 65536; those of Pillow.
_LUMA = np.array([19_595, 38_470, 7_471], np.uint32)

# Steps down and to the right by EXIF orientation, 1 to 4; those of 5 to 8 are the same, after rows
# and columns were exchanged.
_FLIPS = ((1, 1), (1, -1), (-1, -1), (-1, 1))

# The properties of the first coded image of an AVIF, and the bit in them for 10 or 12 bits.
_AV1 = re.compile(rb"av1C\x81.(.)", re.DOTALL)
_HIGH_BITS = 0x40

# The bits of the first channel of a JPEG 2000, less one, after the size: ISO/IEC 15444-1, A.5.1.
_JPEG2000 = re.compile(rb"\xff\x4f\xff\x51.{38}(.)", re.DOTALL)
_LESS_ONE = 0x7F


# The signature and the first chunk of a PNG.
_AFTER_IHDR = 8 + 25


def is_deep(data: bytes, header: Header, opened: ImageFile.ImageFile | None) -> bool:
    """Whether an image has more than 8 bits.

    Args:
        data: the file, whole.
        header: of the file.
        opened: the file as Pillow opened it, or None if TensorFlow can read it.
    """
    if opened is None:
        return header.bits > 8
    if isinstance(opened, TiffImageFile):
        bits = opened.tag_v2.get(_BITS_PER_SAMPLE, 1)
        return opened.mode in _NUMBERS or 16 in (bits if isinstance(bits, tuple) else (bits,))
    if header.format == "heif":
        return bits_of(opened) > 8
    if header.format == "avif":
        coded = _AV1.search(data)
        return coded is not None and bool(coded[1][0] & _HIGH_BITS)
    if header.format == "jpeg2000":
        coded = _JPEG2000.search(data)
        return coded is not None and coded[1][0] & _LESS_ONE >= 8
    if header.format != "ppm":
        return False
    # The largest value of a portable map is the last argument of the decoders named so.
    codec, _, _, arguments = opened.tile[0]
    if codec.startswith("ppm") and isinstance(arguments, tuple):
        return int(arguments[-1]) > 255
    return opened.mode == "I"


def channels_of(header: Header, opened: ImageFile.ImageFile | None) -> int:
    """The channels of an image; the arguments are those of `is_deep`."""
    return header.channels if opened is None else len(opened.getbands())


def deep_pixels(
    data: bytes, header: Header, opened: ImageFile.ImageFile | None, limits: Limits
) -> Pixels | None:
    """The pixels of a PNG or a TIFF of 16 bits, of a TIFF of numbers of 32 bits, or of a deep HEIC.

    Args:
        data: the file, whole.
        header: of the file.
        opened: the file as Pillow opened it, not yet decoded, or None if TensorFlow can read it.
        limits: of the image.

    Returns:
        None for all other images, and for CMYK.

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`, `TOO_MANY_PIXELS`, of which each channel
            counts, or `UNSUPPORTED_IMAGE` for numbers that do not fit and for color that Pillow
            reads only with 8 bits.
    """
    is_tiff = isinstance(opened, TiffImageFile) and opened.mode != "CMYK"
    may_be_deep = is_tiff or header.format in ("png", "heif")
    if not may_be_deep or not is_deep(data, header, opened):
        return None
    channels = channels_of(header, opened)
    pixels: Pixels
    check_pixels(header.width, header.height, limits, times=channels)
    if opened is None:
        check_image(data, limits=limits)
        if channels > 1:
            tensorflow = import_tensorflow()
            return np.asarray(tensorflow.io.decode_png(as_object(data), dtype=tensorflow.uint16))
        opened = open_image(data, ("PNG",), limits)
    is_premultiplied = False
    if header.format == "heif":
        pixels, is_premultiplied = deep_samples(data)
    elif opened.mode in _NUMBERS:
        pixels = _scaled(decode_as_stored(opened))[:, :, None]
    elif channels == 1:
        pixels = array_of(decode(opened))[:, :, None]
    else:
        # High and low bytes come from two passes over the file.
        high, is_premultiplied = _half(data, limits, is_high=True)
        pixels = array_of(high).astype(np.uint16) << 8
        del high
        low, _ = _half(data, limits, is_high=False)
        for rows, part in zip(strips(*pixels.shape[:2]), strips_of(low), strict=True):
            pixels[rows] |= np.asarray(part)
    return by_strips(pixels, _divided) if is_premultiplied else pixels


def reduced_numbers(opened: ImageFile.ImageFile) -> Image.Image | None:
    """A TIFF of numbers of 32 bits with 8 bits: the high bytes of its `deep_pixels`.

    Args:
        opened: a file, not yet decoded.

    Returns:
        None for all other images.

    Raises:
        RejectedImageError: as `deep_pixels`.
    """
    if not isinstance(opened, TiffImageFile) or opened.mode not in _NUMBERS:
        return None
    numbers = _scaled(decode_as_stored(opened))
    return Image.fromarray(by_strips(numbers, lambda strip: (strip >> 8).astype(np.uint8)))


def by_strips(pixels: Pixels, change: Callable[[Pixels], Array]) -> Array:
    """What `change` makes of an array, strip by strip."""
    return assembled((change(pixels[rows]) for rows in strips(*pixels.shape[:2])), len(pixels))


def _divided(pixels: Pixels) -> Pixels:
    """Colour that was multiplied with the alpha channel as it was before."""
    alpha = np.maximum(pixels[:, :, 3:], 1)
    color = np.minimum(np.rint(pixels[:, :, :3] * (_TOP / alpha)), _TOP)
    return np.concatenate([color.astype(np.uint16), pixels[:, :, 3:]], axis=2)


def _half(data: bytes, limits: Limits, *, is_high: bool) -> tuple[Image.Image, bool]:
    """One byte of each sample, and whether the color is multiplied with the alpha channel."""
    opened = open_image(data, ("TIFF",), limits)
    is_planar = isinstance(opened, TiffImageFile) and opened.tag_v2.get(284) == 2
    is_premultiplied = False
    tiles = []
    for tile in opened.tile:
        assert isinstance(tile.args, tuple)
        found = _DEEP_COLOR.fullmatch(str(tile.args[0]))
        # libtiff picks the unpackers of separate channels itself.
        if found is None or (tile.codec_name == "libtiff" and is_planar):
            detail = "Pillow reads its colors only with 8 bits; store its samples side by side"
            raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
        bands, order = found.groups()
        is_premultiplied = is_premultiplied or bands == "RGBa"
        if order == "N":
            order = "L" if sys.byteorder == "little" else "B"
        if not is_high:
            order = "B" if order == "L" else "L"
        raw_mode = f"{bands.replace('a', 'A')};16{order}"
        tiles.append(tile._replace(args=(raw_mode, *tile.args[1:])))
    opened.tile = tiles
    return decode(opened), is_premultiplied


def _scaled(image: Image.Image) -> Pixels:
    """Numbers of 32 bits as samples: from 0 to 1 if they are floating point, else as they are."""
    is_float = image.mode == "F"
    ends = np.array([(part.min(), part.max()) for part in map(np.asarray, strips_of(image))])
    low, high = ends.min(), ends.max()
    # NaN is not between any numbers.
    if not 0 <= low <= high <= (1 if is_float else _TOP):
        detail = (
            f"its numbers are from {low:.6g} to {high:.6g}, but only "
            f"{'floating point from 0 to 1' if is_float else f'integers from 0 to {_TOP}'} is read"
        )
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    numbers = map(np.asarray, strips_of(image))
    samples = (np.rint(part * np.float64(_TOP)) if is_float else part for part in numbers)
    return assembled((each.astype(np.uint16) for each in samples), image.height)


def recolored(pixels: Pixels, color: str) -> Pixels:
    """The pixels in `rgb` or `gray`, with alpha laid over white; a strip of an image."""
    if pixels.shape[2] in (2, 4):
        alpha = pixels[:, :, -1:].astype(np.uint64)
        pixels = ((pixels[:, :, :-1] * alpha + _TOP * (_TOP - alpha)) // _TOP).astype(np.uint16)
    if pixels.shape[2] == (3 if color == "rgb" else 1):
        return pixels
    if color == "rgb":
        return np.repeat(pixels, 3, axis=2)
    grey = (pixels.astype(np.uint32) @ _LUMA + 0x8000) >> 16
    return grey.astype(np.uint16)[:, :, None]


def in_size(pixels: Pixels, height: int, width: int) -> Pixels:
    """The pixels in another size, one band after the other."""
    made = np.empty((height, width, pixels.shape[2]), np.uint16)
    alpha: _Band | None = None
    for band in reversed(range(pixels.shape[2])):
        # As Pillow does it, first each row and then each column.
        narrowed = functools.partial(
            _narrowed, band=band, width=width, is_weighted=alpha is not None
        )
        rows = by_strips(pixels, narrowed)
        found: _Band = np.asarray(scaled(Image.fromarray(rows), height, width))
        if alpha is not None:
            found = found * _TOP / np.maximum(alpha, 1)
        elif pixels.shape[2] in (2, 4):
            alpha = found
        made[:, :, band] = np.rint(np.clip(found, 0, _TOP))
    return made


def _narrowed(strip: Pixels, *, band: int, width: int, is_weighted: bool) -> _Band:
    """A band of some rows in another width."""
    values: _Band = strip[:, :, band].astype(np.float32)
    if is_weighted:
        # Colours of transparent pixels have no weight.
        values = values * strip[:, :, -1].astype(np.float32) / _TOP
    return np.asarray(scaled(Image.fromarray(values), len(strip), width))


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """The pixels upright, by their EXIF orientation."""
    if orientation > 4:
        pixels = pixels.swapaxes(0, 1)
    down, right = _FLIPS[(orientation - 1) % 4]
    return np.ascontiguousarray(pixels[::down, ::right])


def encode_color(pixels: Pixels, level: int, exif: bytes) -> bytes:
    """A PNG of 16 bits, encoded by TensorFlow.

    Args:
        pixels: of two to four channels.
        level: of its compression.
        exif: a block as in a JPEG, or empty.
    """
    tensorflow = import_tensorflow()
    data: bytes = tensorflow.io.encode_png(pixels, compression=level).numpy()
    return data[:_AFTER_IHDR] + exif_chunk(exif) + data[_AFTER_IHDR:] if exif else data
