"""`--reuse` of a dataset in a bucket: what it requests, and what fails or changes there."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import check_ended, convert, nameless, plan
from tests.servers.gcs import GcsServer

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {"images": "gs://photos/in/*/*.jpg", "num_shards": 2}
BASE, OUTPUT = "gs://private/base", "gs://datasets/reused"


@pytest.fixture
def bare(gcs: GcsServer, photos: Path) -> GcsServer:
    """Photos, a bucket of its own for a dataset of them, and a bucket for others."""
    for name in ("photos", "private", "datasets"):
        gcs.make_bucket(name)
    gcs.put_folder("photos", "in/", photos)
    # The bucket lists the size of the compressed bytes.
    packed = gzip.compress(saved(picture("RGB", 12, 16, seed=98), "JPEG"), mtime=0)
    gcs.put("photos", "in/cat/packed.jpg", packed, content_encoding="gzip")
    return gcs


@pytest.fixture
def buckets(bare: GcsServer) -> GcsServer:
    """With the dataset."""
    check_ended(convert(output=BASE, **FLAGS), 0)
    return bare


def objects(gcs: GcsServer, bucket: str, folder: str) -> dict[str, bytes]:
    """A dataset."""
    prefix = f"{folder}/"
    names = [name for name in gcs.names(bucket) if name.startswith(prefix)]
    return {name.removeprefix(prefix): nameless(name, gcs.get(bucket, name)) for name in names}


def check_fresh(gcs: GcsServer, **flags: Any) -> None:
    """Converts without the base, and compares every object."""
    check_ended(convert(output="gs://datasets/fresh", **{**FLAGS, **flags}), 0)
    assert objects(gcs, "datasets", "reused") == objects(gcs, "datasets", "fresh")


def read(gcs: GcsServer, begin: str) -> int:
    """The requests for the content of objects whose names begin so."""
    return sum(count for name, count in gcs.media_gets().items() if name.startswith(begin))


def test_requests_are_those_of_the_plan(buckets: GcsServer) -> None:
    buckets.put("photos", "in/cat/new.jpg", saved(picture("RGB", 12, 16, seed=99), "JPEG"))
    flags = {**FLAGS, "seed": 5, "output": OUTPUT, "reuse": BASE}
    planned = plan(**flags)
    assert planned.code == 0, planned.err
    assert buckets.names("datasets") == []
    [line] = [line for line in planned.out.splitlines() if line.startswith("requests ")]
    words = line.replace(":", "").replace(",", "").split()
    total, originals, ranges, indexes = (int(word) for word in words if word.isdecimal())
    assert (originals, indexes, total) == (1, 3, originals + ranges + indexes)
    buckets.reset()
    check_ended(convert(**flags), 0, "reused   19 images from their records (--reuse)")
    assert (read(buckets, "in/"), read(buckets, "base/train-")) == (originals, ranges)
    assert read(buckets, "base/index/") == 2
    check_fresh(buckets, seed=5)


@cases(
    (BASE, f"convert: --reuse: cannot read {BASE}/manifest.json: no permission"),
    ("gs://absent/base", "convert: --reuse: cannot read gs://absent/base: no such bucket"),
)
def test_a_base_that_cannot_be_read_is_one_line(base: str, says: str, bare: GcsServer) -> None:
    bare.set_faults([{"object": r"private(/.*)?", "status": 403}])
    ran = convert(output=OUTPUT, reuse=base, **FLAGS)
    assert ran.code == 2 and ran.error().startswith(says)
    assert bare.names("datasets") == []


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


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_base_that_fails_or_changes_gives_the_same_bytes(
    name: str, buckets: GcsServer, caplog: pytest.LogCaptureFixture
) -> None:
    fault, line = FAULTS[name]
    buckets.set_faults([fault])
    ran = convert(output=OUTPUT, reuse=BASE, seed=3, **FLAGS)
    check_ended(ran, 0)
    buckets.set_faults([])
    check_fresh(buckets, seed=3)
    [said] = caplog.messages
    assert line in said and BASE in said
    # The other shard is reused.
    assert ("from their records" in ran.out) == (line == SOME)


def test_equal_shards_are_copied_by_the_server(buckets: GcsServer) -> None:
    """And read once if a dataset with a name lists the hashes of the copies."""
    buckets.reset()
    check_ended(convert(output=OUTPUT, reuse=BASE, **FLAGS), 0, "reused   19 images")
    # A shard is uploaded in parts; here none is.
    assert (read(buckets, "base/train-"), buckets.counts().get("PUT upload", 0)) == (0, 0)
    assert objects(buckets, "datasets", "reused") == objects(buckets, "private", "base")
    said = 'tfds.load("pets:1.0.0"), --output must end in pets/1.0.0'
    named = convert(output="gs://datasets/pets/1.2.0", reuse=BASE, name="pets", **FLAGS)
    check_ended(named, 0, said)
    assert read(buckets, "in/") == 0
    shards = [name for name in buckets.names("datasets") if "pets" in name and "train-0" in name]
    listed = json.loads(buckets.get("datasets", "pets/1.2.0/croissant.json"))["distribution"]
    hashes = {each["@id"]: each.get("sha256") for each in listed}
    made = {name.rpartition("/")[2]: buckets.get("datasets", name) for name in shards
            if name.endswith(".tfrecord")}  # fmt: skip
    assert len(made) == 2
    assert {name: hashes[name] for name in made} == {
        name: hashlib.sha256(data).hexdigest() for name, data in made.items()
    }
