"""Peak memory of worker processes and of the launcher at large numbers of elements."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from report import MB, markdown_table

if TYPE_CHECKING:
    from cluster_runner import Crossed, Ran

ROOT = Path(__file__).resolve().parent.parent
_SCRIPT = Path(__file__).resolve().parent / "scale_cases.py"

# Shards are many files: a file system in memory syncs them for nothing.
_IN_MEMORY = Path("/dev/shm")


class Case(NamedTuple):
    """A case of `scale_cases.py`.

    Attributes:
        title: what its elements are.
        count: how many.
    """

    title: str
    count: int  # type: ignore[assignment]


CASES = {
    "rows": Case("unmatched rows", 1_000_000),
    "equal": Case("equal images (fingerprints)", 1_000_000),
    "distinct": Case("distinct images (fingerprints)", 1_000_000),
    "classes": Case("classes", 100_000),
    "shards": Case("shards, published", 50_000),
    "names": Case("small files (planned)", 1_000_000),
}

# A tenth is measured, too, for the growth.
_PART = 10


class Growth(NamedTuple):
    """A case at two sizes."""

    case: str
    small: tuple[int, Ran]
    large: tuple[int, Ran]

    @property
    def worker_bytes(self) -> float:
        """Further bytes of the largest worker for each further element."""
        counts = self.large[0] - self.small[0]
        return (_largest(self.large[1]) - _largest(self.small[1])) / counts

    @property
    def launcher_bytes(self) -> float:
        """Further bytes of the launcher for each further element."""
        counts = self.large[0] - self.small[0]
        return (self.large[1].launcher_bytes - self.small[1].launcher_bytes) / counts


def _largest(ran: Ran) -> int:
    return max(ran.worker_bytes, default=0)


@contextmanager
def inputs(case: str, count: int, work: Path) -> Iterator[Mapping[str, str]]:
    """Makes the inputs of a case in an empty folder; gives the variables that find them."""
    from tests.images import picture, saved
    from tests.servers.gcs_listing import serve_names

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    variables: Mapping[str, str] = {}
    try:
        if case == "rows":
            (work / "rows" / "photos").mkdir(parents=True)
            image = saved(picture("RGB", 16, 12), "JPEG")
            (work / "rows" / "photos" / "one.jpg").write_bytes(image)
            with (work / "rows" / "labels.csv").open("w") as table:
                table.write("id,label\none,cat\n")
                table.writelines(f"absent-{number:09},cat\n" for number in range(count))
        if case in ("names", "classes"):
            folders = count if case == "classes" else 10
            images = 2 * count if case == "classes" else count
            with serve_names(images, work, folders=folders) as server:
                yield server.environment
        else:
            yield variables
    finally:
        shutil.rmtree(work, ignore_errors=True)


def measure(case: str, count: int, workers: int, work: Path) -> Ran:
    """Runs a case; in this process if it has no workers.

    Raises:
        RuntimeError: it failed.
    """
    from cluster_runner import Crossed, Ran

    base = _IN_MEMORY if case == "shards" and _IN_MEMORY.is_dir() else work
    folder = base / f"image-tfrecords-scale-{case}-{os.getpid()}"
    with inputs(case, count, folder) as variables:
        if not workers:
            from scale_cases import run_case

            with mock.patch.dict(os.environ, variables):
                return run_case(case, count, 0, folder)
        done = subprocess.run(
            [sys.executable, str(_SCRIPT), case, str(count), str(workers), str(folder)],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{case}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Ran(**{**found, "crossed": [Crossed(*each) for each in found["crossed"]]})


def measure_growth(case: str, count: int, workers: int, work: Path) -> Growth:
    """Runs a case at a tenth of its size and at all of it."""
    part = count // _PART
    small = measure(case, part, workers, work)
    return Growth(case, (part, small), (count, measure(case, count, workers, work)))


def memory_table(growths: Sequence[Growth]) -> str:
    """Peaks and growth of each case."""
    rows = []
    for growth in growths:
        count, ran = growth.large
        rows.append(
            [
                f"{count:,} {CASES[growth.case].title}",
                f"{_largest(ran) / MB:.0f}",
                f"{growth.worker_bytes:.0f}",
                f"{ran.launcher_bytes / MB:.0f}",
                f"{growth.launcher_bytes:.0f}",
                f"{ran.seconds:.0f}",
            ]
        )
    header = ["elements", "largest worker, MB", "bytes an element"]
    return markdown_table([*header, "launcher, MB", "bytes an element", "seconds"], rows)


def shuffle_table(crossed: Mapping[str, tuple[int, Sequence[Crossed]]]) -> str:
    """The largest element and the largest group of each case, and the shuffle they cross.

    Args:
        crossed: by case, its number of elements and what crossed its shuffles.
    """
    rows = []
    for case, (count, steps) in crossed.items():
        element = max(steps, key=lambda step: step.largest_element)
        group = max(steps, key=lambda step: step.largest_group)
        rows.append(
            [
                f"{count:,} {CASES[case].title}",
                f"{element.largest_element:,}",
                _short(element.step),
                f"{group.largest_group:,}",
                _short(group.step),
                f"{sum(step.bytes for step in steps):,}",
            ]
        )
    header = ["elements", "largest element, bytes", "shuffle", "largest group, bytes", "shuffle"]
    return markdown_table([*header, "all, bytes"], rows)


def _short(step: str) -> str:
    """The last words of a step's name: what groups, and in which step."""
    return "/".join(step.split("/")[-2:])
