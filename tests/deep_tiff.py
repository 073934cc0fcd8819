"""Draws TIFFs of 16 bits in colour, which Pillow cannot write."""

import struct
import zlib
from typing import Any

import numpy as np


def samples(channels: int, height: int = 6, width: int = 5) -> Any:
    """uint16 `[height, width, channels]` whose low bytes differ from the high ones."""
    count = height * width * channels
    values = np.random.default_rng(channels).integers(0, 65_536, count).astype(np.uint16)
    return values.reshape(height, width, channels)


def tiff(
    pixels: Any,
    order: str = "<",
    extra: int | None = None,
    planar: int = 1,
    *,
    packed: bool = False,
) -> bytes:
    """A TIFF of 16 bits.

    Args:
        pixels: `[height, width, channels]`.
        order: of the bytes, `<` or `>`.
        extra: what a fourth channel is: 0 nothing, 1 premultiplied alpha, 2 alpha.
        planar: 1 for samples next to each other, 2 for one channel after the other.
        packed: whether the samples are compressed with zlib.
    """
    height, width, channels = pixels.shape
    planes = [pixels] if planar == 1 else list(np.moveaxis(pixels, 2, 0))
    strips = [plane.astype(f"{order}u2").tobytes() for plane in planes]
    strips = [zlib.compress(strip) if packed else strip for strip in strips]
    starts = np.cumsum([8, *map(len, strips)]).tolist()
    tags: dict[int, list[int]] = {
        256: [width],
        257: [height],
        258: [16] * channels,
        259: [8 if packed else 1],
        262: [2 if channels > 2 else 1],
        273: starts[:-1],
        277: [channels],
        278: [height],
        279: [len(strip) for strip in strips],
        284: [planar],
        **({} if extra is None else {338: [extra]}),
    }
    behind = starts[-1] + 2 + 12 * len(tags) + 4
    entries = values = b""
    for tag, numbers in tags.items():
        # Bits are shorts, which libtiff insists on.
        letter, kind = ("H", 3) if tag == 258 else ("I", 4)
        value = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        if len(value) > 4:
            at = struct.pack(f"{order}I", behind + len(values))
            values += value
        else:
            at = value.ljust(4, b"\0")
        entries += struct.pack(f"{order}HHI", tag, kind, len(numbers)) + at
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", starts[-1])
    count = struct.pack(f"{order}H", len(tags))
    return head + b"".join(strips) + count + entries + bytes(4) + values
