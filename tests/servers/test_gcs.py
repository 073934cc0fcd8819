"""The Google Cloud Storage that tests talk to: it fails on request, and is slow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers.conftest import BUCKET
from tests.servers.gcs import GcsError, GcsServer, ask


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


# The loopback Google Cloud Storage holds to conditions on generations, as GCS does.
