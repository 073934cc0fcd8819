"""A read that may succeed later fails the run, not the image: no dataset has holes from it."""

from __future__ import annotations

import errno
import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.metrics import MetricsFilter

from tests.marks import rest_slow
from tests.pipeline.commands import Ran, convert, digests, make_dataset
from tests.servers.gcs import GcsServer
from tests.servers.short_retries import retry_for
from tests.transforms.beam import convert as run_graph
from tests.transforms.beam import make_config
from transforms.storage import gcs_requests as gcs_retry
from transforms.storage import local_storage, read_ahead
from transforms.storage.read_ahead import reading_threads

IMAGES = "gs://photos/in/*/*.jpg"
LOST = "photos/in/dog/dog-4.jpg"
NO_ANSWER = "no answer in 0.5 s of retries"


@pytest.fixture
def photos_bucket(gcs: GcsServer, photos: Path, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """`gs://photos/in/<class>/<name>`, in a process that gives up after half a second."""
    gcs.make_bucket("photos")
    gcs.put_folder("photos", "in/", photos)
    _wait_for_readers()
    gcs.reset()
    _give_up_soon(monkeypatch)
    return gcs


def _give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    retry_for(0.5, monkeypatch)
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 0.5)
    monkeypatch.setattr(gcs_retry, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(gcs_retry, "_LONGEST_PAUSE", 0.2)


def run(output: Path, **flags: Any) -> Ran:
    """Converts what is in the bucket; one image in a hundred may be left out."""
    flags = {"images": IMAGES, "output": output, "num_shards": 3, "max_rejected": "50%", **flags}
    return convert(**flags)


def _wait_for_readers() -> None:
    """Waits until no thread still reads for a run that failed: its reads count, too."""
    threads = reading_threads(IMAGES)
    free = threading.Barrier(threads + 1)
    for _ in range(threads):
        read_ahead._shared_pool(threads).submit(free.wait)
    free.wait(60)


@pytest.mark.parametrize("status", rest_slow([408, 429, 500, 503]))
def test_an_object_that_gives_no_answer_fails_the_run(
    photos_bucket: GcsServer, tmp_path: Path, status: int
) -> None:
    photos_bucket.set_faults([{"kind": "media", "object": LOST, "status": status}])
    ran = run(tmp_path / "out")
    assert ran.code == 1, ran.out
    error = ran.error()
    why = "the bucket refused requests (429) for 0.0 minutes" if status == 429 else NO_ANSWER
    assert f"cannot read gs://{LOST}: {why}" in error
    assert "run the same command again; nothing published" in error
    assert not (tmp_path / "out" / "manifest.json").exists()

    _wait_for_readers()
    photos_bucket.reset()
    assert run(tmp_path / "out").code == 0
    reads = photos_bucket.media_gets()
    assert 0 < len(reads) < 18  # finished shards are not read again
    assert set(reads.values()) == {1}
    photos_bucket.reset()
    undisturbed = make_dataset(tmp_path / "all", images=IMAGES, num_shards=3, max_rejected="50%")
    assert undisturbed.ledger["records_written"] == 18
    assert {n: d for n, d in digests(tmp_path / "out").items() if n.endswith("tfrecord")} == {
        n: d for n, d in digests(tmp_path / "all").items() if n.endswith("tfrecord")
    }


@pytest.mark.parametrize("status", rest_slow([403, 404, 400]))
def test_what_is_final_is_rejected(photos_bucket: GcsServer, tmp_path: Path, status: int) -> None:
    photos_bucket.set_faults([{"kind": "media", "object": LOST, "status": status}])
    assert run(tmp_path / "out").code == 0
    assert photos_bucket.media_gets()["in/dog/dog-4.jpg"] == 1


@pytest.mark.slow
def test_a_rerun_tries_what_was_unreadable_again(photos_bucket: GcsServer, tmp_path: Path) -> None:
    fault = {"kind": "media", "object": LOST, "status": 403}
    photos_bucket.set_faults([fault])
    assert run(tmp_path / "out").code == 0
    before = digests(tmp_path / "out")
    photos_bucket.reset()
    photos_bucket.set_faults([fault])
    assert run(tmp_path / "out").out.startswith("up to date")
    assert photos_bucket.media_gets() == {"in/dog/dog-4.jpg": 1}
    photos_bucket.reset()
    ran = run(tmp_path / "out")
    assert ran.code == 2
    assert "or have become readable). Use --overwrite" in ran.error()
    assert digests(tmp_path / "out") == before
    assert run(tmp_path / "out", overwrite=True).code == 0


@pytest.mark.slow
def test_equal_images_are_not_kept_because_one_gives_no_answer(
    photos_bucket: GcsServer, photos: Path, tmp_path: Path
) -> None:
    """What is stored compressed is read to be compared: its MD5 is that of other bytes."""
    names = ["in/dog/copy.jpg", "in/dog/dog-4.jpg"]
    packed = gzip.compress((photos / "dog" / "dog-4.jpg").read_bytes(), mtime=0)
    for name in names:
        photos_bucket.put("photos", name, packed, content_encoding="gzip")
    photos_bucket.set_faults([{"kind": "media", "object": LOST, "status": 503}])
    ran = run(tmp_path / "out", dedupe="drop")
    assert ran.code == 1, ran.out
    assert f"cannot read gs://{LOST}" in ran.error()
    # It ended there: no shard was written without the copy.
    assert set(photos_bucket.media_gets()) <= set(names)


@pytest.mark.slow
def test_a_bucket_that_throttles_for_minutes_ends_the_run_and_a_rerun_goes_on(
    photos_bucket: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First no image can be read, then a third of the requests are refused."""
    photos_bucket.set_faults([{"kind": "media", "status": 429}])
    ran = run(tmp_path / "out")
    assert ran.code == 1, ran.out
    assert "the bucket refused requests (429) for 0.0 minutes: try fewer workers" in ran.error()
    photos_bucket.set_faults([{"kind": "media", "status": 429, "p": 0.3}])
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 60)
    dataset = make_dataset(tmp_path / "out", images=IMAGES, num_shards=3, max_rejected="0")
    assert dataset.ledger["records_written"] == 18
    assert dataset.rejected == []


def test_throttling_is_waited_for_and_counted(
    photos_bucket: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, half a second may pass before three refused requests are sent again.
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 60)
    photos_bucket.set_faults([{"kind": "media", "status": 429, "count": 3}])
    config = make_config(Path("unused"), tmp_path / "out", images=(IMAGES,), root="gs://photos/in")
    result = run_graph(config)
    assert photos_bucket.counts()["GET media"] == 18 + 3
    throttled = MetricsFilter().with_namespace("gcsio").with_name("cumulativeThrottlingSeconds")
    [counted] = result.metrics().query(throttled)["counters"]
    assert counted.committed >= 1


@pytest.mark.parametrize(
    ("fault", "flags"),
    rest_slow(
        [
            ({"kind": "list", "object": "photos"}, {}),
            ({"object": "photos/labels.csv"}, {"labels": "gs://photos/labels.csv"}),
            ({"object": "photos/classes.txt"}, {"class_names": "gs://photos/classes.txt"}),
            ({"kind": "list", "object": "datasets"}, {"output": "gs://datasets/x"}),
            ({"kind": "upload"}, {"output": "gs://datasets/x"}),
        ]
    ),
)
def test_inputs_that_give_no_answer_before_the_job_are_no_wrong_flags(
    photos_bucket: GcsServer, tmp_path: Path, fault: dict[str, Any], flags: dict[str, Any]
) -> None:
    """A scheduler tries exit code 1 again, and not 2."""
    photos_bucket.make_bucket("datasets")
    photos_bucket.put("photos", "labels.csv", b"id,label\ndog-1,dog\n")
    photos_bucket.put("photos", "classes.txt", b"cat\ndog\nfox\n")
    photos_bucket.set_faults([{**fault, "status": 503}])
    ran = run(**{"output": tmp_path / "out", **flags})
    assert ran.code == 1, ran.out
    assert NO_ANSWER in ran.error()
    assert ran.error().endswith("run the same command again")


def failing_open(monkeypatch: pytest.MonkeyPatch, name: str, numbers: Iterator[int]) -> list[str]:
    """Lets the opening of a file fail with each of some errors, then succeed."""
    opened: list[str] = []
    original = os.open

    def opening(path: Any, *arguments: Any, **keywords: Any) -> int:
        if str(path).endswith(name):
            opened.append(str(path))
            if number := next(numbers, 0):
                raise OSError(number, os.strerror(number), path)
        return original(path, *arguments, **keywords)

    monkeypatch.setattr(local_storage.os, "open", opening)
    monkeypatch.setattr(local_storage, "_PAUSES", (0.0, 0.0, 0.0))
    return opened


def test_a_local_read_that_fails_for_a_while_is_tried_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
    opened = failing_open(monkeypatch, "dog-1.jpg", numbers)
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg")
    assert len(opened) == 4
    assert dataset.rejected == []


def test_a_local_read_that_goes_on_failing_fails_the_run(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_open(monkeypatch, "dog-1.jpg", iter([errno.EIO] * 4))
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out", "max_rejected": "50%"}
    ran = convert(**flags)
    assert ran.code == 1
    assert f"cannot read {photos}/dog/dog-1.jpg: Input/output error; run the same" in ran.error()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert convert(**flags).code == 0
