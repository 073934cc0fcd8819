"""Builds the photos that the benchmarks convert: `python benchmarks/photos.py DIR --count 4000`.

No download: each photo is cut from one of a few dozen rendered scenes and encoded as a JPEG like
those of ImageNet (about 500 x 375, 110 KB, 4:2:0). A scene has what decides how fast a JPEG decodes
and how large it is: outlines that hide each other, and grain whose spectrum falls as 1/f and whose
strength changes from place to place. `python benchmarks/photos.py --describe 'GLOB'` measures any
set of JPEGs, so that ours can be compared with real ones.

`DIR/images/<class>/<name>.jpg` holds the photos in ten classes and `DIR/labels.csv` (`id,label`)
names them by their stems. The same count and library versions give the same bytes, whatever the
number of processes; a second call for the same set returns at once.
"""

from __future__ import annotations

import argparse
import csv
import functools
import glob
import io
import json
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import PIL
import simplejpeg
from PIL import Image, ImageDraw, ImageFilter

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

CLASSES = (
    "beach",
    "bridge",
    "desert",
    "forest",
    "garden",
    "harbour",
    "meadow",
    "mountain",
    "river",
    "village",
)

_SEED = 20_240_501
_RECIPE = 1  # counted up whenever the bytes change
_SCENES = 30
_SCENE_HEIGHT, _SCENE_WIDTH = 640, 768
_KNEE = 1 / 100  # cycles a pixel; coarser structure than this comes from the outlines
_SHAPES = ((375, 500), (375, 500), (375, 500), (500, 375), (333, 500))  # height, width
_QUALITY = 90
_CHUNK = 50
_STAMP = "photos.json"


class Kind(NamedTuple):
    """What a set is of.

    Attributes:
        shapes: height and width, each as often as it is named.
        is_jpeg: whether they are JPEGs in colour, not PNGs.
        is_grey: whether they are grey.
    """

    shapes: tuple[tuple[int, int], ...]
    is_jpeg: bool = True
    is_grey: bool = False

    @property
    def suffix(self) -> str:
        """The end of their names."""
        return ".jpg" if self.is_jpeg else ".png"


KINDS = {
    "photos": Kind(_SHAPES),
    "png": Kind(_SHAPES, is_jpeg=False),
    "small": Kind(((32, 32),)),
    "small-png": Kind(((28, 28),), is_jpeg=False, is_grey=True),
}
"""The sets: photos, the same as PNG, and images like those of CIFAR and MNIST."""


class Description(NamedTuple):
    """Properties of a set of JPEGs; rates are of one thread.

    Attributes:
        images: how many were inspected.
        mean_kb: mean size of a file, in units of 1000 bytes.
        bytes_per_pixel: bytes of all files over pixels of all images.
        tensorflow_images: images a second through `tf.io.decode_jpeg`.
        tensorflow_mb: the same in 10^6 bytes of JPEG a second.
        check_images: images a second through simplejpeg, grey, at 1/8 scale.
        check_mb: the same in 10^6 bytes of JPEG a second.
    """

    images: int
    mean_kb: float
    bytes_per_pixel: float
    tensorflow_images: float
    tensorflow_mb: float
    check_images: float
    check_mb: float


def _to_pixels(values: npt.NDArray[Any]) -> Pixels:
    """Numbers around 0..255 rounded and limited to it."""
    return np.asarray(np.clip(np.rint(values), 0, 255), dtype=np.uint8)


def _grain(rng: np.random.Generator, *, slope: float) -> Floats:
    """Noise whose amplitude falls as 1/f^slope above `_KNEE`, as it does in photos.

    Returns:
        float32 [height, width] of mean 0 and standard deviation 1.
    """
    white = rng.standard_normal((_SCENE_HEIGHT, _SCENE_WIDTH))
    vertical = np.fft.fftfreq(_SCENE_HEIGHT)[:, None]
    horizontal = np.fft.rfftfreq(_SCENE_WIDTH)[None, :]
    frequency = np.hypot(vertical, horizontal)
    amplitude = (frequency + _KNEE) ** -slope
    field = np.fft.irfft2(np.fft.rfft2(white) * amplitude, s=white.shape)
    return np.asarray(field / field.std(), dtype=np.float32)


def _outlines(rng: np.random.Generator) -> Floats:
    """Discs and slabs in front of each other, small ones far more frequent than large ones.

    Returns:
        float32 [height, width, 3] in 0..255.
    """
    hue = rng.integers(40, 216, 3)
    canvas = Image.new("RGB", (_SCENE_WIDTH, _SCENE_HEIGHT), tuple(hue.tolist()))
    draw = ImageDraw.Draw(canvas)
    for _ in range(rng.integers(60, 160)):
        radius = float(min(260.0, 10.0 / rng.random() ** 0.7))
        x, y = rng.uniform(0, _SCENE_WIDTH), rng.uniform(0, _SCENE_HEIGHT)
        squeeze = rng.uniform(0.4, 1.0)
        box = (x - radius, y - radius * squeeze, x + radius, y + radius * squeeze)
        ink = tuple(np.clip(hue + rng.normal(0, 45, 3), 0, 255).astype(int).tolist())
        (draw.ellipse if rng.random() < 0.7 else draw.rectangle)(box, fill=ink)
    soft = canvas.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 1.5)))
    return np.asarray(soft, dtype=np.float32)


def render_scene(index: int) -> Pixels:
    """Scene `index`, a picture that photos are cut from.

    Returns:
        uint8 [height, width, 3].
    """
    rng = np.random.default_rng((_SEED, index))
    focus = np.exp(0.6 * _grain(rng, slope=2.0))[..., None]  # sharp here, blurred there
    light = _grain(rng, slope=rng.uniform(0.9, 1.25))[..., None]
    tint = np.stack([_grain(rng, slope=1.5) for _ in range(3)], axis=-1)
    detail = 15.0 * 4.5 ** rng.random()
    scene = _outlines(rng) + detail * focus * light + 9.0 * tint
    return _to_pixels(scene)


@functools.cache
def _scene(index: int) -> Pixels:
    """Scene `index`, rendered once in each process that needs it."""
    return render_scene(index)


def cut_photo(index: int, kind: Kind = KINDS["photos"]) -> bytes:
    """Photo `index`: a window of one of the scenes, mirrored and exposed its own way.

    Returns:
        A baseline JPEG with 4:2:0 colour, or a PNG.
    """
    rng = np.random.default_rng((_SEED, _SCENES, index))
    scene = _scene(int(rng.integers(_SCENES)))
    height, width = kind.shapes[int(rng.integers(len(kind.shapes)))]
    top = rng.integers(scene.shape[0] - height + 1)
    left = rng.integers(scene.shape[1] - width + 1)
    window = scene[top : top + height, left : left + width]
    if rng.random() < 0.5:
        window = window[:, ::-1]
    levels = np.arange(256) * rng.uniform(0.85, 1.1) + rng.uniform(-12, 12)
    pixels = np.ascontiguousarray(_to_pixels(levels)[window])
    if not kind.is_jpeg:
        picture, file = Image.fromarray(pixels), io.BytesIO()
        (picture.convert("L") if kind.is_grey else picture).save(file, "PNG")
        return file.getvalue()
    data: bytes = simplejpeg.encode_jpeg(
        pixels, quality=_QUALITY, colorspace="RGB", colorsubsampling="420"
    )
    return data


def photo_name(index: int) -> tuple[str, str]:
    """The class and the file stem of photo `index`."""
    label = CLASSES[index % len(CLASSES)]
    return label, f"{label}_{index:06d}"


def _write_photos(kind: Kind, images: Path, indices: range) -> int:
    """Writes the photos of `indices` below `images` and returns how many bytes they take."""
    total = 0
    for index in indices:
        label, stem = photo_name(index)
        total += (images / label / f"{stem}{kind.suffix}").write_bytes(cut_photo(index, kind))
    return total


def _write_labels(path: Path, count: int) -> None:
    """Writes the label table of the first `count` photos."""
    with path.open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["id", "label"])
        writer.writerows(photo_name(index)[::-1] for index in range(count))


def _stamp(count: int, kind: str) -> dict[str, object]:
    """Everything that affects the bytes of the set; a folder with an equal stamp is up to date."""
    return {
        "recipe": _RECIPE,
        "kind": kind,
        "count": count,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        "simplejpeg": simplejpeg.__version__,
    }


def _prepare(directory: Path) -> None:
    """Empties a folder of an older set, refuses any other, and marks it as ours."""
    stamp = directory / _STAMP
    if directory.exists() and any(directory.iterdir()) and not stamp.is_file():
        raise FileExistsError(f"{directory} holds something else; name a new folder")
    directory.mkdir(parents=True, exist_ok=True)
    stamp.write_text("{}", encoding="utf-8")
    if (directory / "images").exists():
        shutil.rmtree(directory / "images")
    for label in CLASSES:
        (directory / "images" / label).mkdir(parents=True)


def build_photos(
    directory: Path, *, count: int = 4000, processes: int = 2, kind: str = "photos"
) -> bool:
    """Builds the set in `directory`, unless it is there already.

    Args:
        directory: a new folder, or one with a set built here, which is replaced.
        count: how many photos.
        processes: how many processes render and encode.
        kind: a key of `KINDS`.

    Returns:
        Whether anything was built.

    Raises:
        FileExistsError: `directory` holds something else.
    """
    stamp = directory / _STAMP
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == _stamp(count, kind):
        return False
    _prepare(directory)
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        images = [directory / "images"] * len(chunks)
        for _ in pool.map(functools.partial(_write_photos, KINDS[kind]), images, chunks):
            pass
    _write_labels(directory / "labels.csv", count)
    stamp.write_text(json.dumps(_stamp(count, kind), indent=1), encoding="utf-8")
    return True


def _rate(decode: Callable[[bytes], Any], files: list[bytes], *, passes: int = 3) -> float:
    """Files a second through `decode`: the best of some passes after one to warm up."""
    best = float("inf")
    for number in range(passes + 1):
        start = time.perf_counter()
        for data in files:
            decode(data)
        if number:
            best = min(best, time.perf_counter() - start)
    return len(files) / best


def _check(data: bytes) -> Any:
    """The decode that a check needs: all entropy-coded data, few pixels."""
    return simplejpeg.decode_jpeg(
        data, colorspace="GRAY", min_factor=8, min_height=1, min_width=1, strict=True
    )


def describe(pattern: str, *, limit: int = 200) -> Description:
    """Measures the JPEGs that a glob matches and prints what it found.

    Args:
        pattern: the glob, which may hold `**`.
        limit: how many files to read, spread evenly over the sorted matches.

    Returns:
        The figures that were printed.

    Raises:
        FileNotFoundError: nothing matches.
    """
    import tensorflow as tf  # seconds to import, and only wanted here

    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"no file matches {pattern}")
    files = [Path(path).read_bytes() for path in paths[:: max(1, len(paths) // limit)][:limit]]
    shapes = [simplejpeg.decode_jpeg_header(data)[:2] for data in files]
    total = sum(map(len, files))
    mean = total / len(files)
    tensorflow, check = _rate(tf.io.decode_jpeg, files), _rate(_check, files)
    found = Description(
        images=len(files),
        mean_kb=mean / 1e3,
        bytes_per_pixel=total / sum(height * width for height, width in shapes),
        tensorflow_images=tensorflow,
        tensorflow_mb=tensorflow * mean / 1e6,
        check_images=check,
        check_mb=check * mean / 1e6,
    )
    print(json.dumps({name: round(value, 3) for name, value in found._asdict().items()}))
    return found


def main() -> int:
    """Builds or measures a set, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="where to build")
    parser.add_argument("--count", type=int, default=4000, help="how many photos (4000)")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--describe", metavar="GLOB", help="measure these JPEGs instead")
    args = parser.parse_args()
    if (args.directory is None) == (args.describe is None):
        parser.error("name either DIR or --describe GLOB")
    try:
        if args.describe is not None:
            describe(args.describe)
            return 0
        start = time.perf_counter()
        built = build_photos(args.directory, count=args.count, processes=args.processes)
    except OSError as error:
        print(f"photos: {error}", file=sys.stderr)
        return 1
    outcome = f"built in {time.perf_counter() - start:.1f} s" if built else "already there"
    print(f"{args.count} photos in {args.directory}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
