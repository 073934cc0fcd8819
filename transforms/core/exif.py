"""The EXIF orientation of an image file, from its bytes alone."""

from __future__ import annotations

import struct

_ORIENTATION = 0x0112
_SHORT = 3
_MAX_ENTRIES = 1000
_MAX_PARTS = 1000

_NO_TAG = 0


def orientation_tag(data: bytes, format_: str) -> int:
    r"""The orientation in the tag of a JPEG, PNG or WebP, 1 to 8; 0 when there is none.

    It never raises: a damaged tag is none.

    >>> orientation_tag(b"\xff\xd8\xff\xd9", "jpeg")
    0
    """
    try:
        block = _BLOCKS[format_](data) if format_ in _BLOCKS else b""
        return _tag_of(block) if block else _NO_TAG
    except (struct.error, IndexError):
        return _NO_TAG


def _jpeg_block(data: bytes) -> bytes:
    """The TIFF structure in the first APP1 segment that says EXIF."""
    position = 2
    for _ in range(_MAX_PARTS):
        mark, marker, length = struct.unpack_from(">BBH", data, position)
        if mark != 0xFF or marker == 0xDA:
            return b""
        if marker == 0xFF:  # a fill byte
            position += 1
            continue
        if marker == 0xE1 and data.startswith(b"Exif\0", position + 4):
            return data[position + 10 : position + 2 + length]
        position += 2 + length
    return b""


def _png_block(data: bytes) -> bytes:
    position = 8
    for _ in range(_MAX_PARTS):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"eXIf":
            return data[position + 8 : position + 8 + length]
        if kind == b"IEND":
            return b""
        position += 12 + length
    return b""


def _webp_block(data: bytes) -> bytes:
    position = 12
    for _ in range(_MAX_PARTS):
        kind, length = struct.unpack_from("<4sI", data, position)
        if kind == b"EXIF":
            block = data[position + 8 : position + 8 + length]
            return block.removeprefix(b"Exif\0\0")
        position += 8 + length + (length & 1)
    return b""


_BLOCKS = {"jpeg": _jpeg_block, "png": _png_block, "webp": _webp_block}


def _tag_of(block: bytes) -> int:
    """The orientation in the first directory of a TIFF structure."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return _NO_TAG
    (start,) = struct.unpack_from(order + "I", block, 4)
    (entries,) = struct.unpack_from(order + "H", block, start)
    for number in range(min(entries, _MAX_ENTRIES)):
        tag, kind, _, value = struct.unpack_from(order + "HHIH", block, start + 2 + 12 * number)
        if tag == _ORIENTATION:
            return value if kind == _SHORT and 1 <= value <= 8 else _NO_TAG
    return _NO_TAG
