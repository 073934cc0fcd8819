"""CPU seconds of elements of stages that few workers do: `python benchmarks/stage_costs.py`.

They are those of `simulation.Costs` after doubling: a vCPU is half a core. CPU time does not depend
on other programs much; the server of the moves is another process.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transforms.add_totals import AddParts
from transforms.core.dataset.ledger import PlanTotals, ShardSummary
from transforms.core.dataset.manifest import Dataset, build_manifest, data_files, to_text
from transforms.core.dataset.manifest import index_files as indexes_of
from transforms.core.dataset.run_counts import in_order
from transforms.core.dataset.shard_totals import ShardTotals
from transforms.core.features.layouts import LAYOUTS
from transforms.core.rejections import Rejection, RejectionTotals
from transforms.list_rejections import begin_parts, part_of
from transforms.rejected_lines import RejectedLines
from transforms.storage.output_changes import Put, changes_of

_CLASSES, _SHARDS, _MOVES, _LINES = 20_000, 20_000, 200, 50_000


def _seconds(work: Callable[[], object], elements: int) -> float:
    """CPU seconds of this process for each element."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) / elements


def total_class() -> float:
    """To add up the count of a class: an accumulator crosses a shuffle and is merged."""
    labels = Counter({f"class {number:06}": number for number in range(_CLASSES)})
    parts = [PlanTotals(labels=labels) for _ in range(8)]
    encoded = [pickle.dumps(part) for part in parts]

    def work() -> None:
        merged = AddParts().merge_accumulators(pickle.loads(each) for each in encoded)
        pickle.dumps(merged)

    return _seconds(work, _CLASSES * len(parts))


def publish_shard() -> float:
    """To order a summary, to make its entries of the manifest, and to name what is moved."""
    source = random.Random(20)
    names = [f"train-{number:05d}-of-{_SHARDS:05d}.tfrecord" for number in range(_SHARDS)]
    shards = [
        ShardSummary(
            name,
            f"{source.getrandbits(128):032x}",
            1363,
            source.randrange(149_000_000, 151_000_000),
            f"{source.getrandbits(32):08x}",
            148_000_000,
            index_bytes=65_000,
            index_crc32c=f"{source.getrandbits(32):08x}",
        )
        for name in names
    ]
    dataset = Dataset({}, {}, "gs://photos", LAYOUTS["slim"], ("train",))
    everything = {
        "totals": [PlanTotals()],
        "written": [ShardTotals()],
        "rejected": [RejectionTotals()],
        "counts": [],
        "shards": shards,
    }

    def work() -> None:
        found = in_order(dataset.splits, everything)
        data = data_files(found.shards)
        files = [*data, *indexes_of(found.shards)]
        puts = [Put(f".staging/{f.staged}", f.file, f.bytes, f.crc32c) for f in files]
        manifest = build_manifest(
            dataset,
            found.shards,
            found.ledger,
            written=found.written,
            data=data,
            recipe="",
            rejected={},
            label_kind="none",
            files={},
        )
        to_text(manifest).encode()
        json.loads(json.dumps(puts))

    return _seconds(work, _SHARDS)


def move_shard(work: Path) -> float:
    """To move the file of a shard and that of its index: two requests for each."""
    from tests.servers.gcs import serve_gcs

    with serve_gcs(work) as server, mock.patch.dict(os.environ, server.environment):
        server.make_bucket("datasets")
        puts = [Put(f".staging/{at}", f"{at}", 4, "b63e9fd7") for at in range(2 * _MOVES)]
        for put in puts:
            server.put("datasets", f"out/{put.source}", b"data")
        changes = changes_of("gs://datasets/out", "")
        changes.begin()
        found = [put._replace(crc32c=changes._there[put.source].crc32c) for put in puts]
        moves = changes.find_staged(found)
        return _seconds(lambda: changes.put_in_place(moves, count=lambda: None), _MOVES)


def reject_line() -> float:
    """To count a rejection, to find its part, and to write its line."""
    rejections = [
        Rejection("row", "row_without_image", "no image", f"labels.csv:{at}", f"{at:09}")
        for at in range(_LINES)
    ]
    totals = RejectionTotals()

    def work() -> None:
        for each in rejections:
            totals.add(each)
        begins = begin_parts([tuple(each) for each in rejections[::5]], totals)
        for each in rejections:
            part_of(each, begins)
        RejectedLines("out", "photos").text(sorted(rejections))

    return _seconds(work, _LINES)


def main() -> None:
    """Prints the seconds of a core for each element."""
    with tempfile.TemporaryDirectory() as work:
        found = {
            "total_class": total_class(),
            "publish_shard": publish_shard(),
            "move_shard": move_shard(Path(work)),
            "reject_line": reject_line(),
        }
    for name, seconds in found.items():
        print(f"{name}: {seconds * 1e6:.1f} µs of a core, {seconds * 2e6:.1f} µs of a vCPU")


if __name__ == "__main__":
    main()
