"""How many worker processes a local run gets, and Beam's runner with that many."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

import pipeline
import transforms
from pipeline.options.beam_flags import DECIDE_WORKERS, flag_name
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.samples import JobSize
from pipeline.run.beam_import import packages_left_out
from transforms.core.machine import PROCESSES_VARIABLE, share_of_cores, usable_cores, usable_memory
from transforms.core.messages import Decision
from transforms.labels.shards import shard_count
from transforms.storage.files import storage_of

_LOGGER = logging.getLogger(__name__)

# Where records of our logs come from; Beam has a folder `transforms`, too.
_OURS = tuple(f"{folder}{os.sep}" for each in (pipeline, transforms) for folder in each.__path__)

# Below, one process uses the cores well.
_FROM_CORES = 8

# The cores that one process uses: its threads take turns with Python, 0.25 ms for each image.
_CORES_OF_PROCESS = 4

# Bytes of memory of a worker, with TensorFlow, which some images need for their check.
_BYTES_OF_PROCESS = 1 << 30

# What one process converts at most: seconds of Python for an image, and bytes that its one writing
# thread checks and writes in a second.
_SECONDS_OF_IMAGE = 250e-6
_BYTES_PER_SECOND = 800e6

# Starting processes takes about two seconds, which more processes then have to save.
_WORTH_SECONDS = 5.0

# Bytes of a row that names an image, to estimate the images of a CSV from its size.
_ROW_BYTES = 64


def decide_workers(
    config: ConvertConfig, beam_flags: Sequence[str], *, is_finished: bool
) -> tuple[int, tuple[Decision, ...]]:
    """The worker processes for a conversion: their number, and a decision to report.

    Args:
        config: what to convert.
        beam_flags: options of Beam; one that chooses a runner or its workers decides alone.
        is_finished: whether the dataset is there, and the run probably finds nothing to do.
    """
    if config.workers is not None:
        return config.workers, ()
    cores = usable_cores()
    # A model already uses all cores from one process, and rows are converted from one shuffle.
    fits_one = is_finished or config.embedding is not None or config.of_rows
    names = {flag_name(word) for word in beam_flags if word.startswith("--")}
    if cores < _FROM_CORES or fits_one or not DECIDE_WORKERS.isdisjoint(names):
        return 1, ()
    size = _job_size(config)
    count = choose_workers(size, cores, usable_memory(), shards=_shards(config, size))
    if count == 1:
        return 1, ()
    because = f"{size}; {share_of_cores(cores, count)} of {cores} cores for each"
    return count, (Decision("workers", f"{count} processes", because, "--workers"),)


def choose_workers(size: JobSize, cores: int, memory: int | None, *, shards: int | None) -> int:
    """The number of worker processes for a job that converts images.

    Each has at least four cores and 1 GB of memory. There are no more workers than shards, and
    no more than finish them in the same number of turns. 1 means that they are not worth their
    start.

    Args:
        size: of the job.
        cores: that the run may use, see `usable_cores`.
        memory: bytes that it may use; None if unknown.
        shards: of the dataset; None if that is not known yet.
    """
    seconds = max(size.images * _SECONDS_OF_IMAGE, size.bytes / _BYTES_PER_SECOND)
    if seconds < _WORTH_SECONDS:
        return 1
    count = cores // _CORES_OF_PROCESS
    if memory is not None:
        count = min(count, memory // _BYTES_OF_PROCESS)
    if shards is not None and count > 0:
        turns = -(-shards // min(count, shards))
        count = -(-shards // turns)
    return max(1, count)


def runner_with(options: PipelineOptions) -> Any:
    """Beam's in-process runner, with worker processes that start in half of the usual time.

    Unlike those of `--direct_running_mode multi_processing`, they get the options of the run, with
    which file systems such as `s3://` are set up.

    Args:
        options: of the run; `direct_num_workers` is the number of processes.
    """
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability import local_job_service
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
    from apache_beam.runners.portability.portable_runner import JobServiceHandle
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    service = _logging_service()
    service.shown = set()
    vars(local_job_service)["BeamFnLoggingServicer"] = service
    words = [sys.executable, "-m", "pipeline.run.worker_process", *packages_left_out()]
    # Without a shell in between, the exit code tells which signal ended a worker.
    command = f"exec {shlex.join(words)}"
    given = JobServiceHandle.encode_pipeline_options(options.get_all_options(drop_default=True))
    return FnApiRunner(
        default_environment=SubprocessSDKEnvironment.from_command_string(command_string=command),
        provision_info=ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(
                retrieval_token="no artifacts", pipeline_options=given
            )
        ),
    )


@functools.cache
def _logging_service() -> Any:
    """Beam's service for the logs of worker processes, which also shows our warnings.

    Beam logs all of them as its own, which only `-v` shows.
    """
    from apache_beam.runners.portability.local_job_service import BeamFnLoggingServicer

    class Service(BeamFnLoggingServicer):
        """Shows each line once, however many processes log it."""

        shown: set[str]

        def Logging(self, log_messages: Iterable[Any], context: Any = None) -> Any:
            return super().Logging(show_warnings(log_messages, self.shown), context)

    return Service


def show_warnings(bundles: Iterable[Any], shown: set[str]) -> Iterator[Any]:
    """Logs the warnings of our modules, and passes all bundles of entries on.

    Args:
        bundles: of log entries of worker processes.
        shown: the lines that were logged already; gets those that are.
    """
    from apache_beam.portability.api import beam_fn_api_pb2

    for bundle in bundles:
        for entry in bundle.log_entries:
            is_warning = entry.severity >= beam_fn_api_pb2.LogEntry.Severity.WARN
            is_ours = entry.log_location.startswith(_OURS)
            if is_warning and is_ours and entry.message not in shown:
                shown.add(entry.message)
                _LOGGER.warning("%s", entry.message)
        yield bundle


@contextlib.contextmanager
def machine_shared(options: PipelineOptions, workers: int) -> Iterator[None]:
    """Lets worker processes that are started in the block know how many they are.

    Args:
        options: of the run; those of Beam can also request worker processes.
        workers: of `runner_with`, or 1.
    """
    direct = options.view_as(DirectOptions)
    has_own = direct.direct_running_mode == "multi_processing"
    processes = (direct.direct_num_workers or usable_cores()) if has_own else workers
    former = os.environ.get(PROCESSES_VARIABLE)
    os.environ[PROCESSES_VARIABLE] = str(processes)
    try:
        yield
    finally:
        del os.environ[PROCESSES_VARIABLE]
        if former is not None:
            os.environ[PROCESSES_VARIABLE] = former


def _job_size(config: ConvertConfig) -> JobSize:
    """The size of the job: of the listed sample, or an estimate from the rows that list images."""
    if config.images:
        return config.sampled
    files = (storage_of(path).find(path) for path in config.csv_paths)
    rows = sum(file.size for file in files if file is not None) // _ROW_BYTES
    return JobSize(images=rows)


def _shards(config: ConvertConfig, size: JobSize) -> int | None:
    """The fewest shards that the dataset can have; None if that is not known yet."""
    if config.shards.num_shards is None and not size.is_all:
        return None
    splits = max(1, len(config.shard_plan.splits))
    shards = shard_count(
        size.bytes, size.images, shard_size=config.shards.size, num_shards=config.shards.num_shards
    )
    return shards * splits if config.shards.num_shards is not None else max(shards, splits)
