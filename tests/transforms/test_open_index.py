"""The index of a dataset says where its records are, and is compared with the manifest."""

import gc
import os
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.servers.gcs import GcsServer
from tests.transforms.indexed_shards import SHARDS, Shards, entry, table, whole, write_shards
from transforms.dataset.metadata import ShardRange
from transforms.dataset.output_names import index_file
from transforms.records import written_index as record_files
from transforms.records.record_index import RecordIndexError
from transforms.records.written_index import (
    IndexReader,
    RecordFiles,
    RecordKeys,
    UnreadableRecordError,
)

FIRST, EMPTY, LAST = SHARDS

# The columns of the index of FIRST.
COLUMNS = {
    "record": [0, 1, 2],
    "offset": [0, 17, 35],
    "length": [1, 2, 0],
    "key": ["b", "a/x", "c"],
}


@pytest.fixture
def manifest(tmp_path: Path) -> dict[str, Any]:
    return write_shards(tmp_path)


def test_places_of_all_records_and_of_a_slice(manifest: dict[str, Any], tmp_path: Path) -> None:
    places = IndexReader(str(tmp_path), manifest).files(whole(manifest))
    assert places.offsets.tolist() == [0, 17, 35, 0, 1016]
    assert places.lengths.tolist() == [1, 2, 0, 1000, 2]
    assert [places.path(at).rpartition("/")[2] for at in range(5)] == [FIRST] * 3 + [LAST] * 2
    assert places.offsets.itemsize + places.lengths.itemsize == 12
    ranges = [ShardRange(FIRST, 1, 2, 3), ShardRange(LAST, 0, 1, 2)]
    index = IndexReader(str(tmp_path), manifest)
    places = index.files(ranges)
    assert places.offsets.tolist() == [17, 35, 0] and [*map(places.number, (0, 2))] == [1, 0]
    keys = index.keys(ranges)
    assert [keys.find(key) for key in ("a/x", "c", "z", "b")] == [0, 1, 2, None]
    assert len(index.files([]).offsets) == 0 and index.keys([]).find("b") is None


def test_files_of_one_record_share_an_index(tmp_path: Path) -> None:
    manifest = write_shards(tmp_path, {FIRST: SHARDS[FIRST]})
    files = [{"file": f"train/{n}.tfrecord", "records": 1, "bytes": 16 + n} for n in (7, 8, 9)]
    manifest |= {"options": {"files": "per_image"}, "splits": {"train": {"shards": files}}}
    ranges = whole(manifest)[1:]
    index = IndexReader(str(tmp_path), manifest)
    places = index.files(ranges)
    assert (places.offsets.tolist(), places.lengths.tolist()) == ([0, 0], [8, 9])
    keys = index.keys(ranges)
    assert [keys.find(key) for key in ("a/x", "c", "b")] == [0, 1, None]
    files[1]["bytes"] = 15
    with pytest.raises(RecordIndexError, match="a file has an impossible size"):
        IndexReader(str(tmp_path), manifest).files(ranges)


@cases(
    {"offset": [0, 17, 36]},
    {"offset": [0, 17, None]},
    {"length": [1, 2, 1]},
    {"length": [1, 2, -1], "offset": [0, 17, 35]},
    {"length": [1, 2**63 - 1, 0]},
)
def test_an_index_of_other_records_is_refused(
    changed: dict[str, Any], manifest: dict[str, Any], tmp_path: Path
) -> None:
    """Even with the checksum of the manifest: a hostile index leads to no other bytes."""
    data = table({**COLUMNS, **changed}, 3)
    (tmp_path / index_file(FIRST)).write_bytes(data)
    manifest["index"][0] = entry(index_file(FIRST), data, 3)
    index = IndexReader(str(tmp_path), manifest)
    with pytest.raises(RecordIndexError, match="its records are not those of train-00000"):
        index.files(whole(manifest))


def test_a_flipped_byte_is_found(manifest: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / index_file(FIRST)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordIndexError, match="its checksum is not that of the manifest"):
        IndexReader(str(tmp_path), manifest).files(whole(manifest))


def test_whether_there_is_an_index(manifest: dict[str, Any]) -> None:
    assert IndexReader("out", manifest).has_index([FIRST, LAST])
    manifest["index"].clear()
    index = IndexReader("out", manifest)
    assert (index.has_index([FIRST]), index.has_index([])) == (False, True)


def keys_of(keys: list[str]) -> RecordKeys:
    return RecordKeys(pa.array(keys, pa.large_string()))


@given(st.lists(st.text(max_size=5)), st.text(max_size=5), st.integers(0, 4))
def test_keys_are_found_where_they_are_first(keys: list[str], other: str, start: int) -> None:
    made = keys_of(keys)
    for key in (*keys, other):
        assert made.find(key) == (keys.index(key) if key in keys else None)
        places = [at for at, each in enumerate(keys) if each == key and at >= start]
        assert made.find(key, range(start, len(keys))) == (places[0] if places else None)
    assert made.closest(other) in (*keys, None)


@cases(
    ("photos/cat/cat-4.jpg", "cat-4"),
    ("cat-4.jpg", "cat-4"),
    ("wolf-1", "wolves/wolf-1.jpg"),
    ("other/wolf-1.png", "wolves/wolf-1.jpg"),
    ("cat-44", "cat-4"),
    ("dgo-1", "dog-1"),
    ("quite different", None),
)
def test_the_closest_key(key: str, closest: str | None) -> None:
    assert keys_of(["dog-1", "cat-4", "wolves/wolf-1.jpg"]).closest(key) == closest
    assert keys_of([]).closest(key) is None


# Records are read by their places: in few calls, checked, from threads and other processes.

PAYLOADS = [payload for shard in SHARDS.values() for payload in shard.values()]


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


@cases((17, "length"), (27, "length"), (30, "bytes"), (34, "bytes"))
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


def test_another_a_cut_or_a_missing_file_is_named(files: RecordFiles, tmp_path: Path) -> None:
    """A dataset that is replaced while it is open."""
    (tmp_path / LAST).write_bytes((tmp_path / FIRST).read_bytes() * 30)
    with pytest.raises(UnreadableRecordError, match="it has 1 bytes, and the index says 1000"):
        files.read(3)
    os.truncate(tmp_path / LAST, 500)
    with pytest.raises(UnreadableRecordError, match="record 0 at byte 0: the file ends inside"):
        files.read(3)
    (tmp_path / FIRST).unlink()
    with pytest.raises(UnreadableRecordError, match=f"^cannot read .*{FIRST}: No such file"):
        files.read(0)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_of_it_is_not_opened(kind: str, files: RecordFiles, tmp_path: Path) -> None:
    path = tmp_path / FIRST
    if kind == "link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    else:
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(UnreadableRecordError, match="it is a link|not a regular file"):
        files.read(0)


def test_threads_read_closed_files(files: RecordFiles, monkeypatch: pytest.MonkeyPatch) -> None:
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
