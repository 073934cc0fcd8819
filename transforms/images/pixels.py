"""Pixels that options change, and their new encoding."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
import simplejpeg
from PIL import Image, ImageFile

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import deep_pixels, pillow_images
from transforms.images.check import (
    CheckedImage,
    ImageInfo,
    check_image,
    checked_header,
    decode_pixels,
    examine_image,
    hash_of_image,
    hash_of_pixels,
)
from transforms.images.headers import Header, image_format
from transforms.images.pillow_images import TURNS, open_image
from transforms.images.pixel_options import (
    FROM_HEIC,
    MAX_SIDE,
    TO_8_BITS,
    UNTOUCHED,
    Limits,
    Original,
    PixelOptions,
)
from transforms.images.tags import read_tags

# Pixels to the bytes of a JPEG or PNG file.

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
    return _checked(data, format_, image.width * image.height, limits)


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
    return _checked(data, "png", height * width, limits)


def _checked(data: bytes, format_: str, pixels: int, limits: Limits) -> tuple[bytes, ImageInfo]:
    mode = "header" if pixels < _TRUSTED_PIXELS else "full"
    try:
        return data, check_image(data, limits=limits, mode=mode)
    except RejectedImageError as error:
        detail = f"re-encoded as {format_}: {error.detail}"
        raise RejectedImageError(error.reason, detail) from None


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


# Changes an image's format, size, colour and orientation, and reports the changes.
#
# An image that needs no change is stored byte for byte. Any other is decoded once to the pixels
# that TensorFlow would give, changed, and encoded as JPEG or PNG. Pillow decodes formats that
# TensorFlow cannot read.
#
# All functions may be called from several threads.

# Formats whose files are nearly always lossy: as PNG they would be several times as large.
_PHOTO_FORMATS = ("jpeg", "webp", "avif", "heif", "jpeg2000", "jxl")

# Reasons for which TensorFlow refuses a header but Pillow may still read it.
_SECOND_CHANCE = {"": pillow_images.FOREIGN, "bmp": ("BMP",), "webp": ("WEBP",)}
_MAY_BE_FOREIGN = (Reason.NOT_AN_IMAGE, Reason.CORRUPT_IMAGE)

# A JPEG is decoded at the smallest of the scales 1, 1/2, 1/4 and 1/8 that is this many times as
# large as its new size: the difference to full decoding is far below the loss of encoding.
_OVERSAMPLING = 2

_FILTER = Image.Resampling.LANCZOS

_REENCODED = ("reencoded",)

# Modes by their channels.
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


# The header before any rotation, the EXIF orientation, and the file as Pillow opened it, or None.
# Pillow opens a file that TensorFlow cannot read; the channels in its header are 0.
_Examined = tuple[Header, int, ImageFile.ImageFile | None]


class _Target(NamedTuple):
    """The size for the pixels before rotation, and the orientation to apply (1 to 8)."""

    height: int
    width: int
    turn: int


def change_pixels(
    data: bytes,
    options: PixelOptions,
    *,
    limits: Limits,
    check: str = "full",
    with_hash: bool = False,
) -> CheckedImage:
    """Returns the image to store.

    The same options and library versions give the same bytes. Metadata of a changed image is left
    out, except for an orientation that is kept. Colour profiles are not applied: TensorFlow ignores
    them too.

    Args:
        data: the file, whole.
        options: what to do.
        limits: checked before anything is decoded, and on the result.
        check: mode of `check_image` for images that are stored as they are; others are always
            decoded and so checked.
        with_hash: whether to hash the pixels that are decoded.

    Raises:
        RejectedImageError: as `check_image`, and `UNSUPPORTED_IMAGE` for an image that cannot be
            converted.
    """
    header, orientation, opened = _examine(data, options, limits)
    target = _target(header, orientation, options)
    if opened is None and _is_right(header, target, options):
        info, perceptual_hash = examine_image(data, header, mode=check, with_hash=with_hash)
        return CheckedImage(
            data, info, Original(info.height, info.width, 1), UNTOUCHED, perceptual_hash
        )
    if opened is None and options.exif_orientation == "keep":
        orientation = read_tags(data, header.format)[0] or 1
    # A JPEG, of which there are most, is not asked.
    is_deep = header.format in deep_pixels.DEEP_FORMATS and deep_pixels.is_deep(
        data, header.format, opened
    )
    if options.depth == 16:
        deep = deep_pixels.deep_pixels(data, header.format, opened, limits)
        if deep is not None:
            examined = (header, orientation, opened)
            return _change_deep(deep, examined, target, options, limits, with_hash=with_hash)
    image, scale = _decode_whole(data, header, opened, target, options, limits)
    recolored = _recolored(image, options)
    stored_format = _stored_format(data, header, recolored, options)
    fitting = fitting_jpeg(recolored) if stored_format == "jpeg" else recolored
    final = _resized_and_turned(fitting, header, target, scale)
    kept = orientation if options.exif_orientation == "keep" else 1
    stored, info = encode_image(final, stored_format, options.jpeg_quality, kept, limits)
    changes = _changes(
        header,
        target,
        options,
        *(image.mode, final.mode),
        transcoded=stored_format != header.format,
        to_8_bits=is_deep and final.mode != "I;16",
    )
    original = Original(header.height, header.width, target.turn)
    perceptual_hash = hash_of_image(fitting_jpeg(final)) if with_hash else None
    return CheckedImage(stored, info, original, changes or _REENCODED, perceptual_hash, orientation)


def _change_deep(
    deep: deep_pixels.Pixels,
    examined: _Examined,
    target: _Target,
    options: PixelOptions,
    limits: Limits,
    *,
    with_hash: bool,
) -> CheckedImage:
    """The image to store, of pixels of 16 bits: a PNG that keeps them."""
    header, orientation, _ = examined
    if deep.shape[:2] != (header.height, header.width):
        raise _other_size(*deep.shape[:2])
    final = deep_pixels.recolored(deep, options.color)
    if _is_resized(header, target):
        _check_target(target, limits)
        final = deep_pixels.resized(final, target.height, target.width)
    final = deep_pixels.turned(final, target.turn)
    kept = orientation if options.exif_orientation == "keep" else 1
    stored, info = encode_deep(final, kept, limits)
    modes = (_MODES[pixels.shape[2]] for pixels in (deep, final))
    is_png = header.format == "png"
    changes = _changes(header, target, options, *modes, transcoded=not is_png)
    original = Original(header.height, header.width, target.turn)
    perceptual_hash = hash_of_pixels((final >> 8).astype(np.uint8)) if with_hash else None
    return CheckedImage(stored, info, original, changes or _REENCODED, perceptual_hash, orientation)


def raw_pixels(data: bytes, options: PixelOptions, *, limits: Limits) -> CheckedImage:
    """Returns the decoded and changed pixels of an image, without encoding them.

    Args:
        data: the file, whole.
        options: what to do; with none, the pixels are those of `tf.io.decode_image` (of an
            animation, the first frame).
        limits: checked before anything is decoded, and on the result.

    Returns:
        `data` is uint8 of height x width x channels, as `info` has them; its format is that of the
        file.

    Raises:
        RejectedImageError: as `change_pixels`.
    """
    header, orientation, opened = _examine(data, options, limits)
    target = _target(header, orientation, options)
    image, scale = _decode_whole(data, header, opened, target, options, limits)
    is_plain = not has_alpha(image) and len(image.getbands()) == header.channels
    if options.color == "keep" and opened is None and not is_plain:
        # Pillow applies transparent colors and palettes that TensorFlow ignores.
        shown = decode_pixels(data, header.format, expand_animations=False)
        image = _image_of(shown.numpy())
    recolored = _recolored(image, options)
    fitting = fitting_jpeg(recolored) if recolored.mode == "I;16" else recolored
    final = _resized_and_turned(fitting, header, target, scale)
    info = ImageInfo(header.format, final.height, final.width, len(final.getbands()))
    changes = _changes(header, target, options, image.mode, final.mode) or UNTOUCHED
    original = Original(header.height, header.width, target.turn)
    tagged = 0 if opened is None else orientation
    return CheckedImage(final.tobytes(), info, original, changes, orientation=tagged)


def _examine(data: bytes, options: PixelOptions, limits: Limits) -> _Examined:
    """Reads the header: with Pillow if TensorFlow cannot read or would misread the file."""
    try:
        header = checked_header(data, limits)
    except RejectedImageError as refused:
        if options.transcode == "keep" or refused.reason not in _MAY_BE_FOREIGN:
            raise
        if (formats := _SECOND_CHANCE.get(image_format(data))) is None:
            raise
        return _foreign(open_image(data, formats, limits))
    if options.transcode != "keep" and header.format == "bmp":
        opened = open_image(data, ("BMP",), limits)
        if not pillow_images.is_plain_bmp(opened, len(data)):
            return _foreign(opened)
    orientation = 1
    if options.exif_orientation == "apply":
        orientation = read_tags(data, header.format)[0] or 1
    return header, orientation, None


def _foreign(opened: ImageFile.ImageFile) -> _Examined:
    height, width = pillow_images.size_in_file(opened)
    orientation = pillow_images.orientation_of(opened)
    frames = pillow_images.frame_count(opened)
    header = Header(str(opened.format).lower(), height, width, channels=0, frames=frames)
    return header, orientation, opened


def _target(header: Header, orientation: int, options: PixelOptions) -> _Target:
    turn = orientation if options.exif_orientation == "apply" else 1
    height, width = header.height, header.width
    if options.resize is not None:
        if turn > 4:
            width, height = options.resize.size(width, height)
        else:
            height, width = options.resize.size(height, width)
    return _Target(height, width, turn)


def _is_right(header: Header, target: _Target, options: PixelOptions) -> bool:
    """Whether the file can be stored as it is."""
    return (
        not options.reencode
        and options.transcode in ("keep", "auto", header.format)
        and target == (header.height, header.width, 1)
        and options.color in ("keep", {1: "gray", 3: "rgb"}.get(header.channels))
    )


def _check_target(target: _Target, limits: Limits) -> None:
    """Refuses an image that would become too large, before resizing it."""
    if target.height * target.width > limits.max_pixels:
        size = shown_size(target.height, target.width)
        detail = f"{size} when it is resized, more than {limits.max_pixels}"
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)


def _changes(
    header: Header,
    target: _Target,
    options: PixelOptions,
    mode: str,
    final: str,
    *,
    transcoded: bool = False,
    to_8_bits: bool = False,
) -> tuple[str, ...]:
    """The changes from an image of Pillow's `mode`, as it was decoded, to one of mode `final`."""
    channels = header.channels or Image.getmodebands(mode)
    was_done = {
        "transcoded": transcoded,
        "resized": _is_resized(header, target),
        "turned": target.turn != 1,
        "recolored": options.color != "keep" and Image.getmodebands(final) != channels,
        "flattened": mode in ALPHA and final not in ALPHA,
        "first_frame": header.frames > 1,
        FROM_HEIC: header.format == "heif",
        TO_8_BITS: to_8_bits,
    }
    return tuple(name for name, is_so in was_done.items() if is_so)


def _is_resized(header: Header, target: _Target) -> bool:
    return (target.height, target.width) != (header.height, header.width)


def _resized_and_turned(
    image: Image.Image, header: Header, target: _Target, scale: int
) -> Image.Image:
    if _is_resized(header, target):
        # Rows and columns added by rounding up a smaller scale are outside the image.
        box = (0, 0, header.width / scale, header.height / scale)
        image = image.resize((target.width, target.height), _FILTER, box)
    return image if target.turn == 1 else image.transpose(TURNS[target.turn])


def _decode_whole(
    data: bytes,
    header: Header,
    opened: ImageFile.ImageFile | None,
    target: _Target,
    options: PixelOptions,
    limits: Limits,
) -> tuple[Image.Image, int]:
    """Like `_decode`, if the new size is within the limits and the header has the true size."""
    if _is_resized(header, target):
        _check_target(target, limits)
    image, scale = _decode(data, header, opened, target, options, limits)
    if image.size != (-(-header.width // scale), -(-header.height // scale)):
        raise _other_size(image.height, image.width)
    return image, scale


def _other_size(height: int, width: int) -> RejectedImageError:
    detail = f"{shown_size(height, width)}, but its header says otherwise"
    return RejectedImageError(Reason.CORRUPT_IMAGE, detail)


def _decode(
    data: bytes,
    header: Header,
    opened: ImageFile.ImageFile | None,
    target: _Target,
    options: PixelOptions,
    limits: Limits,
) -> tuple[Image.Image, int]:
    """The pixels, and the scale: a large JPEG is decoded at 1/2, 1/4 or 1/8 of its size."""
    if opened is not None:
        return deep_pixels.reduced_numbers(opened) or pillow_images.decode(opened), 1
    if header.format == "jpeg" and header.plain:
        times = min(header.height // target.height, header.width // target.width)
        scale = next((each for each in (8, 4, 2) if each * _OVERSAMPLING <= times), 1)
        pixels = _decode_jpeg(data, header, scale, is_grey=options.color == "gray")
        if pixels is not None:
            return pixels, scale
    elif header.format in ("png", "bmp"):
        check_image(data, limits=limits)
        try:
            opened = open_image(data, (header.format.upper(),), limits)
            return pillow_images.decode(opened), 1
        except RejectedImageError:
            pass  # TensorFlow has just decoded it
    shown = decode_pixels(data, header.format).numpy()
    return _image_of(shown[0] if shown.ndim == 4 else shown), 1


def _decode_jpeg(data: bytes, header: Header, scale: int, *, is_grey: bool) -> Image.Image | None:
    """A JPEG as TensorFlow decodes it, reduced by a scale; None when in doubt."""
    height, width = -(-header.height // scale), -(-header.width // scale)
    try:
        pixels = simplejpeg.decode_jpeg(
            data,
            "GRAY" if is_grey or header.channels == 1 else "RGB",
            fastdct=True,
            fastupsample=False,
            min_height=height,
            min_width=width,
            min_factor=scale,
            strict=True,
        )
    except ValueError:
        return None
    return _image_of(pixels) if pixels.shape[:2] == (height, width) else None


def _image_of(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Image.Image:
    """The image with the pixels `[height, width, channels]`."""
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _recolored(image: Image.Image, options: PixelOptions) -> Image.Image:
    if options.color == "keep" or (options.color == "gray" and image.mode == "I;16"):
        return image
    flat = fitting_jpeg(image)
    return flat.convert("RGB" if options.color == "rgb" else "L")


def _stored_format(data: bytes, header: Header, image: Image.Image, options: PixelOptions) -> str:
    """`jpeg` or `png`: as requested, or JPEG for lossy formats and PNG for all others."""
    if options.transcode in ("jpeg", "png"):
        return options.transcode
    is_lossless_webp = header.format == "webp" and b"VP8L" in data
    is_photo = header.format in _PHOTO_FORMATS and not is_lossless_webp
    return "jpeg" if is_photo and image.mode in ("L", "RGB") else "png"
