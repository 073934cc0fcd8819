"""Sizes that a manifest or an index names are not believed before memory is asked for."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.spies import memory_below
from transforms.examples.tfrecord import TFRecordError, framed_payload, read_frames
from transforms.labels.csv_tables import stored_size
from transforms.records.written_index import stored_lines
from transforms.storage.files import read_dataset_file, storage_of

SPARSE = 600 << 20


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Fails if a test asks for more than 20 MB."""
    with memory_below(20 << 20):
        yield


@pytest.fixture
def sparse(tmp_path: Path) -> str:
    """A file of 600 MB that takes no space."""
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, SPARSE)
    return str(path)


@pytest.mark.parametrize("listed", [SPARSE, 2**50])
def test_a_file_is_not_read_whole_as_a_manifest_lists_its_size(sparse: str, listed: int) -> None:
    assert read_dataset_file(sparse, {"bytes": listed, "crc32c": "00000000"}) is None


def test_a_line_of_any_size_is_not_read(sparse: str) -> None:
    with pytest.raises(OSError, match="a line of it has"):
        list(stored_lines(sparse, SPARSE))


@pytest.mark.parametrize("length", [5, 2**31, 2**62])
def test_a_part_of_a_file_ends_with_the_file(sparse: str, length: int) -> None:
    Path(sparse).write_bytes(b"0123456789")
    assert storage_of(sparse).read_range(sparse, 5, length) == b"56789"


@pytest.mark.parametrize("length", [SPARSE // 6, SPARSE // 3, 2**40])
def test_a_record_of_any_length_is_not_read_as_an_index_says(sparse: str, length: int) -> None:
    Path(sparse).write_bytes(bytes(SPARSE // 100))
    os.truncate(sparse, SPARSE // 3)
    data = read_frames(partial(storage_of(sparse).read_range, sparse), 16, length + 16)
    with pytest.raises(TFRecordError):
        framed_payload(data, 0, length, record=1, offset=16)


@pytest.mark.parametrize(("written", "stored"), [(0, 0), (1, 4096), (65536, 65536)])
def test_a_sparse_file_has_what_the_disk_has(sparse: str, written: int, stored: int) -> None:
    """The checksum of 64 GB of which the disk had nothing took 53 s."""
    with open(sparse, "r+b") as file:
        file.write(b"x" * written)
        file.flush()
        assert stored_size(file, SPARSE) == stored and file.tell() == written


def test_a_file_of_which_the_disk_does_not_say_the_size_yet_has_its_size(
    sparse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZFS says 512 bytes until seconds after a file was written."""
    with open(sparse, "wb+") as file:
        file.write(bytes(2 << 20))
        monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_blocks=1, st_size=2 << 20))
        assert stored_size(file) == 2 << 20
