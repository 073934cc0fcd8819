"""Measures which copies of photos are found: `python benchmarks/near_duplicates.py 'GLOB'`.

Each copy of a photo is hashed as `convert` hashes a file, and found if its hash differs from that
of the photo in at most as many bits as near-duplicates do. Two of the photos that are as near are a
false pair: the photos must be of different things.
"""

from __future__ import annotations

import argparse
import glob
import io
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from report import markdown_table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transforms.images.pixel_options import AS_THEY_ARE, DEFAULT_LIMITS, PixelOptions
from transforms.images.pixels import change_pixels
from transforms.selection.duplicates import MAX_DISTANCE

_JPEG_90 = {"quality": 90, "subsampling": "4:2:0"}


class Copy(NamedTuple):
    """How a copy is made of a photo, and read.

    Attributes:
        format: Pillow's name.
        scale: of its sides.
        options: for Pillow's `save`.
        mode: `L` or `RGB`.
        transcode: the option of `convert` that it is read with.
    """

    format: str
    scale: float = 1
    options: dict[str, Any] = {}
    mode: str = "RGB"
    transcode: str = "keep"


COPIES = {
    "JPEG, quality 95": Copy("JPEG", options={"quality": 95}),
    "JPEG, quality 60": Copy("JPEG", options={"quality": 60}),
    "JPEG, quality 30": Copy("JPEG", options={"quality": 30}),
    "JPEG, grey": Copy("JPEG", options=_JPEG_90, mode="L"),
    "JPEG, 3/4 of the sides": Copy("JPEG", 3 / 4, _JPEG_90),
    "JPEG, half": Copy("JPEG", 1 / 2, _JPEG_90),
    "JPEG, a third": Copy("JPEG", 1 / 3, _JPEG_90),
    "WebP, lossy": Copy("WEBP", options={"quality": 80}),
    "WebP, lossy, half": Copy("WEBP", 1 / 2, {"quality": 80}),
    "WebP, lossless": Copy("WEBP", options={"lossless": True}),
    "GIF, 256 colors": Copy("GIF"),
    "BMP": Copy("BMP"),
    "PNG, `--transcode jpeg`": Copy("PNG", transcode="jpeg"),
    "PNG, half, `--transcode jpeg`": Copy("PNG", 1 / 2, transcode="jpeg"),
    "TIFF, `--transcode auto`": Copy("TIFF", transcode="auto"),
    "AVIF, `--transcode auto`": Copy("AVIF", options={"quality": 70}, transcode="auto"),
}


class Found(NamedTuple):
    """What was measured.

    Attributes:
        distances: of each kind of copy, the bits in which each one's hash differs; 64 without one.
        photos: those that were compared with each other.
        pairs: the number of their pairs.
        false: the pairs of which each photo counts as a copy of the other.
        nearest: the distance of the nearest pair.
    """

    distances: dict[str, list[int]]
    photos: int
    pairs: int
    false: int
    nearest: int


def perceptual_hash(data: bytes, transcode: str = "keep") -> int | None:
    """The perceptual hash of a file, as `convert` puts it into an index."""
    options = AS_THEY_ARE if transcode == "keep" else PixelOptions(transcode=transcode)
    return change_pixels(data, options, limits=DEFAULT_LIMITS, with_hash=True).seen.perceptual_hash


def copy_of(photo: Image.Image, copy: Copy) -> bytes:
    """The file of a copy."""
    width, height = (max(1, round(side * copy.scale)) for side in photo.size)
    size = (width, height)
    small = photo if size == photo.size else photo.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.convert(copy.mode).save(file, copy.format, **copy.options)
    return file.getvalue()


def measure(photos: Sequence[bytes], count: int) -> Found:
    """Hashes photos and copies of them.

    Args:
        photos: the files, of different things.
        count: of how many of them copies are made, evenly spread.
    """
    hashes = [perceptual_hash(data) for data in photos]
    distances: dict[str, list[int]] = {name: [] for name in COPIES}
    for number in range(min(count, len(photos))):
        at = number * len(photos) // min(count, len(photos))
        photo = Image.open(io.BytesIO(photos[at])).convert("RGB")
        for name, copy in COPIES.items():
            other = perceptual_hash(copy_of(photo, copy), copy.transcode)
            distances[name].append(_distance(hashes[at], other))
    known = [each for each in hashes if each is not None]
    between = [_distance(one, other) for one, other in combinations(known, 2)]
    false = sum(each <= MAX_DISTANCE for each in between)
    return Found(distances, len(known), len(between), false, min(between, default=64))


def _distance(one: int | None, other: int | None) -> int:
    return 64 if one is None or other is None else (one ^ other).bit_count()


def table(found: Found) -> str:
    """The share of each kind of copy that is found, and the bits in which the others differ."""
    rows = []
    for name, distances in found.distances.items():
        share = sum(each <= MAX_DISTANCE for each in distances) / len(distances)
        rows.append([name, f"{share:.1%}", str(max(distances))])
    return markdown_table(["copy", "found", "most bits"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("photos", metavar="GLOB", help="JPEGs of different things")
    parser.add_argument("--count", type=int, default=500, help="photos to copy (500)")
    args = parser.parse_args(argv)
    paths = sorted(glob.glob(args.photos, recursive=True))
    if len(paths) < 2:
        parser.error(f"fewer than two files match {args.photos}")
    found = measure([Path(path).read_bytes() for path in paths], args.count)
    print(table(found))
    print(
        f"\n{found.false} of {found.pairs} pairs of {found.photos} photos differ in at most "
        f"{MAX_DISTANCE} bits; the nearest two in {found.nearest}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
