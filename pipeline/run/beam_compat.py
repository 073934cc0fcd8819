"""Everything that this program replaces inside Beam, and how it imports Beam.

Each replaced name guards data or pays 5% of a run of one image. A test says of each when Beam does
not need it any more; all are of Beam 2.77.
"""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pipeline
import transforms

_LOGGER = logging.getLogger(__name__)

# Beam works without each of these: they come with its extras (gcp, dataframe) or are optional.
# Together they take half the time of `import apache_beam`, and 50 MB.
_NEVER_USED = ("bson", "pandas", "pyarrow", "pymongo")
_CLOUD = ("apache_beam.io.gcp.bigquery", "apitools", "google.api_core", "google.cloud")

# Milliseconds between two looks at what Beam's steps do. Beam waits for the next look when a stage
# ends, and with its 200 ms a stage of a second ends 0.1 s later.
_SAMPLING_MS = 5

# Where records of our logs come from; Beam has a folder `transforms`, too.
_OURS = tuple(f"{folder}{os.sep}" for each in (pipeline, transforms) for folder in each.__path__)

_left_out: list[str] = []


def import_beam(arguments: Sequence[str], beam_flags: Sequence[str] | None = None) -> None:
    """Imports `apache_beam`, without its cloud packages if no argument is a URL.

    Skipped packages can be imported normally afterwards. Imports nothing if Beam is imported
    already, as after parsing a Beam option.

    Args:
        arguments: the command line.
        beam_flags: options of Beam, with which its file systems are set up; None leaves them.
    """
    has_url = any("://" in argument for argument in arguments)
    import_beam_without(_NEVER_USED if has_url else _NEVER_USED + _CLOUD)
    if beam_flags is not None:
        configure_file_systems(beam_flags)


def import_beam_without(packages: Sequence[str]) -> None:
    """Imports `apache_beam` as if some packages were not installed, see `import_beam`.

    Args:
        packages: their names.
    """
    if "apache_beam" in sys.modules:
        return
    muted = logging.root.manager.disable
    # Of missing packages.
    logging.disable(logging.WARNING)
    # What Beam makes now lives as long as the process.
    gc.set_threshold(0)
    try:
        with _hidden(packages):
            importlib.import_module("apache_beam")
        end_stages_soon()
        keep_signatures()
    finally:
        gc.freeze()
        # Names of images are no garbage, and looking at them is a thirtieth of a run of small ones.
        gc.set_threshold(10_000)
        logging.disable(muted)
    _left_out.extend(packages)


def packages_left_out() -> tuple[str, ...]:
    """The packages that this process did not import with Beam."""
    return tuple(_left_out)


def configure_file_systems(beam_flags: Sequence[str]) -> None:
    """Gives Beam's file systems their options (`--hdfs_host`, `--s3_endpoint_url` ...) now.

    Beam does so when a pipeline is made, but flags are checked and inputs listed before; without
    any options, `s3://` and `hdfs://` cannot be listed at all.

    Args:
        beam_flags: options of Beam.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    with logging_untouched():
        FileSystems.set_options(PipelineOptions(list(beam_flags)))


@contextmanager
def logging_untouched() -> Iterator[None]:
    """Keeps Beam's `PipelineOptions` from setting up logging in this block.

    They would print every warning of a package, such as that of google.auth before it raises,
    next to our error message.
    """
    # `logging.basicConfig` does nothing where there is a handler.
    placeholder = logging.NullHandler()
    logging.root.addHandler(placeholder)
    try:
        yield
    finally:
        logging.root.removeHandler(placeholder)


@contextmanager
def _hidden(packages: Sequence[str]) -> Iterator[None]:
    """Makes imports of packages fail as if they were not installed, unless already imported.

    `beartype`, which Beam cannot do without, gets a stand-in that imports it when Beam calls it. It
    does not for the types of this package, and it takes a twentieth of the start-up.
    """
    modules: dict[str, Any] = dict.fromkeys(packages)
    modules["beartype.door"] = SimpleNamespace(is_subhint=_is_subhint)
    # For Beam, any error means that one type is no subtype of the other.
    modules["beartype.roar"] = SimpleNamespace(BeartypeDoorException=Exception)
    hidden = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _is_subhint(hint: object, other: object) -> bool:
    """`beartype.door.is_subhint`."""
    # A dependency of Beam, not of this package.
    return bool(importlib.import_module("beartype.door").is_subhint(hint, other))


def keep_signatures() -> None:
    """Makes Beam inspect each method of the steps' classes once.

    Beam 2.77 does it six times for each step before a job begins: a tenth of the CPU of a run of 40
    images.
    """
    from apache_beam.transforms import core
    from apache_beam.typehints import decorators

    kept: dict[Any, Any] = {}
    inspected = decorators.get_signature

    def get_signature(function: Any) -> Any:
        # A bound method is another object each time, and holds its step.
        method = getattr(function, "__func__", None)
        if method is None:
            return inspected(function)
        if method not in kept:
            kept[method] = inspected(function)
        return kept[method]

    core.get_signature = decorators.get_signature = get_signature


def end_stages_soon() -> None:
    """Makes Beam sample its steps more often, so that a stage does not wait when it ends.

    Nothing in Beam's options sets this period. Another Beam may not have it; that one waits.
    """
    from apache_beam.runners.worker import statesampler

    init = statesampler.StateSampler.__init__
    if init.__defaults__ == (getattr(statesampler, "DEFAULT_SAMPLING_PERIOD_MS", None),):
        init.__defaults__ = (_SAMPLING_MS,)


def flush_buffers_by_size() -> None:
    """Makes the in-process runner use buffers of elements that only their writer flushes, by size.

    It flushes them by a timer otherwise, in all modes except the default, with a limit of a second:
    bytes that are written meanwhile are lost, see `make_buffers_sound` in `pipeline.run.launch`.
    """
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0


def log_warnings_of_workers() -> None:
    """Makes Beam's service for the logs of worker processes show our warnings, each line once.

    Beam logs all of them as its own, which only `-v` shows. Lines that were shown may come again.
    """
    from apache_beam.runners.portability import local_job_service

    service = _logging_service()
    service.shown = set()
    vars(local_job_service)["BeamFnLoggingServicer"] = service


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


def main() -> None:
    """A worker process of `--workers`: Beam's own, without the packages that the run does not need.

    `python -m pipeline.run.beam_compat PACKAGE...` runs until the launcher ends it. The words name
    the packages that the launcher did not import with Beam.
    """
    # A handler for standard error would repeat what the launcher gets, at every level.
    with logging_untouched():
        import_beam_without(sys.argv[1:])
    from apache_beam.runners.worker import sdk_worker, sdk_worker_main

    # Beam prints the traceback of every error here, in which an address may have a secret. The
    # launcher gets it, too, and shows one line if the error is a known one.
    vars(sdk_worker)["print"] = lambda *_, **__: None
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
