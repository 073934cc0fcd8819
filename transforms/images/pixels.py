"""Pixels that options change, and their new encoding."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image, ImageFile

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import deep_pixels, pillow_images
from transforms.images.check import (
    AS_TENSORFLOW,
    check_image,
    checked_header,
    decode_jpeg,
    decode_odd,
    decode_webp,
    grey_scale,
    seen_in_grey,
    seen_in_pixels,
    unchanged_image,
)
from transforms.images.checked_images import UNSEEN, CheckedImage, ImageInfo
from transforms.images.headers import PNG_MAX_SIDE, Header, image_format
from transforms.images.pillow_images import (
    ALPHA,
    FLAT,
    TURNS,
    Pixels,
    check_pixels,
    grey_of,
    in_mode,
    in_strips,
    open_image,
    scaled,
    size_of,
    view_of,
)
from transforms.images.pixel_options import (
    DEFAULT_LIMITS,
    FROM_HEIC,
    MAX_SIDE,
    TO_8_BITS,
    UNTOUCHED,
    Limits,
    Original,
    PixelOptions,
)
from transforms.images.tags import exif_of, exif_segment, read_tags

# Pixels to the bytes of a JPEG or PNG file.

# Level of zlib: photos take 6% more space than at Pillow's 6, and a third of the time.
_PNG_LEVEL = 3

# An encoded image below this is within every limit of TensorFlow's decoders.
_TRUSTED_PIXELS = 1 << 27


def encode_image(
    image: Image.Image | Pixels,
    format_: str,
    quality: int,
    orientation: int,
    limits: Limits,
) -> tuple[bytes, ImageInfo]:
    """The file that holds an image, with its EXIF orientation if that is not 1.

    Args:
        image: of mode `L`, `RGB`, `LA`, `RGBA` or `I;16`, a JPEG takes the first two; or color of
            16 bits, of two to four channels.
        format_: `jpeg` or `png`.
        quality: of a JPEG, 1 to 100.
        orientation: 1 to 8.
        limits: of the file.

    Raises:
        RejectedImageError: the file would be over a limit, or is more than its format can hold.
    """
    exif = exif_of(orientation) if orientation != 1 else b""
    most = MAX_SIDE if format_ == "jpeg" else PNG_MAX_SIDE
    if max(size_of(image)) > most:
        detail = f"{shown_size(*size_of(image))}; a side of a {format_.upper()} has at most {most}"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    if isinstance(image, np.ndarray):
        data = deep_pixels.encode_color(image, _PNG_LEVEL, exif)
    elif format_ == "jpeg":
        data = _encode_jpeg(image, quality, exif)
    else:
        file = io.BytesIO()
        image.save(file, "PNG", exif=exif, compress_level=_PNG_LEVEL)
        data = file.getvalue()
    try:
        info = check_image(data, limits=limits, mode="header")
        is_trusted = info.height * info.width < _TRUSTED_PIXELS
        return data, info if is_trusted else check_image(data, limits=limits)
    except RejectedImageError as error:
        detail = f"re-encoded as {format_}: {error.detail}"
        raise RejectedImageError(error.reason, detail) from None


def _encode_jpeg(image: Image.Image, quality: int, exif: bytes) -> bytes:
    """A baseline JPEG; color in 4:2:0, as `tf.io.encode_jpeg` writes it."""
    pixels = view_of(image)
    kind = ("GRAY", "Gray") if pixels.shape[2] == 1 else ("RGBX"[: pixels.shape[2]], "420")
    data: bytes = simplejpeg.encode_jpeg(pixels, quality, *kind, fastdct=False)
    if not exif:
        return data
    # After the JFIF segment, which comes first.
    start = 4 + int.from_bytes(data[4:6], "big")
    return data[:start] + exif_segment(exif) + data[start:]


# Changes an image's format, size, color and orientation, and reports the changes.
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

# Bytes that an image and its next copy may take together, as there may be two at once: for each
# allowed pixel, and for each byte of the file, of which photos have so many that it refuses none.
_COPIED_BYTES = 2.25
_TIMES_OF_FILE = 64

# A byte that is deflated for a PNG counts as a pixel, since it takes up to 50 ns; a byte of the
# file may become so many of them in any case: those of photos are fewer.
_PNG_OF_FILE = 24

_REENCODED = ("reencoded",)

# Modes by their channels, and those in which colors of transparent pixels have no weight.
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_MIXED = {"LA": "La", "RGBA": "RGBa"}


class _ImageFile:
    """An image file, and what is to become of its pixels.

    Attributes:
        header: before any rotation; the channels are 0 if only Pillow reads the file.
        opened: the file as Pillow opened it, if TensorFlow cannot read it or misreads it.
        tag: EXIF orientation of the file, 1 to 8; 0 if it has none.
        turn: the orientation to apply, 1 to 8.
        size: height and width for the pixels, before that.
        pixels: what was decoded, until it is changed.
        scale: of these: a large JPEG is decoded at 1/2, 1/4 or 1/8 of its size.
    """

    def __init__(self, data: bytes, options: PixelOptions, limits: Limits) -> None:
        """Reads the header: with Pillow if TensorFlow cannot read or would misread the file.

        Raises:
            RejectedImageError: neither reads it, or it is too large, now or after it is resized.
        """
        self.data, self.options, self.limits = data, options, limits
        self.header, self.opened = _examine(data, options, limits)
        self.tag, _ = read_tags(data, self.header.format)
        # Before it is decoded, when Pillow drops the tag of a TIFF.
        if self.opened is not None and (seen := pillow_images.orientation_of(self.opened)) != 1:
            self.tag = self.tag or seen
        self.turn = (self.tag or 1) if options.exif_orientation == "apply" else 1
        height, width = self.header.height, self.header.width
        if options.resize is not None:
            if self.turn > 4:
                width, height = options.resize.size(width, height)
            else:
                height, width = options.resize.size(height, width)
        self.size = height, width
        # Its rows get their new width before its columns get their new height.
        highest = max(height, self.header.height)
        if self.is_resized and highest * width > limits.max_pixels:
            detail = f"{shown_size(highest, width)} when it is resized, more than"
            raise RejectedImageError(Reason.TOO_MANY_PIXELS, f"{detail} {limits.max_pixels}")

    @property
    def is_resized(self) -> bool:
        """Whether the pixels get another size."""
        return self.size != (self.header.height, self.header.width)

    @property
    def is_right(self) -> bool:
        """Whether the file can be stored as it is."""
        header, options = self.header, self.options
        return (
            self.opened is None
            and not options.reencode
            and options.transcode in ("keep", "auto", header.format)
            and (self.is_resized, self.turn) == (False, 1)
            and options.color in ("keep", {1: "gray", 3: "rgb"}.get(header.channels))
        )

    @property
    def original(self) -> Original:
        """Its size, and the rotation of its pixels."""
        return Original(self.header.height, self.header.width, self.turn)

    def decode(self) -> str:
        """Decodes the pixels, and returns their mode."""
        if self.header.format != "jpeg":
            size = 1 if deep_pixels.channels_of(self.header, self.opened) == 1 else 4
            self._check_held(self.header.height * self.header.width * size)
        self.pixels, self.scale = self._decoded()
        self.opened = None  # which has them, too
        self.check_size(*size_of(self.pixels), self.scale)
        return _mode_of(self.pixels)

    def _check_held(self, held: int) -> None:
        allowed = _COPIED_BYTES * max(self.limits.max_pixels, DEFAULT_LIMITS.max_pixels)
        if held > max(allowed, _TIMES_OF_FILE * len(self.data)):
            size = shown_size(self.header.height, self.header.width)
            detail = f"{size}, of which a change holds {held} bytes, more than {allowed:.0f}"
            raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)

    def check_png(self, channels: int) -> None:
        """Refuses few bytes that take long to be decoded and written as a PNG.

        Args:
            channels: of the PNG; one of 16 bits is two.
        """
        header, written = self.header, channels * self.size[0] * self.size[1]
        if written > _PNG_OF_FILE * len(self.data):
            # Pillow decodes the first of several frames, a JPEG XL of any size takes that long.
            is_jxl = header.format == "jxl"
            decoded = 10 if is_jxl else header.planes * header.frames if header.channels else 2
            times = round(decoded + written / (header.height * header.width), 1)
            check_pixels(header.width, header.height, max(self.limits, DEFAULT_LIMITS), times=times)

    def _decoded(self) -> tuple[Any, int]:
        data, header = self.data, self.header
        if self.opened is not None:
            reduced = deep_pixels.reduced_numbers(self.opened)
            return reduced or pillow_images.decode(self.opened), 1
        if header.format == "jpeg" and header.plain:
            times = min(header.height // self.size[0], header.width // self.size[1])
            scale = next((each for each in (8, 4, 2) if each * _OVERSAMPLING <= times), 1)
            held = min(4 * header.planes, 2 * header.channels) if header.has_scans else 0
            held += header.channels // scale
            self._check_held(held * header.height * header.width)
            color = "GRAY" if self.options.color == "gray" or header.channels == 1 else "RGB"
            pixels = decode_jpeg(data, header, color, scale, **AS_TENSORFLOW)
            if pixels is not None:
                return pixels, scale
        elif header.format == "webp" and header.plain:
            pixels = decode_webp(data, header)
            if pixels is not None:
                return pixels, 1
        elif header.format in ("png", "bmp"):
            check_image(data, limits=self.limits)
            try:
                opened = open_image(data, (header.format.upper(),), self.limits)
                return pillow_images.decode(opened), 1
            except RejectedImageError:
                pass  # TensorFlow has just decoded it
        shown = decode_odd(data, header)
        return (shown[0] if shown.ndim == 4 else shown), 1

    def check_size(self, height: int, width: int, scale: int = 1) -> None:
        """Refuses pixels of another size than the header says."""
        if (height, width) != (-(-self.header.height // scale), -(-self.header.width // scale)):
            detail = f"{shown_size(height, width)}, but its header says otherwise"
            raise RejectedImageError(Reason.CORRUPT_IMAGE, detail)

    def wanted_mode(self, mode: str) -> str:
        """The mode with the wanted channels of a decoded image."""
        color = self.options.color
        if color == "keep" or (color == "gray" and mode == "I;16"):
            return mode
        return "RGB" if color == "rgb" else "L"

    def changed(self, mode: str) -> Image.Image:
        """What was decoded, which is let go, in the wanted mode, size and orientation.

        Raises:
            RejectedImageError: with reason `TOO_MANY_PIXELS`: copies take too much memory.
        """
        pixels, self.pixels = self.pixels, None
        height, width = self.size
        # Rows and columns added by rounding up a smaller scale are outside the image.
        box = (0, 0, self.header.width / self.scale, self.header.height / self.scale)
        mixed = _MIXED.get(mode, mode) if self.is_resized else mode
        is_array = isinstance(pixels, np.ndarray)
        is_copied = self.is_resized or is_array or pixels.mode != mode
        rows, columns = size_of(pixels)
        before = rows * columns * (pixels.shape[2] if is_array else 1 if pixels.mode == "L" else 4)
        after = max(rows, height) * width * (1 if mode == "L" else 4)
        # Each copy is made of the one before.
        is_copied_again = self.is_resized or self.turn != 1
        self._check_held(after + max(before * is_copied, after * is_copied_again))

        def narrowed(strip: Image.Image) -> Image.Image:
            strip = in_mode(in_mode(strip, mode), mixed)
            return scaled(strip, strip.height, width, (*box[:3], strip.height))

        image: Image.Image = pixels
        if is_copied:
            # As Pillow does it, first each row and then each column.
            image = in_strips(pixels, mixed, width, narrowed)
            del pixels
            image = scaled(image, height, width, (0, 0, width, box[3]))
            image = in_mode(image, mode)
        return image if self.turn == 1 else image.transpose(TURNS[self.turn])

    def changed_deep(self, pixels: Pixels) -> Pixels:
        """Decoded pixels of 16 bits with the wanted channels, size and orientation."""
        self.check_size(*pixels.shape[:2])
        if self.options.color != "keep":
            recolored = functools.partial(deep_pixels.recolored, color=self.options.color)
            pixels = deep_pixels.by_strips(pixels, recolored)
        if self.is_resized:
            pixels = deep_pixels.in_size(pixels, *self.size)
        return deep_pixels.turned(pixels, self.turn)

    def stored_format(self, mode: str) -> str:
        """`jpeg` or `png`: as requested, or JPEG for lossy formats and PNG for all others."""
        if self.options.transcode in ("jpeg", "png"):
            return self.options.transcode
        is_lossless_webp = self.header.format == "webp" and b"VP8L" in self.data
        is_photo = self.header.format in _PHOTO_FORMATS and not is_lossless_webp
        return "jpeg" if is_photo and mode in ("L", "RGB") else "png"

    def changes(
        self, mode: str, final: str, *, transcoded: bool = False, to_8_bits: bool = False
    ) -> tuple[str, ...]:
        """The changes from an image of Pillow's `mode`, as it was decoded, to one of `final`."""
        channels = self.header.channels or Image.getmodebands(mode)
        is_recolored = self.options.color != "keep" and Image.getmodebands(final) != channels
        was_done = {
            "transcoded": transcoded,
            "resized": self.is_resized,
            "turned": self.turn != 1,
            "recolored": is_recolored,
            "flattened": mode in ALPHA and final not in ALPHA,
            "first_frame": self.header.frames > 1,
            FROM_HEIC: self.header.format == "heif",
            TO_8_BITS: to_8_bits,
        }
        return tuple(name for name, is_so in was_done.items() if is_so)


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
        with_hash: whether to look at the pixels that are decoded, and to hash them.

    Raises:
        RejectedImageError: as `check_image`, and `UNSUPPORTED_IMAGE` for an image that cannot be
            converted.
    """
    file = _ImageFile(data, options, limits)
    header = file.header
    is_deep = deep_pixels.is_deep(data, header, file.opened)
    if is_deep and options.depth == 16:
        # As `stored_pixels` counts them.
        wanted = {"rgb": 3, "gray": 1}.get(options.color)
        channels = wanted or deep_pixels.channels_of(header, file.opened)
        check_pixels(*file.size[::-1], limits, times=channels)
    if file.is_right:
        return unchanged_image(data, header, UNTOUCHED, mode=check, with_hash=with_hash)
    deep = None
    if options.depth == 16:
        deep = deep_pixels.deep_pixels(data, header, file.opened, limits)
    kept = (file.tag or 1 if options.exif_orientation == "keep" else 1, limits)
    if deep is not None:
        mode = _MODES[deep.shape[2]]
        deep = file.changed_deep(deep)
        file.check_png(2 * deep.shape[2])
        format_, final_mode = "png", _MODES[deep.shape[2]]
        picture = Image.fromarray(deep[:, :, 0]) if deep.shape[2] == 1 else deep
        stored, info = encode_image(picture, format_, 0, *kept)
        seen = seen_in_pixels(deep) if with_hash else UNSEEN
    else:
        mode = file.decode()
        final_mode = file.wanted_mode(mode)
        format_ = file.stored_format(final_mode)
        if format_ == "jpeg":
            final_mode = FLAT.get(final_mode, final_mode)
        pixels = file.changed(final_mode)
        if format_ == "png":
            file.check_png(2 if final_mode == "I;16" else Image.getmodebands(final_mode))
        stored, info = encode_image(pixels, format_, options.jpeg_quality, *kept)
        seen = UNSEEN
        if with_hash:
            size = size_of(pixels)
            scale = grey_scale(*size)
            seen = seen_in_grey(grey_of(pixels, scale), *size, scale)
    loses = is_deep and deep is None and final_mode != "I;16"
    changes = file.changes(mode, final_mode, transcoded=format_ != header.format, to_8_bits=loses)
    return CheckedImage(stored, info, file.original, changes or _REENCODED, seen, file.tag)


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
    file = _ImageFile(data, options, limits)
    header = file.header
    keeps = options.color == "keep" and file.opened is None
    mode = "" if keeps and header.channels in (2, 4) else file.decode()
    if keeps and (mode in ("", *ALPHA) or Image.getmodebands(mode) != header.channels):
        # Pillow applies transparent colors and palettes that TensorFlow ignores.
        file.pixels, file.scale = decode_odd(data, header, expand_animations=False), 1
        mode = _mode_of(file.pixels)
    final_mode = file.wanted_mode(mode)
    final = file.changed("L" if final_mode == "I;16" else final_mode)
    info = ImageInfo(header.format, final.height, final.width, len(final.getbands()))
    changes = file.changes(mode, final.mode) or UNTOUCHED
    return CheckedImage(final.tobytes(), info, file.original, changes, orientation=file.tag)


def _examine(
    data: bytes, options: PixelOptions, limits: Limits
) -> tuple[Header, ImageFile.ImageFile | None]:
    """The header, and the file as Pillow opened it if TensorFlow cannot read or misreads it."""
    try:
        header = checked_header(data, limits)
    except RejectedImageError as refused:
        formats = _SECOND_CHANCE.get(image_format(data))
        if options.transcode == "keep" or refused.reason not in _MAY_BE_FOREIGN or formats is None:
            raise
        opened = open_image(data, formats, limits)
    else:
        if options.transcode == "keep" or header.format != "bmp":
            return header, None
        opened = open_image(data, ("BMP",), limits)
        if pillow_images.is_plain_bmp(opened, len(data)):
            return header, None
    size, frames = pillow_images.size_in_file(opened), pillow_images.frame_count(opened)
    return Header(str(opened.format).lower(), *size, channels=0, frames=frames), opened


def _mode_of(pixels: Any) -> str:
    """The mode of an image, or of 8-bit pixels `[height, width, channels]`."""
    return _MODES[pixels.shape[2]] if isinstance(pixels, np.ndarray) else str(pixels.mode)


# Decodes the image of a record for training, with simplejpeg and Pillow.

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
        deep = deep_pixels.deep_pixels(data, header, None, limits)
        if deep is not None:
            return _of_channels(deep, channels)
    if format_ == "jpeg" and header.plain:
        pixels = decode_jpeg(data, header, "GRAY" if channels == 1 else "RGB", **AS_TENSORFLOW)
    elif format_ in _OF_PILLOW:
        pixels = _pillow_pixels(data, _OF_PILLOW[format_], limits)
    if pixels is None:
        pixels = decode_odd(data, header, expand_animations=False).copy()
    pixels = _of_channels(pixels, channels)
    # Those that `tf.io.decode_image` gives for this dtype.
    return pixels if depth == 8 else pixels * np.uint16(257 if format_ == "png" else 256)


def _of_channels(pixels: Any, channels: int) -> Any:
    if pixels.shape[2] < 3:
        return np.repeat(pixels[:, :, :1], channels, axis=2)
    return pixels if pixels.shape[2] == channels else np.ascontiguousarray(pixels[:, :, :channels])


def _pillow_pixels(data: bytes, format_: str, limits: Limits) -> Any:
    """The first frame; None in doubt."""
    try:
        # A copy, which may be written to.
        pixels = np.array(pillow_images.decode(open_image(data, (format_,), limits)))
    except RejectedImageError:
        return None
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
