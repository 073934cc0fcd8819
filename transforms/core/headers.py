"""What an image file says about itself before any pixel is decoded.

Each reader walks its format just as far as TensorFlow's decoder would walk it to learn the size,
and needs only the standard library. A file whose header cannot be read here cannot be read by
`tf.io.decode_image` either, so it is never decoded to find out.

Layout references: ISO/IEC 10918-1 (JPEG), W3C PNG, GIF89a, BITMAPINFOHEADER, the WebP container
specification, ISO/IEC 18181 (JPEG XL).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

# TensorFlow counts the bytes of a decoded JPEG and the pixels of a PNG and refuses this many.
_TF_SIZE_LIMIT = 1 << 29

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_PNG_MAX_SIDE = 1_000_000
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}

_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SOF_PLAIN = frozenset({0xC0, 0xC1, 0xC2})
_STANDALONE = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})
_NO_FRAME_YET = frozenset({0xD8, 0xD9, 0xDA})

_JXL_CONTAINER = b"\x00\x00\x00\x0cJXL \r\n\x87\n"
_JXL_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_JXL_HEADER_BYTES = 1 << 16


class Header(NamedTuple):
    """What the header of an image says.

    Attributes:
        format: `jpeg`, `png`, `gif`, `bmp`, `webp` or `jxl`.
        height: in pixels; for a GIF, of its highest frame.
        width: in pixels; for a GIF, of its widest frame.
        channels: of the image that TensorFlow would make of it.
        frames: images in the file; 1 but for animations.
        plain: nothing unusual about it; a decoder other than TensorFlow may vouch for it.
    """

    format: str
    height: int
    width: int
    channels: int
    frames: int = 1
    plain: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of all frames, as a decoder holds them."""
        return self.height * self.width * self.frames


class BrokenHeaderError(Exception):
    """The bytes begin like an image, but the header cannot be read."""


def image_format(data: bytes) -> str:
    r"""The format of `data` by its first bytes, as TensorFlow tells it; empty when unknown.

    >>> image_format(b"\xff\xd8\xff\xe0"), image_format(b"II*\0")
    ('jpeg', '')
    """
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(_PNG_MAGIC):
        return "png"
    if data.startswith(b"GIF8"):
        return "gif"
    if data.startswith(b"BM"):
        return "bmp"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) > 12:
        return "webp"
    if data.startswith((b"\xff\x0a", _JXL_CONTAINER)):
        return "jxl"
    return ""


def read_header(data: bytes, format_: str) -> Header:
    r"""Reads the header of `data`, which begins like `format_` (see `image_format`).

    >>> bmp = b"BM" + bytes(16) + b"\x02\0\0\0\x03\0\0\0\x01\0\x18\0" + bytes(40)
    >>> read_header(bmp, "bmp")
    Header(format='bmp', height=3, width=2, channels=3, frames=1, plain=False)

    Raises:
        BrokenHeaderError: the header ends too soon or contradicts its format.
    """
    try:
        header = _READERS[format_](data)
    except (struct.error, IndexError):
        raise BrokenHeaderError("the file ends inside its header") from None
    if header.height < 1 or header.width < 1:
        raise BrokenHeaderError(f"its size is {header.width}x{header.height} pixels")
    return header


def _read_jpeg(data: bytes) -> Header:
    """Walks the markers up to the first frame header, as libjpeg does: it takes no later one."""
    position = 2
    while True:
        position = data.find(b"\xff", position)
        if position < 0:
            raise BrokenHeaderError("no frame header")
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        position += 1
        if marker in _STANDALONE:
            continue
        if marker in _NO_FRAME_YET:
            raise BrokenHeaderError(f"marker 0xFF{marker:02X} before any frame header")
        (length,) = struct.unpack_from(">H", data, position)
        if marker in _SOF:
            return _jpeg_frame(marker, data[position + 2 : position + length], length)
        position += max(length, 2)  # libjpeg passes over an APPn that is shorter than its length


def _jpeg_frame(marker: int, body: bytes, length: int) -> Header:
    """Reads a frame header (SOF); only 8-bit Huffman-coded grey or three-channel ones are plain."""
    precision, height, width, components = struct.unpack_from(">BHHB", body)
    factors = [
        (sampling >> 4, sampling & 15) for sampling in (body[7 + 3 * i] for i in range(components))
    ]
    plain = (
        marker in _SOF_PLAIN
        and precision == 8
        and components in (1, 3)
        and length == 8 + 3 * components
        and all(side in (1, 2, 4) for factor in factors for side in factor)
        and height * width * components < _TF_SIZE_LIMIT
    )
    return Header("jpeg", height, width, min(components, 3), plain=plain)


def _read_png(data: bytes) -> Header:
    """Reads IHDR; a palette has a fourth channel when a tRNS chunk comes before the pixels."""
    length, kind, width, height, depth, color, compression, filter_, interlace = struct.unpack_from(
        ">I4sIIBBBBB", data, 8
    )
    if kind != b"IHDR" or length != 13:
        raise BrokenHeaderError("it does not begin with an IHDR chunk")
    if depth not in _PNG_DEPTHS.get(color, ()) or compression or filter_ or interlace > 1:
        raise BrokenHeaderError("its IHDR chunk has an impossible value")
    channels = _PNG_CHANNELS[color]
    if color == 3 and _png_has_transparency(data):
        channels = 4
    plain = max(width, height) <= _PNG_MAX_SIDE and width * height < _TF_SIZE_LIMIT
    return Header("png", height, width, channels, plain=plain)


def _png_has_transparency(data: bytes) -> bool:
    position = 8
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind in (b"tRNS", b"IDAT", b"IEND"):
            return bool(kind == b"tRNS" and length)
        position += 12 + length
    return False


def _read_gif(data: bytes) -> Header:
    """Walks all blocks: TensorFlow gives every frame the size of the largest."""
    flags = data[10]
    position = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    frames = height = width = 0
    while position < len(data):
        introducer = data[position]
        if introducer == 0x21:
            position = _skip_gif_blocks(data, position + 2)
        elif introducer == 0x2C and position + 10 <= len(data):
            wide, high, flags = struct.unpack_from("<HHB", data, position + 5)
            frames, height, width = frames + 1, max(height, high), max(width, wide)
            position += 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
            position = _skip_gif_blocks(data, position + 1)
        else:
            break
    if not frames:
        raise BrokenHeaderError("it has no frame")
    return Header("gif", height, width, 3, frames)


def _skip_gif_blocks(data: bytes, position: int) -> int:
    while position < len(data) and data[position]:
        position += 1 + data[position]
    return position + 1


def _read_bmp(data: bytes) -> Header:
    """Reads the fields TensorFlow reads; a negative height means rows from the top."""
    width, height, _, bits = struct.unpack_from("<iihh", data, 18)
    if len(data) < 32:
        raise BrokenHeaderError("the file ends inside its header")
    channels = bits // 8
    if channels not in (1, 3, 4):
        raise BrokenHeaderError(f"{bits} bits a pixel; TensorFlow reads 8, 24 and 32")
    return Header("bmp", abs(height), width, channels)


def _read_webp(data: bytes) -> Header:
    """Reads the canvas (VP8X) or the only frame (VP8 or VP8L)."""
    kind = data[12:16]
    if kind == b"VP8X":
        return _read_webp_canvas(data)
    return _webp_frame(kind, data[20:30])


def _read_webp_canvas(data: bytes) -> Header:
    flags, width, height = data[20], _uint24(data, 24) + 1, _uint24(data, 27) + 1
    frames, alpha, still = 0, bool(flags & 0x10), None
    position = 12
    while position + 8 <= len(data) and still is None:
        kind, size = struct.unpack_from("<4sI", data, position)
        frames += kind == b"ANMF"
        alpha |= kind == b"ALPH"
        if kind in (b"VP8 ", b"VP8L") and not flags & 0x02:
            still = _webp_frame(kind, data[position + 8 : position + 18])
        position += 8 + size + (size & 1)
    if flags & 0x02:
        if not flags & 0x10:
            # TensorFlow 2.21 reserves 3 bytes a pixel and writes 4: it must never see this file.
            raise BrokenHeaderError("an animated WebP without alpha, which TensorFlow cannot hold")
        return Header("webp", height, width, 4, max(frames, 1))
    if still is None:
        raise BrokenHeaderError("it has no frame")
    if (still.height, still.width) != (height, width):
        raise BrokenHeaderError("its frame is not as large as its canvas")
    if kind == b"VP8L":
        return still
    return still._replace(channels=4 if alpha else 3)


def _webp_frame(kind: bytes, body: bytes) -> Header:
    """Reads the size from the first ten bytes of a VP8 or VP8L chunk."""
    if kind == b"VP8L":
        signature, bits = struct.unpack_from("<BI", body)
        if signature != 0x2F or bits >> 29:
            raise BrokenHeaderError("its VP8L chunk has a wrong signature")
        channels = 4 if bits >> 28 & 1 else 3
        return Header("webp", (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1, channels)
    if kind != b"VP8 " or body[3:6] != b"\x9d\x01\x2a":
        raise BrokenHeaderError("it has no frame")
    width, height = struct.unpack_from("<HH", body, 6)
    return Header("webp", height & 0x3FFF, width & 0x3FFF, 3)


def _uint24(data: bytes, position: int) -> int:
    return int(data[position + 2]) << 16 | data[position + 1] << 8 | data[position]


class _Bits:
    """Reads a JPEG XL codestream bit by bit, lowest bit first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> int:
        """The next `count` bits (0..32).

        Raises:
            BrokenHeaderError: there are fewer.
        """
        first, self._position = self._position, self._position + count
        if self._position > 8 * len(self._data):
            raise BrokenHeaderError("the file ends inside its header")
        word = int.from_bytes(self._data[first >> 3 : (self._position + 7) >> 3], "little")
        return word >> (first & 7) & ((1 << count) - 1)

    def choose(self, *choices: tuple[int, int]) -> int:
        """Two bits select one of four `(offset, bits)`: the offset plus that many more bits."""
        offset, count = choices[self.take(2)]
        return offset + self.take(count)


def _read_jxl(data: bytes) -> Header:
    """Reads SizeHeader and ImageMetadata up to the colour encoding."""
    stream = _Bits(data if data.startswith(b"\xff\x0a") else _jxl_codestream(data))
    if stream.take(16) != 0x0AFF:
        raise BrokenHeaderError("its codestream has a wrong signature")
    height, width = _jxl_size(stream)
    if stream.take(1):
        return Header("jxl", height, width, 3)
    if stream.take(1) and _jxl_orientation(stream) > 4:
        height, width = width, height
    _jxl_bit_depth(stream)
    stream.take(1)
    extra = stream.choose((0, 0), (1, 0), (2, 4), (1, 12))
    alpha = sum(_jxl_is_alpha(stream) for _ in range(extra))
    stream.take(1)
    if stream.take(1):
        gray = False
    else:
        stream.take(1)
        gray = stream.choose((0, 0), (1, 0), (2, 4), (18, 6)) == 1
    return Header("jxl", height, width, (1 if gray else 3) + (1 if alpha else 0))


def _jxl_codestream(data: bytes) -> bytes:
    """The beginning of the codestream inside a container of boxes."""
    stream, position = b"", 0
    while position + 8 <= len(data) and len(stream) < _JXL_HEADER_BYTES:
        size, kind = struct.unpack_from(">I4s", data, position)
        start = position + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        end = position + size if size else len(data)
        if end < start:
            raise BrokenHeaderError("a box has an impossible size")
        if kind in (b"jxlc", b"jxlp"):
            start += 4 if kind == b"jxlp" else 0
            stream += data[start : min(end, start + _JXL_HEADER_BYTES)]
        position = end
    return stream


def _jxl_size(stream: _Bits) -> tuple[int, int]:
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
    numerator, denominator = _JXL_RATIOS[ratio - 1]
    return height, height * numerator // denominator


def _jxl_orientation(stream: _Bits) -> int:
    """The EXIF orientation (1..8); passes over the intrinsic size, preview and animation."""
    orientation = stream.take(3) + 1
    if stream.take(1):
        _jxl_size(stream)
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


def _jxl_bit_depth(stream: _Bits) -> None:
    if stream.take(1):
        stream.choose((32, 0), (16, 0), (24, 0), (1, 6))
        stream.take(4)
    else:
        stream.choose((8, 0), (10, 0), (12, 0), (1, 6))


def _jxl_is_alpha(stream: _Bits) -> bool:
    """Passes over one extra channel."""
    if stream.take(1):
        return True
    kind = stream.choose((0, 0), (1, 0), (2, 4), (18, 6))
    _jxl_bit_depth(stream)
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


_READERS = {
    "jpeg": _read_jpeg,
    "png": _read_png,
    "gif": _read_gif,
    "bmp": _read_bmp,
    "webp": _read_webp,
    "jxl": _read_jxl,
}
