"""`--dedupe drop` on a bucket: MD5s come with the listing, and objects may vanish."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.images import picture, saved
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset
from tests.servers.gcs import GcsServer
from tests.servers.gcs_requests import parameters_of

SEEDS = {
    "cat/a.jpg": 1,
    "cat/b.jpg": 2,
    "cat/copy.jpg": 1,
    "cat/same.jpg": 3,
    "dog/c.jpg": 4,
    "dog/same.jpg": 3,
}
IMAGES = {name: saved(picture("RGB", 12, 16, seed=seed), "JPEG") for name, seed in SEEDS.items()}
FLAGS: dict[str, Any] = {"label_from": "directory", "dedupe": "drop", "max_rejected": 3}
OUTPUT = "gs://datasets/out"


@pytest.fixture
def buckets(gcs: GcsServer) -> GcsServer:
    """`gs://photos/in/<class>/<name>` and an empty `gs://datasets`."""
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for name, data in IMAGES.items():
        gcs.put("photos", f"in/{name}", data)
    return gcs


def converted(buckets: GcsServer, folder: Path, **flags: Any) -> Dataset:
    """The dataset of the bucket, which `verify` accepts, and a copy of it on disk."""
    ran = convert(images="gs://photos/in/*/*.jpg", output=OUTPUT, **{**FLAGS, **flags})
    assert ran.code == 0, ran.err
    check_sound(OUTPUT)
    for name in buckets.names("datasets"):
        path = folder / name.removeprefix("out/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buckets.get("datasets", name))
    return Dataset(folder)


def reasons(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """Reason and detail of each rejected image, by its key."""
    return {line["key"]: (line["reason"], line["detail"]) for line in dataset.rejected}


def equal_images(dataset: Dataset) -> dict[str, Any]:
    """What `statistics.json` says of them."""
    statistics = json.loads((dataset.folder / "statistics.json").read_text("utf-8"))
    found: dict[str, Any] = statistics["duplicates"]["exact"]
    return found


def asked_for(buckets: GcsServer) -> list[str]:
    """The images whose metadata were requested, sorted."""
    start = "/storage/v1/b/photos/o/in%2F"
    targets = [target.partition("?") for _, target in buckets.log() if target.startswith(start)]
    return sorted(path.removeprefix(start).replace("%2F", "/") for path, *_ in targets)


@pytest.mark.slow
def test_the_files_are_those_of_the_same_images_on_disk(buckets: GcsServer, tmp_path: Path) -> None:
    for name, data in IMAGES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    local = make_dataset(tmp_path / "local", images=f"{tmp_path}/in/*/*.jpg", **FLAGS)
    there = converted(buckets, tmp_path / "there")
    assert {key: reason for key, (reason, _) in reasons(there).items()} == {
        "cat/copy.jpg": "duplicate_image",
        "cat/same.jpg": "conflicting_labels",
        "dog/same.jpg": "conflicting_labels",
    }
    for name in [*local.shards(), "statistics.json", "labels.txt"]:
        assert (there.folder / name).read_bytes() == (local.folder / name).read_bytes(), name
    assert reasons(there) == reasons(local)
    assert there.ledger == local.ledger


def listed_fields(buckets: GcsServer) -> set[str]:
    """What listings of the images asked for, whose pages have names."""
    found = [
        parameters_of(target).get("fields", "")
        for method, target in buckets.log()
        if method == "GET" and target.startswith("/storage/v1/b/photos/o?")
    ]
    return {fields for fields in found if "generation" in fields}


def test_no_image_costs_a_request_for_its_md5(buckets: GcsServer, tmp_path: Path) -> None:
    buckets.reset()
    converted(buckets, tmp_path / "there")
    assert asked_for(buckets) == []
    assert any("crc32c,md5Hash,contentEncoding" in each for each in listed_fields(buckets))
    # One of each group is read for the SHA-256 that is listed, what was rejected for the report.
    message = ["cat/a.jpg", "cat/same.jpg", "cat/copy.jpg", "cat/same.jpg", "dog/same.jpg"]
    stored = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    read = {name: n for name, n in buckets.media_gets().items() if name.startswith("in/")}
    assert read == Counter(f"in/{name}" for name in [*stored, *message])


@pytest.mark.slow
def test_what_is_stored_compressed_is_read_to_be_compared(
    buckets: GcsServer, tmp_path: Path
) -> None:
    """Its MD5 is that of the compressed bytes, which differ by the time in their header."""
    for time, name in enumerate(("cat/a.jpg", "cat/copy.jpg")):
        packed = gzip.compress(IMAGES[name], mtime=time)
        buckets.put("photos", f"in/{name}", packed, content_encoding="gzip")
    dataset = converted(buckets, tmp_path / "there")
    assert reasons(dataset)["cat/copy.jpg"][0] == "duplicate_image"


@pytest.mark.slow
def test_a_run_that_drops_nothing_lists_no_checksums(buckets: GcsServer, tmp_path: Path) -> None:
    buckets.reset()
    converted(buckets, tmp_path / "there", dedupe="report")
    assert listed_fields(buckets)
    assert not any("md5Hash" in each for each in listed_fields(buckets))


@pytest.mark.slow
def test_an_object_that_is_gone_before_it_is_read_to_be_compared_costs_no_copy(
    buckets: GcsServer, tmp_path: Path
) -> None:
    for name in ("cat/a.jpg", "cat/copy.jpg"):
        packed = gzip.compress(IMAGES[name], mtime=0)
        buckets.put("photos", f"in/{name}", packed, content_encoding="gzip")
    buckets.set_faults([{"method": "GET", "object": "photos/in/cat/a.jpg", "status": 404}])
    dataset = converted(buckets, tmp_path / "there")
    found = reasons(dataset)
    assert found.pop("cat/a.jpg") == ("unreadable", "no such object")
    assert set(found) == {"cat/same.jpg", "dog/same.jpg"}
    assert dataset.ledger == {"images_matched": 6, "records_written": 3, "images_rejected": 3}
    assert equal_images(dataset)["groups"] == 1
