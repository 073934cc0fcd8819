"""Measures the unavoidable parts of a conversion separately: `python benchmarks/floor_parts.py`.

Reading every byte, decoding all entropy-coded data (where a corrupt JPEG shows), the checksum of
every record, writing every byte. One thread; files come from the page cache and go to it.
"""

from __future__ import annotations

import argparse
import collections
import glob
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import google_crc32c
import simplejpeg
from photos import build_photos
from report import markdown_table, spread

from transforms.core.machine import usable_cores


def decode_entropy(data: bytes) -> None:
    """Decodes all of a JPEG, but makes one grey pixel of every 8x8 block only."""
    simplejpeg.decode_jpeg(
        data, colorspace="GRAY", min_factor=8, min_height=1, min_width=1, strict=True
    )


def measure_parts(
    paths: Sequence[str],
    scratch: Path,
    rounds: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each part over all images, by `clock`, a value for each round."""
    images = [Path(path).read_bytes() for path in paths]
    seconds: dict[str, list[float]] = {}

    def take(name: str, work: Callable[[], object]) -> None:
        start = clock()
        work()
        seconds.setdefault(name, []).append(clock() - start)

    def write() -> None:
        with scratch.open("wb", buffering=0) as file:
            for image in images:
                file.write(image)

    for _ in range(rounds):
        take("bytes read", lambda: [Path(path).read_bytes() for path in paths])
        take("entropy decoding", lambda: collections.deque(map(decode_entropy, images), 0))
        take("CRC32C of the records", lambda: [google_crc32c.value(image) for image in images])
        take("bytes written", write)
        scratch.unlink()
    return seconds


def parts_table(seconds: dict[str, list[float]], images: int) -> str:
    """A row for each part, and their sum on one core and on all."""
    rows = []
    total = 0.0
    for name, values in seconds.items():
        low, middle, high = spread(values)
        total += middle
        rows.append([name, f"{middle / images * 1e6:.0f}", f"{middle:.2f}"])
        rows[-1].append(f"{low:.2f} to {high:.2f}")
    cores = usable_cores()
    for name, share in (("sum on one core", 1), (f"sum on {cores} cores", cores)):
        rows.append([name, f"{total / images / share * 1e6:.0f}", f"{total / share:.2f}", ""])
    return markdown_table(["", "us an image", "seconds", "lowest to highest"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the parts for the photos of `compare.py`."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=4000, help="photos to build (4000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"), help="where to write")
    args = parser.parse_args(argv)
    if min(args.count, args.rounds) < 1:
        parser.error("--count and --rounds start at 1")
    directory = args.work.absolute() / f"photos-{args.count}"
    build_photos(directory, count=args.count)
    pattern = os.path.join(glob.escape(str(directory / "images")), "*", "*.jpg")
    paths = sorted(glob.glob(pattern))
    seconds = measure_parts(paths, args.work.absolute() / "floor-parts", args.rounds)
    print(parts_table(seconds, len(paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
