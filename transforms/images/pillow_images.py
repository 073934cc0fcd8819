"""Images that Pillow opens, with HEIC and portable maps."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import logging
import re
import struct
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow
from PIL import Image, ImageFile, UnidentifiedImageError, _imaging
from PIL.TiffImagePlugin import PHOTOMETRIC_INTERPRETATION, TiffImageFile

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import assembled, strips
from transforms.images.headers import (
    COSTS,
    check_jpeg2000,
    describe_start,
    is_heic,
    too_costly,
)
from transforms.images.pixel_options import MAX_SIDE, Limits
from transforms.images.tags import MAGIC as TIFF_MAGIC
from transforms.images.tags import ORIENTATION, check_tiff, tags_in

# PPM and PGM files that Pillow would read sample by sample in Python, half a second a megabyte.
#
# Reference: the Netpbm formats `ppm(5)` and `pgm(5)`.

MAX_PLAIN_SAMPLES = 1 << 22
"""Samples of a file in plain text; Pillow takes a microsecond for each."""

MAX_HEADER_BYTES = 1 << 16
"""Bytes of a header with its comments, which Pillow reads one by one: 4 MB a second."""

MAX_RUN_LENGTHS = 32 << 20
"""Bytes of a BMP or an icon in run lengths, which Pillow decodes in Python: 6 MB a second."""

_MAGIC = re.compile(rb"P[1-6fy]")
_COMMENT = re.compile(rb"#[^\r\n]*")

_TOP = {"I": 65_535, "L": 255, "RGB": 255}


def check_header(data: bytes) -> None:
    """Refuses files with a header of megabytes, all of it comments or white space.

    Raises:
        RejectedImageError: it has more than `MAX_HEADER_BYTES`.
    """
    if _MAGIC.match(data) and len(data) > MAX_HEADER_BYTES:
        words = _COMMENT.sub(b"", data[:MAX_HEADER_BYTES]).split(maxsplit=4)
        # The kind of map, its width and height, and, except for bitmaps, the largest value.
        if len(words) < (3 if data.startswith((b"P1", b"P4")) else 4):
            raise too_costly(f"a header of more than {MAX_HEADER_BYTES} bytes")


def check_portable_map(opened: ImageFile.ImageFile) -> None:
    """Refuses files in plain text that are too large.

    Raises:
        RejectedImageError: more samples than `MAX_PLAIN_SAMPLES`.
    """
    samples = opened.width * opened.height * len(opened.getbands())
    if opened.tile and opened.tile[0].codec_name == "ppm_plain" and samples > MAX_PLAIN_SAMPLES:
        raise too_costly(f"{samples} samples in plain text, more than {MAX_PLAIN_SAMPLES}")


def decode_scaled(opened: ImageFile.ImageFile) -> Image.Image:
    """The image of a binary file, its values scaled to 8 or 16 bits as Pillow scales them.

    Args:
        opened: a binary file whose largest value is neither 255 nor 65,535.

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


# HEIC photos, which Pillow reads with an optional package around libheif.
#
# The package is imported for the first HEIC. libheif turns and mirrors the pixels itself, as
# properties of the file (`irot`, `imir`) say. Its EXIF orientation, which cameras write too, has
# no meaning there: ISO/IEC 23008-12.

Pixels: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.uint16]]
"""uint16 `[height, width, channels]`."""

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
    detail = "no decoder for HEIC: pip install pillow-heif"
    raise RejectedImageError(Reason.NO_DECODER, detail)


def bits_of(opened: ImageFile.ImageFile) -> int:
    """The bits of a sample of an opened HEIC: 8, 10 or 12."""
    return int(opened.info.get("bit_depth", 8))


def deep_samples(data: bytes) -> tuple[Pixels, bool]:
    """The samples of a HEIC of 10 or 12 bits, and whether color is multiplied with alpha.

    Args:
        data: the file, whole, which `open_image` opened before.

    Returns:
        uint16 `[height, width, channels]`, see `widened`; 1 channel for grey.

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`.
    """
    with _rejecting():
        safe = io.BytesIO(_without_tags(data))
        file = register_heic().open_heif(safe, convert_hdr_to_8bit=False)
        image = file[file.primary_index]
        pixels = widened(np.asarray(image), image.info["bit_depth"])
    return (pixels if pixels.ndim == 3 else pixels[:, :, None]), image.mode.startswith("RGBa")


def widened(pixels: Pixels, bits: int) -> Pixels:
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
        RejectedImageError: with reason `TOO_MANY_PIXELS`, or `TOO_COSTLY` for more metadata than
            cameras write.
    """
    for found in _SIZE.finditer(data):
        width, height = (int.from_bytes(side) for side in found.groups())
        if max(0, width - _PADDING) * max(0, height - _PADDING) > limits.max_pixels:
            size = shown_size(height, width)
            detail = f"{size} of an image in it, more than {limits.max_pixels}"
            raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)
    blocks = sum(found[1] not in _IMAGES for found in _ITEM.finditer(data))
    if blocks * len(data) > MAX_COPIED:
        raise too_costly(f"{blocks} blocks of metadata, which may be as large as the file")


# Reads images with Pillow: formats that TensorFlow cannot read, and EXIF orientations.
#
# Here Pillow alone decides whether a file is valid: it refuses truncated data, its default. Any
# error of Pillow about a file becomes a `RejectedImageError`.

# TGA has no signature: it comes last.
FOREIGN = ("TIFF", "AVIF", HEIC, "JPEG2000", "ICO", "PPM", "TGA")

# How to rotate pixels upright, by EXIF orientation.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# And how to rotate upright pixels back.
BACK = TURNS | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}

_SIDEWAYS = (5, 6, 7, 8)

# A TIFF's page that is a smaller version of another page.
_SUBFILE_TYPE = 0x00FE
_THUMBNAIL = 1
_YCBCR = 6

_BITS_PER_SAMPLE = 258
_DEEP_COLOR = ((16, 16, 16), (16, 16, 16, 16))

# The entry of an AVIF or a HEIC that marks an item as EXIF. Its orientation is not used: that of
# the image is a separate property (`irot` and `imir`).
_AVIF_EXIF = re.compile(rb"(infe[\x02\x03].{3}(?:.{4}|.{6}))Exif", re.DOTALL)
# The beginning of a JPEG segment with EXIF.
_JPEG_EXIF = re.compile(rb"(\xff\xe1..)Exif", re.DOTALL)

ALPHA = ("LA", "RGBA")
"""Modes of `decode` with an alpha channel."""

FLAT = {"LA": "L", "RGBA": "RGB", "I;16": "L"}
"""The mode without alpha and of 8 bits of all others."""

_Color: TypeAlias = str | tuple[int, int, int, int]
_Box: TypeAlias = tuple[float, float, float, float]

_GREY = ("1", "L", "LA", "La")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")
# All others take 4 bytes for a pixel, and as many for one in a mode of `decode`.
_ONCE = (*ALPHA, *_SIXTEEN_BITS, "1", "L", "P", "RGB")
_COLOR = ("RGB", "RGBX", "RGBA", "RGBa", "P", "PA", "CMYK", "YCbCr", "LAB")

# Of an image that is converted to another mode.
_PIECES = 32

_DETAIL_LENGTH = 200

# Registers every format now; otherwise the first `Image.open` does, in several threads at once.
Image.init()

# Only one block of memory can be viewed as an array, and is given back at once.
_imaging.set_block_size((1 << 31) - (1 << 12))


def quiet_pillow() -> None:
    """Keeps Pillow and its libtiff from writing messages about unusual files to standard error.

    Applies to the whole process; Pillow still raises its exceptions.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    # libtiff is among the libraries that Pillow is linked to, unless it is built in.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler(None)


def open_image(data: bytes, formats: tuple[str, ...], limits: Limits) -> ImageFile.ImageFile:
    """Reads the header of an image.

    Args:
        data: the file, whole.
        formats: names of Pillow's formats, the only ones that are tried.
        limits: checked before anything is decoded.

    Returns:
        The image; its pixels are not decoded.

    Raises:
        RejectedImageError: with reason `NOT_AN_IMAGE`, `UNSUPPORTED_IMAGE`, `CORRUPT_IMAGE`,
            `TOO_MANY_PIXELS`, `TOO_COSTLY` or `NO_DECODER`.
    """
    if HEIC in formats:
        # Pillow knows the format only after its package was imported.
        formats = (HEIC,) if is_heic(data) else tuple(each for each in formats if each != HEIC)
    if formats == (HEIC,):
        register_heic()
        with _rejecting():
            check_heic(data, limits)
    if "ICO" in formats and data.startswith(b"\0\0\1\0"):
        check_pixels(*_largest_icon(data), limits)
    with _rejecting():
        safe = _without_tags(data)
        try:
            image = Image.open(io.BytesIO(safe), formats=formats)
        except UnidentifiedImageError:
            raise _unidentified(data, formats) from None
        if image.format == "PPM":
            check_portable_map(image)
    times = COSTS.get(str(image.format), 1)
    if image.mode not in _ONCE or (image.mode not in _SIXTEEN_BITS and ";16" in str(image.tile)):
        times = max(times, 2)
    if image.tile and image.tile[0].codec_name == "bmp_rle":
        _check_run_lengths(image.width, len(data))
        times = 2
    if isinstance(image, TiffImageFile):
        if image.tag_v2.get(_SUBFILE_TYPE) == _THUMBNAIL:
            detail = "its first page is a thumbnail, as in raw camera files"
            raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
        if image.tag_v2.get(PHOTOMETRIC_INTERPRETATION) == _YCBCR and "RGBX" in str(image.tile):
            times = 2  # of YCbCr, libtiff converts each color by itself
        _correct_planes(image)
    check_pixels(*image.size, limits, times=times)
    return image


def _check_run_lengths(width: int, size: int) -> None:
    """Refuses those that take minutes, or that skip so many rows that they take gigabytes."""
    if size > MAX_RUN_LENGTHS or width > MAX_SIDE:
        detail = f"run lengths of more than {MAX_RUN_LENGTHS} bytes, or of rows of more than"
        raise too_costly(f"{detail} {MAX_SIDE} pixels")


def _correct_planes(image: TiffImageFile) -> None:
    """Corrects how an uncompressed TIFF of separate channels of 16 bits is unpacked.

    Pillow 12.3 takes their samples for 8 bits.
    """
    if image.tag_v2.get(_BITS_PER_SAMPLE) not in _DEEP_COLOR:
        return
    order = "L" if image.tag_v2.prefix == b"II" else "B"
    image.tile = [
        tile._replace(args=(f"{tile.args[0]};16{order}", *tile.args[1:]))
        if isinstance(tile.args, tuple) and tile.args[0] in ("R", "G", "B", "A")
        else tile
        for tile in image.tile
    ]


def _without_tags(data: bytes) -> bytes:
    """The file without tags that Pillow would copy one by one; tags of a TIFF are checked.

    Raises:
        RejectedImageError: a TIFF has no directory; or it, a JPEG 2000 or a portable map is crafted
            to be slow or large.
    """
    if data.startswith(TIFF_MAGIC):
        check_tiff(data)
    elif data.startswith(b"\xff\xd8"):
        return _JPEG_EXIF.sub(rb"\1skip", data)
    elif data[4:8] == b"ftyp":
        return _AVIF_EXIF.sub(rb"\1skip", data)
    elif data.startswith((b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP")):
        check_jpeg2000(data)
    elif data.startswith(b"P"):
        check_header(data)
    return data


def is_plain_bmp(opened: ImageFile.ImageFile, size: int) -> bool:
    """Whether TensorFlow reads a BMP of `size` bytes correctly.

    It ignores palettes, masks and compression, and refuses a file with extra bytes at its end.
    """
    codec, _, start, arguments = opened.tile[0]
    layout: Any = arguments
    return (
        codec == "raw"
        and layout[0] in ("L", "BGR", "BGRX", "BGRA")
        and start + layout[1] * opened.height == size
    )


def frame_count(image: ImageFile.ImageFile) -> int:
    """The number of frames or pages of an opened file; for a TIFF, 2 means more than 1."""
    with _rejecting():
        if isinstance(image, TiffImageFile):
            return 2 if image.tag_v2.next else 1
        return int(getattr(image, "n_frames", 1))


def orientation_of(image: ImageFile.ImageFile) -> int:
    """The orientation of an opened image by its tags, 1 to 8; 1 when there is none."""
    if isinstance(image, TiffImageFile):
        tag = image.tag_v2.get(ORIENTATION)
        if tag is not None:
            return tag if tag in TURNS else 1
    if image.format == HEIC:
        return 1
    exif, xmp = image.info.get("exif", b""), image.info.get("xmp", b"")
    return tags_in(bytes(exif), xmp if isinstance(xmp, bytes) else b"")[0] or 1


def size_in_file(image: ImageFile.ImageFile) -> tuple[int, int]:
    """Height and width of an opened image's pixels before any rotation."""
    width, height = image.size
    # Pillow gives the size after rotation, if the tag is in the main directory of a TIFF.
    is_swapped = isinstance(image, TiffImageFile) and image.tag_v2.get(ORIENTATION) in _SIDEWAYS
    return (width, height) if is_swapped else (height, width)


def decode(image: ImageFile.ImageFile) -> Image.Image:
    """Decodes the first frame of an opened image, without rotating it.

    Returns:
        An image of mode `L`, `LA`, `RGB`, `RGBA` or `I;16` (grey of 16 bits).

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`, or `UNSUPPORTED_IMAGE` when its samples
            are neither 8 nor 16 bits.
    """
    with _rejecting():
        # The decoder of a portable map with another largest value than 255 or 65,535.
        if image.tile and image.tile[0].codec_name == "ppm":
            return decode_scaled(image)
        plain = decode_as_stored(image)
        mode = _plain_mode(image)
        if plain.mode != mode:
            # In pieces that are given up one by one, since both may not fit into memory. Each is
            # so large that it is returned to the system.
            step = max(1, plain.height // _PIECES)
            pieces = [*zip(strips(*size_of(plain), step), strips_of(plain, step), strict=True)]
            plain = Image.new(mode, plain.size, None)
            image.close()
            while pieces:
                rows, piece = pieces.pop()
                plain.paste(in_mode(piece, mode), (0, rows.start))
    if image.format == HEIC and plain.mode == "I;16":
        plain = Image.fromarray(widened(np.asarray(plain), bits_of(image)))
    plain.info.clear()  # metadata that Pillow would write again, such as a color profile
    return plain


def decode_as_stored(image: ImageFile.ImageFile) -> Image.Image:
    """Decodes the first frame of an opened image as it is in its file, so a palette stays one.

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`.
    """
    # Pillow rotates a TIFF while decoding, and drops the tag.
    orientation = orientation_of(image) if isinstance(image, TiffImageFile) else 1
    with _rejecting():
        image.load()
        return image if orientation == 1 else image.transpose(BACK[orientation])


def in_mode(image: Image.Image, mode: str, behind: _Color = "white") -> Image.Image:
    """An image that `decode` gave in another mode; `L` and `RGB` are laid over a background."""
    if image.mode == mode:
        return image
    if mode == "I;16":  # Pillow's own conversion cuts the values off at 255
        return Image.fromarray(np.asarray(image).astype(np.uint16))
    if image.mode == "I;16":
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ALPHA and mode in FLAT.values():
        background = Image.new("RGBA", image.size, behind)
        image = Image.alpha_composite(background, image.convert("RGBA"))
    return image.convert(mode)


def scaled(
    image: Image.Image, height: int, width: int, box: _Box | None = None, *, mixes: bool = True
) -> Image.Image:
    """An image, or a box of it, in another size; `mixes` is false for class indices."""
    if (width, height) == image.size and box in (None, (0, 0, width, height)):
        return image
    kind = Image.Resampling.LANCZOS if mixes else Image.Resampling.NEAREST
    return image.resize((width, height), kind, box)


def size_of(pixels: Any) -> tuple[int, int]:
    """Height and width of an image, or of the pixels `[height, width, channels]`."""
    shape = pixels.shape if isinstance(pixels, np.ndarray) else pixels.size[::-1]
    return shape[0], shape[1]


def strips_of(pixels: Any, step: int = 1) -> Iterator[Image.Image]:
    """The strips of an image, or of the pixels `[height, width, channels]`; see `strips`."""
    for rows in strips(*size_of(pixels), step):
        if isinstance(pixels, np.ndarray):
            yield Image.fromarray(pixels[rows, :, 0] if pixels.shape[2] == 1 else pixels[rows])
        else:
            yield pixels.crop((0, rows.start, pixels.width, rows.stop))


def in_strips(
    pixels: Any, mode: str, width: int, change: Callable[[Image.Image], Image.Image]
) -> Image.Image:
    """What `change` makes of an image or of pixels, strip by strip, in a mode and a width."""
    made = Image.new(mode, (width, size_of(pixels)[0]))
    for rows, strip in zip(strips(*size_of(pixels)), strips_of(pixels), strict=True):
        made.paste(change(strip), (0, rows.start))
    return made


def array_of(image: Image.Image) -> Any:
    """The pixels of an image; `np.asarray` would hold two copies."""
    return assembled(map(np.asarray, strips_of(image)), image.height)


def view_of(image: Image.Image) -> Any:
    """The pixels `[height, width, channels]` of an image in `L` or `RGB`, in its own memory.

    Color has four channels then. Of more than 2 GB, it is a copy of three.
    """
    try:
        pixels = np.frombuffer(pyarrow.array(image).buffers()[-1], np.uint8)
    except ValueError:  # it is in several blocks
        pixels = array_of(image)
    return pixels.reshape(*size_of(image), -1)


def grey_of(image: Image.Image, scale: int) -> Any:
    """The grey pixels of an image, reduced in strips: the whole of them may not fit into memory."""
    return np.concatenate([in_mode(strip, "L").reduce(scale) for strip in strips_of(image, scale)])


def _plain_mode(image: ImageFile.ImageFile) -> str:
    """The mode of `decode` that keeps all of an image, except 16-bit color."""
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format == "PPM"):
        return "I;16"
    if image.mode not in _GREY + _COLOR:
        detail = f"its samples have neither 8 nor 16 bits (Pillow's mode {image.mode})"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    if image.has_transparency_data:
        return "LA" if image.mode in _GREY else "RGBA"
    return "L" if image.mode in _GREY else "RGB"


def check_pixels(width: int, height: int, limits: Limits, *, times: float = 1) -> None:
    """Refuses an image of more pixels than the limit, of which each counts some times.

    Raises:
        RejectedImageError: with reason `TOO_MANY_PIXELS`.
    """
    if width * height * times > limits.max_pixels:
        counted = f", which count {times} times" if times > 1 else ""
        detail = f"{shown_size(height, width)}{counted}, more than {limits.max_pixels}"
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)


def _largest_icon(data: bytes) -> tuple[int, int]:
    """Width and height of the largest image in an icon, which Pillow decodes to open the file."""
    sizes = [(0, 0)]
    with contextlib.suppress(struct.error):
        for number in range(struct.unpack_from("<H", data, 4)[0]):
            (start,) = struct.unpack_from("<I", data, 6 + 16 * number + 12)
            if data[start : start + 8] == b"\x89PNG\r\n\x1a\n":
                sizes.append(struct.unpack_from(">II", data, start + 16))
            else:
                width, height, _, packing = struct.unpack_from("<4I", data, start + 4)
                if packing in (1, 2):
                    _check_run_lengths(width, len(data))
                    height *= 2  # as of a BMP
                sizes.append((width, height // 2))  # the other half is its mask
    return max(sizes, key=lambda size: size[0] * size[1])


def _unidentified(data: bytes, formats: tuple[str, ...]) -> RejectedImageError:
    """The reason why Pillow cannot open a file: unknown format, damage, or a missing decoder."""
    for format_ in formats:
        accept = Image.OPEN[format_][1]
        accepted = accept(data[:16]) if accept else False
        if isinstance(accepted, str):
            return RejectedImageError(Reason.UNSUPPORTED_IMAGE, accepted)
        if accepted:
            detail = f"begins like {format_}, but its header cannot be read"
            return RejectedImageError(Reason.CORRUPT_IMAGE, detail)
    return RejectedImageError(Reason.NOT_AN_IMAGE, describe_start(data))


@contextlib.contextmanager
def _rejecting() -> Iterator[None]:
    """Turns errors of Pillow about a file into a rejection."""
    try:
        yield
    except (RejectedImageError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, _one_line(error)) from None
    except Exception as error:  # any error: OSError, ValueError, SyntaxError, struct.error ...
        raise RejectedImageError(Reason.CORRUPT_IMAGE, _one_line(error)) from None


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    message = re.sub(r" at 0x\w+", "", message)  # addresses differ in every run
    return f"Pillow: {message}"[:_DETAIL_LENGTH]
