"""Damages images where it hurts, in the same way on every run."""

import random
from collections.abc import Iterator, Sequence

from tests.images.jpeg import frame_at, jpeg_segments, with_size

# Precision, components and sampling in the frame header of a JPEG, by their positions.
_FRAME_BYTES = [(0, 12), (0, 16), (5, 2), (5, 4), (6, 9), (7, 0x31), (7, 0x41), (10, 0x21)]


def structural_cuts(data: bytes, name: str) -> list[int]:
    """Offsets where a part of the file begins or ends."""
    cuts = {0, 1, 2, 3, 4, 8, 11, 12, 13, 20, 30, len(data) - 1, len(data) - 2, len(data) // 2}
    if name.startswith("jpeg"):
        position = 0
        for segment in jpeg_segments(data):
            cuts |= {position, position + 1, position + 2, position + 4}
            position += len(segment)
    elif name.startswith(("png", "apng")):
        position = 8
        while position < len(data):
            cuts |= {position, position + 4, position + 8}
            position += 12 + int.from_bytes(data[position : position + 4], "big")
            cuts.add(position - 4)
    return sorted(cut for cut in cuts if 0 <= cut < len(data))


def flipped(data: bytes, source: random.Random, count: int = 1) -> bytes:
    """The data with `count` bits flipped; the first three bytes stay."""
    damaged = bytearray(data)
    for _ in range(count):
        damaged[source.randrange(3, len(data))] ^= 1 << source.randrange(8)
    return bytes(damaged)


def _jpeg_mutants(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    parts = jpeg_segments(data)
    for i in range(1, len(parts)):
        yield f"{name}-without{i}", b"".join(parts[:i] + parts[i + 1 :])
        yield f"{name}-twice{i}", b"".join(parts[: i + 1] + parts[i:])
        if i > 1:
            swapped = [*parts[: i - 1], parts[i], parts[i - 1], *parts[i + 1 :]]
            yield f"{name}-swapped{i}", b"".join(swapped)
        yield f"{name}-junk{i}", b"".join([*parts[:i], b"\0junk", *parts[i:]])
    for marker in (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA, 0xCB):
        frames = [b"\xff" + bytes([marker]) + p[2:] if p[1] in (0xC0, 0xC2) else p for p in parts]
        yield f"{name}-sof{marker:x}", b"".join(frames)
    for position, value in _FRAME_BYTES:
        at = frame_at(data) + position
        yield f"{name}-frame{position}_{value}", data[:at] + bytes([value]) + data[at + 1 :]
    for height, width in ((0, 45), (37, 0), (36, 45), (45, 45), (37, 46), (200, 45), (37, 61)):
        yield f"{name}-size{height}x{width}", with_size(data, height, width)


def mutants(
    images: dict[str, bytes], flips: int = 4, seed: int = 1, kinds: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of damaged copies of `images`: cuts, flips, tails, moved JPEG markers.

    Args:
        images: as `whole_images` gives them.
        flips: copies of each image with flipped bits.
        seed: of the random flips.
        kinds: names of the JPEGs whose markers are moved about.
    """
    source = random.Random(seed)
    for name, data in images.items():
        if len(data) < 10 or len(data) > 1_000_000:
            continue
        for i in range(flips):
            yield f"{name}-flip{i}", flipped(data, source, 1 + i % 3)
        yield f"{name}-tail", data + b"tail \xff\xd8\xff\xd9"
        if name in kinds:
            yield from _jpeg_mutants(name, data)
        for cut in structural_cuts(data, name) if flips > 1 else ():
            yield f"{name}-cut{cut}", data[:cut]
