"""What a file of a dataset holds, in one piece or in parts: its size and its CRC32C."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple, TypeAlias

import google_crc32c

from transforms.core.records import RejectedPart

# The polynomial of CRC32C, its bits reversed; bit 31 is the coefficient of 1.
_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
_X = 1 << 30


def crc32c_hex(data: bytes) -> str:
    """The CRC32C of `data`, 8 hexadecimal digits.

    >>> crc32c_hex(b"123456789")
    'e3069283'
    """
    return f"{google_crc32c.value(data):08x}"


class StagedParts(NamedTuple):
    """A file in parts.

    Attributes:
        parts: in order.
    """

    parts: tuple[RejectedPart, ...]


# The bytes of a file, or its parts.
FileContent: TypeAlias = bytes | StagedParts


class ContentSummary(NamedTuple):
    """What a manifest says about a file: its bytes, and 8 hexadecimal digits."""

    bytes: int
    crc32c: str


def in_parts(parts: Iterable[RejectedPart]) -> StagedParts:
    """The file that these parts give, in the order of their numbers; empty ones are left out."""
    return StagedParts(tuple(sorted(part for part in map(_part, parts) if part.bytes)))


def _part(part: RejectedPart) -> RejectedPart:
    return RejectedPart(*part)


def content_summary(content: FileContent) -> ContentSummary:
    """The size and the checksum of a file; parts are not read.

    >>> content_summary(b"123456789")
    ContentSummary(bytes=9, crc32c='e3069283')
    """
    if isinstance(content, bytes):
        return ContentSummary(len(content), crc32c_hex(content))
    crc = reduce(
        lambda crc, part: joined_crc32c(crc, int(part.crc32c, 16), part.bytes), content.parts, 0
    )
    return ContentSummary(sum(part.bytes for part in content.parts), f"{crc:08x}")


def joined_crc32c(first: int, second: int, length: int) -> int:
    """The CRC32C of two texts in a row.

    Args:
        first: that of the first.
        second: that of the second.
        length: bytes of the second.

    >>> hex(joined_crc32c(google_crc32c.value(b"1234"), google_crc32c.value(b"56789"), 5))
    '0xe3069283'
    """
    # As in zlib's crc32_combine: the first remainder is moved by 8 bits for each further byte.
    power, square, bits = _ONE, _X, 8 * length
    while bits:
        if bits & 1:
            power = _multiply(power, square)
        square = _multiply(square, square)
        bits >>= 1
    return _multiply(power, first) ^ second


def _multiply(one: int, other: int) -> int:
    """The product of two polynomials of bits, modulo that of CRC32C."""
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product
