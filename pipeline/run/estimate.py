"""How long a conversion takes on this machine, from a sample of its images; on Dataflow, its price.

The prices are those of the region us-central1, in US dollars. Those of Dataflow are the ones of
Beam's own cost benchmark (`apache_beam.testing.load_tests.dataflow_cost_consts`, Beam 2.77), those
of Cloud Storage are from its page of pricing examples.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, WorkerOptions

from pipeline.graph import converter_of
from pipeline.options.beam_flags import DECIDE_WORKERS, DEFAULT_RUNNER, flag_name, runner_of
from pipeline.resolve.config import ConvertConfig
from pipeline.run.launch import decide_workers
from transforms.core.machine import usable_cores
from transforms.core.messages import quantity
from transforms.core.records import PlannedImage
from transforms.write_shards import make_records

# What a sample of the images takes on this machine.

# Seconds after which no further images are taken; the first ones import and start what decodes.
_ENOUGH_SECONDS = 2.0
_FIRST = 8

# Images of a dataset below which its conversion mostly starts and ends.
_LEAST = 100

# Seconds of an image after its shard is written: its entry in the index and its fingerprints.
_LATER = 40e-6

# Seconds of the end of a run, and of the start of several worker processes.
_END = 0.8
_START = 3.0

# A sample is not like the dataset if the bytes of its images differ from the others by more.
_ALIKE = 1.3

# Images in one process, their bytes, wall time with all threads, and seconds of a core.
Sampled: TypeAlias = tuple[int, int, float, float]


def measure_sample(config: ConvertConfig, images: Sequence[PlannedImage]) -> Sampled:
    """Makes the records of a sample without writing them, for two seconds."""
    converter = converter_of(config)
    converter.setup()
    kind = "gzip" if config.files.gzip else "uncompressed"
    sink = beam.io.WriteToTFRecord("", compression_type=kind)._sink
    make_records(converter, sink, "first", images[:_FIRST])
    end, seconds = _FIRST, 0.0
    wall, cpu = time.monotonic(), time.process_time()
    # Each part is as large as all before it, so that the ends of few weigh little.
    while end < len(images) and seconds < _ENOUGH_SECONDS:
        make_records(converter, sink, "sample", images[end : 2 * end])
        end = min(2 * end, len(images))
        seconds = time.monotonic() - wall
    size = sum(image.size for image in images[_FIRST:end])
    return end - _FIRST, size, seconds, time.process_time() - cpu


def time_here(
    sampled: Sampled, images: int, size: int, *, workers: int, planned: Sequence[float]
) -> dict[str, Any]:
    """How long a conversion takes on this machine.

    Args:
        sampled: some of its images.
        images: of the dataset.
        size: bytes of all of them.
        workers: processes.
        planned: wall time and seconds of a core that planning took.

    Returns:
        wall time at least and at most, which differ if large images are rare; seconds of a core.
    """
    count, taken, seconds, cpu = sampled
    cores = usable_cores()
    # Processes share the cores.
    seconds = max(seconds / workers, cpu / cores)
    times = sorted((images / count, size / max(1, taken)))
    if times[1] < _ALIKE * times[0]:
        times = [images / count] * 2
    after = images * _LATER + _END + _START * (workers > 1)
    return {
        "seconds": [round(planned[0] + each * seconds + after, 1) for each in times],
        "cpu_seconds": round(planned[1] + times[1] * cpu + after, 1),
        "cores": cores,
        "sampled": count,
    }


# A conversion on Dataflow: vCPU-hours, shuffle and requests, and their list prices.

PRICES_OF = "November 2026"

# US dollars.
VCPU_HOUR = 0.056
GB_HOUR = 0.003557
DISK_GB_HOUR = 0.000054
SHUFFLE_GB = 0.011
WRITE_REQUEST = 0.005 / 1000  # class A: list, write, rewrite
READ_REQUEST = 0.0004 / 1000  # class B: get; removing is free

VCPUS = 4
"""Of a worker, an n2-standard-4."""

# Seconds of a vCPU, which is half a core: measured on a core, doubled. Those of a name are to read
# its row, list, join, plan and compare it, those of a shard to wait for its requests and to move
# it, with 30 ms a request; one worker alone divides the rows. `benchmarks/simulation.py` has a
# stage for each.
CONVERT = 2 * 2.5e-3
_NAME = 2 * 124e-6
_DIVIDED = 0.77e-6
_SHARD = 0.16
_LISTING = 0.045

# Seconds in which all workers exist without work: they start, and stop at the end. Less work is
# not worth another one.
_IDLE_SECONDS = 300


def listings(images: int) -> int:
    """The requests that list this many names, in pages of 1,000, of which most are cut."""
    return images // 1000 + min(images // 125, 8000)


def work_seconds(images: int, shards: int, convert: float = CONVERT) -> float:
    """The seconds of a vCPU that a conversion takes, which all workers share."""
    return images * (convert + _NAME) + shards * _SHARD + listings(images) * _LISTING


def job_seconds(images: int, shards: int, vcpus: int, convert: float = CONVERT) -> float:
    """The seconds of the stages of a conversion that nothing but its vCPUs bounds."""
    # At the end, one worker describes the shards while the others wait.
    alone = images * _DIVIDED + shards * 1.6e-3 + 20
    return work_seconds(images, shards, convert) / vcpus + alone


def bucket_seconds(reads: int) -> float:
    """The seconds in which a bucket allows this many reads, from the first one on.

    It allows 5,000 a second at first, and twice as many after every 20 minutes.
    """
    seconds, rate = 0.0, 5000
    while reads > rate * 1200:
        reads -= rate * 1200
        seconds += 1200
        rate *= 2
    return seconds + reads / rate


def dataflow_costs(
    images: int, size: int, shards: int, workers: int | None = None, convert: float = CONVERT
) -> dict[str, Any]:
    """What a conversion needs on Dataflow, and its price.

    Args:
        images: of the dataset.
        size: bytes of all shards.
        shards: of the dataset.
        workers: machines; None for as many as a bucket keeps busy.
        convert: seconds of a vCPU for an image.

    Returns:
        the workers, the seconds of the job from their start to their end, requests that are billed
        as reads and as writes, vCPU-hours of work, and those in which workers start, wait for the
        bucket or each other, and stop; GB that are shuffled, dollars, and the month of the prices.
    """
    reads = images + 8 * shards
    # Of a shard: one for every part of 8 MB, its start, its sidecar and its move. Publishing lists
    # the output folder twice.
    writes = max(shards, size >> 23) + 5 * shards + listings(images) + 4 * shards // 1000 + 2
    busy, bucket = work_seconds(images, shards, convert), bucket_seconds(reads)
    workers = workers or max(1, round(busy / max(bucket, _IDLE_SECONDS) / VCPUS))
    seconds = max(job_seconds(images, shards, workers * VCPUS, convert), bucket) + _IDLE_SECONDS
    hours = workers * VCPUS * seconds / 3600
    shuffled = images * 454 / 1e9
    # With its share of 16 GB of memory and 30 GB of disk.
    vcpu = VCPU_HOUR + 4 * GB_HOUR + 7.5 * DISK_GB_HOUR
    requests = reads * READ_REQUEST + writes * WRITE_REQUEST
    return {
        "workers": workers,
        "seconds": round(seconds),
        "read_requests": reads,
        "write_requests": writes,
        "busy_hours": busy / 3600,
        "idle_hours": hours - busy / 3600,
        "shuffle_gb": shuffled,
        "dollars": round(hours * vcpu + shuffled * SHUFFLE_GB + requests, 2),
        "prices_of": PRICES_OF,
    }


# What `plan` says.


def estimated(
    config: ConvertConfig,
    beam_flags: Sequence[str],
    splits: Iterable[Sequence[int]],
    images: Sequence[PlannedImage],
    planned: Sequence[float],
) -> dict[str, Any]:
    """The time `here`, or the costs on `dataflow`, as far as they can be known.

    Args:
        config: what to convert.
        beam_flags: options of Beam.
        splits: images, shards and bytes of each.
        images: some of them, shuffled.
        planned: wall time and seconds of a core that planning took.
    """
    runner = runner_of(beam_flags)
    own = {flag_name(word) for word in beam_flags} & DECIDE_WORKERS - {"--runner"}
    # A conversion with one of these does more, or less, than a sample shows.
    more = config.files.per_image or config.embedding or config.bases
    is_known = runner in (DEFAULT_RUNNER, "DataflowRunner") and not own and not more
    if not is_known or len(images) < _LEAST:
        return {}
    try:
        sampled = measure_sample(config, images)
    except OSError:
        # A conversion says what cannot be read.
        return {}
    count, shards, size = map(sum, zip(*splits, strict=True))
    if runner == DEFAULT_RUNNER:
        workers, _ = decide_workers(config, beam_flags, is_finished=False)
        return {"here": time_here(sampled, count, size, workers=workers, planned=planned)}
    given = PipelineOptions(list(beam_flags)).view_as(WorkerOptions)
    # A vCPU is half a core.
    convert = 2 * sampled[3] / sampled[0]
    workers = given.max_num_workers or given.num_workers
    return {"dataflow": dataflow_costs(count, size, shards, workers, convert)}


def estimate_lines(
    here: Mapping[str, Any] | None = None, dataflow: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """The lines of `plan` about time and price: the results of `estimated`."""
    if here:
        span = " to ".join(dict.fromkeys(map(_rounded, here["seconds"])))
        cores, sampled = here["cores"], here["sampled"]
        yield f"time     about {span} on this machine ({cores} cores), from {sampled:,} images"
    if dataflow:
        workers, month = quantity(dataflow["workers"], "worker"), dataflow["prices_of"]
        cost = f"{_rounded(dataflow['seconds'])} and ${dataflow['dollars']:,.2f}"
        yield f"price    about {cost} on Dataflow: {workers} of {VCPUS} vCPUs, prices of {month}"


def _rounded(seconds: float) -> str:
    """Seconds to two digits, in the unit that people use.

    >>> [_rounded(each) for each in (4.26, 38.4, 754, 40_000)]
    ['4.3 s', '38 s', '13 min', '11 h']
    """
    size, unit = (1, "s") if seconds < 120 else (60, "min") if seconds < 7200 else (3600, "h")
    value = seconds / size
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
