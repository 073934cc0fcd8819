"""Reads the orientation from the metadata of an image file, and whether it names a place.

Pillow copies every tag of a block before it returns one, and a block of kilobytes can point
thousands of tags at the same bytes. This module copies only the blocks themselves.

References: EXIF 2.32 (CIPA DC-008), the W3C PNG and WebP container specifications, XMP part 1.
"""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from typing import NamedTuple

from transforms.core.formats.headers import CostlyImageError, jpeg_markers
from transforms.core.formats.tiff import GPS, has_place, read_orientation

_MAX_PARTS = 1000
_MAX_TEXT = 1 << 20

_NO_TAG = 0

_APP1, _SOS = 0xE1, 0xDA
_APP1_OR_SCAN = frozenset({_APP1, _SOS})
_EXIF = b"Exif\0\0"
_JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_PNG_XMP = b"XML:com.adobe.xmp"
# Text chunks of ImageMagick, of which those called APP1 hold either.
_PNG_RAW_PROFILES = tuple(b"Raw profile type %b\0" % name for name in (b"exif", b"APP1", b"xmp"))
# A block without these bytes names no place: only others are searched for its tags.
_GPS_TAGS = (GPS.to_bytes(2, "big"), GPS.to_bytes(2, "little"))
_XMP_GPS = b"exif:GPSLatitude"
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


class _Metadata(NamedTuple):
    """A TIFF structure and an XMP packet; empty when there is none."""

    exif: bytes = b""
    xmp: bytes = b""


def orientation_tag(data: bytes, format_: str) -> int:
    r"""The orientation in the metadata of a JPEG, PNG or WebP, 1 to 8; 0 when there is none.

    EXIF comes first, then XMP. It never raises: damaged tags are ignored.

    >>> orientation_tag(b"\xff\xd8\xff\xd9", "jpeg")
    0
    """
    return read_tags(data, format_)[0]


def read_tags(data: bytes, format_: str) -> tuple[int, bool]:
    r"""See `orientation_tag`, and whether there are GPS coordinates in EXIF or XMP.

    >>> read_tags(b"\xff\xd8\xff\xd9", "jpeg")
    (0, False)
    """
    if format_ not in _READERS:
        return _NO_TAG, False
    try:
        exif, xmp = _READERS[format_](data)
        tag = orientation_of(exif, xmp)
        # No calls: nearly all images name no place.
        may_have = _GPS_TAGS[0] in exif or _GPS_TAGS[1] in exif
        return tag, _XMP_GPS in xmp or (may_have and has_place(exif.removeprefix(_EXIF)))
    except (struct.error, IndexError, ValueError, zlib.error):
        return _NO_TAG, False


def orientation_of(exif: bytes, xmp: bytes) -> int:
    """The orientation in an EXIF block (with or without its prefix) or an XMP packet, or 0."""
    tag = read_orientation(exif.removeprefix(_EXIF)) if exif else None
    if tag is None:
        found = _XMP_ORIENTATION.search(xmp)
        tag = int(found[1]) if found else _NO_TAG
    return tag if 1 <= tag <= 8 else _NO_TAG


def _read_jpeg(data: bytes) -> _Metadata:
    """All APP1 segments with EXIF are one block; of XMP packets the last one counts."""
    blocks: list[bytes] = []
    xmp = b""
    # Markers after the first `_MAX_PARTS` are not read.
    with contextlib.suppress(CostlyImageError):
        for marker, position in jpeg_markers(data, _APP1_OR_SCAN, most=_MAX_PARTS):
            if marker == _SOS:
                break
            if marker == _APP1:
                end = position + int.from_bytes(data[position : position + 2], "big")
                if data.startswith(_EXIF, position + 2):
                    blocks.append(data[position + 2 + len(_EXIF) : end])
                elif data.startswith(_JPEG_XMP, position + 2):
                    xmp = data[position + 2 + len(_JPEG_XMP) : end]
    return _Metadata(b"".join(blocks), xmp)


def _read_png(data: bytes) -> _Metadata:
    exif = raw = xmp = b""
    position = 8
    for _ in range(_MAX_PARTS):
        if position + 8 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"IEND":
            break
        if kind == b"eXIf":
            exif = data[position + 8 : position + 8 + length]
        elif kind in (b"tEXt", b"zTXt", b"iTXt"):
            body = data[position + 8 : position + 8 + length]
            if body.startswith(_PNG_XMP + b"\0"):
                xmp = _png_text(kind, body)
            elif body.startswith(_PNG_RAW_PROFILES):
                profile = _raw_profile(_png_text(kind, body))
                if profile.startswith((b"<", _JPEG_XMP)):
                    xmp = xmp or profile
                else:
                    raw = profile
        position += 12 + length
    return _Metadata(exif or raw, xmp)


def _raw_profile(text: bytes) -> bytes:
    """A newline, the name, the length and then lines of hexadecimal digits; empty if damaged."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return b""


def _png_text(kind: bytes, body: bytes) -> bytes:
    """The value of a text chunk; empty if it inflates to more than a megabyte."""
    _, value = body.split(b"\0", 1)
    if kind == b"tEXt":
        return value
    if kind == b"zTXt":
        return _inflated(value[1:])
    is_packed = value[0] == 1
    _, _, text = value[2:].split(b"\0", 2)
    return _inflated(text) if is_packed else text


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    text = inflater.decompress(packed, _MAX_TEXT)
    return text if inflater.eof else b""


def _read_webp(data: bytes) -> _Metadata:
    exif = xmp = b""
    position = 12
    for _ in range(_MAX_PARTS):
        if position + 8 > len(data):
            break
        kind, length = struct.unpack_from("<4sI", data, position)
        if kind == b"EXIF":
            exif = data[position + 8 : position + 8 + length]
        elif kind == b"XMP ":
            xmp = data[position + 8 : position + 8 + length]
        position += 8 + length + (length & 1)
    return _Metadata(exif, xmp)


_READERS = {"jpeg": _read_jpeg, "png": _read_png, "webp": _read_webp}
