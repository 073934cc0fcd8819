"""Worker processes against threads, and an estimate for more cores: `python benchmarks/cores.py`.

Measured here: whole conversions of two sizes with one process and with two, in turn. Another run of
one process measures itself, in seconds of the processor for an image:

- the part in a shard: reading, decoding, encoding, writing;
- of that, what the one thread that writes a shard does, image after image;
- of that, what holds Python's lock: all except decoding, and except reading, checksums and writing,
  which are measured alone;
- the part outside of shards: listing, joining, planning, duplicates, statistics, publishing.

A shard is synced, renamed and described in another thread while the next one is converted. That
work counts as part of the next shard, but not as part in order; that of the last shard is outside.

The estimate for a number of cores assumes that a process converts an image in the longest of
its part in a shard divided by its cores, its part under the lock, and its part in order; that
processes do not slow each other down; and that all other work is done by one core, while no image
is converted. Disks, the network and the page cache are not part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import glob
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import floor_parts
from jobs import Job, PhotoSet, describe_set, ours_command, run_job
from photos import build_photos
from report import Fit, fit_line, machine, markdown_table, round_numbers, spread

_CORES = (4, 8, 16, 32, 64, 96)
_WORKERS = (1, 2)

# The smaller set is a quarter of the photos. Copies would be duplicates, which take more time.
_PART = 4

# The first word of this script as a conversion that measures itself.
_TIMED = "--timed"

_MICRO = 1e6

# Two processes on two cores may take this many times as long for an image as one with threads.
_MOST = 1.05


class Runs(NamedTuple):
    """The conversions of one set with one number of processes.

    Attributes:
        images: of the set.
        wall: seconds of each round.
        cpu: seconds of all cores of each round.
    """

    images: int
    wall: list[float]
    cpu: list[float]


class Parts(NamedTuple):
    """Seconds of the processor for one image.

    Attributes:
        in_shard: the part of a shard, in all threads.
        locked: of that, what holds Python's lock.
        in_order: of that, what the thread that writes the shard does.
        outside: the work that is not part of a shard.
    """

    in_shard: float
    locked: float
    in_order: float
    outside: float


def rate(parts: Parts, cores: int, workers: int) -> float:
    """Estimated images per second, without start-up.

    Args:
        parts: of an image.
        cores: of the machine.
        workers: processes, which share the cores.

    >>> one = Parts(in_shard=0.0010, locked=0.0002, in_order=0.0001, outside=0.0)
    >>> [round(rate(one, cores, 1)) for cores in (2, 4, 32)]
    [2000, 4000, 5000]
    >>> round(rate(one, 32, 8)), round(rate(one._replace(outside=0.0001), 32, 8))
    (32000, 7619)
    """
    one = max(parts.in_shard * workers / cores, parts.locked, parts.in_order)
    return 1 / (parts.outside + one / workers)


def cpu_seconds() -> float:
    """Seconds that all cores spent on children that have ended, and on their children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def make_sets(count: int, work: Path) -> list[PhotoSet]:
    """A part of the photos, as links, and all of them."""
    source, part = work / f"photos-{count}", work / f"photos-{count}-part"
    build_photos(source, count=count)
    shutil.rmtree(part, ignore_errors=True)
    with (source / "labels.csv").open(encoding="utf-8", newline="") as table:
        rows = [(row["id"], row["label"]) for row in csv.DictReader(table)][::_PART]
    for stem, label in rows:
        (part / "images" / label).mkdir(parents=True, exist_ok=True)
        name = f"images/{label}/{stem}.jpg"
        os.link(source / name, part / name)
    with (part / "labels.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([("id", "label"), *rows])
    return [
        describe_set(f"{glob.escape(str(folder))}/images/*/*.jpg", folder / "labels.csv")
        for folder in (part, source)
    ]


def run_all(sets: Sequence[PhotoSet], rounds: int, work: Path) -> dict[int, list[Runs]]:
    """Converts both sets with each number of processes in turn, the first round not counted.

    Raises:
        RuntimeError: a conversion failed.
    """
    results = {workers: [Runs(photos.total, [], []) for photos in sets] for workers in _WORKERS}
    for number in round_numbers(rounds):
        for workers, runs in results.items():
            for photos, taken in zip(sets, runs, strict=True):
                output = work / "output" / "cores"
                command = [*ours_command(photos, output), "--workers", str(workers)]
                before = cpu_seconds()
                result = run_job(Job("cores", command, output, photos.total), work)
                if result.failure:
                    raise RuntimeError(f"{workers} workers: {result.failure}")
                if number:
                    taken.wall.append(result.seconds[0])
                    taken.cpu.append(cpu_seconds() - before)
    return results


def fit(runs: Sequence[Runs], values: Sequence[Sequence[float]]) -> Fit:
    """Seconds of the start, and for each image."""
    return fit_line([each.images for each in runs], [spread(each).middle for each in values])


def convert_timed(figures: str, argv: Sequence[str]) -> None:
    """Runs `convert` in one process, and writes what it takes in shards and outside of them.

    Args:
        figures: the file to write.
        argv: the command line of `convert`.
    """
    from pipeline.run.beam_compat import import_beam

    import_beam(argv)
    import simplejpeg

    import pipeline.convert
    from transforms import write_shards

    taken = {"in_shard": 0.0, "in_order": 0.0}
    decoding: list[float] = []
    process, decode = write_shards._WriteShardFn.process, simplejpeg.decode_jpeg

    def timed_decode(*args: object, **named: object) -> object:
        before = time.thread_time()
        pixels = decode(*args, **named)
        decoding.append(time.thread_time() - before)
        return pixels

    def timed(self: object, shard: object) -> list[object]:
        before, before_thread = time.process_time(), time.thread_time()
        results = list(process(self, shard))  # type: ignore[arg-type]
        taken["in_shard"] += time.process_time() - before
        taken["in_order"] += time.thread_time() - before_thread
        return results

    write_shards._WriteShardFn.process = timed  # type: ignore[method-assign]
    simplejpeg.decode_jpeg = timed_decode
    pipeline.convert.main(argv)
    taken["outside"] = time.process_time() - taken["in_shard"]
    taken["decoding"] = sum(decoding)
    Path(figures).write_text(json.dumps(taken), encoding="utf-8")


def measure_parts(sets: Sequence[PhotoSet], rounds: int, work: Path) -> Parts:
    """The parts of one process; each is fitted over both sets, so that its start-up is no part.

    Raises:
        RuntimeError: a conversion failed.
    """
    figures, output = work / "parts.json", work / "output" / "cores"
    taken: dict[str, list[list[float]]] = {}
    for at, photos in enumerate(sets):
        words = [*ours_command(photos, output)[3:], "--workers", "1"]
        command = [sys.executable, str(Path(__file__).resolve()), _TIMED, str(figures), *words]
        for _ in range(rounds):
            result = run_job(Job("parts", command, output, photos.total), work)
            if result.failure:
                raise RuntimeError(f"the parts of {photos.total} images: {result.failure}")
            for name, seconds in json.loads(figures.read_text("utf-8")).items():
                taken.setdefault(name, [[] for _ in sets])[at].append(seconds)
    totals = [photos.total for photos in sets]
    part = {
        name: max(0.0, fit_line(totals, [spread(each).middle for each in values]).slope)
        for name, values in taken.items()
    }
    released = part.pop("decoding") + released_seconds(sets[0], work / "released", rounds)
    return Parts(locked=max(0.0, part["in_shard"] - released), **part)


def released_seconds(photos: PhotoSet, scratch: Path, rounds: int) -> float:
    """Seconds of the processor for one image in calls that release Python's lock, but decoding.

    Decoding takes most of the time, and more of it while other threads run. So it is measured in
    the conversion.
    """
    paths = sorted(glob.glob(photos.images))
    taken = floor_parts.measure_parts(paths, scratch, rounds, clock=time.process_time)
    del taken["entropy decoding"]
    return sum(spread(values).middle for values in taken.values()) / len(paths)


def measured_lines(results: dict[int, list[Runs]], parts: Parts) -> str:
    """What was measured here."""
    rows = []
    for workers, runs in results.items():
        for each in runs:
            (low, middle, high), cpu = spread(each.wall), spread(each.cpu).middle
            images = [str(each.images), f"{each.images / middle:.0f}"]
            rows.append([f"{workers}", *images, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"])
            rows[-1].append(f"{cpu:.2f}")
    header = ["processes", "images", "images/s", "seconds", "lowest to highest", "core seconds"]
    lines = [markdown_table(header, rows), ""]
    for workers, runs in results.items():
        wall = fit(runs, [each.wall for each in runs])
        cpu_fit = fit(runs, [each.cpu for each in runs])
        lines.append(
            f"{workers} processes: {wall.start:.2f} s + {wall.slope * _MICRO:.0f} us an image; "
            f"core seconds: {cpu_fit.start:.2f} s + {cpu_fit.slope * _MICRO:.0f} us an image"
        )
    lines += ["", compared_line(results), checked_line(results[1], parts)]
    shown = [
        f"{name.replace('_', ' ')} {each * _MICRO:.0f}" for name, each in parts._asdict().items()
    ]
    lines += ["", f"microseconds of one core for an image: {', '.join(shown)}"]
    return "\n".join(lines)


def compared_line(results: dict[int, list[Runs]]) -> str:
    """The time of an image in two processes over that in one, start-up left out."""
    one, two = (fit(runs, [each.wall for each in runs]).slope for runs in results.values())
    ratio = two / one
    holds = "holds" if ratio <= _MOST else "missed"
    return (
        "two processes take "
        f"{ratio:.2f} times as long for an image as one, apart from start-up "
        f"(at most {_MOST}: {holds})"
    )


def checked_line(runs: Sequence[Runs], parts: Parts) -> str:
    """Whether the parts, measured in runs of their own, add up to an image's time of the cores.

    Args:
        runs: of one process.
        parts: of one process.
    """
    whole = fit(runs, [each.cpu for each in runs]).slope
    total = parts.in_shard + parts.outside
    return (
        f"the parts in and outside of shards add up to {total * _MICRO:.0f} us an image, "
        f"{total / whole:.2f} of its core seconds"
    )


def estimate_table(parts: Parts) -> str:
    """Estimated images per second for other numbers of cores, with the default's processes."""
    from pipeline.resolve.samples import JobSize
    from pipeline.run.launch import choose_workers

    rows = []
    for cores in _CORES:
        workers = choose_workers(JobSize(10**6), cores, None, shards=None)
        one, several = rate(parts, cores, 1), rate(parts, cores, workers)
        row = [str(cores), f"{one:.0f}", str(workers), f"{several:.0f}", f"{several / one:.2f}"]
        rows.append(row)
    header = ["cores", "one process, images/s", "processes", "images/s", "times one process"]
    return markdown_table(header, rows)


def measure(count: int, rounds: int, work: Path) -> tuple[dict[int, list[Runs]], Parts]:
    """All figures of this machine.

    Raises:
        RuntimeError: a conversion failed.
    """
    sets = make_sets(count, work)
    results = run_all(sets, rounds, work)
    return results, measure_parts(sets, rounds, work)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what was measured, and the estimate; 1 when a conversion failed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--count", type=int, default=4000, help="photos to build (4000)")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--work", type=Path, default=Path("out/benchmarks"), help="where to write")
    add("--json", type=Path, metavar="FILE", help="write all figures")
    args = parser.parse_args(argv)
    if min(args.count, args.rounds) < 1:
        parser.error("--count and --rounds start at 1")
    work = args.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    try:
        results, parts = measure(args.count, args.rounds, work)
    except RuntimeError as error:
        print(f"cores: {error}", file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(work / "output" / "cores")
    print(f"{measured_lines(results, parts)}\n\nEstimate, not measured:\n")
    print(estimate_table(parts))
    if args.json is not None:
        runs = {workers: [each._asdict() for each in runs] for workers, runs in results.items()}
        figures = {"machine": machine(), "runs": runs, "parts": parts._asdict()}
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == [_TIMED]:
        from pipeline.errors import run_command
        from pipeline.run.supervise import supervise

        sys.exit(
            supervise(
                lambda: run_command(lambda: convert_timed(sys.argv[2], sys.argv[3:]), "convert")
            )
        )
    sys.exit(main())
