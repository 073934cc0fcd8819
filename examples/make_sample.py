"""Draws a small labelled image set to try the converter: `python examples/make_sample.py DIR`.

`DIR/images/<class>/<name>.<ext>` holds a few dozen images in four classes and `DIR/labels.csv`
(header `id,label`) names each by its file stem. A handful of files must be rejected,
some only seem invalid, and a few are copies of others; `EXPECTED` is the result that a
conversion of `DIR/images/*/*` with `DIR/labels.csv` must have. Every run writes the same
bytes.
"""

from __future__ import annotations

import argparse
import colorsys
import csv
import io
import math
import random
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFilter

Color = tuple[int, int, int]
Painter = Callable[[ImageDraw.ImageDraw, random.Random, "Palette"], None]


class Expected(NamedTuple):
    """The expected result of a conversion of the whole sample.

    Attributes:
        images: files that `images/*/*` matches.
        rows: rows of `labels.csv`, the header not counted.
        records: examples written.
        image_rejections: rejected images by reason code; with `records` they add up to `images`.
        row_rejections: unused rows by reason code.
    """

    images: int
    rows: int
    records: int
    image_rejections: dict[str, int]
    row_rejections: dict[str, int]


class Palette(NamedTuple):
    """The colours of one picture: a background that fades from `top` to `bottom`, and `inks`."""

    top: Color
    bottom: Color
    inks: tuple[Color, ...]


class SampleFile(NamedTuple):
    """One file of the sample; `label` is None for an image without a row in the CSV."""

    folder: str
    stem: str
    suffix: str
    label: str | None
    data: bytes


EXPECTED = Expected(
    images=52,
    rows=52,
    records=47,
    image_rejections={
        "corrupt_image": 1,
        "empty_file": 1,
        "no_label": 1,
        "not_an_image": 1,
        "too_many_pixels": 1,
    },
    row_rejections={"row_without_image": 1},
)

PER_CLASS = 10
SIZES = ((640, 480), (480, 640), (512, 384), (400, 400), (320, 240), (240, 320), (96, 72))
MISSING_ID = "circles-lost"  # the row without a picture
KOREAN_ID = "한강"  # composed (NFC) here and in the CSV, decomposed (NFD) in the file's name

_SMOOTHING = 2  # pictures are drawn this much larger and scaled down, which smooths the edges
_ORIENTATION = 0x0112  # the EXIF tag of the camera's orientation


def _shade(hue: float, saturation: float, value: float) -> Color:
    """An RGB colour from hue, saturation and value in 0..1; the hue wraps around."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def _palette(rng: random.Random) -> Palette:
    """Colours that go together: a calm background and inks around the opposite hue."""
    hue, dark = rng.random(), rng.random() < 0.4
    value = rng.uniform(0.16, 0.32) if dark else rng.uniform(0.86, 0.98)
    ink_value = rng.uniform(0.8, 1.0) if dark else rng.uniform(0.45, 0.85)
    inks = tuple(
        _shade(hue + 0.5 + shift, rng.uniform(0.55, 0.9), ink_value)
        for shift in (-0.14, -0.06, 0.0, 0.08, 0.2)
    )
    top, bottom = _shade(hue, 0.18, value), _shade(hue + 0.06, 0.42, value * 0.85)
    return Palette(top, bottom, inks)


def _paint_circles(draw: ImageDraw.ImageDraw, rng: random.Random, palette: Palette) -> None:
    """Discs and rings of several sizes."""
    width, height = draw.im.size
    for _ in range(rng.randint(5, 12)):
        radius = min(width, height) * rng.uniform(0.05, 0.22)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        box = (x - radius, y - radius, x + radius, y + radius)
        ink = rng.choice(palette.inks)
        if rng.random() < 0.3:
            draw.ellipse(box, outline=ink, width=max(2, round(radius * 0.25)))
        else:
            draw.ellipse(box, fill=ink)


def _paint_triangles(draw: ImageDraw.ImageDraw, rng: random.Random, palette: Palette) -> None:
    """Equilateral triangles, each turned its own way."""
    width, height = draw.im.size
    for _ in range(rng.randint(5, 11)):
        radius = min(width, height) * rng.uniform(0.08, 0.28)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        turn = rng.uniform(0, math.tau)
        corners = [turn + math.tau * step / 3 for step in range(3)]
        points = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in corners]
        draw.polygon(points, fill=rng.choice(palette.inks))


def _paint_stripes(draw: ImageDraw.ImageDraw, rng: random.Random, palette: Palette) -> None:
    """Slanted bands right across the picture."""
    width, height = draw.im.size
    pitch = min(width, height) * rng.uniform(0.08, 0.2)
    slant, thickness = rng.uniform(-1.0, 1.0) * height, pitch * rng.uniform(0.35, 0.7)
    inks = rng.sample(palette.inks, k=rng.randint(1, 3))
    x, index = -abs(slant), 0
    while x < width + abs(slant):
        band = [(x, 0), (x + thickness, 0), (x + thickness + slant, height), (x + slant, height)]
        draw.polygon(band, fill=inks[index % len(inks)])
        x, index = x + pitch, index + 1


def _paint_checkers(draw: ImageDraw.ImageDraw, rng: random.Random, palette: Palette) -> None:
    """A board of squares in several inks, some missing, the background showing through."""
    width, height = draw.im.size
    side = min(width, height) / rng.randint(4, 9)
    for row in range(math.ceil(height / side)):
        for column in range(row % 2, math.ceil(width / side), 2):
            # Whole boards look alike in grey and small: near-duplicates.
            if rng.random() < 0.6:
                x, y = column * side, row * side
                draw.rectangle((x, y, x + side - 1, y + side - 1), fill=rng.choice(palette.inks))


PAINTERS: dict[str, Painter] = {
    "checkers": _paint_checkers,
    "circles": _paint_circles,
    "stripes": _paint_stripes,
    "triangles": _paint_triangles,
}


def draw_picture(label: str, name: str) -> Image.Image:
    """A picture of class `label`; `name` decides its size, colours and arrangement.

    Returns:
        An RGB picture of one of `SIZES`.
    """
    rng = random.Random(f"{label}/{name}")  # a text seed gives the same numbers everywhere
    width, height = rng.choice(SIZES)
    palette = _palette(rng)
    large = (width * _SMOOTHING, height * _SMOOTHING)
    fade = Image.linear_gradient("L").resize((1, height * _SMOOTHING))
    column = Image.composite(
        Image.new("RGB", fade.size, palette.bottom), Image.new("RGB", fade.size, palette.top), fade
    )
    canvas = column.resize(large, Image.Resampling.NEAREST)
    PAINTERS[label](ImageDraw.Draw(canvas), rng, palette)
    picture = canvas.reduce(_SMOOTHING)
    return picture.filter(ImageFilter.BoxBlur(2)) if rng.random() < 0.2 else picture


def _encoded(picture: Image.Image, form: str, **options: object) -> bytes:
    """The bytes of `picture` in a Pillow format, with Pillow's options for it."""
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def _jpeg(picture: Image.Image, **options: object) -> bytes:
    """The bytes of `picture` as a JPEG of good quality."""
    return _encoded(picture, "JPEG", quality=88, **options)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    """One PNG chunk: length, kind, data and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_bomb(side: int = 65_500) -> bytes:
    """A PNG of a hundred bytes whose header claims `side` x `side` RGB pixels (12.9 GB)."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _png_chunk(b"IHDR", header)
        + _png_chunk(b"IDAT", zlib.compress(bytes(64)))
        + _png_chunk(b"IEND", b"")
    )


def _regular_file(label: str, index: int) -> SampleFile:
    """Picture `index` of a class: mostly baseline JPEG, with each other kind here and there."""
    stem = f"{label}-{index:02d}"
    picture = draw_picture(label, stem)
    if index in (3, 8):
        return SampleFile(label, stem, ".png", label, _encoded(picture, "PNG"))
    if stem == "circles-05":
        return SampleFile(label, stem, ".png", label, _encoded(picture.quantize(64), "PNG"))
    if stem == "stripes-05":
        return SampleFile(label, stem, ".jpg", label, _jpeg(picture, progressive=True))
    if stem == "triangles-05":
        return SampleFile(label, stem, ".jpg", label, _jpeg(picture.convert("L")))
    return SampleFile(label, stem, ".jpg", label, _jpeg(picture))


def _odd_but_fine() -> list[SampleFile]:
    """Valid files that seem invalid: each must become a record."""
    exif = Image.Exif()
    exif[_ORIENTATION] = 6
    turned = _jpeg(draw_picture("circles", "turned"), exif=exif)
    fine = _jpeg(draw_picture("stripes", "fine"), subsampling=0, restart_marker_rows=1)
    misnamed = _encoded(draw_picture("checkers", "misnamed"), "PNG")
    river = _jpeg(draw_picture("stripes", "river"))
    return [
        SampleFile("circles", "circles-turned", ".jpg", "circles", turned),
        SampleFile("stripes", "stripes-fine", ".jpg", "stripes", fine),
        SampleFile("checkers", "checkers-misnamed", ".jpg", "checkers", misnamed),
        SampleFile("stripes", KOREAN_ID, ".jpg", "stripes", river),
    ]


def _seen_before() -> list[SampleFile]:
    """Copies for duplicate detection: identical, smaller, and with another label."""
    picture = draw_picture("circles", "circles-04")
    smaller = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4))
    again = _regular_file("stripes", 2).data
    other = _regular_file("triangles", 6).data
    return [
        SampleFile("stripes", "stripes-again", ".jpg", "stripes", again),
        SampleFile("circles", "circles-smaller", ".jpg", "circles", _jpeg(smaller)),
        SampleFile("checkers", "checkers-mistaken", ".jpg", "checkers", other),
    ]


def _troublesome() -> list[SampleFile]:
    """Files that cannot become records, one for each reason in `EXPECTED.image_rejections`."""
    whole = _jpeg(draw_picture("triangles", "cut"))
    text = b"The picture has moved.\n"
    unlisted = _jpeg(draw_picture("triangles", "unlisted"))
    return [
        SampleFile("triangles", "triangles-cut", ".jpg", "triangles", whole[: len(whole) * 2 // 3]),
        SampleFile("checkers", "checkers-empty", ".jpg", "checkers", b""),
        SampleFile("circles", "circles-text", ".jpg", "circles", text),
        SampleFile("checkers", "checkers-bomb", ".png", "checkers", _png_bomb()),
        SampleFile("triangles", "triangles-unlisted", ".jpg", None, unlisted),
    ]


def sample_files() -> list[SampleFile]:
    """Every file of the sample with its label and bytes, in the order of the CSV."""
    regular = [_regular_file(label, index) for label in PAINTERS for index in range(PER_CLASS)]
    return regular + _odd_but_fine() + _seen_before() + _troublesome()


def _labels_csv(files: list[SampleFile]) -> bytes:
    """The label table: one row per labelled file, and a row without an image."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["id", "label"])
    writer.writerows([file.stem, file.label] for file in files if file.label is not None)
    writer.writerow([MISSING_ID, "circles"])
    return table.getvalue().encode("utf-8")


def _write_if_new(path: Path, data: bytes) -> None:
    """Writes a file unless it already holds these bytes, so that a rerun keeps its timestamp."""
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)


def make_sample(directory: Path) -> None:
    """Writes the sample into `directory`; files of other names in it stay as they are.

    Args:
        directory: the folder for `images/` and `labels.csv`; created if it does not exist.
    """
    files = sample_files()
    for file in files:
        folder = directory / "images" / file.folder
        folder.mkdir(parents=True, exist_ok=True)
        name = unicodedata.normalize("NFD", file.stem) + file.suffix
        _write_if_new(folder / name, file.data)
    _write_if_new(directory / "labels.csv", _labels_csv(files))


def main() -> int:
    """Writes the sample to the folder of the command line and reports it in one line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder for the sample")
    directory: Path = parser.parse_args().directory
    try:
        make_sample(directory)
    except OSError as error:
        print(f"make_sample: {error}", file=sys.stderr)
        return 1
    print(f"{EXPECTED.images} images and {EXPECTED.rows} labels in {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
