"""Reads TIFF structures of files and EXIF blocks before a decoder copies their tags.

A tag is twelve bytes and may point at any part of the file, so a megabyte can hold thousands of
tags that each claim all of it. Decoders copy every one of them.

References: TIFF 6.0, section 2; the BigTIFF design of the libtiff project.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from transforms.core.formats.headers import BrokenHeaderError, CostlyImageError

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
