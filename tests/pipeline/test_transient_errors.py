"""A read that may succeed later fails the run, not the image: no dataset has holes from it."""

import errno
import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.metrics import MetricsFilter

from tests.pipeline.commands import Dataset, Ran, check_ended, convert, digests
from tests.servers.gcs import GcsServer
from tests.servers.short_retries import retry_for
from tests.transforms.beam import convert as run_graph
from tests.transforms.beam import make_config
from transforms.storage import gcs_requests as gcs_retry
from transforms.storage import local_storage, read_ahead
from transforms.storage.read_ahead import reading_threads

pytestmark = pytest.mark.slow

IMAGES = "gs://photos/in/*/*.jpg"
NAME = "in/dog/dog-4.jpg"
LOST = f"photos/{NAME}"
NO_ANSWER = "no answer in 0.5 s of retries"


@pytest.fixture
def bucket(gcs: GcsServer, photos: Path, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """`gs://photos/in/<class>/<name>`, in a process that gives up after half a second."""
    gcs.make_bucket("photos")
    gcs.put_folder("photos", "in/", photos)
    _wait_for_readers()
    gcs.reset()
    retry_for(0.5, monkeypatch)
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 0.5)
    monkeypatch.setattr(gcs_retry, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(gcs_retry, "_LONGEST_PAUSE", 0.2)
    return gcs


def run(output: Path, **flags: Any) -> Ran:
    """Converts what is in the bucket; many images may be left out."""
    given = {"images": IMAGES, "output": output, "num_shards": 3, "max_rejected": "50%"}
    return convert(**{**given, **flags})


def _wait_for_readers() -> None:
    """Waits until no thread still reads for a run that failed: its reads count, too."""
    threads = reading_threads(IMAGES)
    free = threading.Barrier(threads + 1)
    for _ in range(threads):
        read_ahead._shared_pool(threads).submit(free.wait)
    free.wait(60)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_object_that_gives_no_answer_fails_the_run(
    bucket: GcsServer, tmp_path: Path, status: int
) -> None:
    bucket.set_faults([{"kind": "media", "object": LOST, "status": status}])
    why = "the bucket refused requests (429) for 0.0 minutes" if status == 429 else NO_ANSWER
    said = "run the same command again; nothing published"
    check_ended(run(tmp_path / "out"), 1, f"cannot read gs://{LOST}: {why}", said)
    assert not (tmp_path / "out" / "manifest.json").exists()

    _wait_for_readers()
    bucket.reset()
    assert run(tmp_path / "out").code == 0
    reads = bucket.media_gets()
    # Finished shards are not read again.
    assert 0 < len(reads) < 18 and set(reads.values()) == {1}
    bucket.reset()
    assert run(tmp_path / "all").code == 0
    assert Dataset(tmp_path / "all").ledger["records_written"] == 18
    again, whole = (digests(tmp_path / name) for name in ("out", "all"))
    assert [name for name in whole if "tfrecord" in name and again[name] != whole[name]] == []


@pytest.mark.parametrize("status", [403, 404, 400])
def test_what_is_final_is_rejected(bucket: GcsServer, tmp_path: Path, status: int) -> None:
    bucket.set_faults([{"kind": "media", "object": LOST, "status": status}])
    assert run(tmp_path / "out").code == 0
    assert bucket.media_gets()[NAME] == 1


def test_a_rerun_tries_what_was_unreadable_again(bucket: GcsServer, tmp_path: Path) -> None:
    fault = {"kind": "media", "object": LOST, "status": 403}
    bucket.set_faults([fault])
    assert run(tmp_path / "out").code == 0
    before = digests(tmp_path / "out")
    bucket.reset()
    bucket.set_faults([fault])
    check_ended(run(tmp_path / "out"), 0, "up to date")
    assert bucket.media_gets() == {NAME: 1}
    bucket.reset()
    check_ended(run(tmp_path / "out"), 2, "or have become readable). Use --overwrite")
    assert digests(tmp_path / "out") == before
    assert run(tmp_path / "out", overwrite=True).code == 0


def test_equal_images_are_not_kept_because_one_gives_no_answer(
    bucket: GcsServer, photos: Path, tmp_path: Path
) -> None:
    """What is stored compressed is read to be compared: its MD5 is that of other bytes."""
    names = ["in/dog/copy.jpg", NAME]
    packed = gzip.compress((photos / "dog" / "dog-4.jpg").read_bytes(), mtime=0)
    for name in names:
        bucket.put("photos", name, packed, content_encoding="gzip")
    bucket.set_faults([{"kind": "media", "object": LOST, "status": 503}])
    check_ended(run(tmp_path / "out", dedupe="drop"), 1, f"cannot read gs://{LOST}")
    # It ended there: no shard was written without the copy.
    assert set(bucket.media_gets()) <= set(names)


def test_a_bucket_that_throttles_for_minutes_ends_the_run_and_a_rerun_goes_on(
    bucket: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First no image can be read, then a third of the requests are refused."""
    bucket.set_faults([{"kind": "media", "status": 429}])
    said = "the bucket refused requests (429) for 0.0 minutes: try fewer workers"
    check_ended(run(tmp_path / "out"), 1, said)
    bucket.set_faults([{"kind": "media", "status": 429, "p": 0.3}])
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 60)
    check_ended(run(tmp_path / "out", max_rejected="0"), 0)
    assert Dataset(tmp_path / "out").ledger["records_written"] == 18


def test_throttling_is_waited_for_and_counted(
    bucket: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, half a second may pass before three refused requests are sent again.
    monkeypatch.setattr(gcs_retry, "THROTTLED_SECONDS", 60)
    bucket.set_faults([{"kind": "media", "status": 429, "count": 3}])
    config = make_config(Path("unused"), tmp_path / "out", images=(IMAGES,), root="gs://photos/in")
    result = run_graph(config)
    assert bucket.counts()["GET media"] == 18 + 3
    throttled = MetricsFilter().with_namespace("gcsio").with_name("cumulativeThrottlingSeconds")
    [counted] = result.metrics().query(throttled)["counters"]
    assert counted.committed >= 1


FAULTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"kind": "list", "object": "photos"}, {}),
    ({"object": "photos/labels.csv"}, {"labels": "gs://photos/labels.csv"}),
    ({"object": "photos/classes.txt"}, {"class_names": "gs://photos/classes.txt"}),
    ({"kind": "list", "object": "datasets"}, {"output": "gs://datasets/x"}),
    ({"kind": "upload"}, {"output": "gs://datasets/x"}),
]


@pytest.mark.parametrize(("fault", "flags"), FAULTS)
def test_inputs_that_give_no_answer_before_the_job_are_no_wrong_flags(
    bucket: GcsServer, tmp_path: Path, fault: dict[str, Any], flags: dict[str, Any]
) -> None:
    """A scheduler tries exit code 1 again, and not 2."""
    bucket.make_bucket("datasets")
    bucket.put("photos", "labels.csv", b"id,label\ndog-1,dog\n")
    bucket.put("photos", "classes.txt", b"cat\ndog\nfox\n")
    bucket.set_faults([{**fault, "status": 503}])
    ran = run(**{"output": tmp_path / "out", **flags})
    check_ended(ran, 1, NO_ANSWER)
    assert ran.error().endswith("run the same command again")


@pytest.mark.parametrize(("errors", "code"), [("ESTALE EIO ETIMEDOUT", 0), ("EIO EIO EIO EIO", 1)])
def test_a_local_read_that_fails_is_tried_again(
    errors: str, code: int, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times, as on a network's disk; then the run fails."""
    numbers: Iterator[int] = iter([getattr(errno, name) for name in errors.split()])
    opened: list[str] = []
    original = os.open

    def opening(path: Any, *arguments: Any, **keywords: Any) -> int:
        if str(path).endswith("dog-1.jpg"):
            opened.append(str(path))
            if number := next(numbers, 0):
                raise OSError(number, os.strerror(number), path)
        return original(path, *arguments, **keywords)

    monkeypatch.setattr(local_storage.os, "open", opening)
    monkeypatch.setattr(local_storage, "_PAUSES", (0.0, 0.0, 0.0))
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out", "max_rejected": "50%"}
    ran = convert(**flags)
    assert (ran.code, len(opened)) == (code, 4), ran.err
    if code:
        said = f"cannot read {photos}/dog/dog-1.jpg: Input/output error; run the same"
        assert said in ran.error() and not (tmp_path / "out" / "manifest.json").exists()
        assert convert(**flags).code == 0
    assert Dataset(tmp_path / "out").rejected == []
