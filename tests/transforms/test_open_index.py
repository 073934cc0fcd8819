"""The index of a dataset says where its records are, and is compared with the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.indexed_shards import SHARDS, entry, table, whole, write_shards
from transforms.dataset.metadata import ShardRange
from transforms.dataset.output_names import index_file
from transforms.records.record_index import RecordIndexError
from transforms.records.written_index import IndexReader, RecordKeys

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


def test_places(manifest: dict[str, Any], tmp_path: Path) -> None:
    places = IndexReader(str(tmp_path), manifest).files(whole(manifest))
    assert places.offsets.tolist() == [0, 17, 35, 0, 1016]
    assert places.lengths.tolist() == [1, 2, 0, 1000, 2]
    assert [places.path(at).rpartition("/")[2] for at in range(5)] == [FIRST] * 3 + [LAST] * 2
    assert places.offsets.itemsize + places.lengths.itemsize == 12


def test_places_of_a_slice(manifest: dict[str, Any], tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": [0, 17, 36]},
        {"offset": [0, 17, None]},
        {"length": [1, 2, 1]},
        {"length": [1, 2, -1], "offset": [0, 17, 35]},
        {"length": [1, 2**63 - 1, 0]},
    ],
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


@pytest.mark.parametrize(
    ("key", "closest"),
    [
        ("photos/cat/cat-4.jpg", "cat-4"),
        ("cat-4.jpg", "cat-4"),
        ("wolf-1", "wolves/wolf-1.jpg"),
        ("other/wolf-1.png", "wolves/wolf-1.jpg"),
        ("cat-44", "cat-4"),
        ("dgo-1", "dog-1"),
        ("quite different", None),
    ],
)
def test_the_closest_key(key: str, closest: str | None) -> None:
    assert keys_of(["dog-1", "cat-4", "wolves/wolf-1.jpg"]).closest(key) == closest
    assert keys_of([]).closest(key) is None
