"""What a conversion costs on Dataflow: requests, worker hours, shuffle, and their list prices.

The prices are those of the region us-central1, in US dollars. Those of Dataflow are the ones of
Beam's own cost benchmark (`apache_beam.testing.load_tests.dataflow_cost_consts`, Beam 2.77), those
of Cloud Storage are from its page of pricing examples.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import markdown_table
from simulation import bucket_seconds

from tests.servers.listed_names import in_classes, listing_rounds

PRICES_OF = "November 2026"

# US dollars.
VCPU_HOUR = 0.056
GB_HOUR = 0.003557
DISK_GB_HOUR = 0.000054
SHUFFLE_GB = 0.011
WRITE_REQUEST = 0.005 / 1000  # class A: list, write, rewrite
READ_REQUEST = 0.0004 / 1000  # class B: get; removing is free

IMAGE_BYTES = 110_000
_SHARD_BYTES = 150_000_000
_MAX_SHARDS = 99_999

# Seconds of a vCPU, which is half a core: measured on a core, doubled.
_CONVERT = 2 * 2.5e-3
_PLAN = 2 * 31e-6

# Seconds in which all workers exist without work: they start, and stop at the end.
_IDLE_SECONDS = 300

_SHUFFLED = 454  # bytes of an image
_VCPUS = 4  # of an n2-standard-4
_VCPU_MEMORY = 4  # GB
_WORKER_DISK = 30  # GB

# Requests of a shard: one for every part of 8 MB, its start and its sidecar, and the move.
_PART_BYTES = 8 << 20
_SHARD_WRITES = 5
_SHARD_READS = 8


class Costs(NamedTuple):
    """What a conversion needs, and its price.

    Attributes:
        images: of the dataset.
        workers: of four vCPUs each.
        minutes: of the job, from the start of the workers to their end.
        read_requests: that are billed as reads.
        write_requests: that are billed as writes, also listings.
        busy_hours: vCPU-hours of work.
        idle_hours: vCPU-hours while workers start, wait for the bucket, and stop.
        shuffle_gb: written and read.
        dollars: of all of it.
    """

    images: int
    workers: int
    minutes: float
    read_requests: int
    write_requests: int
    busy_hours: float
    idle_hours: float
    shuffle_gb: float
    dollars: float


def costs_of(images: int, workers: int) -> Costs:
    """The costs of a conversion.

    Args:
        images: of 110 KB each.
        workers: machines with four vCPUs.
    """
    total = images * IMAGE_BYTES
    shards = max(1, min(_MAX_SHARDS, -(-total // _SHARD_BYTES)))
    parts = shards * -(-(total // shards) // _PART_BYTES)
    rounds = listing_rounds(in_classes(images))
    requests = sum(each.pages + each.probes for ranges in rounds for each in ranges)
    # Publishing lists the output folder twice.
    listings = requests + 2 * (2 * shards // 1000 + 1)
    reads = images + _SHARD_READS * shards
    writes = listings + parts + _SHARD_WRITES * shards
    busy = images * (_CONVERT + _PLAN) / 3600
    seconds = max(busy * 3600 / (workers * _VCPUS), bucket_seconds(reads)) + _IDLE_SECONDS
    idle = workers * _VCPUS * seconds / 3600 - busy
    shuffle = images * _SHUFFLED / 1e9
    hours = busy + idle
    dollars = (
        hours * (VCPU_HOUR + _VCPU_MEMORY * GB_HOUR)
        + hours / _VCPUS * _WORKER_DISK * DISK_GB_HOUR
        + shuffle * SHUFFLE_GB
        + reads * READ_REQUEST
        + writes * WRITE_REQUEST
    )
    return Costs(images, workers, seconds / 60, reads, writes, busy, idle, shuffle, dollars)


def costs_table() -> str:
    """The costs of three sizes, as docs/dataflow.md has them."""
    every = [costs_of(*size) for size in ((1_280_000, 8), (10_000_000, 10), (100_000_000, 25))]
    rows = [
        ["workers of 4 vCPUs", *(f"{each.workers}" for each in every)],
        ["minutes, with a bucket that was idle", *(f"{each.minutes:.0f}" for each in every)],
        ["vCPU-hours at work", *(f"{each.busy_hours:,.1f}" for each in every)],
        ["vCPU-hours idle: both ends, bucket", *(f"{each.idle_hours:,.1f}" for each in every)],
        ["requests billed as reads", *(f"{each.read_requests:,}" for each in every)],
        ["requests billed as writes", *(f"{each.write_requests:,}" for each in every)],
        ["shuffle, GB", *(f"{each.shuffle_gb:.1f}" for each in every)],
        ["**US dollars**", *(f"**{each.dollars:,.2f}**" for each in every)],
    ]
    return markdown_table(["", *(f"{each.images:,} images" for each in every)], rows)
