"""Runs a graph, in this process, in several, or elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import re
import shlex
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)

from pipeline.errors import (
    DatasetError,
    RejectedError,
    UsageError,
    show_plain_warnings,
    shows_logs,
)
from pipeline.graph import build
from pipeline.options.beam_flags import DECIDE_WORKERS, DEFAULT_RUNNER, flag_name, has_local_workers
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.preflight import check_former, check_writable
from pipeline.resolve.samples import JobSize
from pipeline.run.beam_compat import (
    flush_buffers_by_size,
    log_warnings_of_workers,
    packages_left_out,
)
from pipeline.run.lock import hold_output
from pipeline.run.progress import poll_metrics, read_counters, show_progress
from pipeline.run.supervise import wait_for_lost_worker
from transforms.core.machine import (
    PROCESSES_VARIABLE,
    scratch_folder,
    share_of_cores,
    temporary_files_in,
    usable_cores,
    usable_memory,
)
from transforms.core.messages import (
    ChangedError,
    Decision,
    FinalError,
    LabelsError,
    TransientError,
    WriteError,
    one_line,
    printable,
    redacted,
)
from transforms.dataset.ledger import LedgerError
from transforms.dataset.manifest import ManifestError
from transforms.dataset.output_names import MANIFEST, OUTCOME, STAGING, ForeignNameError
from transforms.labels.shards import shard_count
from transforms.records.image_origins import SMALL
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.metrics import UP_TO_DATE
from transforms.storage.output_changes import remove_staging

_LOGGER = logging.getLogger(__name__)

# How many worker processes a local run gets, and Beam's runner with that many.

# The cores that one process uses: its threads take turns with Python, 0.25 ms for each image. For
# small images, they do little else.
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
    if cores == 1 or fits_one or not DECIDE_WORKERS.isdisjoint(names):
        return 1, ()
    size = config.sampled
    if not config.images:
        # Rows list the images.
        files = (storage_of(path).find(path) for path in config.csv_paths)
        size = JobSize(sum(file.size for file in files if file is not None) // _ROW_BYTES)
    count = choose_workers(size, cores, usable_memory(), shards=_shards(config, size))
    if count == 1:
        return 1, ()
    because = f"{size}; {share_of_cores(cores, count)} of {cores} cores for each"
    return count, (Decision("workers", f"{count} processes", because, "--workers"),)


def choose_workers(size: JobSize, cores: int, memory: int | None, *, shards: int | None) -> int:
    """The number of worker processes for a job that converts images.

    Each has at least four cores, or one for small images and a known number of shards, and 1 GB
    of memory. There are no more workers than shards, and no more than finish them in the same
    number of turns. 1 means that they are not worth their start.

    Args:
        size: of the job.
        cores: that the run may use, see `usable_cores`.
        memory: bytes that it may use; None if unknown.
        shards: of the dataset; None if that is not known yet.
    """
    seconds = max(size.images * _SECONDS_OF_IMAGE, size.bytes / _BYTES_PER_SECOND)
    if seconds < _WORTH_SECONDS:
        return 1
    # Without more shards than one, the other workers would have nothing to do.
    is_small = shards is not None and 0 < size.bytes <= size.images * SMALL
    count = cores if is_small else cores // _CORES_OF_PROCESS
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
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
    from apache_beam.runners.portability.portable_runner import JobServiceHandle
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    log_warnings_of_workers()
    words = [sys.executable, "-m", "pipeline.run.beam_compat", *packages_left_out()]
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


def _shards(config: ConvertConfig, size: JobSize) -> int | None:
    """The fewest shards that the dataset can have; None if that is not known yet."""
    if config.shards.num_shards is None and not size.is_all:
        return None
    splits = max(1, len(config.shard_plan.splits))
    shards = shard_count(
        size.bytes, size.images, shard_size=config.shards.size, num_shards=config.shards.num_shards
    )
    return shards * splits if config.shards.num_shards is not None else max(shards, splits)


# The options of Beam for a job of one command, quick to look up.

_View = TypeVar("_View", bound=PipelineOptions)


class JobOptions(PipelineOptions):
    """Options whose views are made once.

    Beam requests several views for each step of a graph, and makes an argument parser for each of
    them: that is half of the time to construct a graph.
    """

    def view_as(self, cls: type[_View]) -> _View:
        """The view of one class of options. All views share the values."""
        # Setting an attribute would set an option.
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        found: _View = views[cls]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """The state without the views, which are made again when they are needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_views"}


# The buffers between Beam's runner and its workers; a timer must not flush them.

_LIMIT = re.compile(r"\bdata_buffer_time_limit_ms=(?P<ms>[^,\s]*)")


def make_buffers_sound(options: PipelineOptions) -> None:
    """Turns off the timer that flushes the buffers of elements, in this process.

    Beam's `TimeBasedBufferingClosableOutputStream` reads and clears a buffer in its own thread
    while the step that fills it continues: bytes written in between are lost, and an element that
    is cut makes the reader decode other bytes (docs/development/beam_data_buffer.md). Workers in
    other processes have no timer unless the option `data_buffer_time_limit_ms` gives them one.

    Args:
        options: of the run.

    Raises:
        UsageError: the options give the workers a timer.
    """
    given = [*(options.view_as(DebugOptions).experiments or [])]
    given.append(options.view_as(PortableOptions).environment_config or "")
    for text in given:
        if (limit := _LIMIT.search(str(text))) and limit["ms"] not in ("", "0"):
            raise UsageError(
                f"{limit[0]} is refused: Beam loses elements when a timer flushes its buffers "
                "(docs/development/beam_data_buffer.md); leave it out"
            )
    flush_buffers_by_size()


# Runs a graph: runner, progress, outcome, and failures in one line.

# Beam's message about a failed job with the runner in another process.
_PORTABLE_FAILURE = re.compile(r"Pipeline \S+ failed in state \w+: (?P<why>.*)", re.DOTALL)
_PYTHON_ERROR = re.compile(r"(?:[a-z_]\w*\.)*(?P<name>[A-Z]\w*(?:Error|Exception)): (?P<text>.+)")
# Exceptions with a message for users: what failed, where, and what to do.
_TOLD = {
    error.__name__
    for error in (
        *(OSError, FileNotFoundError, FileExistsError, PermissionError, TimeoutError),
        *(ConnectionError, TransientError, WriteError, FinalError, ChangedError, ForeignNameError),
        *(BeamIOError, LedgerError, LabelsError),
    )
}


# What the error of a worker process on this machine holds.
_TRACEBACK = "Traceback (most recent call last)"

# Beam's error when a worker process ends in the middle of its work.
_LOST_WORKER = "Channel closed prematurely."


def run_pipeline(
    construct: Callable[[beam.Pipeline], Any],
    beam_flags: Sequence[str],
    *,
    progress: str,
    left: str = "nothing published",
    workers: int = 1,
) -> dict[str, int]:
    """Constructs a graph and runs it to its end.

    Args:
        construct: applies the transforms.
        beam_flags: options of Beam.
        progress: see `show_progress`.
        left: what a failure message says about the output.
        workers: processes of the default runner; 1 for none other than this.

    Returns:
        the project's counters, empty when the runner gives none.

    Raises:
        DatasetError: it fails for a reason that fits in one line.
    """
    options = _options(beam_flags, workers=workers)
    if not shows_logs():
        # We get the exception itself; Beam also logs it, several times.
        logging.getLogger("apache_beam.runners").setLevel(logging.CRITICAL)
        # Beam logs a warning for every start and stop of a job server.
        logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)
        # Portable runners log with the root logger, an error with all of its remote traceback.
        logging.getLogger().addFilter(lambda record: "apache_beam" not in record.pathname)
        show_plain_warnings()
    # Beam makes a folder, which a killed run would leave behind.
    with scratch_folder() as scratch:
        try:
            with temporary_files_in(scratch):
                runner = runner_with(options) if workers > 1 else None
                pipeline = beam.Pipeline(runner=runner, options=options)
        except ValueError as error:
            raise UsageError(" ".join(str(error).split())) from error
        construct(pipeline)
        try:
            with show_progress(progress), machine_shared(options, workers):
                result = pipeline.run()
                is_polled = progress != "off" and not has_local_workers(beam_flags)
                with poll_metrics(lambda: read_counters(result)) if is_polled else nullcontext():
                    _wait_for(result, options)
        except Exception as error:
            _raise_known(error, left)
            raise
    return _final_counters(result)


def _wait_for(result: Any, options: PipelineOptions) -> None:
    """Waits until a job ends; prints the URL of one of Dataflow, whose log of Beam is muted."""
    # Making a template describes a job without starting one.
    if not getattr(result, "has_job", False):
        result.wait_until_finish()
        return
    cloud = options.view_as(GoogleCloudOptions)
    jobs = f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}"
    link = f"{jobs}/{result.job_id()}?project={cloud.project}"
    print(f"job      {link}", file=sys.stderr)
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped waiting, but the job continues: cancel it at {link}"
        ) from None


def _options(beam_flags: Sequence[str], *, workers: int) -> PipelineOptions:
    """The options of Beam.

    Raises:
        UsageError: see `make_buffers_sound`.
    """
    options = JobOptions(list(beam_flags))
    standard = options.view_as(StandardOptions)
    if not standard.runner:
        standard.runner = DEFAULT_RUNNER
    if workers > 1:
        options.view_as(DirectOptions).direct_num_workers = workers
    # Everything that is pickled is in an importable package.
    options.view_as(SetupOptions).save_main_session = False
    make_buffers_sound(options)
    return options


def _final_counters(result: Any) -> dict[str, int]:
    if not getattr(result, "has_job", True):
        # The run only made a template.
        return {}
    try:
        return read_counters(result)
    except Exception as error:
        # The job is done; missing counters are not a failure.
        reason = printable(redacted(one_line(error)))
        print(f"the runner gives no metrics: {reason}", file=sys.stderr)
        return {}


def _raise_known(error: Exception, left: str) -> None:
    """Raises a one-line error if the cause of the failure is known; a bug keeps its traceback.

    Beam replaces some exceptions, such as an OSError, with its own; the
    original is then its context.
    """
    cause: BaseException | None = error
    while cause is not None:
        message = str(cause).split(" [while running")[0]
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        if isinstance(cause, LabelsError):
            raise UsageError(f"{message}; {left}") from error
        if isinstance(cause, (LedgerError, ManifestError, OSError)):
            raise DatasetError(f"{message}; {left}") from error
        if type(cause).__name__ == "DataflowRuntimeException":
            reason = message.strip().splitlines()[-1].strip()
            raise DatasetError(f"the Dataflow job failed: {reason}; {left}") from error
        is_worker = isinstance(cause, RuntimeError) and _TRACEBACK in str(cause)
        if is_worker and (known := _raised(str(cause).splitlines())) and known[0] in _TOLD:
            failure = UsageError if known[0] == LabelsError.__name__ else DatasetError
            raise failure(f"{known[1]}; {left}") from error
        if isinstance(cause, RuntimeError) and str(cause) == _LOST_WORKER:
            wait_for_lost_worker()
            raise DatasetError(
                "a worker process on this machine was killed, probably because no memory was left: "
                f"run the same command again, with a lower --workers; {left}"
            ) from error
        if isinstance(cause, RuntimeError) and (failed := _PORTABLE_FAILURE.match(str(cause))):
            lines = [line.strip() for line in failed["why"].splitlines() if line.strip()]
            last = lines[-1].split(" [while running")[0] if lines else "see the engine's log"
            _, reason = _raised(lines) or ("", last)
            raise DatasetError(f"the job failed: {reason}; {left}") from error
        cause = cause.__cause__ or cause.__context__


def _raised(lines: Iterable[str]) -> tuple[str, str] | None:
    """Name and message of the last exception in a traceback, which Beam passes on as text.

    >>> _raised(["Traceback", " x", "a.b.TransientError: no answer [while running 'a']"])
    ('TransientError', 'no answer')
    """
    raised = [found for line in lines if (found := _PYTHON_ERROR.match(line))]
    return (raised[-1]["name"], raised[-1]["text"].split(" [while ")[0]) if raised else None


class Converted(NamedTuple):
    """A finished conversion.

    Attributes:
        manifest: of the published dataset.
        counters: of a job that ran elsewhere.
        up_to_date: whether the dataset was there already.
        from_records: images from the records of other datasets.
        resumed: shards that an earlier attempt wrote, and this run did not.
        written: records of the other shards, if there are any of these.
    """

    manifest: dict[str, Any]
    counters: dict[str, int]
    up_to_date: bool
    from_records: int = 0
    resumed: int = 0
    written: int = 0


def convert(
    config: ConvertConfig,
    beam_flags: Sequence[str],
    *,
    progress: str,
    before: Callable[[Sequence[Decision]], None] = lambda _: None,
) -> Converted:
    """Runs a conversion.

    Args:
        config: what to convert.
        beam_flags: options of Beam.
        progress: see `show_progress`.
        before: called when the output folder is locked, before the job starts; gets the decisions
            for a new dataset.

    Raises:
        RejectedError: more images were rejected than allowed.
        UsageError: the output folder holds another dataset.
        DatasetError: the run failed.
    """
    with hold_output(config.folder.output) as run:
        config = dataclasses.replace(config, run=run)
        # Another run may have ended before the folder was locked.
        is_finished = check_former(config)
        check_writable(config)
        workers, decided = decide_workers(config, beam_flags, is_finished=is_finished)
        before(() if is_finished else (*config.decisions, *decided))
        manifest, counters = _convert(config, beam_flags, progress=progress, workers=workers)
    # Without a lock, only the job itself knows. Not every runner has counters.
    verdict = counters.pop(UP_TO_DATE, 0) > 0 if counters else is_finished
    is_local = has_local_workers(beam_flags)
    counts = (
        counters.get(name, 0) for name in ("images_reused", "shards_reused", "images_written")
    )
    return Converted(manifest, {} if is_local else counters, verdict, *counts)


def _convert(
    config: ConvertConfig, beam_flags: Sequence[str], *, progress: str, workers: int
) -> tuple[dict[str, Any], dict[str, int]]:
    """The manifest, and the counters of the job."""
    outcome = join(config.folder.output, STAGING, OUTCOME)
    storage = storage_of(outcome)
    storage.remove(outcome)
    try:
        counters = run_pipeline(
            lambda p: build(p, config), beam_flags, progress=progress, workers=workers
        )
    except Exception as error:
        text = None
        # An unreachable bucket must not hide why the run failed.
        with contextlib.suppress(OSError):
            text = storage.read_text(outcome)
        if text is None:
            raise
        result = json.loads(text)
        if result["status"] in ("too_many_rejected", "warned", "nothing_selected"):
            storage.remove(outcome)
        else:
            # Staged files are not needed once the dataset is finished.
            remove_staging(config.folder.output, config.run)
        failure = RejectedError if result["status"] == "too_many_rejected" else UsageError
        raise failure(result["message"]) from error
    path = join(config.folder.output, MANIFEST)
    manifest = read_manifest(path)
    if manifest is None:
        raise DatasetError(f"the run ended, but there is no {path}: see the runner's log")
    return manifest, counters


# The folder in which workers leave what a command prints.


@contextlib.contextmanager
def results_path(command: str, beam_flags: Sequence[str]) -> Iterator[str]:
    """The path of a file that the workers and this machine can access; it is removed at the end.

    Args:
        command: its name, for messages.
        beam_flags: options of Beam.

    Raises:
        UsageError: there is no such folder.
    """
    with scratch_folder() as folder:
        if not has_local_workers(beam_flags):
            options = PipelineOptions(list(beam_flags))
            folder = options.view_as(GoogleCloudOptions).temp_location
        if not folder:
            raise UsageError(
                f"{command} needs --temp_location with this --runner: a folder for results, which "
                "the workers and this machine can access"
            )
        path = join(folder, f"{command}-{uuid.uuid4().hex}")
        yield path
        storage_of(path).remove(path)
