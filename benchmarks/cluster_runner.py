"""Runs a graph as several machines would, and counts what crosses each shuffle.

Beam's in-process runner with worker processes is the engine: its shuffle is in the memory of this
process, where each element and each group is counted. Steps that only pay off on several machines
are used, since the runner has another name than Beam's own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import apache_beam as beam
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, execution
from apache_beam.runners.portability.fn_api_runner.translations import split_buffer_id
from measure import read_memory

# Beam's limits for one element and for the values of one key, in bytes.
MAX_ELEMENT = 100_000_000
MAX_GROUP = 1_000_000_000

_WORKER = "pipeline.run.beam_compat"
_BENCHMARKS = Path(__file__).resolve().parent
_PERIOD = 0.1  # seconds between samples of memory


class ClusterRunner(FnApiRunner):
    """Beam's in-process runner, which the steps take for another."""


class Crossed(NamedTuple):
    """What crossed one shuffle, encoded.

    Attributes:
        step: the name of the GroupByKey or of the combiner.
        elements: their number.
        bytes: of all elements.
        largest_element: bytes of the largest element.
        groups: different keys.
        largest_group: bytes of all elements of one key, at most.
    """

    step: str
    elements: int
    bytes: int
    largest_element: int
    groups: int
    largest_group: int


class Ran(NamedTuple):
    """How a graph ran.

    Attributes:
        seconds: wall time.
        launcher_bytes: peak memory of the launcher, up to the submission of the job.
        worker_bytes: peak memory of each worker process; none if it ran in this process.
        engine_bytes: peak memory of this process, which held all that was shuffled.
        crossed: what crossed each shuffle.
    """

    seconds: float
    launcher_bytes: int
    worker_bytes: list[int]
    engine_bytes: int
    crossed: list[Crossed]


class _CountedBuffer(execution.GroupingBuffer):
    """A buffer of a shuffle that counts; see `_counting`."""

    sizes: dict[bytes, int]
    totals: Counter[str]

    def append(self, elements_data: bytes) -> None:
        stream = create_InputStream(elements_data)
        coder, key_coder = self._pre_grouped_coder.get_impl(), self._key_coder.get_impl()
        while (left := stream.size()) > 0:
            windowed = coder.decode_from_stream(stream, True)
            size = left - stream.size()
            key = key_coder.encode(windowed.value[0])
            self.sizes[key] += size
            self.totals["elements"] += 1
            self.totals["bytes"] += size
            self.totals["largest"] = max(self.totals["largest"], size)
        super().append(elements_data)


@contextmanager
def _counting() -> Iterator[Callable[[], list[Crossed]]]:
    """Counts what crosses each shuffle of the runs in the block."""
    found: dict[str, _CountedBuffer] = {}
    get_buffer = execution.BundleContextManager.get_buffer

    def counted(self: Any, buffer_id: bytes, transform_id: str) -> Any:
        buffer = get_buffer(self, buffer_id, transform_id)
        kind, name = split_buffer_id(buffer_id)
        if kind == "group" and name not in found:
            buffer.__class__ = _CountedBuffer
            buffer.sizes, buffer.totals = defaultdict(int), Counter()
            found[name] = buffer
            components = self.execution_context.pipeline_components
            buffer.step = components.transforms[name].unique_name
        return buffer

    def crossed() -> list[Crossed]:
        return [
            Crossed(
                buffer.step,
                buffer.totals["elements"],
                buffer.totals["bytes"],
                buffer.totals["largest"],
                len(buffer.sizes),
                max(buffer.sizes.values(), default=0),
            )
            for buffer in found.values()
        ]

    with mock.patch.object(execution.BundleContextManager, "get_buffer", counted):
        yield crossed


def run_graph(construct: Callable[[beam.Pipeline], Any], *, workers: int) -> Ran:
    """Constructs a graph and runs it to its end.

    Args:
        construct: applies the transforms.
        workers: processes; 0 to run in this one.
    """
    from pipeline.run.launch import make_buffers_sound, runner_with

    options = PipelineOptions([])
    make_buffers_sound(options)
    if workers:
        options.view_as(DirectOptions).direct_num_workers = workers
        # The option for worker processes would set another command for them.
        logging.getLogger("apache_beam.runners").setLevel(logging.ERROR)
        runner = runner_with(options)
        runner.__class__ = ClusterRunner
    else:
        runner = ClusterRunner()
    pipeline = beam.Pipeline(runner=runner, options=options)
    construct(pipeline)
    launcher_bytes = read_memory().peak
    started = time.perf_counter()
    paths = os.pathsep.join(map(str, (_BENCHMARKS.parent, _BENCHMARKS)))
    with (
        mock.patch.dict(os.environ, {"PYTHONPATH": paths}),
        _counting() as crossed,
        _worker_memory() as peaks,
    ):
        pipeline.run().wait_until_finish()
    seconds = time.perf_counter() - started
    peak = read_memory().peak
    return Ran(seconds, launcher_bytes, sorted(peaks.values()), peak, crossed())


@contextmanager
def _worker_memory() -> Iterator[dict[int, int]]:
    """The peak memory of each worker process that this process starts in the block, by its id."""
    peaks: dict[int, int] = {}
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(_PERIOD):
            for pid in _workers():
                peaks[pid] = max(peaks.get(pid, 0), read_memory(pid).peak)

    thread = threading.Thread(target=sample, name="worker memory")
    thread.start()
    try:
        yield peaks
    finally:
        is_over.set()
        thread.join()


def _workers() -> Iterator[int]:
    """The worker processes that this process started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        if _WORKER.encode() in words and int(parent) == os.getpid():
            yield int(folder.name)
