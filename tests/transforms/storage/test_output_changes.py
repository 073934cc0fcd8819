"""A run in a bucket changes only what it saw, and only while the lock names it."""

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.marks import cases
from tests.servers.gcs import GcsServer
from transforms.core.records import NameRange
from transforms.storage import gcs_requests, metrics
from transforms.storage.gcs_requests import ThrottleGate
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.interface import FoundFile
from transforms.storage.output_changes import OutputChanges, Put, remove_staging

OUTPUT = "gs://datasets/out"


@pytest.fixture
def bucket(gcs: GcsServer) -> GcsServer:
    gcs.make_bucket("datasets")
    for name in ("labels.txt", "manifest.json", ".staging/small_files.json"):
        gcs.put("datasets", f"out/{name}", name.encode())
    return gcs


def changes_of(run: str = "") -> OutputChanges:
    """What a run may change, which has just listed the folder."""
    changes = OutputChanges(OUTPUT, run)
    changes.begin()
    return changes


@cases(
    *(("mine", each) for each in ('{"run": "other"}', "{}", "[]", "[" * 9999, "3")),
    ("mine", '{"run": "mine"}'),
    ("", "{}"),
)
def test_only_who_has_the_lock_changes_anything(run: str, content: str, bucket: GcsServer) -> None:
    bucket.put("datasets", "out/.staging/lock.json", content.encode())
    names = bucket.names("datasets")
    if run in content:
        remove_staging(OUTPUT, run)
        assert bucket.names("datasets") == ["out/labels.txt", "out/manifest.json"]
    else:
        for change in (changes_of, functools.partial(remove_staging, OUTPUT)):
            with pytest.raises(OSError, match=f"another run took over --output {OUTPUT}"):
                change(run)
        assert bucket.names("datasets") == names


@cases(
    lambda changes: changes.write("manifest.json", b"ours"),
    lambda changes: changes.move(".staging/small_files.json", "manifest.json"),
    ids=["write", "move"],
)
def test_a_change_is_left_alone(change: Callable[[OutputChanges], None], bucket: GcsServer) -> None:
    changes = changes_of()
    for name in ("labels.txt", "manifest.json"):
        bucket.put("datasets", f"out/{name}", b"another's")
    changes.remove(["labels.txt"])
    with pytest.raises(OSError, match="another run wrote it|overwritten meanwhile"):
        change(changes)
    for name in ("labels.txt", "manifest.json"):
        assert bucket.get("datasets", f"out/{name}") == b"another's"
    with pytest.raises(OSError, match="another run took"):
        changes.begin()


def test_what_is_in_place_gets_a_generation_of_this_run(bucket: GcsServer) -> None:
    """A run that fell asleep before it removed this file must not remove it afterwards."""
    sleeper, changes = changes_of(), changes_of()
    there = bucket.metadata("datasets", "out/labels.txt")
    put = Put(".staging/gone", "labels.txt", 10, "00000000")
    with pytest.raises(OSError, match="neither staged nor in place"):
        changes.find_staged([put])
    stored = GcsStorage().find(f"{OUTPUT}/labels.txt")
    assert stored is not None
    put = put._replace(crc32c=stored.crc32c)
    moves = changes.find_staged([put])
    version = int(there["generation"])
    assert moves == [put._replace(source="labels.txt", version=version, former=version)]
    changes.put_in_place(moves)
    assert bucket.metadata("datasets", "out/labels.txt")["generation"] != there["generation"]
    sleeper.remove(["labels.txt"])
    assert bucket.get("datasets", "out/labels.txt") == b"labels.txt"


def test_two_requests_move_a_shard_and_one_removes_its_sidecar(bucket: GcsServer) -> None:
    puts = [Put(f".staging/s{n}", f"s{n}.tfrecord", 2, "") for n in range(10)]
    for put in puts:
        bucket.put("datasets", f"out/{put.source}", b"xx")
        bucket.put("datasets", f"out/{put.source}.json", b"{}")
    changes = changes_of()
    bucket.reset()
    changes.put_in_place(changes.find_staged(puts))
    assert bucket.counts() == {"POST rewrite": 10, "DELETE object": 10}
    changes.begin()
    changes.remove_staging()
    # One is the list of small files.
    assert bucket.counts()["DELETE object"] == 10 + 10 + 1
    assert len(bucket.names("datasets")) == 2 + 10


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were reported; each look at the clock is after all pauses before."""
    now = itertools.count(step=40)
    time = SimpleNamespace(monotonic=functools.partial(next, now), sleep=lambda _: None)
    seconds: list[float] = []
    monkeypatch.setattr(metrics, "count_throttled", seconds.append)
    monkeypatch.setattr(gcs_requests, "GATE", ThrottleGate())
    monkeypatch.setattr(gcs_requests, "time", time)
    return seconds


def test_a_bucket_that_refuses_a_list_is_reported(bucket: GcsServer, counted: list[float]) -> None:
    for number in range(4):
        bucket.put("datasets", f"out/{number}.jpg", b"x")
    bucket.set_page(1)
    bucket.set_faults([{"kind": "list", "status": 429, "count": 1}])
    listing = GcsStorage().list_range(NameRange(f"{OUTPUT}/*.jpg"), 3)
    assert isinstance(next(listing), FoundFile)
    assert counted == [1]
    # The requests that cut the rest into ranges are sent by other threads.
    bucket.set_faults([{"kind": "list", "status": 429, "match": "maxResults=1", "count": 1}])
    rest = list(listing)
    assert isinstance(rest[-1], NameRange)
    assert sum(counted) >= 2


@pytest.mark.parametrize("kind", ["rewrite", "object"])
def test_a_bucket_that_refuses_is_reported_when_a_dataset_is_published(
    bucket: GcsServer, counted: list[float], kind: str
) -> None:
    changes = changes_of()
    bucket.set_faults([{"kind": kind, "status": 429, "count": 1}])
    put = Put(".staging/small_files.json", "small_files.json", 0, "")
    changes.put_in_place(changes.find_staged([put]))
    changes.remove_staging()
    assert sum(counted) >= 1
