"""TFRecords are read as TensorFlow writes them, and every damage is found in its record."""

import gzip
import io
import itertools
import struct
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.lazy import lazy_module
from tests.marks import cases
from transforms.examples.tfrecord import (
    LARGEST_RECORD,
    TFRecordError,
    dali_index,
    framed_payload,
    masked_crc32c,
    read_records,
)

tf = lazy_module("tensorflow")

PAYLOADS = [b"abc", b"", b"x" * 20]

# Made once with TensorFlow 2.21:
#     with tf.io.TFRecordWriter("golden.tfrecord") as writer:
#         for payload in (b"abc", b"", b"x" * 20):
#             writer.write(payload)
#     print(Path("golden.tfrecord").read_bytes().hex())
GOLDEN = bytes.fromhex(
    "0300000000000000b099490e6162636e57f121000000000000000029039807d8ea82a21400000000"
    "0000005e3d291578787878787878787878787878787878787878780d2dd320"
)

# Where each record of GOLDEN begins: 12 bytes of header, the payload, 4 bytes of checksum.
STARTS = [0, 19, 35]


def read(data: bytes) -> list[bytes]:
    return list(read_records(io.BytesIO(data)))


def failure(data: bytes) -> tuple[list[bytes], TFRecordError]:
    """The records before the damaged one, and what is said of that."""
    whole: list[bytes] = []
    with pytest.raises(TFRecordError) as caught:
        for payload in read_records(io.BytesIO(data)):
            whole.append(payload)
    return whole, caught.value


def unzipped(packed: bytes) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=io.BytesIO(packed)))


def test_golden_records() -> None:
    assert read(GOLDEN) == PAYLOADS
    assert read(b"") == []
    assert masked_crc32c(b"abc") == int.from_bytes(GOLDEN[15:19], "little")


@given(st.lists(st.binary(max_size=200), max_size=8))
@example([bytes(3 << 20), b"after"])
def test_what_tensorflow_writes_is_read(payloads: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        with tf.io.TFRecordWriter(str(path)) as writer:
            for payload in payloads:
                writer.write(payload)
        with path.open("rb") as file:
            assert list(read_records(file)) == payloads


def test_every_flipped_byte_is_found_in_its_record() -> None:
    for at, bits in itertools.product(range(len(GOLDEN)), (0x01, 0x80, 0xFF)):
        record = sum(start <= at for start in STARTS) - 1
        damaged = bytearray(GOLDEN)
        damaged[at] ^= bits
        whole, error = failure(bytes(damaged))
        assert whole == PAYLOADS[:record]
        assert error.record == record
        says = f"record {record} at byte {STARTS[record]}: the checksum of its"
        assert str(error).startswith(says)
        if record == 2:
            # So it is for a record that an index names.
            with pytest.raises(TFRecordError, match=f"^{says}"):
                framed_payload(bytes(damaged), STARTS[2], 20, record=2, offset=35)


def test_every_cut_is_found_in_its_record() -> None:
    for length in {*range(len(GOLDEN))} - {*STARTS}:
        record = sum(start <= length for start in STARTS) - 1
        whole, error = failure(GOLDEN[:length])
        assert whole == PAYLOADS[:record]
        assert error.record == record
        in_header = length - STARTS[record] < 12
        assert str(error).endswith("record's header" if in_header else "inside the record")
    for number, length in enumerate(STARTS):
        assert read(GOLDEN[:length]) == PAYLOADS[:number]


LENGTH = (2**40).to_bytes(8, "little")


@cases(
    (GOLDEN + b"\n", f"record 3 at byte {len(GOLDEN)}: the file ends inside the record's"),
    # A length beyond any message is damage.
    (LENGTH + masked_crc32c(LENGTH).to_bytes(4, "little"), "checksum of its length"),
)
def test_what_is_no_record_is_found(data: bytes, says: str) -> None:
    assert says in str(failure(data)[1])


@pytest.mark.parametrize("cut", [0, 1, 8, 12, 20])
def test_a_cut_or_damaged_gzip_stream_is_found(cut: int) -> None:
    packed = bytearray(gzip.compress(GOLDEN))
    assert list(read_records(unzipped(bytes(packed)))) == PAYLOADS
    if not cut:
        packed[-5] ^= 1  # the checksum of the whole stream
    with pytest.raises(TFRecordError, match="cannot be read|ends inside" if cut else "cannot be"):
        list(read_records(unzipped(bytes(packed[: len(packed) - cut]))))


class CountedStream(io.BytesIO):
    """Knows the most bytes that were requested at once."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.most = max(self.most, size or 0)
        return super().read(size)


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


@pytest.mark.parametrize("length", [LARGEST_RECORD + 1, 2**31 - 1])
def test_a_record_that_is_too_large_is_not_read(length: int) -> None:
    stream = CountedStream(header(length) + bytes(100))
    with pytest.raises(TFRecordError, match=f"{length} bytes, more than {LARGEST_RECORD}"):
        list(read_records(stream))
    assert stream.most <= 1 << 16


def test_a_large_record_is_read_in_pieces() -> None:
    """Memory grows with what is there, not with what its header says."""
    payload = bytes(range(256)) * (40 << 12)
    checksum = struct.pack("<I", masked_crc32c(payload))
    whole = CountedStream(header(len(payload)) + payload + checksum)
    assert list(read_records(whole)) == [payload]
    assert whole.most <= 16 << 20
    cut = CountedStream(header(LARGEST_RECORD) + bytes(100))
    with pytest.raises(TFRecordError, match="ends inside the record"):
        list(read_records(cut))
    assert cut.most <= 16 << 20


def test_records_that_an_index_names_are_found() -> None:
    for start, payload in zip(STARTS, PAYLOADS, strict=True):
        length = len(payload)
        assert framed_payload(GOLDEN, start, length, record=0, offset=0) == payload


@cases((19, "it has 20 bytes, and the index says 19"), (21, "the file ends inside the record"))
def test_another_length_than_in_the_index_is_found(length: int, problem: str) -> None:
    with pytest.raises(TFRecordError, match=problem):
        framed_payload(GOLDEN, STARTS[2], length, record=2, offset=35)


def test_the_index_for_dali() -> None:
    """Its `tfrecord2idx` prints the position before a record, and the difference after it."""
    text = dali_index(STARTS, map(len, PAYLOADS))
    rows = [tuple(map(int, line.split(" "))) for line in text.splitlines()]
    assert rows == [(0, 19), (19, 16), (35, 36)]
    assert sum(rows[-1]) == len(GOLDEN) and text.endswith("\n")
