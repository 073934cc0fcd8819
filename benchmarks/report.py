"""Output of the benchmarks: paired ratios, fits, Markdown tables, and bars as SVG or PNG."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from html import escape
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from transforms.core.machine import usable_cores

MB = 1e6

_PACKAGES = ("apache-beam", "tensorflow", "tfx-bsl", "pyarrow", "numpy", "simplejpeg", "Pillow")

_WIDTH = 1000
_SECONDS, _MEMORY = 250, 640  # left edges of the two panels
_BAR = 200  # length of the longest bar
_ROW = 34
_TOP = 62
_INK, _MUTED, _OURS, _PEER = "#1f2328", "#59636e", "#1a7f64", "#9aa7b4"


class Spread(NamedTuple):
    """A median and the range around it."""

    low: float
    middle: float
    high: float


class Fit(NamedTuple):
    """A straight line: `start + slope * x`."""

    start: float
    slope: float


class Target(NamedTuple):
    """A ratio that the product must reach, and the measured value.

    Attributes:
        text: the description.
        bound: the limit.
        is_floor: whether `bound` is the minimum, not the maximum.
        value: the measured value.
    """

    text: str
    bound: float
    is_floor: bool
    value: float

    @property
    def holds(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.bound if self.is_floor else self.value <= self.bound


class Bar(NamedTuple):
    """One row of the picture.

    Attributes:
        title: what was measured.
        seconds: its wall time.
        megabytes: its memory.
        is_ours: whether it is the product.
    """

    title: str
    seconds: Spread
    megabytes: Spread
    is_ours: bool


class Box(NamedTuple):
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str


class Label(NamedTuple):
    """A line of text that starts at `x`, with its baseline at `y`."""

    x: float
    y: float
    text: str
    size: int
    fill: str


Shape = Box | Label


def round_numbers(rounds: int) -> range:
    """The rounds of a benchmark: 0 is not counted. `BENCHMARK_WARM_UP=0` leaves it out.

    A check that the commands run needs no figures, and takes half as long without it.
    """
    return range(int(os.environ.get("BENCHMARK_WARM_UP") == "0"), rounds + 1)


def spread(values: Sequence[float]) -> Spread:
    """The median, lowest and highest of some values.

    >>> spread([3, 1, 2])
    Spread(low=1, middle=2, high=3)
    """
    return Spread(min(values), statistics.median(values), max(values))


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios of values that were measured in the same round.

    Noise of the machine that lasts longer than a round hits both sides of a pair, and leaves its
    ratio alone.

    Raises:
        ValueError: when some value has no partner.

    >>> paired_ratio([4, 10, 60], [2, 5, 6])
    2.0
    """
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> Fit:
    """The least-squares line through some points.

    >>> fit_line([1, 2, 4], [5, 7, 11])
    Fit(start=3.0, slope=2.0)
    """
    slope, start = statistics.linear_regression(xs, ys)
    return Fit(start, slope)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with the first column on the left and the others on the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = [":" + "-" * (width - 1) for width in widths[:1]]
    rule += ["-" * (width - 1) + ":" for width in widths[1:]]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        padded[0] = cells[0].ljust(widths[0])
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(header), line(rule), *map(line, rows)])


def target_table(targets: Sequence[Target]) -> str:
    """The measured value of each target."""
    rows = []
    for target in targets:
        wanted = f"{'at least' if target.is_floor else 'at most'} {target.bound:g}"
        holds = "yes" if target.holds else "no"
        rows.append([target.text, f"{target.value:.3g}", wanted, holds])
    return markdown_table(["target", "measured", "wanted", "holds"], rows)


def machine() -> dict[str, object]:
    """A description of the machine, to distinguish figures of different machines."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next((x.partition(":")[2].strip() for x in lines if "model name" in x), model)
    return {
        "cpu": model,
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def _bar(value: Spread, scale: float, *, x: float, y: float, unit: str, fill: str) -> list[Shape]:
    """A bar up to the median, a whisker from lowest to highest, and the figures after it."""
    low, middle, high = (x + part * scale for part in value)
    digits = 0 if value.middle >= 100 else 1
    shown = [f"{part:.{digits}f}" for part in value]
    text = f"{shown[1]} {unit}" + (f" ({shown[0]} to {shown[2]})" if value.low < value.high else "")
    return [
        Box(x, y, max(middle - x, 1), 18, fill),
        Box(low, y + 8, max(high - low, 1), 2, _INK),
        Box(low, y + 5, 1, 8, _INK),
        Box(high, y + 5, 1, 8, _INK),
        Label(max(middle, high) + 7, y + 14, text, 12, _INK),
    ]


def draw_bars(title: str, bars: Sequence[Bar]) -> list[Shape]:
    """The shapes of the picture: a panel of seconds and one of memory, a row for each bar."""
    shapes: list[Shape] = [
        Box(0, 0, _WIDTH, picture_height(bars), "#ffffff"),
        Label(14, 26, title, 15, _INK),
        Label(_SECONDS, 52, "seconds, whole process", 12, _MUTED),
        Label(_MEMORY, 52, "peak memory of all its processes, MB", 12, _MUTED),
    ]
    slowest = max(bar.seconds.high for bar in bars)
    largest = max(bar.megabytes.high for bar in bars)
    for number, bar in enumerate(bars):
        y = _TOP + number * _ROW
        fill = _OURS if bar.is_ours else _PEER
        shapes.append(Label(14, y + 14, bar.title, 13, _INK))
        shapes += _bar(bar.seconds, _BAR / slowest, x=_SECONDS, y=y, unit="s", fill=fill)
        shapes += _bar(bar.megabytes, _BAR / largest, x=_MEMORY, y=y, unit="MB", fill=fill)
    return shapes


def picture_height(bars: Sequence[Bar]) -> int:
    """The height of the picture in pixels."""
    return _TOP + len(bars) * _ROW + 8


def to_svg(shapes: Sequence[Shape], height: int) -> str:
    """The shapes as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="Helvetica, Arial, sans-serif">'
    ]
    for shape in shapes:
        if isinstance(shape, Box):
            x, y, width, tall, fill = shape
            box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect {box} fill="{fill}"/>')
        else:
            style = f'font-size="{shape.size}" fill="{shape.fill}"'
            text = escape(shape.text)
            parts.append(f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" {style}>{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def to_image(shapes: Sequence[Shape], height: int, *, scale: int = 2) -> Image.Image:
    """The shapes as an image of `scale` pixels for each unit."""
    image = Image.new("RGB", (_WIDTH * scale, height * scale))
    draw = ImageDraw.Draw(image)
    for shape in shapes:
        if isinstance(shape, Box):
            x, y = shape.x * scale, shape.y * scale
            corner = (x + shape.width * scale - 1, y + shape.height * scale - 1)
            draw.rectangle(((x, y), corner), fill=shape.fill)
        else:
            font = ImageFont.load_default(shape.size * scale)
            place = (shape.x * scale, shape.y * scale)
            draw.text(place, shape.text, fill=shape.fill, font=font, anchor="ls")
    return image


def write_picture(path: Path, title: str, bars: Sequence[Bar]) -> None:
    """Writes the picture as what the name's ending says.

    Raises:
        ValueError: when that is neither `.svg` nor `.png`.
    """
    shapes, height = draw_bars(title, bars), picture_height(bars)
    if path.suffix == ".svg":
        path.write_text(to_svg(shapes, height), encoding="utf-8")
    elif path.suffix == ".png":
        to_image(shapes, height).save(path)
    else:
        raise ValueError(f"{path} ends in neither .svg nor .png")
