"""The Google Cloud Storage that tests talk to: it stores, counts, and fails on request."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import PreconditionFailed
from google.cloud.storage import Bucket
from google.cloud.storage.exceptions import InvalidResponse

from tests.servers.gcs import GcsError, GcsServer, ask
from tests.servers.gcs_objects import BUCKET, PART, close, download, write

# The Google Cloud Storage that tests talk to: it stores, counts, and fails on request.


def statuses(server: GcsServer, *, order: int = 1) -> dict[str, list[int]]:
    """What each of 20 objects answers to three requests, objects in parallel."""

    def answers(name: str) -> list[int]:
        target = f"/storage/v1/b/{BUCKET}/o/{name}?alt=media"
        return [ask(server.port, "GET", target).status for _ in range(3)]

    names = [f"{number:02}" for number in range(20)][::order]
    with ThreadPoolExecutor(8) as threads:
        return dict(zip(names, threads.map(answers, names), strict=True))


def test_faults_by_probability_are_repeatable(server: GcsServer) -> None:
    for number in range(20):
        server.put(BUCKET, f"{number:02}", b"1")
    rules = [{"kind": "media", "status": 429, "p": 0.3}]
    server.set_faults(rules)
    first = statuses(server)
    failed = sum(each.count(429) for each in first.values())
    assert 6 <= failed <= 30
    assert server.counts() == {"GET media": 60, "fault 429 GET media": failed}
    server.set_faults(rules)
    assert statuses(server, order=-1) == first
    server.set_faults(rules, seed=1)
    assert statuses(server) != first


def test_unknown_rules_are_refused(server: GcsServer) -> None:
    for rule in ({"stauts": 503}, {"match": "("}, {"before_media_of": "a", "p": 1}):
        with pytest.raises(GcsError, match="the proxy refused"):
            server.set_faults([rule])


@pytest.mark.parametrize(
    ("delayed", "slow", "quick"), [("get_ms", "GET", "DELETE"), ("other_ms", "DELETE", "GET")]
)
def test_requests_of_one_kind_are_delayed(
    server: GcsServer, delayed: str, slow: str, quick: str
) -> None:
    ended: list[str] = []

    def send(method: str) -> None:
        ask(server.port, method, f"/storage/v1/b/{BUCKET}/o/a?alt=media")
        ended.append(method)

    server.set_latency(**{delayed: 700})
    start = time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(send, slow)
        send(quick)
    assert ended == [quick, slow]
    assert time.monotonic() - start >= 0.7


def test_beam_renames_and_deletes_in_a_batch(server: GcsServer) -> None:
    names = [f"{number} of 3" for number in range(3)]
    for name in names:
        server.put(BUCKET, f"from/{name}", name.encode())
    sources = [f"gs://{BUCKET}/from/{name}" for name in names]
    FileSystems.rename(sources, [f"gs://{BUCKET}/to/{name}" for name in names])
    assert server.names(BUCKET) == [f"to/{name}" for name in names]
    assert server.get(BUCKET, "to/1 of 3") == b"1 of 3"
    assert server.counts()["POST batch"] == 2
    FileSystems.delete([f"gs://{BUCKET}/to/{name}" for name in names])
    assert server.names(BUCKET) == []


# The loopback Google Cloud Storage holds to conditions on generations, as GCS does.

CONDITIONAL: dict[str, Callable[[Bucket, int], object]] = {
    "media": lambda bucket, generation: download(bucket, "a", generation),
    "metadata": lambda bucket, generation: bucket.blob("a").reload(if_generation_match=generation),
    "delete": lambda bucket, generation: bucket.blob("a").delete(if_generation_match=generation),
    "multipart upload": lambda bucket, generation: bucket.blob("a").upload_from_string(
        b"new", if_generation_match=generation
    ),
    "resumable upload": lambda bucket, generation: write(bucket, "a", generation),
    "copy onto": lambda bucket, generation: bucket.copy_blob(
        bucket.blob("source"), bucket, "a", if_generation_match=generation
    ),
    "copy from": lambda bucket, generation: bucket.copy_blob(
        bucket.blob("a"), bucket, "copy", if_source_generation_match=generation
    ),
    "rewrite onto": lambda bucket, generation: bucket.blob("a").rewrite(
        bucket.blob("source"), if_generation_match=generation
    ),
    "rewrite from": lambda bucket, generation: bucket.blob("copy").rewrite(
        bucket.blob("a"), if_source_generation_match=generation
    ),
    "compose onto": lambda bucket, generation: bucket.blob("a").compose(
        [bucket.blob("source")], if_generation_match=generation
    ),
}


@pytest.mark.parametrize("request_of", CONDITIONAL.values(), ids=CONDITIONAL)
def test_a_generation_can_be_demanded(
    server: GcsServer, bucket: Bucket, request_of: Callable[[Bucket, int], object]
) -> None:
    server.put(BUCKET, "source", b"source")
    former = server.put(BUCKET, "a", b"1")
    current = server.put(BUCKET, "a", b"2")
    # The writer of a resumable upload raises the bare InvalidResponse.
    with pytest.raises((PreconditionFailed, InvalidResponse), match="412"):
        request_of(bucket, former)
    assert server.get(BUCKET, "a") == b"2"
    assert server.names(BUCKET) == ["a", "source"]
    request_of(bucket, current)


CREATING = ["multipart upload", "resumable upload", "copy onto", "rewrite onto", "compose onto"]


@pytest.mark.parametrize("name", CREATING)
def test_an_object_can_be_demanded_to_be_new(server: GcsServer, bucket: Bucket, name: str) -> None:
    server.put(BUCKET, "source", b"source")
    CONDITIONAL[name](bucket, 0)
    made = server.get(BUCKET, "a")
    with pytest.raises((PreconditionFailed, InvalidResponse), match="412"):
        CONDITIONAL[name](bucket, 0)
    assert server.get(BUCKET, "a") == made


def test_an_upload_in_parts_checks_again_at_its_end(server: GcsServer, bucket: Bucket) -> None:
    stream = bucket.blob("a+b").open("wb", chunk_size=PART, if_generation_match=0)
    stream.write(b"x" * (PART + 1))
    server.put(BUCKET, "a+b", b"quicker")
    with pytest.raises(InvalidResponse, match="412"):
        close(stream)
    assert server.get(BUCKET, "a+b") == b"quicker"
