"""What large datasets take, in five parts that also run alone: `python benchmarks/scale.py`.

`--part listing` lists a million objects behind 30 ms, by one worker and in ranges by several.
`--part memory` measures the peak memory of worker processes and of the launcher, and its growth an
element; it also does what `--part shuffle` does alone, in one process: it prints the largest
element and the largest group that cross a shuffle. `--part simulation` computes the stages of up to
100 million images on up to 800 vCPUs. `--part costs` prints what a conversion costs on Dataflow.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import markdown_table
from scale_memory import CASES, Growth, measure, measure_growth, memory_table, shuffle_table
from simulation import Costs, shard_number, simulate, stage_table, too_long_alone

from pipeline.run.estimate import PRICES_OF, dataflow_costs

_PARTS = ("listing", "memory", "shuffle", "simulation", "costs")
_VCPUS = (8, 200, 800)
_SIZES = (1_000_000, 10_000_000, 100_000_000)

# Images and workers of the table of costs.
_COSTS = {1_280_000: 8, 10_000_000: 10, 100_000_000: 25}


def print_listing(count: int, latency_ms: int, workers: int, work: Path) -> bool:
    """Prints both ways of listing; whether they found the same names."""
    from scale_listing import listing_lines, measure_listing

    in_turn, in_ranges, start_up = measure_listing(count, latency_ms, workers, work)
    print(f"## Listing {count:,} objects, {latency_ms} ms a request\n")
    print(f"{listing_lines(in_turn, in_ranges, start_up, workers)}\n", flush=True)
    return in_turn[:2] == in_ranges[:2] and in_turn.names == count


def print_memory(share: float, workers: int, work: Path, *, cases: Sequence[str]) -> bool:
    """Prints memory and shuffles of each case; whether all stay within Beam's limits."""
    from cluster_runner import MAX_ELEMENT, MAX_GROUP

    growths: list[Growth] = []
    crossed = {}
    for case in cases:
        count = max(20, int(CASES[case].count * share))
        if workers:
            growths.append(measure_growth(case, count, workers, work))
            ran = growths[-1].large[1]
        else:
            ran = measure(case, count, workers, work)
        crossed[case] = (count, ran.crossed)
        _say(f"{count:,} {CASES[case].title}: {ran.seconds:.0f} s")
    if growths:
        print(f"## Peak memory, {workers} worker processes\n\n{memory_table(growths)}\n")
    print(f"## What crosses a shuffle\n\n{shuffle_table(crossed)}\n")
    steps = [step for _, found in crossed.values() for step in found]
    largest = max(step.largest_element for step in steps)
    group = max(step.largest_group for step in steps)
    print(f"the largest element has {largest:,} bytes (at most {MAX_ELEMENT:,})")
    print(f"the largest group has {group:,} bytes (at most {MAX_GROUP:,})\n", flush=True)
    return largest <= MAX_ELEMENT and group <= MAX_GROUP


def print_simulation(latency_ms: int, sizes: Sequence[int]) -> bool:
    """Prints the stages of each size; whether no stage waits for one worker for too long."""
    is_good = True
    print(f"## Simulation, not a measurement: {latency_ms} ms a request\n")
    for images in sizes:
        by_vcpus = simulate(images, _VCPUS, latency_ms / 1000, Costs())
        print(f"{stage_table(images, by_vcpus)}\n", flush=True)
        for each in too_long_alone(by_vcpus[_VCPUS[-1]]):
            print(f"FAILED: {each.stages}: one worker alone for {each.seconds:.0f} s\n")
            is_good = False
    return is_good


def costs_table() -> str:
    """The costs of three sizes, as docs/dataflow.md has them."""
    every = []
    for images, workers in _COSTS.items():
        size = images * Costs().image_bytes
        every.append(dataflow_costs(images, size, shard_number(size), workers))
    rows = [
        ["workers of 4 vCPUs", *(f"{each['workers']}" for each in every)],
        [
            "minutes, with a bucket that was idle",
            *(f"{each['seconds'] / 60:.0f}" for each in every),
        ],
        ["vCPU-hours at work", *(f"{each['busy_hours']:,.1f}" for each in every)],
        ["vCPU-hours idle: both ends, bucket", *(f"{each['idle_hours']:,.1f}" for each in every)],
        ["requests billed as reads", *(f"{each['read_requests']:,}" for each in every)],
        ["requests billed as writes", *(f"{each['write_requests']:,}" for each in every)],
        ["shuffle, GB", *(f"{each['shuffle_gb']:.1f}" for each in every)],
        ["**US dollars**", *(f"**{each['dollars']:,.2f}**" for each in every)],
    ]
    return markdown_table(["", *(f"{images:,} images" for images in _COSTS)], rows)


def _say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--part", action="append", choices=_PARTS, help="repeatable (all)")
    add("--case", action="append", choices=list(CASES), help="of memory and shuffle (all)")
    add("--share", type=float, default=1.0, help="of the elements, 10 for ten times as many (1)")
    add("--workers", type=int, default=2, help="processes; 0 to run all in this one (2)")
    add("--latency_ms", type=int, default=30, help="of every request (30)")
    add("--work", type=Path, default=Path("out/benchmarks"), help="folder for everything made")
    args = parser.parse_args(argv)
    if args.share <= 0 or args.workers < 0:
        parser.error("--share is above 0, and --workers starts at 0")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the command line names; 1 when a bound does not hold."""
    args = _parse(argv)
    parts = args.part or list(_PARTS)
    work = args.work.absolute() / f"scale-{os.getpid()}"
    is_good = True
    if "listing" in parts:
        count = max(20, int(1_000_000 * args.share))
        is_good &= print_listing(count, args.latency_ms, args.workers, work)
    if "memory" in parts or "shuffle" in parts:
        cases = args.case or list(CASES)
        workers = args.workers if "memory" in parts else 0
        is_good &= print_memory(args.share, workers, work, cases=cases)
    if "simulation" in parts:
        sizes = [int(size * args.share) for size in _SIZES if size * args.share >= 1000]
        is_good &= print_simulation(args.latency_ms, sizes)
    if "costs" in parts:
        print(f"## Costs on Dataflow, prices of {PRICES_OF}\n\n{costs_table()}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
