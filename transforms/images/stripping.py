"""Removes metadata from image files: EXIF with GPS, XMP, IPTC, comments, embedded previews.

What decides pixels and colours stays byte for byte, the orientation stays as a tag of its own, and
nothing is decoded. Only what is known to be needed is kept, so that an unknown block leaks nothing.

References: ITU T.81 and T.871 (JPEG), the W3C PNG specification, the WebP container specification,
GIF89a, ISO/IEC 18181-2 (JPEG XL).
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.headers import (
    MAX_PARTS,
    CostlyImageError,
    chunks,
    color_table,
    gif_blocks,
    jpeg_markers,
    jxl_boxes,
)

_EXIF = b"Exif\0\0"

_ALL_MARKERS = frozenset(range(0xC0, 0x100))
_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_APP0, _APP14, _APP15 = 0xE0, 0xEE, 0xEF

# What an APPn segment must begin with to be kept: density, colour profile, colour transform.
_KEPT_SEGMENTS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}

# How much of it decoders read; the rest is a preview, whose size is the last two bytes of JFIF.
_JFIF_BYTES, _ADOBE_BYTES = 14, 12

# Ancillary chunks of a PNG about colours, transparency, the size on paper, and animation.
_KEPT_CHUNKS = frozenset(
    b"tRNS gAMA cHRM sRGB iCCP sBIT bKGD pHYs cICP mDCV cLLI acTL fcTL fdAT".split()
)

_KEPT_WEBP = frozenset({b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF", b"ICCP"})
_WEBP_EXIF, _WEBP_XMP = 0x08, 0x04

_KEPT_BOXES = frozenset({b"JXL ", b"ftyp", b"jxll", b"jxlc", b"jxlp", b"jxli"})

# Extensions of a GIF: a text that no decoder here draws, transparency and time, applications.
_GIF_TEXT, _GIF_CONTROL, _GIF_APPLICATION = b"!\x01", b"!\xf9", b"!\xff"

# Application extensions of a GIF that say how often it is repeated.
_GIF_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def strip_metadata(data: bytes, format_: str, orientation: int) -> bytes:
    r"""The file without metadata; the same object if there is none.

    Args:
        data: the file, whole, with a header that `read_header` accepts.
        format_: see `image_format`; a file in another format stays as it is.
        orientation: of the file, 1 to 8, which is kept; 0 if it has none.

    Raises:
        RejectedImageError: a JPEG has more markers than any image needs, after its pixels.

    >>> strip_metadata(b"\xff\xd8\xff\xfe\x00\x04hi\xff\xd9 more", "jpeg", 0)
    b'\xff\xd8\xff\xd9'
    """
    strip = _STRIPPERS.get(format_)
    if strip is None:
        return data
    try:
        stripped = b"".join(strip(data, orientation))
    except CostlyImageError as error:
        raise RejectedImageError(Reason.TOO_COSTLY, str(error)) from error
    return data if stripped == data else stripped


def exif_block(orientation: int) -> bytes:
    """A TIFF structure with nothing but an orientation.

    >>> len(exif_block(6))
    26
    """
    return b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def _strip_jpeg(data: bytes, orientation: int) -> Iterator[bytes]:
    """Keeps the segments of the image; what lies between them, or follows it, is left out."""
    tag = b""
    if orientation:
        block = _EXIF + exif_block(orientation)
        tag = b"\xff\xe1" + struct.pack(">H", 2 + len(block)) + block
    yield data[:2]
    scan = 0
    for marker, position in jpeg_markers(data, _ALL_MARKERS, most=MAX_PARTS):
        if scan:
            # Coded pixels end at the next marker, whatever that is.
            yield data[scan : position - 2]
            scan = 0
        if marker == _EOI:
            yield tag + data[position - 2 : position]
            return
        end = position + int.from_bytes(data[position : position + 2], "big")
        if _APP0 <= marker <= _APP15 or marker == _COM:
            start = _KEPT_SEGMENTS.get(marker)
            if start is None or not data.startswith(start, position + 2):
                continue
        if marker != _APP0:
            yield tag
            tag = b""
        yield _segment(data[position - 2 : end], marker)
        if marker == _SOS:
            scan = end
    if scan:
        yield data[scan:]


def _segment(segment: bytes, marker: int) -> bytes:
    """A segment that is kept, without what may follow the fields of JFIF and Adobe."""
    if marker == _APP0 and len(segment) > 4 + _JFIF_BYTES:
        # No preview: both of its sides are zero.
        fields = segment[4 : 2 + _JFIF_BYTES] + bytes(2)
    elif marker == _APP14 and len(segment) > 4 + _ADOBE_BYTES:
        fields = segment[4 : 4 + _ADOBE_BYTES]
    else:
        return segment
    return segment[:2] + struct.pack(">H", 2 + len(fields)) + fields


def _strip_png(data: bytes, orientation: int) -> Iterator[bytes]:
    yield data[:8]
    for chunk in chunks(data, "png"):
        is_critical = not chunk.kind[0] & 0x20
        if is_critical or chunk.kind in _KEPT_CHUNKS:
            yield data[chunk.start : chunk.end]
        if chunk.kind == b"IHDR" and orientation:
            yield exif_chunk(exif_block(orientation))


def exif_chunk(block: bytes) -> bytes:
    """The chunk of a PNG with a TIFF structure."""
    crc = zlib.crc32(block, zlib.crc32(b"eXIf"))
    return struct.pack(">I4s", len(block), b"eXIf") + block + struct.pack(">I", crc)


def _strip_webp(data: bytes, orientation: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    end = 8 + int.from_bytes(data[4:8], "little")
    for chunk in chunks(data, "webp"):
        if chunk.start + 8 > end:
            break
        if chunk.kind in _KEPT_WEBP:
            part = data[chunk.start : chunk.end]
            if chunk.kind == b"VP8X" and len(part) > 8:
                flags = part[8] & ~(_WEBP_EXIF | _WEBP_XMP) | (_WEBP_EXIF if orientation else 0)
                part = part[:8] + bytes([flags]) + part[9:]
            parts.append(part)
    if orientation:
        block = exif_block(orientation)
        parts.append(struct.pack("<4sI", b"EXIF", len(block)) + block)
    size = 4 + sum(map(len, parts))
    yield data[:4] + struct.pack("<I", size) + data[8:12]
    yield from parts


def _strip_gif(data: bytes, orientation: int) -> Iterator[bytes]:
    yield data[: 13 + color_table(data[10])]
    # It belongs to the next picture, or to a text.
    control = b""
    for kind, start, _, end in gif_blocks(data):
        if kind == _GIF_CONTROL:
            control = data[start : start + 7] + b"\0"
        elif kind == _GIF_TEXT:
            control = b""
        elif kind == _GIF_APPLICATION and data.startswith(_GIF_LOOPS, start + 3):
            # The number of repetitions: any text may stand in further blocks.
            yield data[start : start + 18] + b"\0"
        elif kind == b",":
            yield control + data[start:end]
            control = b""
        elif kind == b";":
            yield data[start:end]


def _strip_jxl(data: bytes, orientation: int) -> Iterator[bytes]:
    """Keeps the boxes of the codestream, which has the orientation; a bare one has no metadata."""
    if data.startswith(b"\xff\x0a"):
        yield data
        return
    # What follows a damaged box is left out.
    with contextlib.suppress(ValueError, struct.error):
        for box in jxl_boxes(data):
            if box.kind in _KEPT_BOXES:
                yield data[box.start : box.end]


_STRIPPERS: dict[str, Callable[[bytes, int], Iterator[bytes]]] = {
    "jpeg": _strip_jpeg,
    "png": _strip_png,
    "webp": _strip_webp,
    "gif": _strip_gif,
    "jxl": _strip_jxl,
}
