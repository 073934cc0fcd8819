"""Reads the number of tiles from a JPEG 2000 codestream.

Reference: ISO/IEC 15444-1, annex A.5.1 (SIZ).
"""

from __future__ import annotations

import re
import struct

from transforms.core.formats.headers import CostlyImageError

MAX_TILES = 1 << 14
"""Tiles of an image. OpenJPEG takes 9 KB and 30 microseconds for each that the header announces; 89
megapixels in tiles of 128 x 128 are 5,400."""

COST = 4
"""How many pixels one of a JPEG 2000 counts for: decoding it takes up to 25 bytes and 90 ns."""

# The start of a codestream and the marker that must follow.
_SIZ = re.compile(rb"\xff\x4f\xff\x51")


def check_jpeg2000(data: bytes) -> None:
    """Refuses a file that announces more tiles than any image needs.

    Raises:
        CostlyImageError: more than `MAX_TILES`.
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
            raise CostlyImageError(f"{tiles} tiles, more than {MAX_TILES}")
