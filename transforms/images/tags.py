"""TIFF directories and the EXIF tags in them."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from transforms.images.headers import (
    BrokenHeaderError,
    CostlyImageError,
    Header,
    chunks,
    jpeg_markers,
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
"""Numbers in a tag, and strips or tiles of an image. 179 megapixels of colour in strips of 8 KB, as
libtiff writes them, are 65,000; each costs a decoder about 8 microseconds and 450 bytes."""

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
_WHOLE = {3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I"}


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
            CostlyImageError: there are more than `MAX_TAGS`.
        """
        head, entry, inline = ("Q", "HHQ", 8) if self.is_big else ("H", "HHI", 4)
        (claimed,) = struct.unpack_from(self.order + head, self.data, self.first)
        width = struct.calcsize(self.order + entry) + inline
        begin = self.first + struct.calcsize(self.order + head)
        entries = min(claimed, (len(self.data) - begin) // width)
        if entries > MAX_TAGS:
            raise CostlyImageError(f"a directory of {entries} tags, more than {MAX_TAGS}")
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
        """The value of a tag that is one whole number of up to 32 bits; else None."""
        if tag.values != 1 or tag.kind not in _WHOLE:
            return None
        return int(struct.unpack_from(self.order + _WHOLE[tag.kind], self.data, tag.position)[0])


def _structure(data: bytes) -> _Structure | None:
    """The structure that begins at the first byte, or None; byte orders as Pillow takes them."""
    if not data.startswith(MAGIC):
        return None
    order = "<" if data.startswith(b"II") else ">"
    is_big = data[2] == ord("+")
    (first,) = struct.unpack_from(order + ("Q" if is_big else "I"), data, 8 if is_big else 4)
    return _Structure(data, order, is_big, first)


def read_orientation(block: bytes) -> int | None:
    """The orientation tag of an EXIF block, unchecked; None if there is none.

    A tag that is not a single number gives 0. More than `MAX_TAGS` tags give None.

    Raises:
        struct.error: the block is cut.
    """
    structure = _structure(block)
    if structure is None:
        return None
    found = None
    try:
        for tag in structure.tags():
            if tag.number == ORIENTATION:
                found = structure.number(tag) or 0
    except CostlyImageError:
        return None
    return found


def has_place(block: bytes) -> bool:
    """Whether an EXIF block has GPS coordinates; cameras also write the directory without them."""
    structure = _structure(block)
    if structure is None:
        return False
    try:
        for tag in structure.tags():
            if tag.number == GPS and (place := structure.number(tag)):
                found = {each.number for each in structure._replace(first=place).tags()}
                return found >= {_LATITUDE, _LONGITUDE}
    except (CostlyImageError, struct.error):
        pass
    return False


def check_tiff(data: bytes) -> None:
    """Refuses a TIFF file that is crafted to be slow or large to decode.

    Only the first page is read, since no other page is decoded.

    Args:
        data: the file, whole.

    Raises:
        BrokenHeaderError: it has no directory.
        CostlyImageError: more tags, numbers in a tag, strips or tiles than any image needs, or tags
            that claim more bytes than the file has.
    """
    try:
        structure = _structure(data)
        if structure is None:
            raise BrokenHeaderError("no TIFF structure")
        held = 0
        layout: dict[int, int] = {}
        for tag in structure.tags():
            if tag.kind in _NUMBERS and tag.values > MAX_NUMBERS and tag.position < len(data):
                raise CostlyImageError(f"tag {tag.number} has more than {MAX_NUMBERS} numbers")
            held += max(0, min(tag.size, len(data) - tag.position))
            if held > len(data):
                raise CostlyImageError("its tags refer to more bytes than the file has")
            layout[tag.number] = structure.number(tag) or 0
        if _parts(layout) > MAX_NUMBERS:
            raise CostlyImageError(f"more than {MAX_NUMBERS} strips or tiles")
    except struct.error:
        raise BrokenHeaderError("the file ends inside its directory") from None


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

_APP1, _SOS = 0xE1, 0xDA
_APP1_OR_SCAN = frozenset({_APP1, _SOS})
_EXIF = b"Exif\0\0"
_JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_PNG_XMP = b"XML:com.adobe.xmp"
_WEBP_METADATA = (b"EXIF", b"XMP ")
# Text chunks of ImageMagick, of which those called APP1 hold either.
_PNG_RAW_PROFILES = tuple(b"Raw profile type %b\0" % name for name in (b"exif", b"APP1", b"xmp"))
# A block without these bytes names no place: only others are searched for its tags.
_GPS_TAGS = (GPS.to_bytes(2, "big"), GPS.to_bytes(2, "little"))
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
        exif, xmp = _READERS[format_](data)
        tag = orientation_of(exif, xmp)
        # No calls: nearly all images name no place.
        may_have = _GPS_TAGS[0] in exif or _GPS_TAGS[1] in exif
        return tag, _XMP_GPS in xmp or (may_have and has_place(exif.removeprefix(_EXIF)))
    except (struct.error, IndexError, ValueError, zlib.error):
        return _NO_TAG, False


def tags_of(data: bytes, header: Header) -> tuple[int, bool]:
    """See `read_tags`; faster for a JPEG whose header shows that it has no block for tags."""
    has_block = header.has_app1 or header.format != "jpeg"
    return read_tags(data, header.format) if has_block else (_NO_TAG, False)


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
    found = {
        chunk.kind: data[chunk.body]
        for chunk in itertools.islice(chunks(data, "webp"), _MAX_PARTS)
        if chunk.kind in _WEBP_METADATA
    }
    exif, xmp = (found.get(kind, b"") for kind in _WEBP_METADATA)
    return exif, xmp


_READERS = {"jpeg": _read_jpeg, "png": _read_png, "webp": _read_webp}
