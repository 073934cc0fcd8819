"""CPU seconds of elements of stages that few workers do: `python benchmarks/stage_costs.py`.

They are those of `simulation.Costs` after doubling: a vCPU is half a core. The server of the bucket
is another process.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import json
import os
import pickle
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transforms.core.records import BucketDuplicates, RejectedPart
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import PlanTotals, RunTotals, ShardSummary, in_order
from transforms.dataset.manifest import (
    Dataset,
    build_manifest,
    content_digest,
    content_summary,
    crc32c_hex,
    data_files,
    in_parts,
    to_bytes,
)
from transforms.dataset.manifest import index_files as indexes_of
from transforms.dataset.output_names import MANIFEST, REJECTED, STAGING, rejected_part
from transforms.dataset_files import DESCRIBED
from transforms.examples.layouts import LAYOUTS
from transforms.list_rejections import PART_LINES, begin_parts, rejected_lines
from transforms.packing import AddUp
from transforms.publish_dataset import Publication, write_content
from transforms.records.record_index import content_hash, index_bytes, read_index
from transforms.selection.duplicates import HASHED, find_near
from transforms.storage.files import sidecar_path
from transforms.storage.output_changes import OutputChanges, Put
from transforms.write_report import read_rejections

if TYPE_CHECKING:
    from tests.servers.gcs import GcsServer

_ROUNDS = 3
_CLASSES, _SHARDS, _MOVES, _LINES = 20_000, 20_000, 200, 50_000
_IN_BUCKET, _PARTS, _HASHES, _LOOKED_UP = (10, 100, 600), 10, 1_000_000, 200


def _seconds(work: Callable[[], object], elements: float) -> float:
    """CPU seconds of this process for each element: the least of several rounds.

    Other programs that share caches and cores make some rounds take up to twice as long.
    """
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        work()
        rounds.append(time.process_time() - begin)
    return min(rounds) / elements


@contextlib.contextmanager
def _bucket(work: Path) -> Iterator[GcsServer]:
    """A server in other processes with an empty bucket `datasets`."""
    from tests.servers.gcs import serve_gcs
    from transforms.storage.gcs_requests import client

    with serve_gcs(work) as server, mock.patch.dict(os.environ, server.environment):
        # That of another bucket has another server.
        client.cache_clear()
        server.make_bucket("datasets")
        yield server


def total_class() -> float:
    """To add up the count of a class: an accumulator crosses a shuffle and is merged."""
    labels = Counter({f"class {number:06}": number for number in range(_CLASSES)})
    parts = [PlanTotals(labels=labels) for _ in range(8)]
    encoded = [pickle.dumps(part) for part in parts]

    def work() -> None:
        adder = AddUp(PlanTotals, PlanTotals.merge, PlanTotals.merge)
        merged = adder.merge_accumulators(pickle.loads(each) for each in encoded)
        pickle.dumps(merged)

    return _seconds(work, _CLASSES * len(parts))


def _summaries(count: int) -> list[ShardSummary]:
    """Shards of 150 MB, as the step that publishes gets them."""
    source = random.Random(20)
    return [
        ShardSummary(
            f"train-{number:05d}-of-{count:05d}.tfrecord",
            f"{source.getrandbits(128):032x}",
            1363,
            source.randrange(149_000_000, 151_000_000),
            f"{source.getrandbits(32):08x}",
            148_000_000,
            index_bytes=65_000,
            index_crc32c=f"{source.getrandbits(32):08x}",
        )
        for number in range(count)
    ]


def publish_shard() -> float:
    """To order a summary, to make its entries of the manifest, and to name what is moved."""
    shards = _summaries(_SHARDS)
    dataset = Dataset({}, {}, "gs://photos", LAYOUTS["slim"], ("train",))
    everything: dict[str, list[Any]] = {
        "totals": [PlanTotals()],
        "run": [RunTotals()],
        "shards": shards,
    }

    def work() -> None:
        found = in_order(dataset.splits, everything)
        data = data_files(found.shards)
        files = [*data, *indexes_of(found.shards)]
        puts = [Put(f".staging/{f.staged}", f.file, f.bytes, f.crc32c) for f in files]
        to_bytes(build_manifest(dataset, found, data=data, recipe="", label_kind="none"))
        json.loads(json.dumps(puts))

    return _seconds(work, _SHARDS)


def move_shard(work: Path) -> float:
    """To move the file of a shard and that of its index: two requests for each."""
    with _bucket(work) as server:
        puts = [Put(f".staging/{at}", f"{at}", 4, "b63e9fd7") for at in range(2 * _MOVES)]
        for put in puts:
            server.put("datasets", f"out/{put.source}", b"data")
        changes = OutputChanges("gs://datasets/out", "")
        changes.begin()
        found = [put._replace(crc32c=changes._there[put.source].crc32c) for put in puts]
        moves = changes.find_staged(found)
        # Nothing is moved twice.
        each = iter([moves[at::_ROUNDS] for at in range(_ROUNDS)])
        return _seconds(
            lambda: changes.put_in_place(next(each), count=lambda: None), _MOVES / _ROUNDS
        )


def in_bucket(work: Path) -> tuple[float, float]:
    """To list and check the staged files of a shard, and to check those that were moved.

    What a run takes for any number of shards is left out: two sizes are compared.
    """
    with _bucket(work) as server:
        # The first one imports what is needed.
        _, few, many = (_prepare_and_finish(server, count) for count in _IN_BUCKET)
    further = _IN_BUCKET[2] - _IN_BUCKET[1]
    return (many[0] - few[0]) / further, (many[1] - few[1]) / further


def _prepare_and_finish(server: GcsServer, count: int) -> tuple[float, float]:
    """CPU seconds of both steps, for this many shards."""
    shards, small = _summaries(count), {"labels.txt": b"cat\n", MANIFEST: b"{}"}
    files = [*data_files(shards), *indexes_of(shards)]
    puts = [Put(f"{STAGING}/{each.staged}", each.file, 4, crc32c_hex(b"data")) for each in files]
    found = []
    for is_moved in (False, True):
        name = f"out-{count}-{is_moved}"
        for put in puts:
            server.put("datasets", f"{name}/{put.target if is_moved else put.source}", b"data")
        for shard in shards:
            server.put("datasets", sidecar_path(name, shard.file, shard.recipe), b"{}")
        publication = Publication(f"gs://datasets/{name}", overwrite=False, run="")
        begin = time.process_time()
        prepared = publication.prepare(puts, shards, small)
        found.append(time.process_time() - begin)
    begin = time.process_time()
    publication.finish(*prepared)
    return found[0], time.process_time() - begin


def reject_line() -> float:
    """To count a rejection, to find its part, and to write its line."""
    rejections = _rejections(_LINES)

    def work() -> None:
        totals = RunTotals()
        for each in rejections:
            totals.add(each)
        begins = begin_parts(totals) or []
        for each in rejections:
            bisect.bisect_right(begins, each)
        rejected_lines(sorted(rejections), "photos")

    return _seconds(work, _LINES)


def _rejections(count: int) -> list[Rejection]:
    """Rows without images."""
    return [
        Rejection("row", "row_without_image", "no image", f"labels.csv:{at}", f"{at:09}")
        for at in range(count)
    ]


def rejected_file(work: Path) -> tuple[float, float, int]:
    """To join a line in a bucket, to pass it in search of others; and the bytes of a line."""
    data = rejected_lines(_rejections(PART_LINES), "photos")
    name = rejected_part("0" * 32)
    part = RejectedPart(0, name, PART_LINES, *content_summary(data))
    whole = in_parts((part,) * _PARTS)
    counts = {"row_without_image": _PARTS * PART_LINES, "unreadable": 1}
    with _bucket(work) as server:
        server.put("datasets", f"out/{STAGING}/{name}", data)
        joined = _seconds(
            lambda: write_content("gs://datasets/out", REJECTED, whole), _PARTS * PART_LINES
        )
        manifest = {"rejected": counts, "files": {REJECTED: content_summary(whole)._asdict()}}
        manifest["digest"] = content_digest(manifest)
        passed = _seconds(
            lambda: read_rejections("gs://datasets/out", manifest, []), _PARTS * PART_LINES
        )
    return joined, passed, len(data) // PART_LINES


def compare_hash() -> float:
    """To compare a random perceptual hash with those that share 16 bits with it."""
    source = np.random.default_rng(20)
    hashes = np.zeros(_HASHES, HASHED)
    for name in ("content", "hash"):
        hashes[name] = source.integers(0, 2**64, _HASHES, np.uint64)
    hashes["file"] = np.arange(_HASHES) % _SHARDS
    hashes["record"], hashes["images"] = np.arange(_HASHES) // _SHARDS, 1
    files = [shard.file for shard in _summaries(_SHARDS)]
    bucket = BucketDuplicates((0, 0, 0, 0, 0, 0, ()), tuple(files), hashes.tobytes())
    return _seconds(lambda: find_near([bucket], images=_HASHES), _HASHES)


def look_up() -> float:
    """To read the index of a shard for the records that `statistics.json` lists."""
    from scale_cases import SHARD_IMAGES, index_of

    contents = [content_hash(str(number).encode()) for number in range(SHARD_IMAGES)]
    data = index_bytes(index_of("train-00000-of-00001.tfrecord", contents))

    def work() -> None:
        for _ in range(_LOOKED_UP):
            table = read_index(data, "index", records=SHARD_IMAGES, columns=DESCRIBED)
            table.column("key").to_pylist()
            table.column("length").to_pylist()

    return _seconds(work, _LOOKED_UP)


def _print(name: str, seconds: float) -> None:
    print(f"{name}: {seconds * 1e6:.2f} µs of a core, {seconds * 2e6:.2f} µs of a vCPU", flush=True)


def main() -> None:
    """Prints the seconds of a core for each element."""
    for measure in (publish_shard, total_class, reject_line, compare_hash, look_up):
        _print(measure.__name__, measure())
    # A collection of all that was imported would be counted for one shard.
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as work:
        _print("move_shard", move_shard(Path(work)))
        joined, passed, line_bytes = rejected_file(Path(work))
        _print("join_line", joined)
        _print("find_line", passed)
        print(f"line_bytes: {line_bytes}", flush=True)
        prepared, finished = in_bucket(Path(work))
        _print("prepare_shard", prepared)
        _print("finish_shard", finished)


if __name__ == "__main__":
    main()
