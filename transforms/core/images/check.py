"""Checks whether `tf.io.decode_image(data)` decodes a file, mostly without TensorFlow.

The rule: TensorFlow decodes every image in a shard. Fast decoders accept the files that it
certainly decodes (nearly every JPEG and PNG); any other file goes to `tf.io.decode_image`, which is
imported for the first of them. Limits are checked from the header
before anything is decoded, so that one decompression bomb does not kill a worker.

All functions may be called from several threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import string
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import simplejpeg

from transforms.core.formats import headers
from transforms.core.formats.signatures import describe_start
from transforms.core.images.choices import CHECK_MODES
from transforms.core.images.image_limits import DEFAULT_LIMITS as DEFAULT_LIMITS
from transforms.core.images.image_limits import Limits as Limits
from transforms.core.images.perceptual_hash import grey_scale, hash_of_grey, hash_of_pixels
from transforms.core.rejections import Reason, RejectedImageError
from transforms.core.shown_text import shown_size

_DETAIL_LENGTH = 200

# libpng refuses any chunk except IDAT above 8 MB; half of that is certainly accepted.
_PNG_CHUNK_LIMIT = 4 << 20
_PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_ADAM7 = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)
_LETTERS = frozenset(string.ascii_letters.encode())
_INFLATE_STEP = 1 << 12

# Beginnings of lines that TensorFlow's C++ (during its import) and libjpeg (about damaged files)
# write to the standard error.
_NOISE = re.compile(
    rb"WARNING: All log messages before absl|[IW]\d{4} \d\d:\d\d:|Application transferred"
    rb"|Arithmetic|Bogus |CCIR601|Caution: quantization|Corrupt JPEG|DCT |Didn't expect"
    rb"|Empty (JPEG|input)|Fractional sampling|Huffman |Image too|Improper call|Inconsistent prog"
    rb"|Input file|Invalid (JPEG|SOS|component|progressive)|Maximum supported image|Missing Huffman"
    rb"|Not a JPEG|Premature end|Quantization table|Requested feature|Sampling factors|Sorry, "
    rb"|Too many color|Unknown Adobe|Unsupported (JPEG|color|marker)|Warning: unknown JFIF"
)

_stderr_lock = threading.Lock()


class ImageInfo(NamedTuple):
    """An accepted image.

    Attributes:
        format: `jpeg`, `png`, `gif`, `bmp`, `webp` or `jxl`, by content, never by name.
        height: in pixels.
        width: in pixels.
        channels: of `tf.io.decode_image(data)`: 1, 3 or 4, or 2 for grey with alpha.
    """

    format: str
    height: int
    width: int
    channels: int


def check_image(data: bytes, *, limits: Limits, mode: str = "full") -> ImageInfo:
    """Accepts exactly the images that `tf.io.decode_image(data)` decodes, within the limits.

    Some files are refused although TensorFlow 2.21 returns something for them:

    - an animated WebP without alpha, which it writes past the end of its own buffer;
    - files made to take very long (`TOO_COSTLY`): a JPEG of more than `headers.MAX_SCANS` scans, a
      PNG with more than `headers.MAX_PACKED_TEXTS` compressed texts, and a file in more than
      `headers.MAX_PARTS` markers, chunks or blocks. Kilobytes can hold minutes of work.

    Args:
        data: the file, whole.
        limits: checked before anything is decoded, in both modes.
        mode: `full` decodes every pixel; `header` only reads the header and never imports
            TensorFlow, so damaged pixels pass.

    Returns:
        The size and the channels that TensorFlow would give; in mode `header`, those in the header.

    Raises:
        RejectedImageError: with reason `EMPTY_FILE`, `TOO_MANY_BYTES`, `NOT_AN_IMAGE`,
            `TOO_MANY_PIXELS`, `TOO_COSTLY` or `CORRUPT_IMAGE`.
        ValueError: `mode` is neither.
    """
    if mode not in CHECK_MODES:
        raise ValueError(f"mode must be one of {', '.join(CHECK_MODES)}, not {mode!r}")
    header = checked_header(data, limits)
    return examine_image(data, header, mode=mode, with_hash=False)[0]


def examine_image(
    data: bytes, header: headers.Header, *, mode: str, with_hash: bool
) -> tuple[ImageInfo, int | None]:
    """Like `check_image`; `with_hash` adds the perceptual hash of pixels that are decoded anyway.

    There is no hash for a PNG that does not need TensorFlow (it is only inflated), or for headers.

    Args:
        data: the file, whole.
        header: the result of `checked_header`.
        mode: as `check_image` takes it.
        with_hash: whether to compute the hash.

    Raises:
        RejectedImageError: as `check_image`.
    """
    info = ImageInfo(header.format, header.height, header.width, header.channels)
    if mode == "header":
        return info, None
    if header.plain and header.format == "jpeg":
        scale = grey_scale(header.height, header.width)
        grey = _sound_jpeg(data, header, scale)
        if grey is not None:
            perceptual_hash = (
                hash_of_grey(grey, header.height, header.width, scale) if with_hash else None
            )
            return info, perceptual_hash
    elif header.plain and header.format == "png" and _is_sound_png(data):
        return info, None
    return _check_with_tensorflow(data, header.format, with_hash=with_hash)


def checked_header(data: bytes, limits: Limits) -> headers.Header:
    """The header of an image of a format that TensorFlow reads, and that is within the limits.

    Raises:
        RejectedImageError: as `check_image` in mode `header`.
    """
    if not data:
        raise RejectedImageError(Reason.EMPTY_FILE, "0 bytes")
    if len(data) > limits.max_bytes:
        detail = f"{len(data)} bytes, more than {limits.max_bytes}"
        raise RejectedImageError(Reason.TOO_MANY_BYTES, detail)
    format_ = headers.image_format(data)
    if not format_:
        raise RejectedImageError(Reason.NOT_AN_IMAGE, describe_start(data))
    try:
        header = headers.read_header(data, format_)
    except headers.CostlyImageError as error:
        raise RejectedImageError(Reason.TOO_COSTLY, str(error)) from None
    except headers.BrokenHeaderError as error:
        detail = f"broken {format_} header: {error}"
        raise RejectedImageError(Reason.CORRUPT_IMAGE, detail) from None
    if header.pixels > limits.max_pixels:
        frames = f" in {header.frames} frames" if header.frames > 1 else ""
        planes = f" in {header.planes} planes" if header.planes > 1 else ""
        size = f"{shown_size(header.height, header.width)}{frames}{planes}"
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, f"{size}, more than {limits.max_pixels}")
    return header


def _sound_jpeg(data: bytes, header: headers.Header, scale: int) -> Any:
    """Grey pixels at 1/scale, which still reads every coefficient; None if there is a warning."""
    height, width = -(-header.height // scale), -(-header.width // scale)
    try:
        # Without min_height and min_width, min_factor is ignored and the scale is 1/1.
        pixels = simplejpeg.decode_jpeg(
            data, "GRAY", min_height=height, min_width=width, min_factor=scale, strict=True
        )
    except ValueError:
        return None
    return pixels[:, :, 0] if pixels.shape == (height, width, 1) else None


def _is_sound_png(data: bytes) -> bool:
    """Whether all chunks are whole and in order, and the pixel data inflates to the right size."""
    try:
        pixels = _png_pixel_data(data)
        width, height, depth, color, _, _, interlace = struct.unpack_from(">IIBBBBB", data, 16)
        passes = _png_passes(height, width, depth * _PNG_SAMPLES[color], interlace)
        size = sum(stride * rows for stride, rows in passes)
        # libpng uses the declared window, and reports one that is too small itself.
        window = 256 << (pixels[0] >> 4)
        return window >= min(size, 1 << 15) and _has_valid_rows(_inflate(pixels), passes)
    except (_NeedsTensorFlow, zlib.error, IndexError):
        return False


class _NeedsTensorFlow(Exception):
    """Something is unusual: only TensorFlow can decide whether it decodes the file."""


def _png_pixel_data(data: bytes) -> bytes:
    """The joined IDAT chunks of a PNG without anything unusual.

    Raises:
        _NeedsTensorFlow: a chunk is cut, damaged, unknown yet critical, too large or out of place.
    """
    view = memoryview(data)
    parts: list[memoryview] = []
    palette: int | None = None
    transparency: int | None = None
    position, previous = 8, b""
    while previous != b"IEND":
        if position + 12 > len(data):
            raise _NeedsTensorFlow
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data) or not _LETTERS.issuperset(kind):
            raise _NeedsTensorFlow
        if zlib.crc32(view[position + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            raise _NeedsTensorFlow
        if kind == b"IDAT":
            if parts and previous != b"IDAT":
                raise _NeedsTensorFlow
            parts.append(view[position + 8 : end - 4])
        elif length > _PNG_CHUNK_LIMIT:
            raise _NeedsTensorFlow
        elif kind == b"PLTE":
            if palette is not None or transparency is not None or parts:
                raise _NeedsTensorFlow
            palette = length
        elif kind == b"tRNS":
            if transparency is not None or parts:
                raise _NeedsTensorFlow
            transparency = length
        elif (
            kind[0] < ord("a")
            and (kind, previous) != (b"IHDR", b"")
            and (kind, length) != (b"IEND", 0)
        ):
            raise _NeedsTensorFlow
        position, previous = end, kind
    if not _is_plain_palette(data[24], data[25], palette, transparency):
        raise _NeedsTensorFlow
    return b"".join(parts)


def _is_plain_palette(
    depth: int, color: int, palette: int | None, transparency: int | None
) -> bool:
    """Whether PLTE and tRNS of these sizes in bytes (None: absent) suit the colour type."""
    if color == 3:
        entries, rest = divmod(palette or 0, 3)
        fits = transparency is None or 1 <= transparency <= entries
        return fits and not rest and 1 <= entries <= 1 << depth
    return palette is None and transparency in {0: (None, 2), 2: (None, 6)}.get(color, (None,))


def _png_passes(height: int, width: int, bits: int, interlace: int) -> list[tuple[int, int]]:
    """Bytes in a row, with its filter byte, and rows of each pass that has pixels.

    >>> _png_passes(3, 2, 8, 0), _png_passes(3, 2, 8, 1)
    ([(3, 3)], [(2, 1), (2, 1), (2, 2), (3, 1)])
    """
    passes = []
    for top, left, down, right in _ADAM7 if interlace else ((0, 0, 1, 1),):
        rows, columns = -(-(height - top) // down), -(-(width - left) // right)
        if rows > 0 and columns > 0:
            passes.append((1 + (columns * bits + 7) // 8, rows))
    return passes


def _inflate(pixels: bytes) -> Iterator[bytes]:
    """Inflates piece by piece.

    Raises:
        _NeedsTensorFlow: the stream has no end, or bytes follow it.
    """
    inflater = zlib.decompressobj()
    view = memoryview(pixels)
    for start in range(0, len(pixels), _INFLATE_STEP):
        yield inflater.decompress(view[start : start + _INFLATE_STEP])
    if not inflater.eof or inflater.unused_data:
        raise _NeedsTensorFlow


def _has_valid_rows(pieces: Iterable[bytes], passes: list[tuple[int, int]]) -> bool:
    """Whether the pieces are exactly the rows of the passes, each with a known filter (0..4)."""
    todo = iter(passes)
    stride, left = 1, 0
    for piece in pieces:
        start = 0
        while start < len(piece):
            if not left:
                stride, rows = next(todo, (0, 0))
                left = stride * rows
                if not left:
                    return False
            end = min(len(piece), start + left)
            if max(piece[start + left % stride : end : stride], default=0) > 4:
                return False
            left -= end - start
            start = end
    return not left and next(todo, None) is None


def _check_with_tensorflow(
    data: bytes, format_: str, *, with_hash: bool
) -> tuple[ImageInfo, int | None]:
    """Checks with TensorFlow; raises as `decode_pixels` does."""
    pixels = decode_pixels(data, format_)
    info = ImageInfo(format_, *(int(side) for side in pixels.shape[-3:]))
    if not with_hash:
        return info, None
    shown = pixels.numpy()
    return info, hash_of_pixels(shown[0] if shown.ndim == 4 else shown)


def decode_pixels(
    data: bytes, format_: str, *, channels: int = 0, expand_animations: bool = True
) -> Any:
    """Decodes the pixels of a file with TensorFlow, after its header was checked.

    Args:
        data: the file, whole.
        format_: of the header.
        channels: as `tf.io.decode_image` takes it; 0 for those of the file.
        expand_animations: as `tf.io.decode_image` takes it; False gives the first frame.

    Returns:
        uint8 `[height, width, channels]` with a `numpy()` method; `[frames, ...]` of a GIF and of
        an animation.

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`; TensorFlow refuses the file.
    """
    tensorflow = import_tensorflow()
    # Only libjpeg writes messages about damaged files to standard error.
    quiet = _without_noise() if format_ == "jpeg" else contextlib.nullcontext()
    try:
        with quiet:
            return tensorflow.io.decode_image(
                data, channels=channels, expand_animations=expand_animations
            )
    except tensorflow.errors.InvalidArgumentError as error:
        raise RejectedImageError(Reason.CORRUPT_IMAGE, _condense(str(error.message))) from None


def import_tensorflow() -> Any:
    """The module, imported on first use: it takes seconds and hundreds of megabytes."""
    if "tensorflow" not in sys.modules:
        with _without_noise():
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            import tensorflow
    import tensorflow

    return tensorflow


def _condense(message: str) -> str:
    """One line without the names of nodes and ops.

    >>> _condense("{{function_node __wrapped__X_device_/CPU:0}} Invalid PNG.\\n [Op:DecodeImage]")
    'Invalid PNG.'
    """
    message = re.sub(r"\{\{.*?\}\}|\[Op:.*?\]", " ", message)
    return " ".join(message.split())[:_DETAIL_LENGTH]


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """Removes messages of C++ libraries from standard error; passes on everything else, later.

    One thread at a time: file descriptor 2 belongs to the whole process.
    """
    with _stderr_lock, contextlib.ExitStack() as stack:
        try:
            original = os.dup(2)
            stack.callback(os.close, original)
            heard = stack.enter_context(tempfile.TemporaryFile())
        except OSError:  # no standard error, or nowhere to keep it meanwhile
            yield
            return
        os.dup2(heard.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            heard.seek(0)
            for line in heard:
                if not _NOISE.match(line):
                    os.write(original, line)
