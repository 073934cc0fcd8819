"""What a conversion costs on Dataflow: requests, worker hours, shuffle, and their list prices.

The prices are those of the region us-central1, in US dollars. Those of Dataflow are the ones of
Beam's own cost benchmark (`apache_beam.testing.load_tests.dataflow_cost_consts`, Beam 2.77), those
of Cloud Storage are from its page of pricing examples.
"""

from __future__ import annotations

from typing import NamedTuple

from report import markdown_table

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
        idle_hours: vCPU-hours while workers start and stop.
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
    # Cutting the list into ranges takes up to 0.3 requests for 1,000 names.
    listings = int(1.3 * images / 1000) + 2 * shards
    reads = images + _SHARD_READS * shards
    writes = listings + parts + _SHARD_WRITES * shards
    busy = images * (_CONVERT + _PLAN) / 3600
    idle = workers * _VCPUS * _IDLE_SECONDS / 3600
    shuffle = images * _SHUFFLED / 1e9
    hours = busy + idle
    dollars = (
        hours * (VCPU_HOUR + _VCPU_MEMORY * GB_HOUR)
        + hours / _VCPUS * _WORKER_DISK * DISK_GB_HOUR
        + shuffle * SHUFFLE_GB
        + reads * READ_REQUEST
        + writes * WRITE_REQUEST
    )
    minutes = 60 * hours / (workers * _VCPUS)
    return Costs(images, workers, minutes, reads, writes, busy, idle, shuffle, dollars)


def costs_table() -> str:
    """The costs of three sizes, as docs/dataflow.md has them."""
    every = [costs_of(*size) for size in ((1_280_000, 8), (10_000_000, 25), (100_000_000, 200))]
    rows = [
        ["workers of 4 vCPUs", *(f"{each.workers}" for each in every)],
        ["minutes, all workers at work", *(f"{each.minutes:.0f}" for each in every)],
        ["vCPU-hours at work", *(f"{each.busy_hours:,.1f}" for each in every)],
        ["vCPU-hours idle at both ends", *(f"{each.idle_hours:,.1f}" for each in every)],
        ["requests billed as reads", *(f"{each.read_requests:,}" for each in every)],
        ["requests billed as writes", *(f"{each.write_requests:,}" for each in every)],
        ["shuffle, GB", *(f"{each.shuffle_gb:.1f}" for each in every)],
        ["**US dollars**", *(f"**{each.dollars:,.2f}**" for each in every)],
    ]
    return markdown_table(["", *(f"{each.images:,} images" for each in every)], rows)
