"""A simulation of a conversion on many vCPUs: each element carries its cost and its requests.

Nothing runs. An element takes the seconds of a vCPU that were measured for it, and the
given latency for each of its requests that nothing else overlaps. Elements of a stage are given to
the next free vCPU; a stage ends when its last element does. What the engine itself does (start of
the workers, shuffle, autoscaling) takes no time here. A bucket that was idle allows about 5,000
reads a second, and twice as many every 20 minutes: the time that it needs for all images is a row
of its own.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import markdown_table

from pipeline.run.estimate import bucket_seconds
from tests.servers.listed_names import PAGE, ListedRange, in_classes, listing_rounds
from transforms.core.rejections import MAX_LISTED
from transforms.labels.label_tables import PART_BYTES
from transforms.list_rejections import PART_LINES
from transforms.publish_dataset import JOINED_AHEAD

# Seconds in which a worker may be the only one with work.
MAX_ALONE = 120.0

_READERS = 32  # requests that a worker process sends at once
_LEVELS = 6  # searches that follow each other when a list is cut
_MAX_SHARDS = 99_999
_SHARD_BYTES = 150_000_000
_REJECTED = 10  # one of this many images has a line, up to the most that are listed
_STREAMED = 100e6  # bytes a second that one stream from or to a bucket carries: assumed
_READ_CHUNK = 8 << 20  # bytes of a request that reads a stream
_SENT_CHUNK = 16 << 20  # bytes of a request that writes one
_HASHES = 1_000_000  # of perceptual hashes, a sample is compared
_LOOKED_UP = 2_800  # records that `statistics.json` lists, at most: samples, groups, pairs
_PICTURES = 1_000  # in the report, at most


class Costs(NamedTuple):
    """Seconds of a vCPU, measured on a core and doubled: a vCPU is half a core.

    `stage_costs.py` measures all from `move_shard` on.

    Attributes:
        list_name: to list a name in a page.
        divide_row: to pass a row of a CSV in search of places to divide it.
        read_row: to read it.
        join_name: to join it with its label, and to assign it to a shard.
        convert_image: to read, check, encode and write it.
        compare_image: its fingerprint, grouped and compared.
        move_shard: to move a staged shard and its index, two requests each.
        publish_shard: to order it, and to make its entries of the manifest.
        prepare_shard: to list its staged files twice, and to check them.
        finish_shard: to list its moved files, and to check them.
        total_class: to add up the totals of a class.
        reject_line: to count a rejection, to find its part, and to write its line.
        join_line: to copy a line of a part to `rejected.jsonl`.
        find_line: to pass a line in search of rejections for the report.
        compare_hash: to compare a perceptual hash with those that are like it.
        look_up: to read an index for the records that `statistics.json` lists.
        line_bytes: of a line.
        row_bytes: of a row of a CSV.
        image_bytes: of an image.
    """

    list_name: float = 50e-6
    divide_row: float = 0.27e-6
    read_row: float = 22e-6
    join_name: float = 160e-6
    convert_image: float = 5.0e-3
    compare_image: float = 16e-6
    move_shard: float = 7.6e-3
    publish_shard: float = 69e-6
    prepare_shard: float = 190e-6
    finish_shard: float = 69e-6
    total_class: float = 0.37e-6
    reject_line: float = 28e-6
    join_line: float = 0.35e-6
    find_line: float = 1.4e-6
    compare_hash: float = 12e-6
    look_up: float = 0.95e-3
    line_bytes: int = 120
    row_bytes: int = 50
    image_bytes: int = 110_000


class Elements(NamedTuple):
    """Equal elements of a stage.

    Attributes:
        count: how many.
        seconds: of a vCPU, for each.
        requests: that follow each other, for each.
        ahead: further ones that follow each other while the vCPU works.
    """

    count: int  # type: ignore[assignment]
    seconds: float
    requests: float = 0.0
    ahead: float = 0.0

    def takes(self, latency: float) -> float:
        """Seconds from its beginning to its end."""
        return max(self.seconds, self.ahead * latency) + self.requests * latency


class Stage(NamedTuple):
    """Elements that can be worked on at the same time, after those of the stage before."""

    name: str
    elements: tuple[Elements, ...]


class Timed(NamedTuple):
    """How long a stage takes.

    Attributes:
        stage: its name.
        seconds: wall time.
        alone: seconds in which one vCPU works and the others wait.
        bound: what bounds it: the `vCPUs`, or the `largest element`.
    """

    stage: str
    seconds: float
    alone: float
    bound: str


class Alone(NamedTuple):
    """One vCPU works, and the others wait.

    Attributes:
        stages: their names.
        seconds: how long.
    """

    stages: str
    seconds: float


def run_stage(stage: Stage, vcpus: int, latency: float) -> Timed:
    """Gives elements, the longest first, to the next free vCPU."""
    groups = sorted(((each.takes(latency), each.count) for each in stage.elements), reverse=True)
    total = sum(seconds * count for seconds, count in groups)
    free = [0.0] * vcpus
    for seconds, count in groups:
        rounds, rest = divmod(count, vcpus)
        if rounds > 1:
            # Equal elements keep the order of the vCPUs.
            free = [end + (rounds - 1) * seconds for end in free]
            rest += vcpus
        elif rounds:
            rest += vcpus
        heapq.heapify(free)
        for _ in range(rest):
            heapq.heapreplace(free, free[0] + seconds)
    ends = sorted(free)
    seconds = ends[-1]
    alone = seconds - (ends[-2] if len(ends) > 1 else 0.0)
    longest = groups[0][0] if groups else 0.0
    is_bound = longest > 0.5 * seconds and total < 0.9 * seconds * vcpus
    return Timed(stage.name, seconds, alone, "largest element" if is_bound else "vCPUs")


def shard_number(size: int) -> int:
    """The shards of a dataset with this many bytes."""
    return max(1, min(_MAX_SHARDS, -(-size // _SHARD_BYTES)))


def stages(
    images: int, rounds: Sequence[Sequence[ListedRange]], costs: Costs, classes: int = 1000
) -> list[Stage]:
    """The stages of a conversion from a bucket.

    Args:
        images: of the dataset.
        rounds: the requests for each range of each round of the listing.
        costs: of the elements.
        classes: of the dataset.
    """
    shards = shard_number(images * costs.image_bytes)
    of_shard = images / shards
    # Names are in bundles; there are enough of them for every vCPU.
    bundles = max(1, min(10_000, images // 1000))
    of_bundle = images / bundles
    found = [
        Stage(
            f"list, round {number}",
            tuple(
                Elements(count, PAGE * pages * costs.list_name, pages + _LEVELS + probes / _READERS)
                for (pages, probes), count in Counter(ranges).items()
            ),
        )
        for number, ranges in enumerate(rounds, 1)
    ]
    table = images * costs.row_bytes
    divided = images * costs.divide_row + table / _STREAMED
    tables = -(-table // PART_BYTES)
    lines = min(MAX_LISTED, images // _REJECTED)
    parts = max(1, -(-lines // PART_LINES))
    return [
        Stage("divide labels", (Elements(1, divided, 2),)),
        Stage("read labels", (Elements(tables, images / tables * costs.read_row, 2),)),
        *found,
        Stage("join and plan", (Elements(bundles, of_bundle * costs.join_name),)),
        Stage("write rejected lines", (Elements(parts, lines / parts * costs.reject_line, 2),)),
        Stage("add up totals", (Elements(16, classes * bundles / 16 * costs.total_class),)),
        Stage("totals of all", (Elements(1, 16 * classes * costs.total_class),)),
        Stage(
            "convert and write",
            (Elements(shards, of_shard * costs.convert_image, 5, of_shard / _READERS),),
        ),
        Stage("find duplicates", (Elements(bundles, of_bundle * costs.compare_image),)),
        *_published(shards, min(images, _HASHES), lines, parts, costs),
    ]


def _published(shards: int, hashes: int, lines: int, parts: int, costs: Costs) -> list[Stage]:
    """The stages after the last shard, of which one worker does most alone.

    Args:
        shards: of the dataset.
        hashes: that are compared.
        lines: of `rejected.jsonl`.
        parts: of it.
        costs: of the elements.
    """
    # Data, index and sidecar of a shard are objects; a listing asks for one page after the other.
    pages = 3 * shards / PAGE
    looked_up = min(_LOOKED_UP, shards)
    streamed = lines * costs.line_bytes
    # Several parts are read while others are sent in chunks.
    joined = lines * costs.join_line + streamed / _STREAMED
    at_once = max(1.0, JOINED_AHEAD / (PART_LINES * costs.line_bytes))
    joins = parts / at_once + streamed / _SENT_CHUNK
    found = lines * costs.find_line + streamed / _STREAMED
    listed = 2 / 3 * shards * costs.finish_shard + _PICTURES * costs.convert_image
    reads = 2 / 3 * pages + streamed / _READ_CHUNK + _PICTURES / _READERS
    described = hashes * costs.compare_hash + looked_up * costs.look_up
    return [
        Stage(
            "check and describe",
            (Elements(1, shards * costs.publish_shard + described, 2 * looked_up / _READERS),),
        ),
        Stage("join rejected.jsonl", (Elements(1, joined, joins),)),
        Stage("prepare the folder", (Elements(1, shards * costs.prepare_shard, 2 * pages + 20),)),
        Stage("move shards", (Elements(shards, costs.move_shard, 4 / _READERS),)),
        Stage("manifest", (Elements(1, shards * costs.finish_shard, pages + 20),)),
        Stage("remove staging", (Elements(shards, costs.move_shard / 4, 1 / _READERS),)),
        Stage("report", (Elements(1, listed + found, reads),)),
    ]


def simulate(
    images: int, vcpus: Sequence[int], latency: float, costs: Costs
) -> dict[int, list[Timed]]:
    """The times of all stages, at each number of vCPUs."""
    every = stages(images, listing_rounds(in_classes(images)), costs)
    return {number: [run_stage(stage, number, latency) for stage in every] for number in vcpus}


def stretches_alone(timed: Sequence[Timed]) -> list[Alone]:
    """The stretches in which one vCPU works and all others wait, one for each stage at least.

    Stages that follow each other without work for others are one stretch.
    """
    found: list[Alone] = []
    was_whole = False
    for each in timed:
        is_whole = each.alone == each.seconds > 0
        if is_whole and was_whole:
            last = found.pop()
            found.append(Alone(f"{last.stages}, {each.stage}", last.seconds + each.alone))
        else:
            found.append(Alone(each.stage, each.alone))
        was_whole = is_whole
    return found


def too_long_alone(timed: Sequence[Timed]) -> list[Alone]:
    """The stretches in which one worker works alone for too long, although there are others."""
    return [each for each in stretches_alone(timed) if each.seconds > MAX_ALONE]


def stage_table(images: int, by_vcpus: dict[int, list[Timed]]) -> str:
    """The seconds of each stage at each number of vCPUs, and what bounds it with the most.

    Then those of all stages, and of the longest stretch that one worker does alone.
    """
    rows = []
    several = [times for vcpus, times in by_vcpus.items() if vcpus > 1]
    for number, timed in enumerate(next(iter(by_vcpus.values()))):
        every = [times[number] for times in by_vcpus.values()]
        rows.append([timed.stage, *(f"{each.seconds:,.1f}" for each in every), every[-1].bound])
    total = [f"{sum(each.seconds for each in times):,.0f}" for times in by_vcpus.values()]
    rows.append(["**all stages**", *total, ""])
    alone = [max(stretches_alone(times), key=lambda each: each.seconds) for times in several]
    seconds = ["-"] * (len(by_vcpus) - len(alone)) + [f"{each.seconds:,.1f}" for each in alone]
    rows.append(["**one worker alone, longest**", *seconds, alone[-1].stages if alone else ""])
    rows.append(["a bucket's reads", *(f"{bucket_seconds(images):,.0f}" for _ in by_vcpus), ""])
    header = [f"{images:,} images", *(f"{vcpus} vCPU" for vcpus in by_vcpus), "bound by"]
    return markdown_table(header, rows)
