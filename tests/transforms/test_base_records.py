"""Records of bases are read in few requests, and those of a compressed file in one pass."""

import gzip
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.spies import paths_given
from tests.transforms.indexed_shards import framed
from transforms.examples.tfrecord import TFRecordError
from transforms.records.image_origins import CompressedRecords, record_sources
from transforms.records.stored_images import StoredImage
from transforms.storage.local_storage import LocalStorage

MB = 1 << 20


def stored(record: int, offset: int = -1, length: int = 10) -> StoredImage:
    image = ("jpeg", 1, 1, 3, 0, 0, *(None,) * 7)
    return StoredImage(0, "s", record, offset, length, "", "", "", *image)


def runs(places: Sequence[tuple[int, int]], path: str = "s") -> list[list[int]]:
    """The places, as offset and length, that are read together, by their numbers."""
    placed = [(str(at), path, stored(at, *place)) for at, place in enumerate(places)]
    found: dict[int, list[int]] = {}
    for key, (source, _) in record_sources(placed).items():
        found.setdefault(id(source), []).append(int(key))
    return list(found.values())


def test_neighbours_are_read_together_and_gaps_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs([(0, 84), (100, 84), (300, 84)]) == [[0, 1], [2]]
    # Up to 8 MB.
    assert runs([(0, 4 * MB - 16), (4 * MB, 4 * MB - 16), (8 * MB, 84)]) == [[0, 1], [2]]
    monkeypatch.setattr(LocalStorage, "is_remote", True)
    assert runs([(0, 84), (100, 84), (300, 84), (2 * MB, 84)]) == [[0, 1, 2], [3]]
    # Up to 8 MB; never backwards.
    assert runs([(0, 84), (MB, 7 * MB - 16), (8 * MB, 84), (4 * MB, 84)]) == [[0, 1], [2], [3]]


@pytest.mark.parametrize("is_remote", [True, False])
def test_records_far_from_each_other_are_read_once(
    is_remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, payloads, far = tmp_path / "s", [bytes([at]) * 84 for at in range(5)], 2 * MB
    with path.open("wb") as file:
        for at, payload in enumerate(payloads):
            file.seek(at * far)
            file.write(framed(payload))
    asked: list[int] = []
    read = os.pread
    monkeypatch.setattr("os.pread", lambda *at: asked.append(at[2] // far) or read(*at))
    opened = paths_given(monkeypatch, LocalStorage, "open_ranges")
    monkeypatch.setattr(LocalStorage, "is_remote", is_remote)
    placed = [(str(at), str(path), stored(at, at * far, 84)) for at in range(5)]
    sources = record_sources(placed)
    for at, payload in enumerate(payloads):
        source, place = sources[str(at)]
        assert source.payload(place) == payload
    assert sorted(asked) == [0, 1, 2, 3, 4]
    assert is_remote or opened == [str(path)]


def zipped(tmp_path: Path, count: int) -> str:
    path = tmp_path / "s.gz"
    path.write_bytes(gzip.compress(b"".join(framed(bytes([at]) * 10) for at in range(count))))
    return str(path)


def test_a_compressed_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path, 6)
    opened = paths_given(monkeypatch, LocalStorage, "open_reader")
    sources = record_sources([(str(at), path, stored(at)) for at in (0, 1, 3, 4)])
    # Threads ask in any order.
    for at in (3, 0, 4, 1):
        source, place = sources[str(at)]
        assert source.payload(place) == bytes([at]) * 10
        assert isinstance(source, CompressedRecords)
        assert len(source._held) <= 2
    assert opened == [path]


def test_a_compressed_file_is_used_if_half_of_it_is_needed_in_order(tmp_path: Path) -> None:
    def used(*records: int) -> list[str]:
        return [*record_sources([(str(at), "s.gz", stored(at)) for at in records])]

    assert used(0, 1, 2) == ["0", "1", "2"]
    assert used(1, 3, 5) == ["1", "3", "5"]
    assert used(7, 9) == []
    assert used(2, 0, 1, 3, 4) == ["2", "3", "4"]


def test_a_compressed_file_that_changed_is_an_error(tmp_path: Path) -> None:
    path = zipped(tmp_path, 3)
    sources = record_sources([(str(at), path, stored(at, length=11)) for at in (0, 3)])
    for key, problem in (("0", "it has 10 bytes, and the index says 11"), ("3", "ends before")):
        source, place = sources[key]
        with pytest.raises(TFRecordError, match=problem):
            source.payload(place)


def test_records_that_were_all_read_are_let_go(tmp_path: Path) -> None:
    path, large = tmp_path / "s", bytes(2 << 20)
    path.write_bytes(framed(large) * 2)
    far = path.stat().st_size // 2
    placed = [(str(at), str(path), stored(at, at * far, len(large))) for at in range(2)]
    sources = record_sources(placed).values()
    tracemalloc.start()
    try:
        assert all(source.payload(place) == large for source, place in sources)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
