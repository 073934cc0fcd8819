"""Running a graph: runner, progress, the outcome, and one line for what went wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
)

from pipeline.config import ConvertConfig
from pipeline.errors import DatasetError, RejectedError, UsageError, one_line
from pipeline.graph import build
from pipeline.preflight import check_former, check_writable
from pipeline.run.data_buffers import make_buffers_sound
from pipeline.run.lock import hold_output
from pipeline.run.progress import poll_metrics, read_counters, show_progress
from transforms.core.dataset.ledger import LedgerError
from transforms.core.dataset.manifest import ManifestError
from transforms.core.dataset.output_names import MANIFEST, OUTCOME, STAGING, ForeignNameError
from transforms.core.file_errors import ChangedError, FinalError, TransientError
from transforms.core.label_errors import LabelsError
from transforms.core.scratch import scratch_folder, temporary_files_in
from transforms.core.shown_text import printable, redacted
from transforms.metrics import UP_TO_DATE
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.output_changes import remove_staging

# The in-process runner. `DirectRunner` first tries to download another runner's binary.
DEFAULT_RUNNER = "FnApiRunner"

# Runners whose workers are on this machine.
_LOCAL_RUNNERS = {"FnApiRunner", "DirectRunner", "PrismRunner", "SwitchingDirectRunner"}

# What a run that did not publish, for these reasons, ends with.
_OUTCOMES = {
    "too_many_rejected": RejectedError,
    "inputs_differ": UsageError,
    "warned": UsageError,
    "damaged": UsageError,
}

# How Beam tells that a job failed whose runner is another process.
_PORTABLE_FAILURE = re.compile(r"Pipeline \S+ failed in state \w+: (?P<why>.*)", re.DOTALL)
_PYTHON_ERROR = re.compile(r"(?:[a-z_]\w*\.)*(?P<name>[A-Z]\w*(?:Error|Exception)): (?P<text>.+)")
# Exceptions whose message is for people: what failed, where, and what to do.
_TOLD = {
    error.__name__
    for error in (
        *(OSError, FileNotFoundError, FileExistsError, PermissionError, TimeoutError),
        *(ConnectionError, TransientError, FinalError, ChangedError, ForeignNameError),
        *(BeamIOError, LedgerError, LabelsError),
    )
}


def is_local_runner(options: PipelineOptions) -> bool:
    """Whether the workers are on this machine."""
    runner = options.view_as(StandardOptions).runner or DEFAULT_RUNNER
    return runner.rpartition(".")[2] in _LOCAL_RUNNERS


def run_pipeline(
    construct: Callable[[beam.Pipeline], Any],
    beam_flags: Sequence[str],
    *,
    progress: str,
    in_process: bool = False,
    left: str = "nothing published",
) -> dict[str, int]:
    """Constructs a graph and runs it to its end.

    Args:
        construct: applies the transforms.
        beam_flags: options of Beam.
        progress: see `show_progress`.
        in_process: whether to run here, whatever runner the flags name.
        left: what the message of a failure says of the output.

    Returns:
        the project's counters, empty when the runner gives none.

    Raises:
        DatasetError: when it fails for a reason that one line can tell.
    """
    with scratch_folder() as scratch:
        return _run_in(
            scratch, construct, beam_flags, progress=progress, in_process=in_process, left=left
        )


def _run_in(
    scratch: str,
    construct: Callable[[beam.Pipeline], Any],
    beam_flags: Sequence[str],
    *,
    progress: str,
    in_process: bool,
    left: str,
) -> dict[str, int]:
    options = PipelineOptions(list(beam_flags))
    standard = options.view_as(StandardOptions)
    if in_process or not standard.runner:
        standard.runner = DEFAULT_RUNNER
    # Everything that is pickled lives in an importable package.
    options.view_as(SetupOptions).save_main_session = False
    make_buffers_sound(options)
    # An exception reaches us as such; Beam also logs it, several times.
    _mute_beam()
    try:
        # Beam makes a folder, which a killed run would leave.
        with temporary_files_in(scratch):
            pipeline = beam.Pipeline(options=options)
    except ValueError as error:
        raise UsageError(" ".join(str(error).split())) from error
    construct(pipeline)
    try:
        with show_progress(progress):
            result = pipeline.run()
            link = _tell_job(result, options)
            is_watched = progress != "off" and not is_local_runner(options)
            polling = poll_metrics(lambda: read_counters(result))
            try:
                with polling if is_watched else contextlib.nullcontext():
                    result.wait_until_finish()
            except KeyboardInterrupt:
                if link is None:
                    raise
                raise KeyboardInterrupt(
                    f"no longer waiting, but the job goes on: cancel it at {link}"
                ) from None
    except Exception as error:
        _raise_told(error, left)
        raise
    return _final_counters(result)


def _final_counters(result: Any) -> dict[str, int]:
    if not getattr(result, "has_job", True):
        # A template was made.
        return {}
    try:
        return read_counters(result)
    except Exception as error:
        # The job is done; that nobody can say what it counted is no failure.
        told = printable(redacted(one_line(error)))
        print(f"the runner gives no metrics: {told}", file=sys.stderr)
        return {}


def _mute_beam() -> None:
    logging.getLogger("apache_beam.runners").setLevel(logging.CRITICAL)
    # Job servers that Beam starts: every start and stop is a warning.
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)
    # Portable runners log with the root logger, an error with all of its remote traceback.
    logging.getLogger().addFilter(_is_not_beams)


def _is_not_beams(record: logging.LogRecord) -> bool:
    return "apache_beam" not in record.pathname


def _tell_job(result: Any, options: PipelineOptions) -> str | None:
    """Says where a Dataflow job can be watched; Beam logs it, but its log is muted."""
    # A template's launch describes a job and starts none.
    if not getattr(result, "has_job", False):
        return None
    cloud = options.view_as(GoogleCloudOptions)
    jobs = f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}"
    link = f"{jobs}/{result.job_id()}?project={cloud.project}"
    print(f"job      {link}", file=sys.stderr)
    return link


def _raise_told(error: Exception, left: str) -> None:
    """Raises what one line can tell, if that is what made the run fail; a bug keeps its traceback.

    Beam raises an exception of its own making in the place of some, such as an OSError; the
    first one is then its context.
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
            told = message.strip().splitlines()[-1].strip()
            raise DatasetError(f"the Dataflow job failed: {told}; {left}") from error
        if isinstance(cause, RuntimeError) and (known := _worker_error(str(cause))):
            name, told = known
            failure = UsageError if name == LabelsError.__name__ else DatasetError
            raise failure(f"{told}; {left}") from error
        if isinstance(cause, RuntimeError) and (failed := _PORTABLE_FAILURE.match(str(cause))):
            told = _remote_error(failed["why"])
            raise DatasetError(f"the job failed: {told}; {left}") from error
        cause = cause.__cause__ or cause.__context__


def _worker_error(text: str) -> tuple[str, str] | None:
    """Name and message of what a worker process of this machine raised, if one line can tell it.

    Beam passes the worker's traceback on as a text.

    >>> head = "Traceback (most recent call last):\\n x\\n"
    >>> _worker_error(f"{head}a.b.TransientError: no answer [while running 'a']")
    ('TransientError', 'no answer')
    >>> _worker_error(f"{head}KeyError: 'a bug'") is None
    True
    """
    if "Traceback (most recent call last)" not in text:
        return None
    raised = [found for line in text.splitlines() if (found := _PYTHON_ERROR.match(line))]
    if not raised or raised[-1]["name"] not in _TOLD:
        return None
    return raised[-1]["name"], raised[-1]["text"].split(" [while ")[0]


def _remote_error(text: str) -> str:
    """The one line of a job's failure that says why: that of a worker's exception, or the last.

    >>> _remote_error("java.lang.X: received:\\n File 1\\nIOError: full [while running 'a']")
    'full'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [found for line in lines if (found := _PYTHON_ERROR.match(line))]
    told = raised[-1]["text"] if raised else lines[-1] if lines else "see the engine's log"
    return told.split(" [while running")[0]


class Converted(NamedTuple):
    """A finished conversion.

    Attributes:
        manifest: of the published dataset.
        counters: of a job that ran elsewhere.
        up_to_date: whether the dataset was there already.
    """

    manifest: dict[str, Any]
    counters: dict[str, int]
    up_to_date: bool


def convert(
    config: ConvertConfig,
    beam_flags: Sequence[str],
    *,
    progress: str,
    before: Callable[[bool], None] = lambda _: None,
) -> Converted:
    """Runs a conversion.

    Args:
        config: what to convert.
        beam_flags: options of Beam.
        progress: see `show_progress`.
        before: called when the output folder is ours and the job is about to start; gets whether a
            finished dataset is there.

    Raises:
        RejectedError: more images were rejected than may be.
        UsageError: the output folder holds another dataset.
        DatasetError: the run failed.
    """
    with hold_output(config.output) as run:
        config = dataclasses.replace(config, run=run)
        # Until the folder was ours, another run may have ended.
        is_finished = check_former(config)
        check_writable(config)
        before(is_finished)
        manifest, counters = _convert(config, beam_flags, progress=progress)
    # On file systems without a lock, only the job itself knows. Not every runner has counters.
    verdict = counters.pop(UP_TO_DATE, 0) > 0 if counters else is_finished
    is_local = is_local_runner(PipelineOptions(list(beam_flags)))
    return Converted(manifest, {} if is_local else counters, verdict)


def _convert(
    config: ConvertConfig, beam_flags: Sequence[str], *, progress: str
) -> tuple[dict[str, Any], dict[str, int]]:
    """The manifest, and the counters of the job."""
    outcome = join(config.output, STAGING, OUTCOME)
    storage = storage_of(outcome)
    storage.remove(outcome)
    try:
        counters = run_pipeline(lambda p: build(p, config), beam_flags, progress=progress)
    except Exception as error:
        text = None
        # A bucket out of reach must not hide why the run failed.
        with contextlib.suppress(OSError):
            text = storage.read_text(outcome)
        if text is None:
            raise
        told = json.loads(text)
        if told["status"] in ("too_many_rejected", "warned"):
            storage.remove(outcome)
        else:
            # Beside a finished dataset, nothing staged is worth keeping.
            remove_staging(config.output, config.run)
        raise _OUTCOMES[told["status"]](told["message"]) from error
    path = join(config.output, MANIFEST)
    manifest = read_manifest(path)
    if manifest is None:
        raise DatasetError(f"the run ended, but there is no {path}: see the runner's log")
    return manifest, counters
