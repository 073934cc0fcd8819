"""TFRecord files made to be large: a small gzip file must not fill the memory."""

import gzip
import os
import struct
from pathlib import Path

import pytest

from pipeline.show import Record, record_lines
from tests.hostile.limited import run_limited
from tests.pipeline.commands import check_ended, show
from transforms.dataset.record_checks import RecordVerifier, Verified
from transforms.examples.layouts import LAYOUTS
from transforms.examples.tfrecord import LARGEST_RECORD, framed, masked_crc32c
from transforms.images.guard import DecoderGuard
from transforms.images.pixel_options import Limits
from transforms.verify_shards import verify_shard

VERIFIER = RecordVerifier(LAYOUTS["slim"], None, Limits(10**6, 10**6))


def header(length: int) -> bytes:
    """What comes before a record."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


def verify(path: Path, records: int = 0, size: int = 0) -> Verified:
    """What verifying a shard finds, of which the manifest lists so many records and bytes."""
    listed = {"file": path.name, "records": records, "bytes": size, "crc32c": "0" * 8}
    return verify_shard(str(path.parent), listed, VERIFIER, DecoderGuard(10**6))


@pytest.mark.parametrize("name", ["bomb.tfrecord.gz", "bomb.tfrecord"])
def test_a_record_of_two_gigabytes_is_not_read(tmp_path: Path, name: str) -> None:
    data = header(2**31 - 20) + bytes(1000)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    ran = show(path)
    assert ran.code == 1
    message = f"has 2147483628 bytes, more than {LARGEST_RECORD}: it is not read"
    assert message in ran.error()
    assert any(message in problem.detail for problem in verify(path).problems)


@pytest.mark.slow
def test_a_record_far_larger_than_its_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.tfrecord.gz"
    path.write_bytes(gzip.compress(header(400 << 20) + bytes(400 << 20), compresslevel=1))
    message = f"it has {400 << 20} bytes, more than 16 times those of its file: it is not read"
    check_ended(run_limited("pipeline.show", str(path), memory=1 << 30, progress=None), 1, message)
    assert message in verify(path).problems[0].detail


def test_of_twenty_thousand_damaged_records_the_first_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001.tfrecord.gz"
    path.write_bytes(gzip.compress(framed(b"") * 20_000))
    found = verify(path, records=20_000)
    assert 100 < found.records < 1_100
    assert len(found.problems) == 21
    assert "at least 9" in found.problems[-1].detail
    path.write_bytes(gzip.compress(framed(b"") * 30))
    *_, last = verify(path, records=30).problems
    assert last.detail.endswith(" more problems") and "at least" not in last.detail


@pytest.mark.slow
def test_much_damage_takes_no_time_for_each_byte_that_follows(tmp_path: Path) -> None:
    """It took three minutes."""
    whole = framed(b"abc")
    path = tmp_path / "a.tfrecord"
    path.write_bytes((whole[:8] + b"none" + whole[12:] + whole[:-4] + b"none") * 20_000)
    ran = run_limited("pipeline.verify", str(path), seconds=60, progress=None)
    check_ended(ran, 1, "10098 problems in 1 file")


def test_a_sparse_file_is_not_read_far_behind_damage(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001.tfrecord"
    path.write_bytes(b"damaged")
    os.truncate(path, 1 << 40)
    found = verify(path, size=1 << 40)
    assert found.bytes < 1 << 31
    assert [problem.record for problem in found.problems] == [0]


def test_a_name_of_a_megabyte_is_shortened() -> None:
    record = Record("a.tfrecord", 0, {"n" * (1 << 20): None, "m": None})
    assert sum(len(line) for line in record_lines(record)) < 1000


def test_a_problem_that_quotes_a_long_name_is_shortened(tmp_path: Path) -> None:
    name = b"\x0a" + bytes([255, 255, 3]) + b"n" * 65535
    entry = b"\x0a" + varint(len(name)) + name
    path = tmp_path / "train-00000-of-00001.tfrecord"
    path.write_bytes(framed(b"\x0a" + varint(len(entry)) + entry))
    assert all(len(problem.detail) < 1000 for problem in verify(path).problems)


def varint(number: int) -> bytes:
    """A number in protobuf's encoding."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])
