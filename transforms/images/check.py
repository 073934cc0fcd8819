"""Decides whether TensorFlow decodes an image."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import string
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import simplejpeg
from zlib_ng import zlib_ng

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import headers
from transforms.images.checked_images import UNSEEN, CheckedImage, ImageInfo, Seen
from transforms.images.headers import describe_start
from transforms.images.pixel_options import CHECK_MODES, Limits, Original
from transforms.images.tags import read_tags

# The perceptual hash of an image: 64 bits that hardly change when it is scaled or compressed.
#
# A difference hash: the image is averaged down to 8 rows of 9 cells, and each bit says whether a
# cell is brighter than its left neighbor. Cells overlap, and have soft edges, so that it hardly
# matters which pixels are there. Images of every format are first reduced to the same grey pixels:
# libjpeg decodes a JPEG to averages of 8 x 8 pixels, and others are averaged like that. All sums
# are of whole numbers, so the same pixels give the same bits on every machine.

ROWS, COLUMNS = 8, 9

# Minimum grey pixels per side from which cells are averaged, if available: with fewer, the
# hashes of an image and of its half-size copy differ in too many bits.
MIN_SIDE = 24

# Grey pixels per side of which none is left out: the weights of more take memory, not only time.
_ENOUGH = 1024

# Minimum grey levels between darkest and brightest cell: blank images have no useful hash.
_MIN_CONTRAST = 4

# Grey levels by which a cell is brighter than its neighbor: what is even stays so when compressed.
_STEP = 2

# The sum of the weights of all pixels of a cell, along each side.
_WEIGHT = 1 << 12

# Pixels of a strip.
_STRIP = 1 << 20

# Looks are those of pixels of about this longer side. An even histogram says nothing of sharpness.
_LOOK_SIDE = 64
_EVEN = 0.18

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def strips(height: int, width: int, step: int = 1) -> Iterator[slice]:
    """Rows of an image that are changed at once, since a copy of all of it may not fit into memory.

    All strips but the last one have a multiple of `step` rows.

    >>> [*strips(5, 1 << 19)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = max(1, _STRIP // (width * step)) * step
    return (slice(top, min(top + rows, height)) for top in range(0, height, rows))


def assembled(parts: Iterable[Array], height: int) -> Array:
    """Strips one below the other, of which `np.concatenate` would hold two copies."""
    made: Any = None
    top = 0
    for part in parts:
        made = np.empty((height, *part.shape[1:]), part.dtype) if made is None else made
        made[top : top + len(part)] = part
        top += len(part)
    return cast("Array", made)


def grey_scale(height: int, width: int) -> int:
    """How many times smaller an image may be decoded for its hash: 8, 4, 2 or 1.

    >>> grey_scale(375, 500), grey_scale(100, 100), grey_scale(28, 28)
    (8, 4, 1)
    """
    return next((scale for scale in (8, 4, 2) if min(height, width) >= MIN_SIDE * scale), 1)


def seen_in_grey(grey: Any, height: int, width: int, scale: int) -> Seen:
    """The perceptual hash and the looks of grey pixels.

    Args:
        grey: uint8 `[rows, columns]`; each pixel is `scale` pixels high and wide, the last ones
            less.
        height: of the image, in pixels.
        width: of the image, in pixels.
        scale: how many times smaller `grey` is.
    """
    down, right = max(1, grey.shape[0] // _ENOUGH), max(1, grey.shape[1] // _ENOUGH)
    few = grey[down // 2 :: down, right // 2 :: right]
    rows = _weights(few.shape[0], height, scale * down, ROWS)
    columns = _weights(few.shape[1], width, scale * right, COLUMNS)
    # Whole numbers below 2**53: no order of adding them up rounds.
    cells = rows @ few.astype(np.float64) @ columns.T
    # Python is faster than NumPy with so few numbers.
    values = cells.ravel().tolist()
    hash_ = None
    if max(values) - min(values) >= _MIN_CONTRAST * _WEIGHT**2:
        steps = cells[:, 1:] - cells[:, :-1] > _STEP * _WEIGHT**2
        hash_ = int.from_bytes(np.packbits(steps).tobytes(), "big")
    return Seen(hash_, averaged(few, max(1, round(max(few.shape) / _LOOK_SIDE))))


def averaged(pixels: Any, step: int) -> Any:
    """The averages of squares of `step` pixels; what is left at the ends is cut off.

    Args:
        pixels: uint8 `[rows, columns]` or `[rows, columns, 3]`; the result has as many dimensions.
        step: pixels of a side; 1 changes nothing.
    """
    if step == 1:
        return pixels
    across, along = (min(step, side) for side in pixels.shape[:2])
    rows, columns = pixels.shape[0] // across, pixels.shape[1] // along
    whole = np.ascontiguousarray(pixels[: rows * across, : columns * along])
    # Rows of a square first: neighbors in memory are added at once, at most 257 of them.
    sums = whole.reshape(rows, across, -1).sum(1, dtype=np.uint16 if across < 257 else np.uint32)
    sums = sums.reshape(rows, columns, along, -1).sum(2, dtype=np.uint32)
    means = np.rint(sums / (across * along)).astype(np.uint8)
    return means.reshape(rows, columns, *pixels.shape[2:])


def looks_of(greys: Sequence[Any]) -> list[list[int]]:
    """The `LOOKS` of images, which take a fraction of the time when they are looked at together.

    Args:
        greys: the pixels of each, `Seen.grey`.
    """
    shapes = np.array([grey.shape for grey in greys])
    sizes = shapes.prod(1)
    # Each call of NumPy gives up Python's lock: none is for one image.
    flat = np.frombuffer(b"".join(greys), np.uint8)
    bins = np.repeat(np.arange(0, 256 * len(greys), 256), sizes) + flat
    counts = np.bincount(bins, minlength=256 * len(greys)).reshape(-1, 256)
    ends = counts.cumsum(1)
    darkest, lightest = ((ends <= (sizes * part // 100)[:, None]).sum(1) for part in (5, 99))
    shares = counts / sizes[:, None]
    entropy = -(shares * np.log2(np.where(counts, shares, 1))).sum(1)
    # As many pixels as at the side for which the limits are.
    spread = shares.std(1) * _LOOK_SIDE**2 * shapes.min(1) / shapes.max(1)
    rows, columns = (np.arange(sides.max()) < sides[:, None] for sides in shapes.T)
    within = rows[:, :, None] & columns[:, None]
    pixels = np.zeros(within.shape, np.int16)
    pixels[within] = flat
    across = pixels[:, :, :-2] + pixels[:, :, 1:-1] + pixels[:, :, 2:]
    edges = 9 * pixels[:, 1:-1, 1:-1] - across[:, :-2] - across[:, 1:-1] - across[:, 2:]
    np.copyto(pixels[:, 1:-1, 1:-1], np.clip(edges, 0, 255), where=within[:, 2:, 2:])
    # A side has at most 95 pixels, so the squares of an image add up to less than 2**31.
    wide = pixels.reshape(len(greys), -1).astype(np.int32)
    sums, squares = wide.sum(1) / sizes, np.einsum("ij,ij->i", wide, wide) / sizes
    sharp, uneven = (1 - np.exp(-each / 100) for each in (np.sqrt(squares - sums**2), spread))
    sharpness = 100 * (sharp + np.where(uneven > _EVEN, uneven, 0))
    looks: list[list[int]] = (
        np.rint([darkest, lightest, sharpness, 10 * entropy]).astype(int).T.tolist()
    )
    return looks


def seen_in_pixels(pixels: Any) -> Seen:
    """What a decoded image tells; transparent pixels count as white.

    Args:
        pixels: uint8 or uint16 `[height, width, channels]`: grey or color, with or without alpha.
    """
    # Runs that only check JPEGs do without Pillow.
    from PIL import Image

    height, width, channels = pixels.shape
    scale = grey_scale(height, width)
    reduced = []
    for rows in strips(height, width, scale):
        strip = pixels[rows] if pixels.dtype == np.uint8 else (pixels[rows] >> 8).astype(np.uint8)
        image = Image.fromarray(strip[:, :, 0] if channels == 1 else strip)
        if channels in (2, 4):
            white = Image.new("L", image.size, 255)
            image = Image.composite(image.convert("L"), white, image.getchannel("A"))
        # Grey averages of scale x scale pixels, with the luma of a JPEG.
        reduced.append(np.asarray(image.convert("L").reduce(scale)))
    return seen_in_grey(np.concatenate(reduced), height, width, scale)


@functools.lru_cache(maxsize=256)
def _weights(pixels: int, size: int, scale: int, cells: int) -> Any:
    """How much of each cell each pixel is, `[cells, pixels]`; those of a cell add up to `_WEIGHT`.

    The weight falls from the middle of a cell to 0 at 3/4 of its size, or at the next pixel.
    """
    cell, start = np.arange(cells)[:, None], np.arange(pixels) * scale
    end = np.minimum(start + scale, size)
    # Twice the distance between the middles of a pixel and a cell, in units of 1/cells pixels.
    distance = np.abs(cells * (start + end) - (2 * cell + 1) * size)
    reach = max(3 * size, 4 * cells * scale)
    sums = np.cumsum(np.clip(reach - 2.0 * distance, 0, None) * (end - start), axis=1)
    return np.diff(np.rint(sums * (_WEIGHT / sums[:, -1:])), prepend=0)


# Checks whether `tf.io.decode_image(data)` decodes a file, mostly without TensorFlow.
#
# The rule: TensorFlow decodes every image in a shard. Fast decoders accept the files that it
# certainly decodes (nearly every JPEG, PNG and WebP); any other file goes to `tf.io.decode_image`,
# which is imported for the first of them. Limits are checked from the header before anything is
# decoded, so that one decompression bomb does not kill a worker.
#
# All functions may be called from several threads.

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
# How often a pixel counts of a JPEG or PNG that only TensorFlow decodes: of a JPEG, TensorFlow also
# holds what it reads. The headers of other formats have their own counts.
_TIMES_OF_ODD = {"jpeg": 4, "png": 3}
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


def check_image(data: bytes, *, limits: Limits, mode: str = "full") -> ImageInfo:
    """Accepts exactly the images that `tf.io.decode_image(data)` decodes, within the limits.

    Some files are refused although TensorFlow 2.21 returns something for them:

    - an animated WebP without alpha, which it writes past the end of its own buffer;
    - files made to take very long (`TOO_COSTLY`): a JPEG of more than `headers.MAX_SCANS` scans, a
      PNG with more than `headers.MAX_PACKED_TEXTS` compressed texts, and a file in more than
      `headers.MAX_CHUNKS` chunks or `headers.MAX_PARTS` other parts. Kilobytes can hold minutes
      of work.

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
    return examine_image(data, checked_header(data, limits), mode=mode, with_hash=False)[0]


def examine_image(
    data: bytes, header: headers.Header, *, mode: str, with_hash: bool
) -> tuple[ImageInfo, Seen]:
    """Like `check_image`; `with_hash` adds what is seen in pixels that are decoded anyway.

    Nothing is seen of a PNG that does not need TensorFlow (it is only inflated), or of headers.

    Args:
        data: the file, whole.
        header: the result of `checked_header`.
        mode: as `check_image` takes it.
        with_hash: whether to look at the pixels, and to hash them.

    Raises:
        RejectedImageError: as `check_image`.
    """
    size = header.height, header.width
    info = ImageInfo(*header[:4])
    if mode == "header":
        return info, UNSEEN
    if header.plain and header.format == "jpeg":
        scale = grey_scale(*size)
        grey = decode_jpeg(data, header, "GRAY", scale)
        if grey is not None:
            return info, seen_in_grey(grey[:, :, 0], *size, scale) if with_hash else UNSEEN
    elif header.plain and header.format in ("webp", "bmp"):
        pixels = (decode_webp if header.format == "webp" else decode_bmp)(data, header)
        if pixels is not None:
            return info, seen_in_pixels(pixels) if with_hash else UNSEEN
    elif header.plain and header.format == "png" and _is_sound_png(data):
        return info, UNSEEN
    pixels = decode_odd(data, header)
    info = ImageInfo(header.format, *(int(side) for side in pixels.shape[-3:]))
    return info, seen_in_pixels(pixels[0] if pixels.ndim == 4 else pixels) if with_hash else UNSEEN


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
    header = headers.read_header(data, format_)._replace(max_pixels=limits.max_pixels)
    # Pillow, which reads records for training, takes twice as long for color of 16 bits.
    is_deep_png = (header.format, header.bits) == ("png", 16) and header.channels > 1
    _check_pixels(header._replace(planes=header.planes * (1 + is_deep_png)))
    return header


def _check_pixels(header: headers.Header) -> None:
    if header.pixels > header.max_pixels:
        frames = f" in {header.frames} frames" if header.frames > 1 else ""
        planes = f", which count {header.planes} times" if header.planes > 1 else ""
        size = f"{shown_size(header.height, header.width)}{frames}{planes}"
        raise RejectedImageError(Reason.TOO_MANY_PIXELS, f"{size}, more than {header.max_pixels}")


AS_TENSORFLOW = {"fastdct": True, "fastupsample": False}
"""How TensorFlow decodes a JPEG."""


def decode_jpeg(
    data: bytes, header: headers.Header, color: str, scale: int = 1, **how: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None:
    """The pixels of a JPEG at 1/scale, for which every coefficient is read.

    Args:
        data: the file, whole.
        header: of the file.
        color: `GRAY` or `RGB`.
        scale: 1, 2, 4 or 8.
        how: `AS_TENSORFLOW`, if the pixels are stored.

    Returns:
        None if there is a warning.
    """
    height, width = -(-header.height // scale), -(-header.width // scale)
    try:
        # Without min_height and min_width, min_factor is ignored and the scale is 1/1.
        pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = simplejpeg.decode_jpeg(
            *(data, color), min_height=height, min_width=width, min_factor=scale, strict=True, **how
        )
    except ValueError:
        return None
    return pixels if pixels.shape[:2] == (height, width) else None


def decode_webp(data: bytes, header: headers.Header) -> Any:
    """The pixels that TensorFlow gives of a plain WebP; None if there is an error.

    libwebp's decoder of animations, which Pillow has, refuses more files than the one for single
    images, which TensorFlow calls.
    """
    # Runs that only check JPEGs do without Pillow.
    from PIL import _webp

    try:
        frame, _ = _webp.WebPAnimDecoder(data).get_next()
        pixels = np.frombuffer(frame, np.uint8).reshape(header.height, header.width, 4)
    except (OSError, ValueError):
        return None
    return pixels[:, :, : header.channels]


def decode_bmp(data: bytes, header: headers.Header) -> Any:
    """The pixels that TensorFlow gives of a plain BMP, as a view of the file if possible."""
    start, height = struct.unpack_from("<i8xi", data, 10)
    strides = headers.bmp_row(header.width, header.channels), header.channels, 1
    rows = np.ndarray(header[1:4], np.uint8, data, start, strides)[:: -1 if height > 0 else 1]
    return rows[:, :, [2, 1, 0, 3] if header.channels == 4 else slice(None, None, -1)]


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
    except (_NeedsTensorFlow, zlib_ng.error, IndexError):  # type: ignore[misc]  # stub: an instance
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
    lengths: dict[bytes, int] = {}
    previous = b""
    for kind, start, body, end in headers.chunks(data, "png"):
        if end > len(data) or not _LETTERS.issuperset(kind):
            raise _NeedsTensorFlow
        if zlib.crc32(view[start + 4 : body.stop]) != int.from_bytes(view[body.stop : end], "big"):
            raise _NeedsTensorFlow
        length = body.stop - body.start
        if kind == b"IDAT":
            is_usual = not parts or previous == b"IDAT"
            parts.append(view[body])
        elif kind in (b"PLTE", b"tRNS"):
            is_usual = not (kind in lengths or b"tRNS" in lengths or parts)
            lengths[kind] = length
        else:
            is_first, is_last = (kind, previous) == (b"IHDR", b""), (kind, length) == (b"IEND", 0)
            is_usual = kind[0] >= ord("a") or is_first or is_last
        if not is_usual or (kind != b"IDAT" and length > _PNG_CHUNK_LIMIT):
            raise _NeedsTensorFlow
        previous = kind
    palette, transparency = lengths.get(b"PLTE"), lengths.get(b"tRNS")
    is_plain = _is_plain_palette(data[24], data[25], palette, transparency)
    if previous != b"IEND" or not is_plain:
        raise _NeedsTensorFlow
    return b"".join(parts)


def _is_plain_palette(
    depth: int, color: int, palette: int | None, transparency: int | None
) -> bool:
    """Whether PLTE and tRNS of these sizes in bytes (None: absent) suit the color type."""
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
    inflater = zlib_ng.decompressobj()
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


def decode_odd(data: bytes, header: headers.Header, **how: bool) -> Any:
    """The pixels of a file that only TensorFlow decodes; see `decode_pixels`.

    Raises:
        RejectedImageError: as `decode_pixels`, or with reason `TOO_MANY_PIXELS` before.
    """
    _check_pixels(header._replace(planes=header.planes * _TIMES_OF_ODD.get(header.format, 1)))
    # Its method `numpy` would copy it, half a gigabyte of the largest image.
    return np.asarray(decode_pixels(data, header.format, **how))


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
                as_object(data), channels=channels, expand_animations=expand_animations
            )
    except tensorflow.errors.InvalidArgumentError as error:
        raise RejectedImageError(Reason.CORRUPT_IMAGE, _condense(str(error.message))) from None


def as_object(data: bytes) -> Any:
    """Bytes for TensorFlow: NumPy would make a text of them first, in four times their memory."""
    return np.array(data, dtype=object)


def import_tensorflow() -> Any:
    """The module, imported on first use: it takes seconds and hundreds of megabytes."""
    if "tensorflow" not in sys.modules:
        with _without_noise():
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            # Its own would keep the memory of the largest image.
            os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
            import tensorflow
    import tensorflow

    return tensorflow


def _condense(message: str) -> str:
    """One line without the names of nodes and ops.

    >>> _condense("{{function_node __wrapped__X_device_/CPU:0}} Invalid PNG.\\n [Op:X] name: ")
    'Invalid PNG.'
    """
    message = re.sub(r"\{\{.*?\}\}|\[Op:.*?\]( name:)?", " ", message)
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


def unchanged_image(
    data: bytes, header: headers.Header, changes: tuple[str, ...], *, mode: str, with_hash: bool
) -> CheckedImage:
    """An image that is stored as it is; see `examine_image`."""
    info, seen = examine_image(data, header, mode=mode, with_hash=with_hash)
    original = Original(info.height, info.width, 1)
    tag, has_place = read_tags(data, header.format)
    return CheckedImage(data, info, original, changes, seen, tag, has_place=has_place)
