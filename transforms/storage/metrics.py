"""Metrics for operators: one namespace of counters, and the progress of this process.

| metric | unit | counted by |
|---|---|---|
| images_found | images | List images and read rows |
| rows_read | rows | List images and read rows |
| partners_found | masks and further images | List images and read rows |
| images_written | images | Convert and write each shard |
| images_rejected | images | Convert and write each shard |
| images_reused | images from records of another dataset | Convert and write each shard |
| bytes_read | bytes | Convert and write each shard |
| bytes_written | bytes | Convert and write each shard |
| shards_written | shards | Convert and write each shard |
| shards_reused | shards | Convert and write each shard |
| shards_copied | shards | Convert and write each shard |
| shard_msec | milliseconds for one shard, a distribution | Convert and write each shard |
| images_quarantined | images | Copy rejected images |
| cumulativeThrottlingSeconds | seconds in which 429 held requests back | each step that reads |
| datasets_up_to_date | 1 when the output held this dataset already | Publish dataset |
| images_not_quarantined | images that cannot be read | Copy rejected images |

The seconds are in Beam's namespace `gcsio`, all else in `image_tfrecords`.
In `dataset.LabelImages`, `images_found` is counted by "Look up images".
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import threading
from array import array
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.metrics import Metrics

NAMESPACE = "image_tfrecords"

# The result of a run that had nothing to do.
UP_TO_DATE = "datasets_up_to_date"


def counter(name: str) -> Any:
    """A Beam counter in the project's namespace."""
    return Metrics.counter(NAMESPACE, name)


def count_throttled(seconds: float) -> None:
    """Counts seconds in which a service refused requests, as Dataflow's autoscaler reads them.

    The autoscaler reads this name in the namespace of Beam's own GCS requests: workers that
    wait for a quota need no more workers.
    """
    if seconds > 0:
        Metrics.counter("gcsio", "cumulativeThrottlingSeconds").inc(math.ceil(seconds))


def distribution(name: str) -> Any:
    """A Beam distribution in the project's namespace."""
    return Metrics.distribution(NAMESPACE, name)


# The steps of a run, in their order, and what each counts.
STAGES = {
    "listing": "images",
    "reading": "rows",
    "planning": "names",
    "converting": "images",
    "publishing": "files",
    "verifying": "records",
}

# The folder to which each worker process on this machine writes a file with its counts.
WORKERS_FOLDER = "IMAGE_TFRECORDS_PROGRESS"

# For each stage: whether it began, its total, the number done, and the number rejected.
_CELLS = 4
_PLACES = {name: _CELLS * number for number, name in enumerate(STAGES)}
_FILE_BYTES = 8 * _CELLS * len(STAGES)


class Stage(NamedTuple):
    """The progress of a stage; `total` is 0 if it is unknown."""

    name: str
    unit: str
    total: int
    done: int
    rejected: int


class Progress:
    """The progress of the stages in this process, and in its workers on this machine.

    Unlike Beam's counters, it can be read while the in-process runner runs.
    """

    def __init__(self, folder: str | None = None) -> None:
        """Starts at zero.

        Args:
            folder: the folder for a file of the counts, for the process that launched this one.
        """
        self._lock = threading.Lock()
        self._cells = _own_cells(folder)
        self._workers: Path | None = None

    def clear(self, workers: str | None = None) -> None:
        """Resets all counts for another run.

        Args:
            workers: the folder to which worker processes of the run write theirs, if there is one.
        """
        with self._lock:
            self._workers = Path(workers) if workers else None
            for at in range(len(self._cells)):
                self._cells[at] = 0

    def begin(self, stage: str, total: int = 0) -> None:
        """Begins a stage, with its total if that is known."""
        with self._lock:
            at = _PLACES[stage]
            self._cells[at], self._cells[at + 1] = 1, total

    def count(self, stage: str, done: int = 1, rejected: int = 0) -> None:
        """Counts finished items of a stage; `rejected` of them were rejected."""
        with self._lock:
            at = _PLACES[stage]
            self._cells[at] = 1
            self._cells[at + 2] += done
            self._cells[at + 3] += rejected

    def replace(self, stage: str, *, total: int, done: int, rejected: int) -> None:
        """Sets the counts of a stage to those reported by another machine."""
        with self._lock:
            at = _PLACES[stage]
            self._cells[at : at + _CELLS] = memoryview(array("q", [1, total, done, rejected]))

    def plan(self, images: int) -> None:
        """Sets the number of images to convert; only the first call begins that stage."""
        with self._lock:
            self._cells[_PLACES["converting"] + 1] = images

    def stages(self) -> list[Stage]:
        """The stages that have begun; images that planning rejects are of those to convert."""
        with self._lock:
            found = [self._cells.tolist()]
        # That folder holds nothing else, and is removed in the end.
        files = sorted(self._workers.glob("*")) if self._workers else []
        for data in (file.read_bytes() for file in files):
            if len(data) == _FILE_BYTES:
                found.append(memoryview(data).cast("q").tolist())
        stages = []
        unplanned = sum(cells[_PLACES["planning"] + 3] for cells in found)
        for (name, unit), at in zip(STAGES.items(), _PLACES.values(), strict=True):
            began, total = (max(cells[at + i] for cells in found) for i in (0, 1))
            done, rejected = (sum(cells[at + i] for cells in found) for i in (2, 3))
            if began and total and name == "converting":
                total, done, rejected = (n + unplanned for n in (total, done, rejected))
            if began:
                stages.append(Stage(name, unit, total, done, rejected))
        return stages


def _own_cells(folder: str | None) -> memoryview:
    """Counts set to zero, in a file of this process if there is a folder for it."""
    if folder is not None:
        with contextlib.suppress(OSError), Path(folder, str(os.getpid())).open("x+b") as file:
            file.truncate(_FILE_BYTES)
            return memoryview(mmap.mmap(file.fileno(), _FILE_BYTES)).cast("q")
    return memoryview(bytearray(_FILE_BYTES)).cast("q")


PROGRESS = Progress(os.environ.get(WORKERS_FOLDER))
