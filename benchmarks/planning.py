"""Measures the planning part alone: `python benchmarks/planning.py --count 100000 --work DIR`.

Finding, joining, splitting and sharding names, as `python -m pipeline.plan` does it, but the
listing is generated instead of read, so no image exists; the label CSV is a real file. The last
line is JSON: the seconds of planning, and how far memory rose above what it was after the imports.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from measure import read_memory

if TYPE_CHECKING:
    from transforms.core.records import NameRange
    from transforms.storage.interface import FoundFile

_CLASSES = 10
_IMAGE_BYTES = 110_000
_FOLDER = "/photos/"
_PATTERN = f"{_FOLDER}*/*.jpg"


class Planning(NamedTuple):
    """The time and memory of planning.

    Attributes:
        images: how many names.
        planned: how many of them the plan holds.
        shards: how many shards it makes.
        check_seconds: wall time of the checks before the job.
        seconds: wall time of the job.
        base_bytes: resident set after the imports.
        peak_bytes: highest resident set.
    """

    images: int
    planned: int
    shards: int
    check_seconds: float
    seconds: float
    base_bytes: int
    peak_bytes: int


def _stem(index: int) -> tuple[str, str]:
    """The class and the stem of an image that is not there."""
    label = f"class_{index % _CLASSES}"
    return label, f"{label}_{index:08d}"


def list_names(count: int) -> Iterator[FoundFile]:
    """The listing of a folder of `count` images, as if it were read."""
    # Beam is for the process that plans, see plan_names.
    from transforms.storage.interface import FoundFile

    for index in range(count):
        label, stem = _stem(index)
        yield FoundFile(f"/photos/{label}/{stem}.jpg", _IMAGE_BYTES, index + 1)


def write_labels(path: Path, count: int) -> None:
    """Writes the label rows of `list_names` in another order, once."""
    if path.is_file():
        return
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as table:
        table.write("id,label\n")
        for index in reversed(range(count)):
            label, stem = _stem(index)
            table.write(f"{stem},{label}\n")
    partial.replace(path)


def plan_names(count: int, labels: Path, result: Path) -> Planning:
    """Plans `count` images that are listed but not there.

    Args:
        count: how many.
        labels: the CSV of `write_labels`.
        result: where the plan is written.

    Returns:
        Its time and memory.
    """
    # Here, so that `benchmarks/scaling.py` can use this module without Beam.
    from pipeline.run.beam_compat import import_beam

    import_beam([])
    from pipeline import dry_run
    from pipeline.options.parser import parse_flags
    from pipeline.resolve import preflight
    from transforms.storage.local_storage import LocalStorage

    real_list = LocalStorage.list_range

    def list_range(
        storage: LocalStorage, part: NameRange, limit: int = 0, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        # The glob may match the extension in any case.
        if part.glob.startswith(_FOLDER):
            return list_names(count)
        return real_list(storage, part, limit, with_checksums=with_checksums)

    command = ["--images", _PATTERN, "--labels", str(labels), "--output", f"{result}.none"]
    flags, _ = parse_flags("plan", [*command, "--label_key", "id", "--label_column", "label"])
    gc.collect()
    base = read_memory().resident
    with mock.patch.object(LocalStorage, "list_range", list_range):
        start = time.perf_counter()
        config = preflight.check_flags(flags)
        checked = time.perf_counter()
        dry_run.plan_dataset(config, str(result), [], progress="off")
        seconds = time.perf_counter() - checked
    planned, shards, _ = json.loads(result.read_text(encoding="utf-8"))["splits"]["train"]
    return Planning(
        images=count,
        planned=planned,
        shards=shards,
        check_seconds=checked - start,
        seconds=seconds,
        base_bytes=base,
        peak_bytes=read_memory().peak,
    )


def main() -> int:
    """Runs the planning and prints its time and memory; returns 1 if names are missing."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=100_000, help="how many names (100000)")
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"), help="where to write")
    args = parser.parse_args()
    directory = args.work.absolute() / f"names-{args.count}"
    directory.mkdir(parents=True, exist_ok=True)
    labels, result = directory / "labels.csv", directory / "plan.json"
    result.unlink(missing_ok=True)
    write_labels(labels, args.count)
    taken = plan_names(args.count, labels, result)
    print(json.dumps(taken._asdict()))
    return int(taken.planned != args.count)


if __name__ == "__main__":
    sys.exit(main())
