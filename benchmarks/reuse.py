"""Measures changes of a dataset with `--reuse`: `python benchmarks/reuse.py`.

Whole processes in turn: a fresh conversion of the photos of `compare.py`, and conversions that take
images from the records of another dataset, in folders and in a bucket behind latency. The files of
each run are compared with those of a fresh run, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

from photos import build_photos
from report import (
    MB,
    Target,
    markdown_table,
    paired_ratio,
    round_numbers,
    spread,
    target_table,
)
from reuse_cases import (
    Case,
    Edited,
    FailedError,
    Measured,
    bucket_cases,
    edit_photos,
    folder_cases,
    run_case,
)
from slow_link import slow_link

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers.gcs import HOST, GcsError, serve_gcs

Results = Mapping[str, Sequence[Measured]]

_PARTS = ("folders", "bucket")
_FRESH, _BUCKET_FRESH = "fresh", "bucket-fresh"

# Case, base of the ratio, its description and its limit.
_TIMES = (
    ("relabelled", _FRESH, "every label changed: times a fresh run", 0.5),
    ("new", _FRESH, "1% new images: times a fresh run", 0.5),
    ("copied", "rerun", "nothing changed, into a new folder: times the rerun", 1.2),
    ("kept", "rerun", "nothing changed, in its own folder: times the rerun", 1.2),
    ("bucket-new", _BUCKET_FRESH, "1% new images in the bucket: times a fresh run", 0.2),
)
_REQUESTS = (("bucket-new", _BUCKET_FRESH, "1% new images in the bucket: times the requests", 0.1),)
_UNLIKE = (
    "The up-to-date rerun writes nothing: it compares its plan with the manifest. A run into a\n"
    "new folder links the shards, reads their bytes once to compare them with the manifest, and\n"
    "writes the report: the ratio of these two compares different work. --reuse in the dataset's\n"
    "own folder does the work of the rerun."
)


def run_rounds(
    cases: Sequence[Case],
    rounds: int,
    work: Path,
    *,
    requests: Callable[[], int],
    say: Callable[[str], None],
) -> dict[str, list[Measured]]:
    """Runs all cases in turn, round after round; the first run of all gives the bytes.

    Raises:
        FailedError: a run failed, or gave other bytes than the first.
    """
    results: dict[str, list[Measured]] = {case.name: [] for case in cases}
    wanted: dict[str, str] = {}
    for number in round_numbers(rounds):
        for case in cases:
            measured, hashes = run_case(case, wanted, work, requests)
            wanted = wanted or hashes
            if number:
                results[case.name].append(measured)
            when = f"round {number} of {rounds}" if number else "warm-up"
            say(f"{when}: {case.title}: {measured.run.seconds:.2f} s")
    return results


def _ratio(results: Results, name: str, other: str, value: Callable[[Measured], float]) -> float:
    """The paired ratio of a value of two cases."""
    return paired_ratio([value(each) for each in results[name]], list(map(value, results[other])))


def _seconds(measured: Measured) -> float:
    return measured.run.seconds


def _core_seconds(measured: Measured) -> float:
    return measured.run.core_seconds


def _requests(measured: Measured) -> float:
    return measured.requests


def find_targets(results: Results) -> list[Target]:
    """The targets that the results cover; with few images they mean little."""
    return [
        Target(text, bound, False, _ratio(results, name, other, value))
        for table, value in ((_TIMES, _seconds), (_REQUESTS, _requests))
        for name, other, text, bound in table
        if name in results and other in results
    ]


def result_table(cases: Sequence[Case], results: Results) -> str:
    """A row for each case; the first one is the fresh run."""
    fresh = cases[0].name
    counts = any(measured.requests for measured in results[fresh])
    times = "times fresh"
    header = ["", "from records", "seconds", "lowest to highest", times, "core seconds", times]
    header += ["requests", times] if counts else []
    rows = []
    for case in cases:
        runs = results[case.name]
        low, middle, high = spread([_seconds(each) for each in runs])
        row = [case.title, str(case.reused), f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        row += [
            f"{_ratio(results, case.name, fresh, _seconds):.2f}",
            f"{spread([_core_seconds(each) for each in runs]).middle:.2f}",
            f"{_ratio(results, case.name, fresh, _core_seconds):.2f}",
        ]
        if counts:
            row.append(f"{spread([_requests(each) for each in runs]).middle:.0f}")
            row.append(f"{_ratio(results, case.name, fresh, _requests):.2f}")
        rows.append([*row, f"{max(each.run.tree_bytes for each in runs) / MB:.0f}"])
    return markdown_table([*header, "MB"], rows)


def _say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _measure_folders(args: argparse.Namespace, edited: Edited, work: Path) -> list[Target]:
    """Runs the conversions in folders and prints their table."""
    cases = folder_cases(edited, work)
    results = run_rounds(cases, args.rounds, work, requests=lambda: 0, say=_say)
    shutil.rmtree(work / "output" / "reuse")
    print(f"Folders\n\n{result_table(cases, results)}\n\n{_UNLIKE}\n")
    return find_targets(results)


def _measure_bucket(args: argparse.Namespace, edited: Edited, work: Path) -> list[Target]:
    """Runs the conversions in a bucket behind latency and prints their table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_gcs(Path(folder)) as server,
        slow_link(args.latency_ms, server.upstream_port) as link,
    ):
        here = {"STORAGE_EMULATOR_HOST": f"http://{HOST}:{link.port}"}
        server.set_external_url(here["STORAGE_EMULATOR_HOST"])
        with mock.patch.dict(os.environ, server.environment | here):
            cases = bucket_cases(edited, server, work)
            results = run_rounds(cases, args.rounds, work, requests=link.requests, say=_say)
    title = f"Bucket, {args.latency_ms} ms a request; the images and the datasets are in it"
    print(f"{title}\n\n{result_table(cases, results)}\n")
    return find_targets(results)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--count", type=int, default=4000, help="photos to build (4000)")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--latency_ms", type=int, default=30, help="of every request to the bucket (30)")
    add("--part", choices=_PARTS, action="append", help="one of both (both)")
    add("--work", type=Path, default=Path("out/benchmarks"), help="folder for everything made")
    args = parser.parse_args(argv)
    if min(args.count - 1, args.rounds, args.latency_ms) < 1:
        parser.error("--count starts at 2, --rounds and --latency_ms at 1")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables and the targets; returns 1 if a run failed or gave other bytes."""
    args = _parse(argv)
    work = args.work.absolute()
    parts = args.part or _PARTS
    targets = []
    try:
        build_photos(work / f"photos-{args.count}", count=args.count)
        edited = edit_photos(work / f"photos-{args.count}", work / "reuse-photos")
        size = edited.photos.size / edited.photos.total / 1e3
        print(f"{edited.photos.total} JPEGs of {size:.0f} KB, {args.rounds} rounds\n")
        if "folders" in parts:
            targets += _measure_folders(args, edited, work)
        if "bucket" in parts:
            targets += _measure_bucket(args, edited, work)
    except (OSError, ValueError, FailedError, GcsError) as error:
        print(f"reuse: {error}", file=sys.stderr)
        return 1
    print(f"every result has the bytes of a fresh run\n\n{target_table(targets)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
