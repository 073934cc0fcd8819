"""Reads the header of a JPEG XL file (ISO/IEC 18181) before any pixel is decoded."""

from __future__ import annotations

import struct
from typing import NamedTuple

_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_HEADER_BYTES = 1 << 16

# Limit for boxes of a container that are searched for the codestream.
_MAX_BOXES = 1 << 20


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


class JxlSize(NamedTuple):
    """The header of a JPEG XL.

    Attributes:
        height: in pixels, upright.
        width: in pixels, upright.
        gray: whether it has one colour channel, not three.
        alpha: whether one of its extra channels is alpha.
        extra: extra channels, alpha among them.
        bits: of a sample of colour.
    """

    height: int
    width: int
    gray: bool = False
    alpha: bool = False
    extra: int = 0
    bits: int = 8


def read_size(data: bytes) -> JxlSize:
    """Reads SizeHeader and ImageMetadata up to the colour encoding.

    Raises:
        ValueError: the header contradicts its format.
        IndexError: it ends too soon.
        struct.error: its container ends too soon.
    """
    stream = _Bits(data if data.startswith(b"\xff\x0a") else _codestream(data))
    if stream.take(16) != 0x0AFF:
        raise ValueError("its codestream has a wrong signature")
    height, width = _size(stream)
    if stream.take(1):
        return JxlSize(height, width)
    if stream.take(1) and _orientation(stream) > 4:
        height, width = width, height
    bits = _bit_depth(stream)
    stream.take(1)
    extra = stream.choose((0, 0), (1, 0), (2, 4), (1, 12))
    alpha = sum(_is_alpha(stream) for _ in range(extra)) > 0
    stream.take(1)
    if stream.take(1):
        gray = False
    else:
        stream.take(1)
        gray = stream.choose((0, 0), (1, 0), (2, 4), (18, 6)) == 1
    return JxlSize(height, width, gray, alpha, extra, bits)


def _codestream(data: bytes) -> bytes:
    """The beginning of the codestream inside a container of boxes."""
    stream, position = b"", 0
    for _ in range(_MAX_BOXES):
        if position + 8 > len(data) or len(stream) >= _HEADER_BYTES:
            return stream
        size, kind = struct.unpack_from(">I4s", data, position)
        start = position + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        end = position + size if size else len(data)
        if end < start:
            raise ValueError("a box has an impossible size")
        if kind in (b"jxlc", b"jxlp"):
            start += 4 if kind == b"jxlp" else 0
            stream += data[start : min(end, start + _HEADER_BYTES)]
        position = end
    raise ValueError(f"its codestream is spread over more than {_MAX_BOXES} boxes")


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
