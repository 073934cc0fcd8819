"""Metadata of image files: TIFF directories, EXIF tags, and their removal."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.headers import (
    MAX_PARTS,
    chunks,
    color_table,
    gif_blocks,
    jpeg_markers,
    jxl_boxes,
    too_costly,
)

# Reads TIFF structures of files and EXIF blocks before a decoder copies their tags.
#
# A tag is twelve bytes and may point at any part of the file, so a megabyte can hold thousands of
# tags that each claim all of it. Decoders copy every one of them.
#
# References: TIFF 6.0, section 2; the BigTIFF design of the libtiff project.

MAX_TAGS = 4096
"""Tags of a directory. Cameras and microscopes write tens to hundreds."""

MAX_NUMBERS = 1 << 18
"""Numbers in a tag, and strips or tiles of an image. 179 megapixels of color in strips of 8 KB, as
libtiff writes them, are 65,000; each costs a decoder about 8 microseconds and 450 bytes."""

MAX_TILE = 1 << 26
"""Pixels of a tile, also of a small image: libtiff makes room for all of it. Usual are 65,536."""

MAGIC = (b"II*\0", b"MM\0*", b"MM*\0", b"II\0*", b"II+\0", b"MM\0+")
"""The first bytes of a TIFF structure; Pillow accepts a contradictory byte order."""

ORIENTATION = 0x0112
"""The tag of the orientation of an image."""

GPS = 0x8825
"""The tag of the directory with a place."""

_LATITUDE, _LONGITUDE = 2, 4

_WIDTH, _HEIGHT, _SAMPLES, _ROWS_PER_STRIP, _PLANAR = 256, 257, 277, 278, 284
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
_SEPARATE_PLANES = 2

# Bytes of one value by the type of a tag.
_SIZES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8
}  # fmt: skip
# Types whose values a decoder turns into numbers; the others stay bytes.
_NUMBERS = frozenset(_SIZES) - {1, 2, 7}
_WHOLE = {3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q"}


class _Tag(NamedTuple):
    """An entry of a directory: `size` bytes of `values` values at `position` in the structure."""

    number: int
    kind: int
    values: int
    size: int
    position: int


class _Structure(NamedTuple):
    """A TIFF structure, of a file or of an EXIF block."""

    data: bytes
    order: str
    is_big: bool
    first: int

    def tags(self) -> Iterator[_Tag]:
        """The entries of the first directory with known types; ends at a truncated entry.

        Raises:
            RejectedImageError: there are more than `MAX_TAGS`.
        """
        head, entry, inline = ("Q", "HHQ", 8) if self.is_big else ("H", "HHI", 4)
        (claimed,) = struct.unpack_from(self.order + head, self.data, self.first)
        width = struct.calcsize(self.order + entry) + inline
        begin = self.first + struct.calcsize(self.order + head)
        entries = min(claimed, (len(self.data) - begin) // width)
        if entries > MAX_TAGS:
            raise too_costly(f"a directory of {entries} tags, more than {MAX_TAGS}")
        for start in range(begin, begin + entries * width, width):
            number, kind, count = struct.unpack_from(self.order + entry, self.data, start)
            size = _SIZES.get(kind, 0) * count
            position = start + width - inline
            if size > inline:
                (position,) = struct.unpack_from(
                    self.order + ("Q" if self.is_big else "I"), self.data, position
                )
            if size:
                yield _Tag(number, kind, count, size, position)

    def number(self, tag: _Tag) -> int | None:
        """The value of a tag that is one whole number; else None."""
        if tag.values != 1 or tag.kind not in _WHOLE:
            return None
        return int(struct.unpack_from(self.order + _WHOLE[tag.kind], self.data, tag.position)[0])


def _structure(data: bytes) -> _Structure:
    """The structure that begins at the first byte; byte orders as Pillow takes them.

    Raises:
        RejectedImageError: there is none.
        struct.error: it is cut.
    """
    if not data.startswith(MAGIC):
        raise RejectedImageError(Reason.CORRUPT_IMAGE, "no TIFF structure")
    order = "<" if data.startswith(b"II") else ">"
    is_big = data[2] == ord("+")
    (first,) = struct.unpack_from(order + ("Q" if is_big else "I"), data, 8 if is_big else 4)
    return _Structure(data, order, is_big, first)


def read_exif(block: bytes) -> tuple[int | None, bool]:
    """The orientation tag of an EXIF block, unchecked, and whether there are GPS coordinates.

    The orientation is None without a tag or with more than `MAX_TAGS` tags, and 0 if it is not a
    single number. Cameras also write a GPS directory without coordinates.

    Raises:
        struct.error: the block is cut.
    """
    orientation, has_place = None, False
    try:
        structure = _structure(block)
        for tag in structure.tags():
            if tag.number == ORIENTATION:
                orientation = structure.number(tag) or 0
            elif tag.number == GPS and (place := structure.number(tag)):
                with contextlib.suppress(RejectedImageError, struct.error):
                    found = {each.number for each in structure._replace(first=place).tags()}
                    has_place = has_place or found >= {_LATITUDE, _LONGITUDE}
    except RejectedImageError:
        return None, False
    return orientation, has_place


def check_tiff(data: bytes) -> None:
    """Refuses a TIFF file that is crafted to be slow or large to decode.

    Only the first page is read, since no other page is decoded.

    Args:
        data: the file, whole.

    Raises:
        RejectedImageError: it has no directory; or more tags, numbers in a tag, strips or tiles
            than any image needs, or tags that claim more bytes than the file has.
    """
    try:
        structure = _structure(data)
        held = 0
        layout: dict[int, int] = {}
        for tag in structure.tags():
            if tag.kind in _NUMBERS and tag.values > MAX_NUMBERS and tag.position < len(data):
                raise too_costly(f"tag {tag.number} has more than {MAX_NUMBERS} numbers")
            held += max(0, min(tag.size, len(data) - tag.position))
            if held > len(data):
                raise too_costly("its tags refer to more bytes than the file has")
            layout[tag.number] = structure.number(tag) or 0
        if _parts(layout) > MAX_NUMBERS:
            raise too_costly(f"more than {MAX_NUMBERS} strips or tiles")
        tile = layout.get(_TILE_WIDTH, 0) * layout.get(_TILE_HEIGHT, 0)
        if tile > MAX_TILE:
            raise too_costly(f"a tile of {tile} pixels, more than {MAX_TILE}")
    except struct.error:
        detail = "the file ends inside its directory"
        raise RejectedImageError(Reason.CORRUPT_IMAGE, detail) from None


def _parts(layout: dict[int, int]) -> int:
    """How many strips or tiles an image has, by the tags of its size and theirs."""
    width, height = layout.get(_WIDTH, 0), layout.get(_HEIGHT, 0)
    planes = layout.get(_SAMPLES, 1) if layout.get(_PLANAR) == _SEPARATE_PLANES else 1
    wide, high = layout.get(_TILE_WIDTH, 0), layout.get(_TILE_HEIGHT, 0)
    if wide and high:
        return -(-width // wide) * -(-height // high) * planes
    rows = layout.get(_ROWS_PER_STRIP, 0) or height or 1
    return -(-height // rows) * planes


# Reads the orientation from the metadata of an image file, and whether it names a place.
#
# Pillow copies every tag of a block before it returns one, and a block of kilobytes can point
# thousands of tags at the same bytes. This module copies only the blocks themselves.
#
# References: EXIF 2.32 (CIPA DC-008), the W3C PNG and WebP container specifications, XMP part 1.

_MAX_PARTS = 1000
_MAX_TEXT = 1 << 20

_NO_TAG = 0

_EOI, _SOS, _APP1 = 0xD9, 0xDA, 0xE1
_EXIF = b"Exif\0\0"
_JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_PNG_XMP = b"XML:com.adobe.xmp"
_WEBP_METADATA = (b"EXIF", b"XMP ")
# Text chunks of ImageMagick, of which those called APP1 hold either.
_PNG_RAW_PROFILES = tuple(b"Raw profile type %b\0" % name for name in (b"exif", b"APP1", b"xmp"))
_XMP_GPS = b"exif:GPSLatitude"
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


# A TIFF structure and an XMP packet; empty when there is none.
_Metadata = tuple[bytes, bytes]


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
        return tags_in(*_READERS[format_](data))
    except (struct.error, IndexError, ValueError, zlib.error):
        return _NO_TAG, False


def tags_in(exif: bytes, xmp: bytes) -> tuple[int, bool]:
    """See `read_tags`, of an EXIF block (with or without its prefix) and an XMP packet.

    Raises:
        struct.error: the block is cut.
    """
    tag, has_place = read_exif(exif.removeprefix(_EXIF)) if exif else (None, False)
    if tag is None:
        found = _XMP_ORIENTATION.search(xmp)
        tag = int(found[1]) if found else _NO_TAG
    return tag if 1 <= tag <= 8 else _NO_TAG, has_place or _XMP_GPS in xmp


def _read_jpeg(data: bytes) -> _Metadata:
    """All APP1 segments with EXIF are one block; of XMP packets the last one counts."""
    blocks: list[bytes] = []
    xmp = b""
    # Markers after the first `_MAX_PARTS` are not read.
    with contextlib.suppress(RejectedImageError):
        for marker, position in jpeg_markers(data, most=_MAX_PARTS):
            if marker == _SOS:
                break
            if marker == _APP1:
                end = position + int.from_bytes(data[position : position + 2], "big")
                if data.startswith(_EXIF, position + 2):
                    blocks.append(data[position + 2 + len(_EXIF) : end])
                elif data.startswith(_JPEG_XMP, position + 2):
                    xmp = data[position + 2 + len(_JPEG_XMP) : end]
    return b"".join(blocks), xmp


def _read_png(data: bytes) -> _Metadata:
    exif = raw = xmp = b""
    for chunk in itertools.islice(chunks(data, "png"), _MAX_PARTS):
        if chunk.kind == b"eXIf":
            exif = data[chunk.body]
        elif chunk.kind in (b"tEXt", b"zTXt", b"iTXt"):
            body = data[chunk.body]
            if body.startswith(_PNG_XMP + b"\0"):
                xmp = _png_text(chunk.kind, body)
            elif body.startswith(_PNG_RAW_PROFILES):
                profile = _raw_profile(_png_text(chunk.kind, body))
                if profile.startswith((b"<", _JPEG_XMP)):
                    xmp = xmp or profile
                else:
                    raw = profile
    return exif or raw, xmp


def _raw_profile(text: bytes) -> bytes:
    """A newline, the name, the length and then lines of hexadecimal digits; empty if damaged."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n", 3)[3:]).replace(b"\n", b"").decode("ascii"))
    except ValueError:
        return b""


def _png_text(kind: bytes, body: bytes) -> bytes:
    """The value of a text chunk; empty if it inflates to more than a megabyte."""
    _, value = body.split(b"\0", 1)
    if kind == b"tEXt":
        return value
    if kind == b"zTXt":
        return _inflated(value[1:])
    _, _, text = value[2:].split(b"\0", 2)
    return _inflated(text) if value[0] == 1 else text


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    text = inflater.decompress(packed, _MAX_TEXT)
    return text if inflater.eof else b""


def _read_webp(data: bytes) -> _Metadata:
    found = {
        chunk.kind: data[chunk.body]
        for chunk in itertools.islice(chunks(data, "webp"), _MAX_PARTS)
        if chunk.kind in _WEBP_METADATA
    }
    exif, xmp = (found.get(kind, b"") for kind in _WEBP_METADATA)
    return exif, xmp


_READERS = {"jpeg": _read_jpeg, "png": _read_png, "webp": _read_webp}


# Removes metadata from image files: EXIF with GPS, XMP, IPTC, comments, embedded previews.
#
# What decides pixels and colors stays byte for byte, the orientation stays as a tag of its own,
# and nothing is decoded. Only what is known to be needed is kept, so that an unknown block leaks
# nothing.
#
# References: ITU T.81 and T.871 (JPEG), the W3C PNG specification, the WebP container
# specification, GIF89a, ISO/IEC 18181-2 (JPEG XL).

_FIRST_MARKER = 0xC0
_APP0, _APP14, _APP15, _COM = 0xE0, 0xEE, 0xEF, 0xFE

# What an APPn segment must begin with to be kept: density, color profile, color transform.
_KEPT_SEGMENTS = {_APP0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", _APP14: b"Adobe"}

# How much of it decoders read; the rest is a preview, whose size is the last two bytes of JFIF.
_JFIF_BYTES, _ADOBE_BYTES = 14, 12

# Ancillary chunks of a PNG about colors, transparency, the size on paper, and animation.
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
    stripped = b"".join(strip(data, orientation))
    return data if stripped == data else stripped


def exif_of(orientation: int) -> bytes:
    """An EXIF block with nothing but an orientation.

    >>> len(exif_of(6))
    32
    """
    tags = struct.pack(">HHHIHHI", 1, ORIENTATION, 3, 1, orientation, 0, 0)
    return _EXIF + b"MM\0*\0\0\0\x08" + tags


def exif_segment(exif: bytes) -> bytes:
    """The segment of a JPEG with an EXIF block."""
    return b"\xff\xe1" + struct.pack(">H", 2 + len(exif)) + exif


def exif_chunk(exif: bytes) -> bytes:
    """The chunk of a PNG with an EXIF block."""
    return _png_chunk(b"eXIf", exif.removeprefix(_EXIF))


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    crc = zlib.crc32(body, zlib.crc32(kind))
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", crc)


def _strip_jpeg(data: bytes, orientation: int) -> Iterator[bytes]:
    """Keeps the segments of the image; what lies between them, or follows it, is left out."""
    tag = exif_segment(exif_of(orientation)) if orientation else b""
    yield data[:2]
    scan = 0
    for marker, position in jpeg_markers(data, most=MAX_PARTS):
        if marker < _FIRST_MARKER:
            continue
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
        if chunk.kind == b"iCCP":
            # Its name is any text.
            yield _png_chunk(chunk.kind, b"ICC Profile\0" + data[chunk.body].partition(b"\0")[2])
        elif is_critical or chunk.kind in _KEPT_CHUNKS:
            yield data[chunk.start : chunk.end]
        if chunk.kind == b"IHDR" and orientation:
            yield exif_chunk(exif_of(orientation))


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
        block = exif_of(orientation).removeprefix(_EXIF)
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
