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

from tests.servers.listed_names import PAGE, ListedRange, in_classes, listing_rounds

# Seconds in which a worker may be the only one with work.
MAX_ALONE = 120.0

_READERS = 32  # requests that a worker process sends at once
_LEVELS = 6  # searches that follow each other when a list is cut
_FIRST_RATE = 5000  # reads a second that a bucket allows at first
_DOUBLES = 1200  # seconds after which it allows twice as many
_MAX_SHARDS = 99_999
_SHARD_BYTES = 150_000_000


class Costs(NamedTuple):
    """Seconds of a vCPU, measured on a core and doubled: a vCPU is half a core.

    `stage_costs.py` measures `move_shard`, `publish_shard` and `total_class`.

    Attributes:
        list_name: to list a name in a page.
        join_name: to join it with its label, and to assign it to a shard.
        convert_image: to read, check, encode and write it.
        compare_image: its fingerprint, grouped and compared.
        move_shard: to move a staged shard and its index, two requests each.
        publish_shard: in the one step that makes the manifest.
        total_class: to add up the totals of a class.
        image_bytes: of an image.
    """

    list_name: float = 50e-6
    join_name: float = 160e-6
    convert_image: float = 5.0e-3
    compare_image: float = 16e-6
    move_shard: float = 8.2e-3
    publish_shard: float = 92e-6
    total_class: float = 0.7e-6
    image_bytes: int = 110_000


class Elements(NamedTuple):
    """Equal elements of a stage.

    Attributes:
        count: how many.
        seconds: of a vCPU, for each.
        requests: that follow each other, for each.
        ahead: further ones that follow each other while the vCPU works.
    """

    count: int
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
    shards = max(1, min(_MAX_SHARDS, -(-images * costs.image_bytes // _SHARD_BYTES)))
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
    moves = Elements(shards, costs.move_shard, 4 / _READERS)
    return [
        *found,
        Stage("join and plan", (Elements(bundles, of_bundle * costs.join_name),)),
        Stage("add up totals", (Elements(16, classes * bundles / 16 * costs.total_class),)),
        Stage("totals of all", (Elements(1, 16 * classes * costs.total_class),)),
        Stage(
            "convert and write",
            (Elements(shards, of_shard * costs.convert_image, 5, of_shard / _READERS),),
        ),
        Stage("find duplicates", (Elements(bundles, of_bundle * costs.compare_image),)),
        Stage("check and describe", (Elements(1, shards * costs.publish_shard, 700 / _READERS),)),
        Stage("move shards", (moves,)),
        Stage("manifest", (Elements(1, shards * 50e-6, 20),)),
        Stage("remove staging", (Elements(shards, costs.move_shard / 4, 1 / _READERS),)),
    ]


def simulate(
    images: int, vcpus: Sequence[int], latency: float, costs: Costs
) -> dict[int, list[Timed]]:
    """The times of all stages, at each number of vCPUs."""
    every = stages(images, listing_rounds(in_classes(images)), costs)
    return {number: [run_stage(stage, number, latency) for stage in every] for number in vcpus}


def bucket_seconds(reads: int) -> float:
    """The seconds in which a bucket allows this many reads, from the first one on."""
    seconds, rate = 0.0, float(_FIRST_RATE)
    while reads > rate * _DOUBLES:
        reads -= int(rate * _DOUBLES)
        seconds += _DOUBLES
        rate *= 2
    return seconds + reads / rate


def too_long_alone(timed: Sequence[Timed]) -> list[Timed]:
    """The stages in which one worker works alone for too long, although there are others."""
    return [each for each in timed if each.alone > MAX_ALONE]


def stage_table(images: int, by_vcpus: dict[int, list[Timed]]) -> str:
    """The seconds of each stage at each number of vCPUs, and what bounds it with the most."""
    rows = []
    for number, timed in enumerate(next(iter(by_vcpus.values()))):
        every = [times[number] for times in by_vcpus.values()]
        rows.append([timed.stage, *(f"{each.seconds:,.1f}" for each in every), every[-1].bound])
    total = [f"{sum(each.seconds for each in times):,.0f}" for times in by_vcpus.values()]
    rows.append(["**all stages**", *total, ""])
    rows.append(["a bucket's reads", *(f"{bucket_seconds(images):,.0f}" for _ in by_vcpus), ""])
    header = [f"{images:,} images", *(f"{vcpus} vCPU" for vcpus in by_vcpus), "bound by"]
    return markdown_table(header, rows)
