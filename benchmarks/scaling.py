"""How time and memory grow with the images: `python benchmarks/scaling.py`.

Two parts. The conversion at 1, 2, 4 and 8 times as many images: the larger sets are hard links of
the base set under other names, so they cost no disk and stay in the page cache. The planning part
alone at 100,000 and 1,000,000 names, which `benchmarks/planning.py` measures in a process of its
own. `import apache_beam` is timed, too, to scale seconds from one machine to another.
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobs import Job, PhotoSet, describe_set, ours_command, run_job
from measure import last_line, run
from photos import build_photos
from planning import Planning
from report import MB, Fit, Spread, fit_line, machine, markdown_table, round_numbers, spread

_FACTORS = (1, 2, 4, 8)
_PLANNING = Path(__file__).resolve().parent / "planning.py"

NAME_MICROSECONDS = 30
"""Target of planning for each of a million names."""

NAME_BYTES = 800
"""The same for memory."""

# Target per image, and how far memory may grow in addition over the whole range.
_IMAGE_BYTES = 1000
_FLATNESS = 0.10


class FailedError(RuntimeError):
    """A measured command failed."""


class Size(NamedTuple):
    """The conversion of one set.

    Attributes:
        images: how many images it has.
        image_bytes: their bytes.
        seconds: wall time of each round.
        peak_bytes: highest memory of each round.
    """

    images: int
    image_bytes: int
    seconds: list[float]
    peak_bytes: list[int]


class Growth(NamedTuple):
    """How the conversion grows.

    Attributes:
        seconds: least-squares line of the medians over the images.
        peak_bytes: the same of the highest memory.
        bytes_per_second: input bytes over seconds, start-up taken out.
        excess: growth of the memory from the smallest to the largest set, as a share of the
            smallest, after what an image may take is taken off.
    """

    seconds: Fit
    peak_bytes: Fit
    bytes_per_second: float
    excess: float


def grow(sizes: Sequence[Size]) -> Growth:
    """Fits the sizes, smallest first."""
    images = [size.images for size in sizes]
    seconds = fit_line(images, [statistics.median(size.seconds) for size in sizes])
    peaks = [max(size.peak_bytes) for size in sizes]
    mean = sizes[-1].image_bytes / sizes[-1].images
    allowed = _IMAGE_BYTES * (images[-1] - images[0])
    return Growth(
        seconds=seconds,
        peak_bytes=fit_line(images, peaks),
        bytes_per_second=mean / seconds.slope,
        excess=(peaks[-1] - allowed) / peaks[0] - 1,
    )


def multiply_photos(source: Path, target: Path, factor: int) -> None:
    """Fills `target` with `factor` hard links of each photo of `source`, and their labels.

    Args:
        source: a folder that `photos.py` built.
        target: replaced when it is there.
        factor: how many names each photo gets.
    """
    shutil.rmtree(target, ignore_errors=True)
    with (source / "labels.csv").open(encoding="utf-8", newline="") as table:
        rows = [(row["id"], row["label"]) for row in csv.DictReader(table)]
    for label in {label for _, label in rows}:
        (target / "images" / label).mkdir(parents=True)
    with (target / "labels.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["id", "label"])
        for stem, label in rows:
            photo = source / "images" / label / f"{stem}.jpg"
            for number in range(factor):
                name = f"{stem}_{number}"
                writer.writerow([name, label])
                os.link(photo, target / "images" / label / f"{name}.jpg")


def make_sets(base: int, work: Path) -> list[PhotoSet]:
    """The sets of all factors."""
    source = work / f"photos-{base}"
    build_photos(source, count=base)
    sets = []
    for factor in _FACTORS:
        directory = work / f"photos-{base}-times-{factor}"
        multiply_photos(source, directory, factor)
        pattern = os.path.join(glob.escape(str(directory / "images")), "*", "*.jpg")
        sets.append(describe_set(pattern, directory / "labels.csv"))
    return sets


def measure_sizes(
    sets: Sequence[PhotoSet], rounds: int, work: Path, *, say: Callable[[str], None]
) -> list[Size]:
    """Converts each set in turn, round after round, after a small one that warms up.

    Raises:
        FailedError: a conversion failed.
    """
    sizes = [Size(photos.total, photos.size, [], []) for photos in sets]
    for number in round_numbers(rounds):
        for photos, size in zip(sets if number else sets[:1], sizes, strict=False):
            output = work / "output" / "ours"
            result = run_job(Job("ours", ours_command(photos, output), output, photos.total), work)
            if result.failure:
                raise FailedError(f"{photos.total} images: {result.failure}")
            if number:
                size.seconds.append(result.seconds[0])
                size.peak_bytes.append(result.peak)
                say(f"round {number} of {rounds}: {photos.total} images: {size.seconds[-1]:.2f} s")
    return sizes


def measure_planning(
    counts: Sequence[int], rounds: int, work: Path, *, say: Callable[[str], None]
) -> dict[int, list[Planning]]:
    """Plans each number of names in turn, round after round.

    Raises:
        FailedError: planning failed, or lost names.
    """
    taken: dict[int, list[Planning]] = {count: [] for count in counts}
    (work / "logs").mkdir(parents=True, exist_ok=True)
    log = work / "logs" / "planning.log"
    for number in range(1, rounds + 1):
        for count in counts:
            command = [sys.executable, str(_PLANNING), "--count", str(count), "--work", str(work)]
            code = run(command, log=log).code
            if code:
                raise FailedError(f"{count} names: exit code {code}: {last_line(log)}")
            taken[count].append(Planning(**json.loads(last_line(log))))
            seconds = taken[count][-1].seconds
            say(f"round {number} of {rounds}: {count} names: {seconds:.2f} s")
    return taken


def measure_import(rounds: int, work: Path) -> Spread:
    """The seconds of a process that does nothing but `import apache_beam`; the first is a warm-up.

    Raises:
        FailedError: the import failed.
    """
    job = Job("import-beam", [sys.executable, "-c", "import apache_beam"], None, 0)
    results = [run_job(job, work) for _ in range(rounds + 1)]
    failure = next((result.failure for result in results if result.failure), None)
    if failure:
        raise FailedError(failure)
    return spread([result.seconds[0] for result in results[1:]])


def size_lines(sizes: Sequence[Size], growth: Growth) -> str:
    """The conversion's table, the fits, and how flat memory is."""
    rows = []
    for size in sizes:
        low, middle, high = spread(size.seconds)
        speed, peak = f"{size.images / middle:.0f}", f"{max(size.peak_bytes) / MB:.0f}"
        span = f"{low:.2f} to {high:.2f}"
        rows.append([str(size.images), f"{middle:.2f}", span, speed, peak])
    table = markdown_table(["images", "seconds", "lowest to highest", "images/s", "peak MB"], rows)
    seconds, memory, rate, excess = growth
    verdict = "holds" if excess <= _FLATNESS else "missed"
    return "\n".join(
        [
            table,
            "",
            f"seconds = {seconds.start:.2f} + {seconds.slope * 1e3:.3f} ms an image "
            f"({rate / MB:.0f} MB of JPEG a second)",
            f"peak = {memory.start / MB:.0f} MB + {memory.slope / 1e3:.2f} KB an image",
            f"memory from {sizes[0].images} to {sizes[-1].images} images, {_IMAGE_BYTES} bytes an "
            f"image taken off: {excess:+.1%} (at most {_FLATNESS:+.0%}: {verdict})",
        ]
    )


def plan_lines(taken: Mapping[int, Sequence[Planning]]) -> str:
    """The planning part's table, and its growth between the least and the most names."""
    rows = []
    medians, peaks = [], []
    for count, plans in taken.items():
        low, middle, high = spread([plan.seconds for plan in plans])
        grown = max(plan.peak_bytes - plan.base_bytes for plan in plans)
        medians.append(middle)
        peaks.append(grown)
        span = f"{low:.2f} to {high:.2f}"
        each = [f"{middle / count * 1e6:.1f}", f"{grown / count:.0f}"]
        rows.append([str(count), f"{middle:.2f}", span, *each])
    header = ["names", "seconds", "lowest to highest", "us a name", "bytes a name"]
    lines = [markdown_table(header, rows), ""]
    lines.append(f"wanted: at most {NAME_MICROSECONDS} us and {NAME_BYTES} bytes a name")
    if len(taken) > 1:
        counts = list(taken)
        seconds, memory = fit_line(counts, medians), fit_line(counts, peaks)
        lines.append(f"seconds = {seconds.start:.2f} + {seconds.slope * 1e6:.1f} us a name")
        lines.append(f"memory = {memory.start / MB:.0f} MB + {memory.slope:.0f} bytes a name")
    return "\n".join(lines)


def _counts(text: str) -> list[int]:
    """The numbers of a flag; none when it is empty."""
    return [int(word) for word in text.split(",") if word]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--base", type=int, default=1000, help="photos of the smallest set (1000); 0: no sets")
    add("--rounds", type=int, default=3, help="rounds (3)")
    add(
        "--names",
        type=_counts,
        default=[100_000, 1_000_000],
        metavar="N,N",
        help="names to plan (100000,1000000); '' for none",
    )
    add("--work", type=Path, default=Path("out/benchmarks"), help="folder for everything made")
    add("--json", type=Path, metavar="FILE", help="write all figures")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("--rounds starts at 1")
    return args


def _say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _measure(args: argparse.Namespace, work: Path) -> dict[str, object]:
    """Measures and prints what the flags say, and returns the figures."""
    imports = measure_import(args.rounds, work)
    figures: dict[str, object] = {"machine": machine(), "import_seconds": imports._asdict()}
    print(f"import apache_beam: {imports.middle:.2f} s on this machine\n", flush=True)
    if args.base:
        sizes = measure_sizes(make_sets(args.base, work), args.rounds, work, say=_say)
        growth = grow(sizes)
        print(f"{size_lines(sizes, growth)}\n", flush=True)
        figures["conversion"] = [size._asdict() for size in sizes]
        fits = {"seconds": growth.seconds._asdict(), "peak_bytes": growth.peak_bytes._asdict()}
        figures["growth"] = growth._asdict() | fits
    if args.names:
        taken = measure_planning(args.names, args.rounds, work, say=_say)
        print(plan_lines(taken))
        figures["planning"] = [plan._asdict() for plans in taken.values() for plan in plans]
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the command line names; 1 when something failed."""
    args = _parse(argv)
    work = args.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    try:
        figures = _measure(args, work)
    except (FailedError, OSError) as error:
        print(f"scaling: {error}", file=sys.stderr)
        return 1
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
