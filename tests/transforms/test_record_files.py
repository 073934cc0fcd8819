"""Records are read by their places: in few calls, checked, from threads and other processes."""

from __future__ import annotations

import gc
import os
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.gcs import GcsServer
from tests.transforms.indexed_shards import SHARDS, Shards, whole, write_shards
from transforms.records import written_index as record_files
from transforms.records.written_index import IndexReader, RecordFiles, UnreadableRecordError

PAYLOADS = [payload for shard in SHARDS.values() for payload in shard.values()]
FIRST, _, LAST = SHARDS


def opened(folder: Path | str, manifest: dict[str, Any]) -> RecordFiles:
    return IndexReader(str(folder), manifest).files(whole(manifest))


@pytest.fixture
def files(tmp_path: Path) -> RecordFiles:
    return opened(tmp_path, write_shards(tmp_path))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offset and length of every part that is read from a local file."""
    noted: list[tuple[int, int]] = []
    pread = os.pread

    def note(descriptor: int, length: int, offset: int) -> bytes:
        noted.append((offset, length))
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", note)
    return noted


def test_each_record_is_one_system_call(
    files: RecordFiles, reads: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []
    open_file = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, *more: paths.append(os.path.basename(path)) or open_file(path, *more),
    )
    assert [files.read(place) for place in range(5)] == PAYLOADS
    assert reads == [(0, 17), (17, 18), (35, 16), (0, 1016), (1016, 18)]
    for place in (0, 4, 1, 3, 2):
        files.read(place)
    assert paths == [FIRST, LAST]


def test_neighbours_are_read_at_once(files: RecordFiles, reads: list[tuple[int, int]]) -> None:
    assert list(files.read_ahead(range(5))) == PAYLOADS
    assert reads == [(0, 51), (0, 1034)]
    reads.clear()
    places = (3, 1, 2, 0, 2)
    assert files.read_many(places) == [PAYLOADS[place] for place in places]
    # In any order.
    assert reads == [(0, 51), (0, 1016)]


def test_what_is_read_at_once_is_bounded(
    files: RecordFiles, reads: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_RUN_BYTES", 40)
    assert list(files.read_ahead(range(5))) == PAYLOADS
    assert reads == [(0, 35), (35, 16), (0, 1016), (1016, 18)]


@given(
    st.lists(st.lists(st.binary(max_size=30), max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(0, 15), max_size=12),
)
def test_any_places_give_their_records(shards: list[list[bytes]], places: list[int]) -> None:
    named: Shards = {
        f"train-{at:05}-of-{len(shards):05}.tfrecord": {
            f"{at}-{number}": payload for number, payload in enumerate(payloads)
        }
        for at, payloads in enumerate(shards)
    }
    payloads = [payload for shard in shards for payload in shard]
    chosen = [place % len(payloads) for place in places] if payloads else []
    with tempfile.TemporaryDirectory() as folder:
        made = opened(folder, write_shards(Path(folder), named))
        expected = [payloads[place] for place in chosen]
        assert made.read_many(chosen) == list(made.read_ahead(chosen)) == expected
        assert [made.read(place) for place in chosen] == expected


@pytest.mark.parametrize(
    ("at", "part"), [(17, "length"), (27, "length"), (30, "bytes"), (34, "bytes")]
)
def test_a_damaged_record_is_named(at: int, part: str, files: RecordFiles, tmp_path: Path) -> None:
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    problem = f"{path}: record 1 at byte 17: the checksum of its {part} is wrong$"
    for places in ([1], range(5)):
        for read in (files.read_many, lambda places: [*files.read_ahead(places)]):
            with pytest.raises(UnreadableRecordError, match=problem):
                read(places)
    with pytest.raises(UnreadableRecordError, match=problem):
        files.read(1)
    assert files.read(0) == b"1" and files.read(2) == b""


def test_another_file_under_the_name_is_found(files: RecordFiles, tmp_path: Path) -> None:
    """A dataset that is replaced while it is open."""
    (tmp_path / LAST).write_bytes((tmp_path / FIRST).read_bytes() * 30)
    with pytest.raises(UnreadableRecordError, match="it has 1 bytes, and the index says 1000"):
        files.read(3)


def test_a_cut_or_missing_file_is_named(files: RecordFiles, tmp_path: Path) -> None:
    os.truncate(tmp_path / LAST, 500)
    with pytest.raises(UnreadableRecordError, match="record 0 at byte 0: the file ends inside"):
        files.read(3)
    (tmp_path / FIRST).unlink()
    with pytest.raises(UnreadableRecordError, match=f"^cannot read .*{FIRST}: No such file"):
        files.read(0)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_of_the_dataset_is_not_opened(
    kind: str, files: RecordFiles, tmp_path: Path
) -> None:
    path = tmp_path / FIRST
    if kind == "link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    else:
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(UnreadableRecordError, match="it is a link|not a regular file"):
        files.read(0)


def test_threads_read_while_files_are_closed(
    files: RecordFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_OPEN_FILES", 1)
    few = pickle.loads(pickle.dumps(files))
    places = [place % 5 for place in range(1000)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(few.read, places)) == [PAYLOADS[place] for place in places]


def test_a_pickled_copy_holds_no_open_file_and_closes_its_own(files: RecordFiles) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    pickled = pickle.dumps(files)
    files.read(0)
    assert len(pickle.dumps(files)) == len(pickled)
    gc.collect()
    before = open_files()
    copy = pickle.loads(pickled)
    copy.read(0)
    copy.read(4)
    assert open_files() == before + 2
    del copy
    assert open_files() == before


def test_a_bucket_gets_one_request_for_neighbours(gcs: GcsServer, tmp_path: Path) -> None:
    manifest = write_shards(tmp_path)
    gcs.make_bucket("records")
    gcs.put_folder("records", "out/", tmp_path)
    files = opened("gs://records/out", manifest)
    gcs.reset()
    assert files.read(4) == b"yy"
    assert gcs.counts() == {"GET media": 1}
    assert files.read_many([0, 3, 1, 2]) == [PAYLOADS[place] for place in (0, 3, 1, 2)]
    assert gcs.counts() == {"GET media": 3}
    assert list(files.read_ahead(range(5))) == PAYLOADS
    assert gcs.counts() == {"GET media": 5}
    gcs.delete("records", f"out/{FIRST}")
    with pytest.raises(UnreadableRecordError, match=f"gs://records/out/{FIRST}: no such object"):
        files.read(0)
