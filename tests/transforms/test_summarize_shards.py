"""The publishing worker gets little of each shard, and can hold 50,000 of them."""

import dataclasses
import errno
import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.campaign import size
from tests.marks import rest_slow
from tests.spies import memory_below
from tests.transforms.added import added_to, totals_of
from tests.transforms.beam import collect, make_config
from tests.transforms.dataset.test_shard_totals import content, summary
from transforms import dataset_files
from transforms.core.messages import TransientError
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import (
    Gathered,
    PlanTotals,
    RunTotals,
    ShardSummary,
    in_order,
    shortened,
)
from transforms.dataset.manifest import build_manifest, data_files, index_files, to_bytes
from transforms.packing import Everything, Gather
from transforms.publish_dataset import added_up
from transforms.storage.local_storage import LocalStorage
from transforms.storage.output_changes import Put


def summaries(count: int) -> Iterator[ShardSummary]:
    """Shards of 1,363 images and 1,000 classes, as the publishing worker gets them."""
    rng = random.Random(20)
    for number in range(count):
        yield shortened(
            ShardSummary(
                f"train-{number:05d}-of-{count:05d}.tfrecord",
                f"{rng.getrandbits(128):032x}",
                1363,
                rng.randrange(149_000_000, 151_000_000),
                f"{rng.getrandbits(32):08x}",
                rng.randrange(148_000_000, 149_000_000),
                labels={"a": 1000, "b": 363},
                statistics={"formats": {"jpeg": 1363}},
                rejections=(Rejection("image", "empty_file", "0 bytes", "a.jpg", "a"),),
                index_bytes=rng.randrange(60_000, 70_000),
                index_crc32c=f"{rng.getrandbits(32):08x}",
            )
        )


def manifest_of(found: Gathered) -> bytes:
    config = make_config(Path("in"), Path("out"))
    manifest = build_manifest(
        config.dataset,
        found,
        data=data_files(found.shards),
        recipe="",
        label_kind="text",
    )
    return to_bytes(manifest)


@pytest.mark.parametrize("count", rest_slow([1_000, size(10_000, 50_000)]))
def test_a_shard_is_less_than_170_bytes_for_its_publisher(count: int, sizes: list[int]) -> None:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        shards = pipeline | beam.Create([*summaries(count)], reshuffle=False)
        return {"shards": {"shards": shards} | Gather() | beam.Map(pickle.dumps)}

    [data] = collect(construct)["shards"]
    # The group of all shards, and one element of it.
    assert sum(sizes) / count < 170
    assert max(sizes) <= 170 * 256
    # 50,000 shards take less than 125 MB.
    with memory_below(2_500 * count):
        everything: Everything = {"totals": [PlanTotals()], "run": [RunTotals()]}
        found = in_order(["train"], everything | pickle.loads(data))
        text = manifest_of(found)
        files = [*data_files(found.shards), *index_files(found.shards)]
        puts = [Put(f.staged, f.file, f.bytes, f.crc32c) for f in files]
    assert len(puts) == 2 * count
    assert len(text) < 400 * count


def test_nothing_is_lost_of_what_is_added_up() -> None:
    rejection = Rejection("image", "empty_file", "0 bytes", "a.jpg", "a")
    shards = [summary(number) for number in range(12)]
    shards[3] = dataclasses.replace(shards[3], rejections=(rejection,) * 2)

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | beam.Create(shards)
        return {
            "shards": created | beam.Map(shortened),
            "run": added_up(created, {}, {}),
        }

    found = collect(construct)
    assert [each.file for each in found["shards"]] == sorted(each.file for each in shards)
    assert {str((s.labels, s.pixels, s.statistics, s.rejections)) for s in found["shards"]} == {
        "({}, {}, {}, ())"
    }
    [run] = found["run"]
    assert content(run) == content(added_to(RunTotals(), shards))
    assert run.rejected.reasons == totals_of([rejection, rejection]).reasons
    assert run.sample == [rejection, rejection]


# What `statistics.json` says does not depend on the attempt that wrote it.


def test_a_passing_failure_is_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")
    failures = iter([errno.EACCES, errno.EIO])

    def fail(*_: Any, **__: Any) -> bytes:
        raise OSError(next(failures), "no answer")

    monkeypatch.setattr(LocalStorage, "read_bytes", fail)
    assert dataset_files.sha256(str(tmp_path), {"path": "a.jpg"}) is None
    with pytest.raises(TransientError, match="run the same command again"):
        dataset_files.sha256(str(tmp_path), {"path": "a.jpg"})


def test_the_hashes_of_objects_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads an object: one after the other, a hundred take seconds."""
    together = threading.Barrier(3, timeout=60)

    def wait(_: str, image: dict[str, str]) -> str:
        together.wait()
        return f"hash of {image['path']}"

    monkeypatch.setattr(dataset_files, "sha256", wait)
    images = [{"path": path} for path in "abc"]
    found = dataset_files.sha256_of("gs://photos", images)
    assert found == [f"hash of {path}" for path in "abc"]
