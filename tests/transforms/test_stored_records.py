"""A TFRecord file is read once: its records, its size and its checksum."""

import gzip
import os
from pathlib import Path

import pytest

from tests.servers.gcs import GcsServer
from transforms.dataset.manifest import crc32c_hex
from transforms.examples.tfrecord import TFRecordError, framed
from transforms.records import written_index
from transforms.records.written_index import (
    open_records,
    open_stored,
    scan_stored,
    stored_lines,
    stored_records,
)
from transforms.storage import interface
from transforms.storage.files import storage_of

PAYLOADS = [b"first", b"", b"the third" * 1000]
PLAIN = b"".join(map(framed, PAYLOADS))


@pytest.mark.parametrize("data", [PLAIN, gzip.compress(PLAIN)], ids=["plain", "gzip"])
def test_compression_is_recognised_by_the_first_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "no_suffix"
    path.write_bytes(data)
    with open_records(str(path)) as records:
        assert list(records) == PAYLOADS
    with open_stored(str(path)) as stored:
        assert list(stored_records(stored)) == PAYLOADS
        stored.drain(len(data))
    assert (stored.bytes, stored.crc32c) == (len(data), crc32c_hex(data))


def test_a_sparse_file_of_zeros_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, zeros = tmp_path / "sparse", framed(bytes(8 << 20))
    with path.open("wb") as file:
        for _ in range(3):
            file.write(zeros[:12])
            file.seek(8 << 20, os.SEEK_CUR)
            file.write(zeros[-4:])
    monkeypatch.setattr(written_index, "_FREE_BYTES", 100_000)
    monkeypatch.setattr(interface, "MAX_DATASET_FILE", 100_000)
    with (
        pytest.raises(TFRecordError, match="more than 200 times its size: the rest is not read"),
        open_records(str(path)) as records,
    ):
        list(records)
    size = path.stat().st_size
    assert storage_of(str(path)).checksum(str(path), size=size) == ""


def test_a_compressed_file_of_far_more_than_its_size_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_index, "_FREE_BYTES", 30_000_000)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(framed(b"") * 40_000))
    read = 0
    with (
        pytest.raises(TFRecordError, match="more than 200 times its size: the rest is not read"),
        open_records(str(path)) as records,
    ):
        for _ in records:
            read += 1
    assert 20_000 < read < 40_000


def test_a_file_of_damaged_records_is_not_read_on(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(framed(b"a")[:-1] * 10_100)
    *_, last = scan_stored(str(tmp_path / "damaged"))
    assert last.record == 10_040
    assert last.damage.startswith("10040 places are damaged: the rest is not read (at byte 1")


def test_zeros_behind_a_compressed_file_are_not_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "padded"
    path.write_bytes(gzip.compress(PLAIN))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with (
        pytest.raises(TFRecordError, match="zeros behind its end"),
        open_records(str(path)) as records,
    ):
        list(records)


def test_lines_in_a_bucket_are_not_read_byte_by_byte(
    gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud.storage.fileio import BlobReader

    lines = [b"%d\n" % number for number in range(1000)]
    size = sum(map(len, lines))
    gcs.make_bucket("datasets")
    gcs.put("datasets", "out/rejected.jsonl", b"".join(lines) + b"more")
    reads: list[int] = []
    original = BlobReader.read

    def read(reader: BlobReader, size: int = -1) -> bytes:
        reads.append(size)
        data: bytes = original(reader, size)
        return data

    monkeypatch.setattr(BlobReader, "read", read)
    assert list(stored_lines("gs://datasets/out/rejected.jsonl", size)) == lines
    assert len(reads) == 1
