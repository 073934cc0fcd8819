"""`--reuse` of a dataset in a bucket: what it requests, and what fails or changes there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.images import picture, saved
from tests.marks import rest_slow
from tests.pipeline.commands import Ran, convert, nameless, plan
from tests.servers.gcs import GcsServer

FLAGS: dict[str, Any] = {
    "images": "gs://photos/in/*/*.jpg",
    "label_from": "directory",
    "num_shards": 2,
}
BASE, OUTPUT = "gs://private/base", "gs://datasets/reused"


@pytest.fixture
def buckets(gcs: GcsServer, photos: Path) -> GcsServer:
    """Photos, a dataset of them in a bucket of its own, and a bucket for others."""
    for name in ("photos", "private", "datasets"):
        gcs.make_bucket(name)
    gcs.put_folder("photos", "in/", photos)
    ran = convert(output=BASE, **FLAGS)
    assert ran.code == 0, ran.err
    return gcs


def objects(gcs: GcsServer, bucket: str, folder: str) -> dict[str, bytes]:
    """A dataset."""
    prefix = f"{folder}/"
    names = [name for name in gcs.names(bucket) if name.startswith(prefix)]
    return {name.removeprefix(prefix): nameless(name, gcs.get(bucket, name)) for name in names}


def check_same(gcs: GcsServer, **flags: Any) -> Ran:
    """Converts with the base and without one, and compares every object."""
    ran = convert(output=OUTPUT, reuse=BASE, **{**FLAGS, **flags})
    assert ran.code == 0, ran.err
    gcs.set_faults([])
    check_fresh(gcs, **flags)
    return ran


def check_fresh(gcs: GcsServer, **flags: Any) -> None:
    """Converts without the base, and compares every object."""
    fresh = convert(output="gs://datasets/fresh", **{**FLAGS, **flags})
    assert fresh.code == 0, fresh.err
    assert objects(gcs, "datasets", "reused") == objects(gcs, "datasets", "fresh")


def read(gcs: GcsServer, begin: str) -> int:
    """The requests for the content of objects whose names begin so."""
    return sum(count for name, count in gcs.media_gets().items() if name.startswith(begin))


def test_requests_are_those_of_the_plan(buckets: GcsServer) -> None:
    new = saved(picture("RGB", 12, 16, seed=99), "JPEG")
    buckets.put("photos", "in/cat/new.jpg", new)
    flags = {**FLAGS, "seed": 5}
    planned = plan(output=OUTPUT, reuse=BASE, **flags)
    assert planned.code == 0, planned.err
    assert buckets.names("datasets") == []
    [line] = [line for line in planned.out.splitlines() if line.startswith("requests ")]
    words = line.replace(":", "").replace(",", "").split()
    total, originals, ranges, indexes = (int(word) for word in words if word.isdecimal())
    assert total == originals + ranges + indexes
    buckets.reset()
    ran = convert(output=OUTPUT, reuse=BASE, **flags)
    assert "reused   18 images from their records (--reuse)" in ran.out
    assert (originals, indexes) == (1, 3)
    assert (read(buckets, "in/"), read(buckets, "base/train-")) == (originals, ranges)
    assert read(buckets, "base/index/") == 2
    check_fresh(buckets, seed=5)


def test_a_base_without_permission_is_one_line(buckets: GcsServer) -> None:
    buckets.set_faults([{"object": r"private(/.*)?", "status": 403}])
    ran = convert(output=OUTPUT, reuse=BASE, **FLAGS)
    assert ran.code == 2
    said = f"convert: --reuse: cannot read {BASE}/manifest.json: no permission"
    assert ran.error().startswith(said)
    assert buckets.names("datasets") == []


def test_a_base_in_no_bucket_is_one_line(buckets: GcsServer) -> None:
    ran = convert(output=OUTPUT, reuse="gs://absent/base", **FLAGS)
    assert ran.code == 2
    assert ran.error() == "convert: --reuse: cannot read gs://absent/base: no such bucket"


SHARD = r"private/base/train-00000-of-00002\.tfrecord"
INDEX = r"private/base/index/train-00000-of-00002\.parquet"

NOT_USED, SOME = "is not used further: ", "originals are read instead of some records of "
# What the server does, and the line that says what is not used.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "shard without permission": ({"object": SHARD, "kind": "media", "status": 403}, SOME),
    "flipped byte of the shard": ({"object": SHARD, "kind": "media", "damage": True}, SOME),
    "shard overwritten meanwhile": ({"before_media_of": SHARD, "content": b"another"}, SOME),
    "shard removed meanwhile": ({"before_media_of": SHARD, "delete": True}, SOME),
    "index without permission": ({"object": INDEX, "status": 403}, NOT_USED),
    "flipped byte of the index": ({"object": INDEX, "kind": "media", "damage": True}, NOT_USED),
    "index overwritten meanwhile": ({"before_media_of": INDEX, "content": b"PAR1"}, NOT_USED),
}


@pytest.mark.parametrize("name", rest_slow(list(FAULTS)))
def test_a_base_that_fails_or_changes_gives_the_same_bytes(
    name: str, buckets: GcsServer, caplog: pytest.LogCaptureFixture
) -> None:
    fault, line = FAULTS[name]
    buckets.set_faults([fault])
    ran = check_same(buckets, seed=3)
    [said] = caplog.messages
    assert line in said and BASE in said
    # The other shard is reused.
    assert ("from their records" in ran.out) == (line == SOME)


@pytest.mark.slow
def test_a_copied_shard_is_read_once_for_its_sha256(buckets: GcsServer) -> None:
    """Its server copies it: a dataset with a name lists the hash of the copy."""
    buckets.reset()
    ran = convert(output="gs://datasets/pets/1.2.0", reuse=BASE, name="pets", **FLAGS)
    assert ran.code == 0, ran.err
    assert 'tfds.load("pets:1.0.0"), --output must end in pets/1.0.0' in ran.out
    shards = [name for name in buckets.names("datasets") if name.endswith(".tfrecord")]
    assert len(shards) == 2 and read(buckets, "in/") == 0
    listed = json.loads(buckets.get("datasets", "pets/1.2.0/croissant.json"))["distribution"]
    hashes = {each["@id"]: each.get("sha256") for each in listed}
    for name in shards:
        data = buckets.get("datasets", name)
        assert hashes[name.rpartition("/")[2]] == hashlib.sha256(data).hexdigest()
