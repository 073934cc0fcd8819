"""Measures resizing and re-encoding: `python benchmarks/pixels.py`.

The product's read-ahead with `--resize` against a bare thread pool that calls the same libraries
in the same way: read, decode (at a smaller scale where that will do), resize, encode. As many
threads on both sides as there are cores; files come from the page cache. All of it with Pillow is
measured, too. They run in turn; the first round is not counted.
"""

from __future__ import annotations

import argparse
import glob
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import simplejpeg
from photos import build_photos
from PIL import Image
from report import markdown_table, paired_ratio, round_numbers, spread

from transforms.core.machine import usable_cores

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from transforms.images.pixel_options import Resize

_WANTED = 0.85
_QUALITY = 95


def with_simplejpeg(path: str, resize: Resize) -> bytes:
    """Resizes one JPEG without any further work."""
    data = Path(path).read_bytes()
    high, wide = simplejpeg.decode_jpeg_header(data)[:2]
    height, width = resize.size(high, wide)
    times = min(high // height, wide // width)
    scale = next((scale for scale in (8, 4, 2) if 2 * scale <= times), 1)
    pixels = simplejpeg.decode_jpeg(
        data,
        "RGB",
        fastdct=True,
        fastupsample=False,
        min_height=-(-high // scale),
        min_width=-(-wide // scale),
        min_factor=scale,
    )
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS)
    encoded: bytes = simplejpeg.encode_jpeg(np.asarray(image), _QUALITY, "RGB", "420", False)
    return encoded


def with_pillow(path: str, resize: Resize) -> bytes:
    """The same with Pillow alone, as its `thumbnail` does it."""
    image = Image.open(path)
    height, width = resize.size(image.height, image.width)
    image.draft("RGB", (2 * width, 2 * height))
    small = image.resize((width, height), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def bare_pool(
    work: Callable[[str, Resize], bytes], paths: Sequence[str], resize: Resize
) -> Callable[[], int]:
    """A run over all files in a plain pool, which returns their number."""

    def run() -> int:
        with ThreadPoolExecutor(usable_cores()) as pool:
            return sum(1 for data in pool.map(lambda path: work(path, resize), paths) if data)

    return run


def product(paths: Sequence[str], resize: Resize) -> Callable[[], int]:
    """A run over all files as a shard does it, up to the bytes that are stored."""
    from transforms.convert_images import ImageConverter
    from transforms.core.records import PlannedImage
    from transforms.images.checked_images import CheckedImage
    from transforms.images.pixel_options import CheckOptions, PixelOptions
    from transforms.records.image_origins import Origins

    converter = ImageConverter(
        origins=Origins(""),
        features=(),
        checks=CheckOptions(max_pixels=10**9, max_bytes=10**9, dedupe="off"),
        pixels=PixelOptions(resize=resize, quality=_QUALITY),
    )
    converter.setup()
    images = [PlannedImage(0, path, path, os.path.getsize(path), 0, "", 0) for path in paths]
    return lambda: sum(isinstance(each, CheckedImage) for each in converter.load(images))


def run_rounds(
    runs: dict[str, Callable[[], int]], files: int, rounds: int
) -> dict[str, list[float]]:
    """Images a second of each, a value for each round; all in turn, the first not counted."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in round_numbers(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            done = run()
            seconds = time.perf_counter() - start
            if done != files:
                raise RuntimeError(f"{name} did {done} of {files} images")
            if number:
                rates[name].append(files / seconds)
    return rates


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the rates, and the product's over that of the bare pool."""
    from transforms.images.pixel_options import Resize

    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--images", metavar="GLOB", help="these JPEGs instead of rendered ones")
    add("--count", type=int, default=1000, help="photos to build (1000)")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--resize", type=Resize.parse, default="shorter=256", help="as of convert (shorter=256)")
    add("--work", type=Path, default=Path("out/benchmarks"), help="where photos are built")
    args = parser.parse_args(argv)
    if min(args.count, args.rounds) < 1:
        parser.error("--count and --rounds start at 1")
    if args.images is None:
        directory = args.work / f"photos-{args.count}"
        build_photos(directory, count=args.count)
        args.images = str(directory / "images" / "*" / "*.jpg")
    paths = sorted(glob.glob(args.images))
    if not paths:
        parser.error(f"no file matches {args.images!r}")
    runs = {
        "the product": product(paths, args.resize),
        "bare pool, simplejpeg and Pillow": bare_pool(with_simplejpeg, paths, args.resize),
        "bare pool, Pillow alone": bare_pool(with_pillow, paths, args.resize),
    }
    rates = run_rounds(runs, len(paths), args.rounds)
    rows = []
    for name, values in rates.items():
        low, middle, high = spread(values)
        rows.append([name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}"])
    header = ["", "images/s", "lowest to highest"]
    print(f"{len(paths)} JPEGs, --resize {args.resize}\n\n{markdown_table(header, rows)}\n")
    ours, simple, pillow = rates.values()
    print(f"of the bare pool: {paired_ratio(ours, simple):.2f} (wanted: at least {_WANTED})")
    print(f"of Pillow alone: {paired_ratio(ours, pillow):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
