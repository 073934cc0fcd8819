"""Reading TFRecord framing, with the number and the place of a record that is damaged.

The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

# A length above this is damage, not a record: protobuf messages end at 2 GiB.
_MAX_RECORD_BYTES = 2**31


class TFRecordError(ValueError):
    """A record that cannot be read: its number, counted from 0, and its byte offset."""

    def __init__(self, record: int, offset: int, problem: str) -> None:
        super().__init__(f"record {record} at byte {offset}: {problem}")
        self.record = record
        self.offset = offset
        self.problem = f"{problem} (at byte {offset})"


def masked_crc32c(data: bytes) -> int:
    """The checksum that the TFRecord format stores of `data`."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def read_records(stream: BinaryIO) -> Iterator[bytes]:
    """The payloads of the records in an uncompressed stream.

    Raises:
        TFRecordError: at the first record whose length, bytes or checksums do not hold.
    """
    record = offset = 0
    while True:
        header = _read(stream, 12, record, offset)
        if not header:
            return
        if len(header) < 12:
            raise TFRecordError(record, offset, "the file ends inside the record's header")
        length, length_crc = struct.unpack("<QI", header)
        if masked_crc32c(header[:8]) != length_crc or length > _MAX_RECORD_BYTES:
            raise TFRecordError(record, offset, "the checksum of its length is wrong")
        body = _read(stream, length + 4, record, offset)
        if len(body) < length + 4:
            raise TFRecordError(record, offset, "the file ends inside the record")
        payload = body[:length]
        if masked_crc32c(payload) != int.from_bytes(body[length:], "little"):
            raise TFRecordError(record, offset, "the checksum of its bytes is wrong")
        yield payload
        record += 1
        offset += length + 16


def _read(stream: BinaryIO, size: int, record: int, offset: int) -> bytes:
    try:
        return stream.read(size)
    except (zlib.error, EOFError, OSError) as error:
        raise TFRecordError(record, offset, f"cannot be read: {error}") from error
