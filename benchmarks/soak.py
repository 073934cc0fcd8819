"""A whole job over many small images with planted faults: `python benchmarks/soak.py`.

Every planted fault, and no other, must be found with its reason; every other image must be in
exactly one shard, with its bytes and its label; `verify` must agree; and a second run must change
nothing. The exit code is 1 when anything differs.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from measure import Run, last_line, run
from report import MB, markdown_table
from soak_files import IMAGES, KINDS, LABELS, Plan, Record, Rejected, build_files

from transforms.dataset.output_names import MANIFEST, REJECTED
from transforms.examples.decoder import decode_example
from transforms.examples.tfrecord import read_records

_ROOT = Path(__file__).resolve().parent.parent
_DATASET = "dataset"
_SHOWN = 20  # differences that are printed


class Result(NamedTuple):
    """The result of a conversion of the files.

    Attributes:
        found: planted faults and oddities of each kind whose whole outcome is as planned.
        differences: everything in which the dataset differs from the plan, a line each.
    """

    found: Counter[str]
    differences: list[str]


def read_shards(dataset: Path) -> dict[str, list[Record]]:
    """Every record of all shards, by the path of its image.

    Raises:
        TFRecordError: a record is damaged.
    """
    records: dict[str, list[Record]] = {}
    for shard in sorted(dataset.glob("*-of-*.tfrecord")):
        with shard.open("rb") as stream:
            for example in read_records(stream):
                features = decode_example(example)
                path, label, data = (
                    features[name][0]
                    for name in ("image/filename", "image/class/text", "image/encoded")
                )
                record = Record(label.decode(), zlib.crc32(data))
                records.setdefault(path.decode(), []).append(record)
    return records


def read_rejected(directory: Path) -> Counter[Rejected]:
    """The lines of `rejected.jsonl`, with paths below `directory`."""
    rejected: Counter[Rejected] = Counter()
    with (directory / _DATASET / REJECTED).open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            path = fields["path"].removeprefix(f"{directory}/")
            rejected[Rejected(fields["subject"], fields["reason"], path, fields["key"])] += 1
    return rejected


def compare(plan: Plan, directory: Path) -> Result:
    """Compares the dataset below `directory` with the plan of its images and rows."""
    records = read_shards(directory / _DATASET)
    rejected = read_rejected(directory)
    planned = Counter(line for planted in plan.planted for line in planted.rejected)
    found = Counter(
        planted.kind
        for planted in plan.planted
        if all(rejected[line] == 1 for line in planted.rejected)
        and all(records.get(path) == [plan.records[path]] for path in planted.records)
    )
    manifest = json.loads((directory / _DATASET / MANIFEST).read_text(encoding="utf-8"))
    differences = [f"not found: {' '.join(line)}" for line in (planned - rejected).elements()]
    differences += [f"not planted: {' '.join(line)}" for line in (rejected - planned).elements()]
    differences += _record_differences(plan.records, records)
    differences += _ledger_differences(plan.ledger, manifest["ledger"])
    return Result(found, differences)


def _record_differences(
    planned: dict[str, Record], records: dict[str, list[Record]]
) -> Iterator[str]:
    for path in sorted(planned.keys() | records.keys()):
        copies = records.get(path, [])
        if path not in planned:
            yield f"{path} is a record, and was not to be one"
        elif len(copies) != 1:
            yield f"{path} is in {len(copies)} records instead of one"
        elif copies[0].label != planned[path].label:
            yield f"{path} has the label {copies[0].label!r}, not {planned[path].label!r}"
        elif copies[0] != planned[path]:
            yield f"{path} has other bytes than its file"


def _ledger_differences(planned: Counter[str], ledger: dict[str, int]) -> Iterator[str]:
    for name in sorted(planned.keys() | ledger.keys()):
        if planned[name] != ledger.get(name, 0):
            yield f"the ledger has {name} {ledger.get(name, 0)}, planned were {planned[name]}"


def _convert(directory: Path, log: Path) -> Run:
    """Runs the whole job."""
    words = ["--images", f"{glob.escape(str(directory / IMAGES))}/*/*"]
    words += ["--labels", str(directory / LABELS), "--label_key=id", "--label_column=label"]
    words += ["--output", str(directory / _DATASET), "--key=stem", "--max_rejected=1.0"]
    words += ["--splits=train=0.8,validation=0.1,test=0.1", "--shard_size=2MB", "--progress=off"]
    return run([sys.executable, "-m", "pipeline.convert", *words], log=log, cwd=_ROOT)


def _verify(directory: Path, log: Path) -> Run:
    command = [sys.executable, "-m", "pipeline.verify", str(directory / _DATASET)]
    return run(command, log=log, cwd=_ROOT)


def _snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The inode, size and modification time of each file."""
    statuses = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (s.st_ino, s.st_size, s.st_mtime_ns) for name, s in statuses.items()}


def convert_again(directory: Path) -> list[str]:
    """Runs the same job on its finished dataset: what it changed, a line each."""
    dataset, log = directory / _DATASET, directory / "again.log"
    before = _snapshot(dataset)
    code = _convert(directory, log).code
    after = _snapshot(dataset)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    differences = [f"the second run changed {name}" for name in changed]
    if code or "up to date" not in log.read_text(encoding="utf-8"):
        differences.append(f"the second run is not up to date: {last_line(log)}")
    return differences


def show(plan: Plan, result: Result) -> str:
    """The table of kinds: the expected outcome, how many were planted, how many found."""
    planted = Counter(fault.kind for fault in plan.planted)
    outcomes = {
        fault.kind: " + ".join(sorted({line.reason for line in fault.rejected})) or "a record"
        for fault in plan.planted
    }
    rows = [
        [kind, outcomes.get(kind, ""), str(planted[kind]), str(result.found[kind])]
        for kind in KINDS
    ]
    rows.append(["all", "", str(planted.total()), str(result.found.total())])
    return markdown_table(["planted", "must be", "planted", "found"], rows)


def soak(directory: Path, *, count: int, fault_rate: float, seed: int) -> list[str]:
    """Generates, converts, verifies, compares and converts again, and prints the times.

    Args:
        directory: an empty folder; everything stays there.
        count: how many images.
        fault_rate: share of them with something planted.
        seed: for the choice and placement of images and faults.

    Returns:
        All differences from the plan, a line each.
    """
    marks = [time.perf_counter()]

    def lap(what: str) -> None:
        marks.append(time.perf_counter())
        print(f"{what:<24} {marks[-1] - marks[-2]:6.1f} s", flush=True)

    plan = build_files(directory, count=count, fault_rate=fault_rate, seed=seed)
    lap("generated")
    log = directory / "convert.log"
    taken = _convert(directory, log)
    lap("converted")
    if taken.code:
        return [f"convert ended with exit code {taken.code}: {last_line(log)}"]
    log = directory / "verify.log"
    if code := _verify(directory, log).code:
        return [f"verify ended with exit code {code}: {last_line(log)}"]
    lap("verified")
    result = compare(plan, directory)
    lap("read back and compared")
    differences = result.differences + convert_again(directory)
    lap("converted once more")
    images = plan.ledger["images_matched"]
    print(
        f"conversion: {images} images in {taken.seconds:.1f} s = {images / taken.seconds:.0f} "
        f"images/s, peak memory {taken.process_bytes / MB:.0f} MB"
    )
    cpu = os.times()
    print(f"altogether: {marks[-1] - marks[0]:.1f} s, {sum(cpu[:4]):.1f} s of CPU time")
    print(show(plan, result))
    return differences


def main() -> int:
    """Runs the soak as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=100_000, help="images (100000)")
    parser.add_argument("--fault_rate", type=float, default=0.01, help="share planted (0.01)")
    parser.add_argument("--seed", type=int, default=0, help="seed for images and faults (0)")
    parser.add_argument("--output", type=Path, help="an empty folder to keep everything in")
    args = parser.parse_args()
    if args.count < 1 or not 0 <= args.fault_rate <= 1:
        parser.error("--count must be above 0, and --fault_rate between 0 and 1")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(args.output or scratch).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            parser.error(f"--output {args.output} is not empty: name a new folder")
        differences = soak(directory, count=args.count, fault_rate=args.fault_rate, seed=args.seed)
    for difference in differences[:_SHOWN]:
        print(f"soak: {difference}", file=sys.stderr)
    if len(differences) > _SHOWN:
        print(f"soak: and {len(differences) - _SHOWN} more", file=sys.stderr)
    print(f"{len(differences)} differences" if differences else "as planned")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
