"""Reading images with Pillow: what TensorFlow cannot read, and EXIF orientations.

Pillow alone decides here whether a file is sound: it refuses truncated data, as it does by default.
What is wrong with a file is a `RejectedImageError`, whatever Pillow raised.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import re
import struct
import warnings
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError, _imaging
from PIL.TiffImagePlugin import TiffImageFile

from transforms.core.check import Limits
from transforms.core.rejections import Reason, RejectedImageError

# TGA has no signature: it comes last.
FOREIGN = ("TIFF", "AVIF", "JPEG2000", "ICO", "PPM", "TGA")

# How to turn pixels so that they are upright, by EXIF orientation.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BACK = TURNS | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}

_SIDEWAYS = (5, 6, 7, 8)

# A TIFF's page that is a smaller version of another page.
_SUBFILE_TYPE = 0x00FE
_THUMBNAIL = 1

_ORIENTATION = 0x0112
# Formats whose tag TensorFlow passes over; it turns a JPEG XL.
_TAGGED = ("jpeg", "png", "webp")
# One of them is in every PNG with an orientation; without one, Pillow would decode the file.
_PNG_TAGS = (b"eXIf", b"Raw profile type", b"tiff:Orientation")

_GREY = ("1", "L", "LA", "La")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")
_COLOR = ("RGB", "RGBX", "RGBA", "RGBa", "P", "PA", "CMYK", "YCbCr", "LAB")

_DETAIL_LENGTH = 200

# Registers every format now; the first `Image.open` would, in several threads at once.
Image.init()


def quiet_pillow() -> None:
    """Keeps Pillow and its libtiff from writing about odd files to the standard error.

    For the whole process: whoever opens files with Pillow still gets its exceptions.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # libtiff is among the libraries that Pillow is linked to, unless it is inside of it.
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
        RejectedImageError: with reason `NOT_AN_IMAGE`, `UNSUPPORTED_IMAGE`, `CORRUPT_IMAGE` or
            `TOO_MANY_PIXELS`.
    """
    if "ICO" in formats and data.startswith(b"\0\0\1\0"):
        _check_pixels(*_largest_icon(data), limits)
    with _rejecting():
        try:
            image = Image.open(io.BytesIO(data), formats=formats)
        except UnidentifiedImageError:
            raise _unidentified(data, formats) from None
    if isinstance(image, TiffImageFile) and image.tag_v2.get(_SUBFILE_TYPE) == _THUMBNAIL:
        detail = "its first page is a thumbnail, as in raw files of cameras"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    _check_pixels(*image.size, limits)
    return image


def frame_count(image: ImageFile.ImageFile) -> int:
    """How many frames or pages an opened file has."""
    with _rejecting():
        return int(getattr(image, "n_frames", 1))


def orientation_of(image: ImageFile.ImageFile) -> int:
    """The EXIF orientation of an opened image, 1 to 8; 1 when there is none that makes sense."""
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # of every kind; a damaged tag says nothing, and the pixels may be sound
        return 1
    return int(orientation) if orientation in TURNS else 1


def size_in_file(image: ImageFile.ImageFile) -> tuple[int, int]:
    """Height and width of an opened image's pixels before anything turns them."""
    width, height = image.size
    # Pillow gives the size of the turned picture, if the tag is where TIFF has it.
    is_swapped = isinstance(image, TiffImageFile) and image.tag_v2.get(_ORIENTATION) in _SIDEWAYS
    return (width, height) if is_swapped else (height, width)


def read_orientation(data: bytes, format_: str, limits: Limits) -> int:
    """The EXIF orientation of a file of a format that TensorFlow reads, 1 to 8.

    Raises:
        RejectedImageError: with reason `TOO_MANY_PIXELS`; more than Pillow opens.
    """
    if format_ not in _TAGGED or (format_ == "png" and not any(tag in data for tag in _PNG_TAGS)):
        return 1
    try:
        return orientation_of(open_image(data, (format_.upper(),), limits))
    except RejectedImageError as error:
        if error.reason is Reason.TOO_MANY_PIXELS:
            raise
        return 1


def exif_of(orientation: int) -> bytes:
    """An EXIF block with nothing but an orientation, as JPEG has it in its APP1 segment."""
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    return exif.tobytes()


def decode(image: ImageFile.ImageFile) -> Image.Image:
    """Decodes the first frame of an opened image, the pixels as they are in the file.

    Returns:
        An image of mode `L`, `LA`, `RGB`, `RGBA` or `I;16` (grey of 16 bits).

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`, or `UNSUPPORTED_IMAGE` when its samples
            are neither 8 nor 16 bits.
    """
    # Pillow turns a TIFF while it decodes, and forgets the tag.
    orientation = orientation_of(image) if isinstance(image, TiffImageFile) else 1
    with _rejecting():
        image.load()
        plain = _in_mode(image, _plain_mode(image))
    plain.info.clear()  # what Pillow would write again, such as a colour profile
    return plain if orientation == 1 else plain.transpose(_BACK[orientation])


def _plain_mode(image: ImageFile.ImageFile) -> str:
    """The mode of `decode` that holds all of an image, but for 16 bits of colour."""
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format == "PPM"):
        return "I;16"
    if image.mode not in _GREY + _COLOR:
        detail = f"its samples are of Pillow's mode {image.mode}, neither 8 nor 16 bits"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    if image.has_transparency_data:
        return "LA" if image.mode in _GREY else "RGBA"
    return "L" if image.mode in _GREY else "RGB"


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode == mode:
        return image
    if mode == "I;16":  # Pillow's own conversion cuts the values off at 255
        return Image.fromarray(np.asarray(image).astype(np.uint16))
    return image.convert(mode)


def _check_pixels(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.max_pixels:
        detail = f"{width}x{height} pixels, more than {limits.max_pixels}"
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)


def _largest_icon(data: bytes) -> tuple[int, int]:
    """Width and height of the largest picture in an icon, which Pillow decodes to open the file."""
    sizes = [(0, 0)]
    with contextlib.suppress(struct.error):
        for number in range(struct.unpack_from("<H", data, 4)[0]):
            (start,) = struct.unpack_from("<I", data, 6 + 16 * number + 12)
            if data[start : start + 8] == b"\x89PNG\r\n\x1a\n":
                sizes.append(struct.unpack_from(">II", data, start + 16))
            else:
                width, height = struct.unpack_from("<II", data, start + 4)
                sizes.append((width, height // 2))  # the other half is its mask
    return max(sizes, key=lambda size: size[0] * size[1])


def _unidentified(data: bytes, formats: tuple[str, ...]) -> RejectedImageError:
    """Why Pillow does not open a file: it is none of the formats, damaged, or needs a decoder."""
    for format_ in formats:
        accept = Image.OPEN[format_][1]
        accepted = accept(data[:16]) if accept else False
        if isinstance(accepted, str):
            return RejectedImageError(Reason.UNSUPPORTED_IMAGE, accepted)
        if accepted:
            detail = f"begins like {format_}, but its header cannot be read"
            return RejectedImageError(Reason.CORRUPT_IMAGE, detail)
    detail = f"begins with the bytes {data[:8].hex(' ')}"
    return RejectedImageError(Reason.NOT_AN_IMAGE, detail)


@contextlib.contextmanager
def _rejecting() -> Iterator[None]:
    """Turns what Pillow raises about a file into a rejection."""
    try:
        yield
    except (RejectedImageError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, _one_line(error)) from None
    except Exception as error:  # of every kind: OSError, ValueError, SyntaxError, struct.error ...
        raise RejectedImageError(Reason.CORRUPT_IMAGE, _one_line(error)) from None


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    message = re.sub(r" at 0x\w+", "", message)  # an address is another one in every run
    return f"Pillow: {message}"[:_DETAIL_LENGTH]
