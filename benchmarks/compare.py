"""Compares the product with its alternatives: `python benchmarks/compare.py`.

Each contender converts the same photos to eight shards as a whole process, into a new folder, in
turn: A B C, A B C, and so on, after one round that is not counted. Every record of every shard is
read back and counted. `benchmarks/README.md` says how to read the tables.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jobs import (
    RERUN,
    SHARDS,
    Job,
    PhotoSet,
    Result,
    copy_photos,
    describe_set,
    first_of,
    make_job,
    run_job,
)
from photos import KINDS, build_photos
from planning import Planning
from report import (
    MB,
    Bar,
    Target,
    machine,
    markdown_table,
    paired_ratio,
    round_numbers,
    spread,
    target_table,
    write_picture,
)
from scaling import NAME_BYTES, NAME_MICROSECONDS, FailedError, measure_planning

# Contender -> its title; those of `_START_UPS` are only compared with ours.
CONTENDERS = {
    "ours": "ours, every pixel checked",
    "ours-header": "ours, --check header",
    "floor": "floor: thread pool, no Beam",
    "tf-loop": "TFRecordWriter loop",
    "plain-beam": "plain Beam",
    "tfds": "TensorFlow Datasets",
    "ray": "Ray Data",
    "litdata": "LitData, optimize",
    "mosaic": "MosaicML Streaming, MDSWriter",
    "webdataset": "WebDataset, ShardWriter",
    "datasets": "Hugging Face datasets, to Parquet",
}
# Their environments take up to 5 GB.
_OPTIONAL = ("litdata", "mosaic", "webdataset", "datasets")
_START_UPS = {
    "ours-bare": "ours, no duplicates, statistics, report",
    "import-beam": "import apache_beam",
    "ours-one": "ours, 1 image",
    RERUN: "ours, nothing to do",
    "floor-one": "floor, 1 image",
}
_TITLES = CONTENDERS | _START_UPS


def run_rounds(
    jobs: Sequence[Job], rounds: int, work: Path, *, say: Callable[[str], None]
) -> dict[str, Result]:
    """Runs all jobs in turn, round after round; a failed job is skipped from then on."""
    results = {job.name: Result([], "") for job in jobs}
    for number in round_numbers(rounds):
        for job in jobs:
            if results[job.name].failure:
                continue
            result = run_job(job, work)
            kept = results[job.name].runs + (result.runs if number else [])
            results[job.name] = Result([] if result.failure else kept, result.failure)
            outcome = result.failure or f"{result.seconds[0]:.2f} s"
            when = f"round {number} of {rounds}" if number else "warm-up"
            say(f"{when}: {_TITLES[job.name]}: {outcome}")
    return results


def _over(results: Mapping[str, Result], name: str, other: str = "ours") -> float:
    """The paired ratio of the seconds of two jobs."""
    return paired_ratio(results[name].seconds, results[other].seconds)


def steady_seconds(results: Mapping[str, Result], name: str) -> list[float]:
    """The seconds of each round minus start-up, measured as the same command on one image."""
    whole, one = results[name].seconds, results[f"{name}-one"].seconds
    return [a - b for a, b in zip(whole, one, strict=True)]


def first_image_seconds(results: Mapping[str, Result]) -> list[float]:
    """The seconds of a whole conversion of one image over `import apache_beam`, per round."""
    one, imports = results["ours-one"].seconds, results["import-beam"].seconds
    return [a - b for a, b in zip(one, imports, strict=True)]


def find_targets(results: Mapping[str, Result], planned: Planning | None = None) -> list[Target]:
    """The targets that the successful jobs cover; with few images they mean little.

    Args:
        results: of the jobs.
        planned: the planning of many names; None if it was not measured.
    """
    ran = {name for name, result in results.items() if result.runs}
    targets: list[Target] = []

    def add(needs: str, text: str, bound: float, value: Callable[[], float], least: bool) -> None:
        if ran.issuperset(needs.split()):
            targets.append(Target(text, bound, least, value()))

    def steady() -> float:
        return paired_ratio(*(steady_seconds(results, name) for name in ("floor", "ours")))

    def share() -> float:
        return results["ours"].peak / results["plain-beam"].peak

    def start(name: str) -> float:
        return _over(results, name, "import-beam")

    def middle(name: str) -> float:
        return spread(results[name].seconds).middle

    def cores() -> float:
        runs = (results[name].runs for name in ("ours", "ours-bare"))
        return paired_ratio(*([run.core_seconds for run in each] for each in runs))

    loop, beam, tfds = ("tf-loop", "plain-beam", "tfds")
    add(f"ours {loop}", "times as fast as the loop", 2.5, lambda: _over(results, loop), True)
    add(f"ours {beam}", "times as fast as plain Beam", 5, lambda: _over(results, beam), True)
    add(f"ours {beam}", "share of plain Beam's memory", 0.1, share, False)
    add(f"ours {tfds}", "times as fast as TFDS", 1.2, lambda: _over(results, tfds), True)
    header = "ours-header"
    text = "times as fast as TFDS, with --check header"
    add(f"{header} {tfds}", text, 2, lambda: _over(results, tfds, header), True)
    add("ours ours-one floor floor-one", "steady state, share of the floor", 0.9, steady, True)
    bare = "ours-bare"
    text = "duplicates, statistics and report: times a run without them"
    add(f"ours {bare}", text, 1.05, lambda: 1 / _over(results, bare), False)
    add(f"ours {bare}", "the same, time of the cores", 1.08, cores, False)
    text = "one image: times import apache_beam"
    add("ours-one import-beam", text, 0.76, lambda: start("ours-one"), False)
    text = "nothing to do: times import apache_beam"
    add(f"{RERUN} import-beam", text, 0.95, lambda: start(RERUN), False)
    add("ours", "MB of peak memory", 350, lambda: results["ours"].peak / MB, False)
    if planned is not None:
        each = [planned.seconds * 1e6, planned.peak_bytes - planned.base_bytes]
        time, size = (value / planned.images for value in each)
        targets.append(Target("planning: us a name", NAME_MICROSECONDS, False, time))
        targets.append(Target("planning: bytes a name", NAME_BYTES, False, size))
        text = "planning a million names: times import apache_beam"
        add("import-beam", text, 28.6, lambda: time / middle("import-beam"), False)
    return targets


def result_table(results: Mapping[str, Result], photos: PhotoSet) -> str:
    """The main table: a row for each contender and start-up."""
    header = ["", "seconds", "lowest to highest", "core s", "images/s", "times ours"]
    header += ["MB, all", "MB, one"]
    rows = []
    for name, result in results.items():
        if not result.runs:
            rows.append([_TITLES[name], "failed", *["-"] * 6])
            continue
        low, middle, high = spread(result.seconds)
        rate = f"{photos.total / middle:.0f}" if name in CONTENDERS else "-"
        ratio = f"{_over(results, name):.2f}" if results["ours"].runs else "-"
        one = max(run.process_bytes for run in result.runs)
        sizes = [f"{size / MB:.0f}" for size in (result.peak, one)]
        cores = spread([run.core_seconds for run in result.runs]).middle
        seconds = [f"{middle:.2f}", f"{low:.2f} to {high:.2f}", f"{cores:.2f}"]
        rows.append([_TITLES[name], *seconds, rate, ratio, *sizes])
    return markdown_table(header, rows)


def start_up_lines(results: Mapping[str, Result]) -> list[str]:
    """The times without start-up, as sentences."""
    lines = []
    if all(results[name].runs for name in ("ours", "ours-one")):
        ours = statistics.median(steady_seconds(results, "ours"))
        lines.append(f"ours without start-up: {ours:.2f} s")
        if "floor" in results and results["floor"].runs and results["floor-one"].runs:
            floor = statistics.median(steady_seconds(results, "floor"))
            lines.append(f"floor without start-up: {floor:.2f} s")
    if all(results[name].runs for name in ("ours-one", "import-beam")):
        first = statistics.median(first_image_seconds(results))
        lines.append(f"one image, whole process, over import apache_beam: {first:.2f} s")
    return lines


def to_json(
    results: Mapping[str, Result], photos: PhotoSet, targets: Sequence[Target]
) -> dict[str, object]:
    """All measurements; memory in bytes."""
    jobs: dict[str, object] = {}
    for name, result in results.items():
        has_ratio = bool(result.runs and results["ours"].runs)
        jobs[name] = {
            "title": _TITLES[name],
            "failure": result.failure or None,
            "seconds": result.seconds,
            "core_seconds": [run.core_seconds for run in result.runs],
            "tree_bytes": [run.tree_bytes for run in result.runs],
            "process_bytes": [run.process_bytes for run in result.runs],
            "ratio_to_ours": _over(results, name) if has_ratio else None,
        }
    return {
        "machine": machine(),
        "images": photos.total,
        "image_bytes": photos.size,
        "jobs": jobs,
        "targets": [target._asdict() | {"holds": target.holds} for target in targets],
    }


def make_bars(results: Mapping[str, Result]) -> list[Bar]:
    """The rows of the picture: the contenders that ran."""
    return [
        Bar(
            title=CONTENDERS[name],
            seconds=spread(result.seconds),
            megabytes=spread([run.tree_bytes / MB for run in result.runs]),
            is_ours=name.startswith("ours"),
        )
        for name, result in results.items()
        if name in CONTENDERS and result.runs
    ]


def _say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    """The contenders of a flag, ours among them, in the order of `CONTENDERS`."""
    names = set(text.split(","))
    unknown = sorted(names - CONTENDERS.keys())
    if unknown:
        known = ", ".join(CONTENDERS)
        raise argparse.ArgumentTypeError(f"unknown contender {unknown[0]!r}; known: {known}")
    return [name for name in CONTENDERS if name in names | {"ours"}]


def _picture_name(text: str) -> Path:
    """A file name of a supported image format."""
    if not text.endswith((".svg", ".png")):
        raise argparse.ArgumentTypeError(f"{text} ends in neither .svg nor .png")
    return Path(text)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--kind", choices=KINDS, default="photos", help="what to build (photos)")
    add("--count", type=int, default=4000, help="how many (4000)")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--copies", type=int, default=1, help="so many copies of each photo, in all --count (1)")
    add("--images", metavar="GLOB", help="convert these images instead")
    add("--labels", type=Path, metavar="CSV", help="their labels: columns id (the stem), label")
    add(
        "--contenders",
        type=_names,
        default=[name for name in CONTENDERS if name not in _OPTIONAL],
        metavar="A,B",
        help=f"which of {', '.join(CONTENDERS)} (all up to ray); ours always runs",
    )
    add("--names", type=int, default=1_000_000, help="names to plan (1000000); 0 for none")
    add("--work", type=Path, default=Path("out/benchmarks"), help="folder for everything made")
    add("--json", type=Path, metavar="FILE", help="write all figures")
    add("--picture", type=_picture_name, metavar="FILE.svg", help="draw them; .png works too")
    args = parser.parse_args(argv)
    if (args.images is None) != (args.labels is None):
        parser.error("--images and --labels go together")
    if args.images is None and not KINDS[args.kind].is_jpeg:
        # It checks JPEGs only.
        args.contenders = [name for name in args.contenders if name != "floor"]
    if min(args.count, args.rounds, args.copies) < 1:
        parser.error("--count, --rounds and --copies start at 1")
    return args


def _find_photos(args: argparse.Namespace, work: Path) -> PhotoSet:
    """The set that the flags name, built if necessary."""
    if args.images is not None:
        return describe_set(args.images, args.labels)
    count = max(1, args.count // args.copies)
    directory = work / f"{args.kind}-{count}"
    build_photos(directory, count=count, kind=args.kind)
    if args.copies > 1:
        directory = copy_photos(directory, work / f"{directory.name}-{args.copies}", args.copies)
    suffix = KINDS[args.kind].suffix
    pattern = os.path.join(glob.escape(str(directory / "images")), "*", f"*{suffix}")
    return describe_set(pattern, directory / "labels.csv")


def _make_jobs(
    names: Sequence[str], photos: PhotoSet, work: Path
) -> tuple[list[Job], dict[str, Result]]:
    """The jobs of the contenders and start-ups, and the failures to create jobs."""
    one = first_of(photos, work / "one")
    start_ups = [name for name in _START_UPS if name != "floor-one" or "floor" in names]
    jobs: list[Job] = []
    failures: dict[str, Result] = {}
    for name in [*names, *start_ups]:
        try:
            jobs.append(make_job(name, photos, one, work))
        except (OSError, subprocess.CalledProcessError) as error:
            failures[name] = Result([], f"its environment cannot be made: {error}")
    return jobs, failures


def _plan(names: int, work: Path) -> Planning | None:
    """The planning of that many names; None for none, or if it fails."""
    if not names:
        return None
    try:
        return measure_planning([names], 1, work, say=_say)[names][0]
    except FailedError as error:
        print(f"compare: planning: {error}", file=sys.stderr)
        return None


def _write(
    args: argparse.Namespace,
    photos: PhotoSet,
    results: Mapping[str, Result],
    planned: Planning | None,
) -> None:
    """Prints the tables and writes the requested files."""
    targets = find_targets(results, planned)
    size = photos.size / photos.total / 1e3
    kind = os.path.splitext(photos.images)[1].strip(".").upper().replace("JPG", "JPEG")
    title = f"{photos.total} {kind}s of {size:.1f} KB to {SHARDS} shards, {args.rounds} rounds"
    print(f"{title}\n\n{result_table(results, photos)}\n")
    print("\n".join(start_up_lines(results)))
    if targets:
        print(f"\n{target_table(targets)}")
    for name, result in results.items():
        if result.failure:
            print(f"\n{_TITLES[name]} failed: {result.failure}")
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        figures = json.dumps(to_json(results, photos, targets), indent=1)
        args.json.write_text(figures + "\n", encoding="utf-8")
    bars = make_bars(results)
    if args.picture is not None and bars:
        args.picture.parent.mkdir(parents=True, exist_ok=True)
        write_picture(args.picture, title, bars)


def main(argv: Sequence[str] | None = None) -> int:
    """Compares the contenders of the command line; returns 1 if ours or the floor failed."""
    args = _parse(argv)
    work = args.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    try:
        photos = _find_photos(args, work)
        jobs, failures = _make_jobs(args.contenders, photos, work)
    except (OSError, ValueError, KeyError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    measured = run_rounds(jobs, args.rounds, work, say=_say) | failures
    results = {name: measured[name] for name in _TITLES if name in measured}
    _write(args, photos, results, _plan(args.names, work))
    return int(any(results[name].failure for name in ("ours", "floor") if name in results))


if __name__ == "__main__":
    sys.exit(main())
