"""Measures what statistics and fingerprints cost a conversion: `python benchmarks/overhead.py`.

Whole processes in turn: the product as it is, with `--dedupe off`, and with neither duplicates nor
statistics and report, for which this script runs `convert` with those parts taken out. The time of
the cores is more reliable than wall time if the machine is also busy with something else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jobs import Job, PhotoSet, describe_set, ours_command, run_job
from measure import Run
from photos import build_photos
from report import markdown_table, paired_ratio, round_numbers, spread

_MOST = 1.05
_BARE = "--bare"


def convert_bare(argv: Sequence[str]) -> None:
    """Runs `convert` without anything that describes images, and without its report."""
    from pipeline.run.beam_compat import import_beam

    import_beam(argv)
    from transforms import dataset_files as describe_dataset
    from transforms import write_report
    from transforms.dataset.image_statistics import Samples, Statistics
    from transforms.examples import encoder as decoded_image

    def nothing(*args: object, **kwargs: object) -> None:
        return None

    Statistics.add = Samples.add = nothing  # type: ignore[method-assign]
    decoded_image.orientation_tag = lambda data, format_: 0  # type: ignore[attr-defined]
    describe_dataset.DatasetDescriber.describe = lambda *args: b"{}\n"  # type: ignore[method-assign]
    write_report.write_report = lambda *args: 0

    import pipeline.convert

    pipeline.convert.main([*argv, "--dedupe", "off"])


def make_jobs(photos: PhotoSet, work: Path) -> list[Job]:
    """The three runs."""
    jobs = []
    for name in ("default", "--dedupe off", "neither"):
        output = work / "output" / f"overhead-{name.replace(' ', '').strip('-')}"
        command = ours_command(photos, output)
        if name == "--dedupe off":
            command += ["--dedupe", "off"]
        if name == "neither":
            command = [sys.executable, str(Path(__file__).resolve()), _BARE, *command[3:]]
        jobs.append(Job(name, command, output, photos.total))
    return jobs


class Measured(NamedTuple):
    """The runs of one job, and the seconds of all cores for each."""

    runs: list[Run]
    cpu: list[float]


def run_rounds(jobs: Sequence[Job], work: Path, rounds: int) -> dict[str, Measured]:
    """All jobs in turn, the first round not counted.

    Raises:
        RuntimeError: one of them failed.
    """
    results = {job.name: Measured([], []) for job in jobs}
    for number in round_numbers(rounds):
        for job in jobs:
            result = run_job(job, work)
            if result.failure:
                raise RuntimeError(f"{job.name}: {result.failure}")
            if number:
                results[job.name].runs.extend(result.runs)
                results[job.name].cpu.extend(run.core_seconds for run in result.runs)
    return results


def _wall(measured: Measured) -> list[float]:
    return [run.seconds for run in measured.runs]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the seconds of each run, and its ratio to the one with neither."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=4000, help="photos to build (4000)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (7)")
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"), help="where to write")
    args = parser.parse_args(argv)
    if min(args.count, args.rounds) < 1:
        parser.error("--count and --rounds start at 1")
    work = args.work.absolute()
    directory = work / f"photos-{args.count}"
    build_photos(directory, count=args.count)
    photos = describe_set(str(directory / "images" / "*" / "*.jpg"), directory / "labels.csv")
    results = run_rounds(make_jobs(photos, work), work, args.rounds)
    bare = results["neither"]
    rows = []
    for name, result in results.items():
        row = [name]
        for values, others in ((_wall(result), _wall(bare)), (result.cpu, bare.cpu)):
            low, middle, high = spread(values)
            ratio = paired_ratio(values, others)
            row += [f"{middle:.2f}", f"{low:.2f} to {high:.2f}", f"{ratio:.3f}"]
        rows.append([*row, f"{max(run.tree_bytes for run in result.runs) / 1e6:.0f}"])
    shown = ["lowest to highest", "times neither"]
    header = ["", "seconds", *shown, "core seconds", *shown, "MB"]
    print(f"{photos.total} JPEGs\n\n{markdown_table(header, rows)}\n")
    print(f"wanted: at most {_MOST} times neither")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == [_BARE]:
        from pipeline.errors import run_command
        from pipeline.run.supervise import supervise

        sys.exit(supervise(lambda: run_command(lambda: convert_bare(sys.argv[2:]), "convert")))
    sys.exit(main())
