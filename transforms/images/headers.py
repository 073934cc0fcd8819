"""What the header of an image says: format, size, depth."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError

# Names formats that TensorFlow does not read, by a file's first bytes, with a remedy.

# Bytes to inspect: the box with the brands of HEIC and AVIF is seldom longer.
_START = 64

_READ = ", which --transcode auto reads"
_HEIC = "HEIC" + _READ + " after pip install pillow-heif"

# Some files begin with a brand of both formats, so the brand of AVIF is searched for.
_AVIF_START = rb".{4}ftyp(?=.*avi[fs])"
_HEIC_START = rb".{4}ftyp(?!.*avi[fs])(hei[cxms]|hev[cxms]|mif1|msf1)"

_SIGNATURES = [
    (re.compile(pattern, re.DOTALL | re.IGNORECASE), name)
    for pattern, name in (
        (rb"II\*\0|MM\0\*", "TIFF" + _READ),
        (_AVIF_START, "AVIF" + _READ),
        (_HEIC_START, _HEIC),
        (rb".{4}ftyp", "a video of the MP4 family"),
        (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "JPEG 2000" + _READ),
        (rb"8BPS", "PSD: export it as PNG"),
        (rb"%PDF-", "PDF"),
        (rb"PK\x03\x04", "a ZIP archive"),
        (rb"\x1f\x8b", "gzip"),
        (rb"\s*<(!doctype html|html)", "a web page"),
        (rb"\s*<(\?xml|svg)", "SVG or other XML"),
        (rb"version https://git-lfs", "a pointer of Git LFS: run git lfs pull"),
    )
]
_HEIC_PATTERN = re.compile(_HEIC_START, re.DOTALL)


def is_heic(data: bytes) -> bool:
    """Whether a file begins like a HEIC, not like an AVIF, which has the same container."""
    return _HEIC_PATTERN.match(data[:_START]) is not None


def describe_start(data: bytes) -> str:
    r"""The first bytes of a file and its format, if known, for the detail of a rejection.

    >>> describe_start(b"II*\0rest")
    'begins with the bytes 49 49 2a 00 72 65 73 74: TIFF, which --transcode auto reads'
    >>> describe_start(b"text")
    'begins with the bytes 74 65 78 74'
    """
    start = f"begins with the bytes {data[:8].hex(' ')}"
    name = next((name for pattern, name in _SIGNATURES if pattern.match(data[:_START])), "")
    return f"{start}: {name}" if name else start


# Reads the header of a JPEG XL file (ISO/IEC 18181) before any pixel is decoded.

_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_HEADER_BYTES = 1 << 16


class _Bits:
    """Reads a JPEG XL codestream bit by bit, lowest bit first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> int:
        """The next `count` bits (0..32).

        Raises:
            IndexError: there are fewer.
        """
        first, self._position = self._position, self._position + count
        if self._position > 8 * len(self._data):
            raise IndexError("the file ends inside its header")
        word = int.from_bytes(self._data[first >> 3 : (self._position + 7) >> 3], "little")
        return word >> (first & 7) & ((1 << count) - 1)

    def choose(self, *choices: tuple[int, int]) -> int:
        """Two bits select one of four `(offset, bits)`: the offset plus that many more bits."""
        offset, count = choices[self.take(2)]
        return offset + self.take(count)


def _read_jxl(data: bytes) -> Header:
    """Reads SizeHeader and ImageMetadata up to the color encoding.

    Raises:
        ValueError: the header contradicts its format.
        IndexError: it ends too soon.
        struct.error: its container ends too soon.
    """
    stream = _Bits(data if data.startswith(b"\xff\x0a") else _codestream(data))
    if stream.take(16) != 0x0AFF:
        raise ValueError("its codestream has a wrong signature")
    height, width = _size(stream)
    # A lossless pixel takes 0.2 microseconds, one of a photo also a byte, or a quarter if it was a
    # JPEG; a lossy one takes half the time, and 64 of a photo have a byte.
    pixels, is_large = height * width, height * width > _LARGE
    times = _TIMES + is_large * (2 + 2 * (64 * len(data) <= pixels))
    if stream.take(1):
        return Header("jxl", height, width, 3, planes=times)
    if stream.take(1) and _orientation(stream) > 4:
        height, width = width, height
    bits = _bit_depth(stream)
    stream.take(1)
    extra = stream.choose((0, 0), (1, 0), (2, 4), (1, 12))
    alpha = sum(_is_alpha(stream) for _ in range(extra)) > 0
    is_lossy = stream.take(1)
    colors = 3
    if not stream.take(1):
        stream.take(1)
        colors = 1 if stream.choose((0, 0), (1, 0), (2, 4), (18, 6)) == 1 else 3
    if is_large and not is_lossy and colors == 3:
        times = 9 - 2 * (8 * len(data) >= pixels) - 2 * (2 * len(data) >= pixels)
    return Header("jxl", height, width, colors + alpha, planes=times + extra, bits=bits)


def _codestream(data: bytes) -> bytes:
    """The beginning of the codestream inside a container of boxes."""
    stream = b""
    for box in jxl_boxes(data):
        if box.kind in (b"jxlc", b"jxlp"):
            start = box.body.start + (4 if box.kind == b"jxlp" else 0)
            stream += data[start : min(box.end, start + _HEADER_BYTES)]
        if len(stream) >= _HEADER_BYTES:
            break
    return stream


def _size(stream: _Bits) -> tuple[int, int]:
    """Height and width in pixels."""
    small = stream.take(1)

    def side() -> int:
        if small:
            return 8 * (stream.take(5) + 1)
        return stream.choose((1, 9), (1, 13), (1, 18), (1, 30))

    height = side()
    ratio = stream.take(3)
    if not ratio:
        return height, side()
    numerator, denominator = _RATIOS[ratio - 1]
    return height, height * numerator // denominator


def _orientation(stream: _Bits) -> int:
    """The EXIF orientation (1..8); skips the intrinsic size, preview and animation."""
    orientation = stream.take(3) + 1
    if stream.take(1):
        _size(stream)
    if stream.take(1):
        if stream.take(1):
            sides = ((16, 0), (32, 0), (1, 5), (33, 9))
        else:
            sides = ((1, 6), (65, 8), (321, 10), (1345, 12))
        stream.choose(*sides)
        if not stream.take(3):
            stream.choose(*sides)
    if stream.take(1):
        stream.choose((100, 0), (1000, 0), (1, 10), (1, 30))
        stream.choose((1, 0), (1001, 0), (1, 8), (1, 10))
        stream.choose((0, 0), (0, 3), (0, 16), (0, 32))
        stream.take(1)
    return orientation


def _bit_depth(stream: _Bits) -> int:
    """The bits of a sample, an integer or floating point."""
    if stream.take(1):
        bits = stream.choose((32, 0), (16, 0), (24, 0), (1, 6))
        stream.take(4)
        return bits
    return stream.choose((8, 0), (10, 0), (12, 0), (1, 6))


def _is_alpha(stream: _Bits) -> bool:
    """Skips one extra channel."""
    if stream.take(1):
        return True
    kind = stream.choose((0, 0), (1, 0), (2, 4), (18, 6))
    _bit_depth(stream)
    stream.choose((0, 0), (3, 0), (4, 0), (1, 3))
    for _ in range(stream.choose((0, 0), (0, 4), (16, 5), (48, 10))):
        stream.take(8)
    if kind == 0:
        stream.take(1)
    elif kind == 2:
        stream.take(32)
        stream.take(32)
    elif kind == 5:
        stream.choose((1, 0), (0, 2), (3, 4), (19, 8))
    return kind == 0


# Reads headers of image files before any pixel is decoded.
#
# Each reader walks its format just as far as TensorFlow's decoder would walk it to learn the size,
# and needs only the standard library. A file whose header cannot be read here cannot be read by
# `tf.io.decode_image` either, so it is never decoded to find out.
#
# The readers also detect small files that are very slow to decode, see `too_costly`. They raise
# ValueError for a header that contradicts its format.
#
# Layout references: ISO/IEC 10918-1 (JPEG), W3C PNG, GIF89a, BITMAPINFOHEADER, the WebP container
# specification.

MAX_PARTS = 1 << 20
"""Markers, boxes or blocks of a file. GIFs of 256 MB have fewer, in blocks of 255 bytes; with tiny
ones TensorFlow's GIF decoder takes about 24 times the file in memory."""

MAX_CHUNKS = 1 << 18
"""Chunks of a PNG or a WebP, each of which takes 15 microseconds. PNGs of 256 MB have 32,768."""

MAX_FRAMES = 1 << 14
"""Frames of a GIF or a WebP: libwebp searches for each among all before it."""

MAX_METADATA = 32 << 20
"""Bytes of a file besides its pixels and their headers: decoders hold them several times."""

MAX_SCANS = 24
"""Scans of a JPEG. Encoders write 10, 18 for CMYK; each costs a pass over all pixels, although 100
bytes can hold it."""

MAX_PACKED_TEXTS = 100
"""Compressed texts of a PNG. libpng inflates each up to 8 MB, twice, out of 8 KB."""

# TensorFlow counts the bytes of a decoded JPEG and the pixels of a PNG and refuses this many.
_TF_SIZE_LIMIT = 1 << 29

# Above, pixels count more. Pillow takes 12 bytes of memory for one of a WebP, TensorFlow 4, as of a
# GIF, and 20 for one of a JPEG XL.
_LARGE = 1 << 24

# How often a pixel counts that only TensorFlow decodes, which takes 700 MB itself.
_TIMES = 3

PNG_MAX_SIDE = 1_000_000
"""The longest side of a PNG that libpng reads."""

_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}

_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SOF_PLAIN = frozenset({0xC0, 0xC1, 0xC2})
_SOF_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
# Horizontal and vertical sampling of a component, in 4 bits each.
_PLAIN_FACTORS = frozenset(wide << 4 | high for wide in (1, 2, 4) for high in (1, 2, 4))
# A marker that a segment may follow; not a stuffed zero, a restart or a fill byte.
_MARKER = re.compile(rb"\xff[^\xff\x00\x01\xd0-\xd7]")

# The first bytes of each format of stored images.
_FORMAT = re.compile(
    rb"(?P<jpeg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8)|(?P<bmp>BM)"
    rb"|(?P<webp>RIFF.{4}WEBP.)|(?P<jxl>\xff\x0a|\0\0\0\x0cJXL \r\n\x87\n)",
    re.DOTALL,
)


class Header(NamedTuple):
    """The header of an image.

    Attributes:
        format: `jpeg`, `png`, `gif`, `bmp`, `webp` or `jxl`.
        height: in pixels; for a GIF, of its highest frame.
        width: in pixels; for a GIF, of its widest frame.
        channels: of the image as TensorFlow decodes it.
        frames: images in the file; above 1 only for animations.
        plain: nothing unusual; a decoder other than TensorFlow may check the file.
        planes: how often a pixel counts; extra channels of a JPEG XL count, two samples a pixel in
            a JPEG of several scans, and `_TIMES` or more for a GIF, a JPEG XL and a large WebP.
        bits: of a sample of a PNG or a JPEG XL; 8 for other formats.
        max_pixels: the most that `pixels` may be; 0 before it is checked.
        has_scans: whether a JPEG has several scans: libjpeg holds two bytes for each sample.
    """

    format: str
    height: int
    width: int
    channels: int
    frames: int = 1
    plain: bool = False
    planes: int = 1
    bits: int = 8
    max_pixels: int = 0
    has_scans: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of all frames and planes, as a decoder processes them."""
        return self.height * self.width * self.frames * self.planes


def too_costly(detail: str) -> RejectedImageError:
    """The rejection of a file that takes far longer than its bytes and pixels suggest."""
    return RejectedImageError(Reason.TOO_COSTLY, detail)


def _check_metadata(size: int) -> None:
    if size > MAX_METADATA:
        raise too_costly(f"more than {MAX_METADATA} bytes of metadata")


FORMATS = tuple(_FORMAT.groupindex)
"""The formats of stored images."""


def image_format(data: bytes) -> str:
    r"""The format of `data` by its first bytes, as TensorFlow detects it; empty if unknown.

    >>> image_format(b"\xff\xd8\xff\xe0"), image_format(b"II*\0")
    ('jpeg', '')
    """
    found = _FORMAT.match(data)
    return found.lastgroup or "" if found else ""


def read_header(data: bytes, format_: str) -> Header:
    r"""Reads the header of `data`, which begins like `format_` (see `image_format`).

    >>> bmp = b"BM" + bytes(16) + b"\x02\0\0\0\x03\0\0\0\x01\0\x18\0" + bytes(40)
    >>> read_header(bmp, "bmp")[:4]
    ('bmp', 3, 2, 3)

    Raises:
        RejectedImageError: with reason `CORRUPT_IMAGE`, the header ends too soon or contradicts its
            format; with `TOO_COSTLY`, more parts, scans or compressed texts than any image needs.
    """
    try:
        header = _READERS[format_](data)
        if header.height < 1 or header.width < 1:
            raise ValueError(f"its size is {shown_size(header.height, header.width)}")
        if header.frames > MAX_FRAMES:
            raise too_costly(f"more than {MAX_FRAMES} frames")
        return header
    except (struct.error, IndexError):
        problem = "the file ends inside its header"
    except ValueError as error:
        problem = str(error)
    raise RejectedImageError(Reason.CORRUPT_IMAGE, f"broken {format_} header: {problem}")


class Part(NamedTuple):
    """A chunk, a box or a block of a file, which may end before it.

    Attributes:
        kind: its name; of an extension of a GIF, its first two bytes.
        start: its first byte.
        body: what it holds.
        end: the byte after it, where the next one begins.
    """

    kind: bytes
    start: int
    body: slice
    end: int


def chunks(data: bytes, format_: str) -> Iterator[Part]:
    """The chunks of a PNG, up to its end, or of a WebP.

    Raises:
        RejectedImageError: there are more than `MAX_CHUNKS`.
    """
    is_png = format_ == "png"
    position = 8 if is_png else 12
    for _ in range(MAX_CHUNKS):
        if position + 8 > len(data):
            return
        if is_png:
            length, kind = struct.unpack_from(">I4s", data, position)
        else:
            kind, length = struct.unpack_from("<4sI", data, position)
        body = slice(position + 8, position + 8 + length)
        # A checksum of 4 bytes, or one byte that makes the length even.
        end = body.stop + (4 if is_png else length & 1)
        yield Part(kind, position, body, end)
        if kind == b"IEND":
            return
        position = end
    raise too_costly(f"more than {MAX_CHUNKS} chunks")


def gif_blocks(data: bytes) -> Iterator[Part]:
    """The extensions (`!`), the pictures (`,`) and the end (`;`, whatever it is) of a GIF.

    Raises:
        RejectedImageError: there are more than `MAX_PARTS` blocks in all of them.
    """
    blocks = iter(range(MAX_PARTS))
    position = 13 + color_table(data[10])
    while position < len(data):
        start, kind = position, data[position : position + 1]
        if kind == b"!":
            kind, body = data[start : start + 2], start + 2
        elif kind == b"," and start + 10 <= len(data):
            body = start + 11 + color_table(data[start + 9])
        else:
            yield Part(b";", start, slice(start, start), start + 1)
            return
        position = body
        for _ in blocks:
            position += 1
            if position > len(data) or not data[position - 1]:
                break
            position += data[position - 1]
        else:
            raise too_costly(f"more than {MAX_PARTS} blocks")
        yield Part(kind, start, slice(body, position), position)


def color_table(flags: int) -> int:
    """The bytes of a GIF's color table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def jxl_boxes(data: bytes) -> Iterator[Part]:
    """The boxes of a JPEG XL in a container.

    Raises:
        ValueError: a box has an impossible size, or there are more than `MAX_PARTS`.
        struct.error: a box is cut inside its size.
    """
    position = 0
    for _ in range(MAX_PARTS):
        if position + 8 > len(data):
            return
        length, kind = struct.unpack_from(">I4s", data, position)
        body = position + 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, body)
            body += 8
        end = position + length if length else len(data)
        if end < body:
            raise ValueError("a box has an impossible size")
        yield Part(kind, position, slice(body, end), end)
        position = end
    raise ValueError(f"its codestream is spread over more than {MAX_PARTS} boxes")


def _read_jpeg(data: bytes) -> Header:
    """Walks the markers up to the first frame header, as libjpeg does, and counts the scans.

    libjpeg takes no later frame header. One scan of all components is the only one.
    """
    header: Header | None = None
    several = False
    components = b""
    scans = 0
    for marker, position in jpeg_markers(data, most=MAX_PARTS):
        if header is None:
            if marker in (_SOI, _EOI, _SOS):
                raise ValueError(f"marker 0xFF{marker:02X} before any frame header")
            (length,) = struct.unpack_from(">H", data, position)
            if marker in _SOF:
                body = data[position + 2 : position + length]
                header, components = _jpeg_frame(marker, body, length), body[5:6]
                several = marker in _SOF_PROGRESSIVE
        elif marker == _EOI:
            break
        elif marker == _SOS:
            scans += 1
            several = several or data[position + 2 : position + 3] != components
            if not several:
                break
            if scans > MAX_SCANS:
                raise too_costly(f"more than {MAX_SCANS} scans")
    if header is None:
        raise ValueError("no frame header")
    return header._replace(planes=header.planes if several else 1, has_scans=several)


def jpeg_markers(data: bytes, *, most: int) -> Iterator[tuple[int, int]]:
    """Each marker of a JPEG and where the length of its segment is, unless the file ends there.

    Data between segments is skipped, both entropy-coded data and junk, and so is, like in
    libjpeg, an APPn that is shorter than its length.

    Raises:
        RejectedImageError: there are more markers than `most`, or their segments have more than
            `MAX_METADATA`.
    """
    position, held = 2, 0
    for _ in range(most):
        found = _MARKER.search(data, position)
        if not found:
            return
        position = found.end()
        yield data[position - 1], position
        length = max(int.from_bytes(data[position : position + 2], "big"), 2)
        position += length
        held += length
        _check_metadata(held)
    raise too_costly(f"more than {most} markers")


def _jpeg_frame(marker: int, body: bytes, length: int) -> Header:
    """Reads a frame header (SOF); only 8-bit Huffman-coded grey or three-channel ones are plain."""
    precision, height, width, components = struct.unpack_from(">BHHB", body)
    factors = [body[7 + 3 * component] for component in range(components)]
    sizes = [(each >> 4) * (each & 15) for each in factors]
    # Two samples a pixel, as in 4:2:2, are one plane.
    planes = max(1, -(-sum(sizes) // (2 * max([1, *sizes]))))
    plain = (
        marker in _SOF_PLAIN
        and precision == 8
        and components in (1, 3)
        and length == 8 + 3 * components
        and _PLAIN_FACTORS.issuperset(factors)
        and height * width * components < _TF_SIZE_LIMIT
    )
    return Header("jpeg", height, width, min(components, 3), plain=plain, planes=planes)


def _read_png(data: bytes) -> Header:
    """Reads IHDR; a palette has a fourth channel when a tRNS chunk comes before the pixels."""
    # libpng skips ancillary chunks before it.
    first = next((chunk for chunk in chunks(data, "png") if not chunk.kind[0] & 0x20), None)
    if first is not None and first.kind != b"IHDR":
        raise ValueError("it does not begin with an IHDR chunk")
    start = len(data) if first is None else first.start
    length, _, width, height, depth, color, compression, filter_, interlace = struct.unpack_from(
        ">I4sIIBBBBB", data, start
    )
    if length != 13:
        raise ValueError("its IHDR chunk is not 13 bytes long")
    if depth not in _PNG_DEPTHS.get(color, ()) or compression or filter_ or interlace > 1:
        raise ValueError("its IHDR chunk has an invalid value")
    transparent: bool | None = None
    texts = held = 0
    for chunk in chunks(data, "png"):
        if transparent is None and chunk.kind in (b"tRNS", b"IDAT", b"IEND"):
            transparent = chunk.kind == b"tRNS" and chunk.body.start < chunk.body.stop
        if chunk.kind not in (b"IDAT", b"fdAT"):
            held += min(chunk.body.stop, len(data)) - chunk.body.start
            _check_metadata(held)
        texts += chunk.kind in (b"zTXt", b"iTXt")
        if texts > MAX_PACKED_TEXTS:
            raise too_costly(f"more than {MAX_PACKED_TEXTS} compressed texts")
    channels = 4 if transparent and color == 3 else _PNG_CHANNELS[color]
    plain = start == 8 and max(width, height) <= PNG_MAX_SIDE and width * height < _TF_SIZE_LIMIT
    return Header("png", height, width, channels, plain=plain, bits=depth)


def _read_gif(data: bytes) -> Header:
    """Walks all blocks: TensorFlow gives every frame the size of the largest."""
    frames = height = width = held = 0
    for block in gif_blocks(data):
        held += (block.end - block.start) * block.kind.startswith(b"!")
        _check_metadata(held)
        if block.kind == b",":
            wide, high = struct.unpack_from("<HH", data, block.start + 5)
            frames, height, width = frames + 1, max(height, high), max(width, wide)
    if not frames:
        raise ValueError("it has no frame")
    # Of few frames, one is large, and takes as much memory again when it becomes a PNG.
    return Header("gif", height, width, 3, frames, planes=_TIMES + 2 * (frames < 3))


def _read_bmp(data: bytes) -> Header:
    """Reads the fields TensorFlow reads; a negative height means rows from the top."""
    start, width, height, bits = struct.unpack_from("<i4xii2xh", data, 10)
    if len(data) < 32:
        raise ValueError("the file ends inside its header")
    channels = bits // 8
    if channels not in (1, 3, 4):
        raise ValueError(f"{bits} bits per pixel; TensorFlow reads 8, 24 and 32")
    plain = start >= 0 and start + bmp_row(width, channels) * abs(height) == len(data)
    return Header("bmp", abs(height), width, channels, plain=plain)


def bmp_row(width: int, channels: int) -> int:
    """The bytes of a row of a BMP."""
    return (width * channels + 3) // 4 * 4


def _read_webp(data: bytes) -> Header:
    """Reads the canvas (VP8X) or the only frame (VP8 or VP8L)."""
    kind = data[12:16]
    if kind != b"VP8X":
        return _webp_frame(kind, data[20:30])
    flags, *sides = struct.unpack_from("<B3x3s3s", data, 20)
    width, height = (int.from_bytes(side, "little") + 1 for side in sides)
    frames, alpha, still = 0, bool(flags & 0x10), None
    for kind, _, body, _ in chunks(data, "webp"):
        frames += kind == b"ANMF"
        alpha |= kind == b"ALPH"
        if kind in (b"VP8 ", b"VP8L") and not flags & 0x02:
            still = _webp_frame(kind, data[body.start : body.start + 10])
            break
    if flags & 0x02:
        if not flags & 0x10:
            # TensorFlow 2.21 reserves 3 bytes a pixel and writes 4: it must never see this file.
            raise ValueError("TensorFlow cannot decode animated WebP without alpha")
        # Besides the frames, libwebp holds two pictures of this size.
        frames = max(frames, 1)
        return Header("webp", height, width, 4, frames, planes=_TIMES * (frames + 2) // frames)
    if still is None:
        raise ValueError("it has no frame")
    if (still.height, still.width) != (height, width):
        raise ValueError("its frame and its canvas differ in size")
    if kind == b"VP8L":
        return still
    # Without the flag, a decoder may leave the alpha out.
    is_plain = still.plain and alpha == bool(flags & 0x10)
    return still._replace(channels=4 if alpha else 3, plain=is_plain)


def _webp_frame(kind: bytes, body: bytes) -> Header:
    """Reads the size from the first ten bytes of a VP8 or VP8L chunk."""
    if kind == b"VP8L":
        signature, bits = struct.unpack_from("<BI", body)
        if signature != 0x2F or bits >> 29:
            raise ValueError("its VP8L chunk has a wrong signature")
        channels = 4 if bits >> 28 & 1 else 3
        height, width = (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    elif kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", body, 6))
        channels = 3
    else:
        raise ValueError("it has no frame")
    plain = height * width <= _LARGE
    return Header("webp", height, width, channels, plain=plain, planes=1 if plain else _TIMES)


_READERS = {
    "jpeg": _read_jpeg,
    "png": _read_png,
    "gif": _read_gif,
    "bmp": _read_bmp,
    "webp": _read_webp,
    "jxl": _read_jxl,
}


# Reads the number of tiles from a JPEG 2000 codestream.
#
# Reference: ISO/IEC 15444-1, annex A.5.1 (SIZ).

MAX_TILES = 1 << 14
"""Tiles of an image. OpenJPEG takes 9 KB and 30 microseconds for each that the header announces; 89
megapixels in tiles of 128 x 128 are 5,400."""

COSTS = {"JPEG2000": 4, "AVIF": 2, "HEIF": 1.5}
"""How many pixels one of a format of Pillow counts for: decoding one of a JPEG 2000 takes up to
25 bytes and 90 ns, one of an AVIF 9 bytes, one of a HEIC 7."""

# The start of a codestream and the marker that must follow.
_SIZ = re.compile(rb"\xff\x4f\xff\x51")


def check_jpeg2000(data: bytes) -> None:
    """Refuses a file that announces more tiles than any image needs.

    Raises:
        RejectedImageError: more than `MAX_TILES`.
    """
    for found in _SIZ.finditer(data):
        try:
            right, bottom, _, _, width, height, left, top = struct.unpack_from(
                ">8I", data, found.end() + 4
            )
        except struct.error:
            return
        if not width or not height:
            continue
        tiles = max(0, -(-(right - left) // width)) * max(0, -(-(bottom - top) // height))
        if tiles > MAX_TILES:
            raise too_costly(f"{tiles} tiles, more than {MAX_TILES}")
