"""Reads TFRecord framing, and reports the number and the offset of a damaged record.

The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import google_crc32c

LARGEST_RECORD = 512 << 20
"""The maximum size of a record to read, unless its dataset was made with larger limits.

A gzip file of 2 MB can hold a record of 2 GB, which is held in memory.
"""

# A length above this is damage, not a record: protobuf messages end at 2 GiB.
_MAX_RECORD_BYTES = 2**31

# A record is read in pieces: memory grows with its actual bytes, not with its declared length.
_PIECE = 16 << 20

# Bytes of a record's frame: before the payload its length with a checksum, after it a checksum.
_HEADER_BYTES, _TRAILER_BYTES = 12, 4
_FRAME_BYTES = _HEADER_BYTES + _TRAILER_BYTES

# The length of a record and its checksum.
_LENGTHS = struct.Struct("<QI")

# Bytes of a record in addition to the file and the pixels of an image.
_OTHER_FEATURES = 64 << 20


def largest_record(max_pixels: int, max_bytes: int) -> int:
    """The maximum size of a record of a dataset whose images have these limits.

    >>> largest_record(1000, 1000) == LARGEST_RECORD, largest_record(400_000_000, 0)
    (True, 1667108864)
    """
    wanted = 4 * max_pixels + max_bytes + _OTHER_FEATURES
    return min(max(wanted, LARGEST_RECORD), _MAX_RECORD_BYTES)


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


def read_records(stream: BinaryIO, *, max_bytes: int = LARGEST_RECORD) -> Iterator[bytes]:
    """The payloads of the records in an uncompressed stream.

    Args:
        stream: the bytes.
        max_bytes: of a record.

    Raises:
        TFRecordError: at the first record whose length, bytes or checksums are wrong, or that
            is larger than `max_bytes`.
    """
    record = offset = 0
    while True:
        header = _read(stream, 12, record, offset)
        if not header:
            return
        if len(header) < 12:
            raise TFRecordError(record, offset, "the file ends inside the record's header")
        length = _declared(header)
        if not 0 <= length <= _MAX_RECORD_BYTES:
            raise TFRecordError(record, offset, "the checksum of its length is wrong")
        if length > max_bytes:
            problem = f"it has {length} bytes, more than {max_bytes}: it is not read"
            raise TFRecordError(record, offset, problem)
        payload = _read_payload(stream, length, record, offset)
        checksum = _read(stream, 4, record, offset)
        if len(payload) < length or len(checksum) < 4:
            raise TFRecordError(record, offset, "the file ends inside the record")
        if masked_crc32c(payload) != int.from_bytes(checksum, "little"):
            raise TFRecordError(record, offset, "the checksum of its bytes is wrong")
        yield payload
        record += 1
        offset += length + 16


def read_frames(read: Callable[[int, int], bytes], offset: int, length: int) -> bytes:
    """Consecutive records that are read at once; only its header, if a large one is not there.

    Args:
        read: gives a part of the file, by its first byte and its length.
        offset: the first byte of the first record's frame.
        length: bytes of all frames, according to an index that may have been edited.
    """
    if length > _PIECE:
        header = read(offset, _HEADER_BYTES)
        if len(header) < _HEADER_BYTES or _declared(header) != length - _FRAME_BYTES:
            return header
    return read(offset, length)


def framed_payload(data: bytes, start: int, length: int, *, record: int, offset: int) -> bytes:
    """The payload of one record in bytes that were read at once; the only copy of it.

    Args:
        data: consecutive records.
        start: the first byte of the record's frame in `data`.
        length: bytes of the payload, according to an index.
        record: its number in the file, for the error.
        offset: the first byte of its frame in the file, for the error.

    Raises:
        TFRecordError: there is no intact record of this length.
    """
    first = start + _HEADER_BYTES
    end = first + length
    if len(data) < end + _TRAILER_BYTES:
        raise TFRecordError(record, offset, "the file ends inside the record")
    found = _declared(data, start)
    if found < 0:
        raise TFRecordError(record, offset, "the checksum of its length is wrong")
    if found != length:
        problem = f"it has {found} bytes, and the index says {length}"
        raise TFRecordError(record, offset, problem)
    payload = data[first:end]
    if masked_crc32c(payload) != int.from_bytes(data[end : end + _TRAILER_BYTES], "little"):
        raise TFRecordError(record, offset, "the checksum of its bytes is wrong")
    return payload


def dali_index(offsets: Iterable[int], lengths: Iterable[int]) -> str:
    """The index of a file as `tfrecord2idx` of NVIDIA DALI writes it.

    Args:
        offsets: the first byte of each record's frame.
        lengths: bytes of each payload.

    >>> dali_index([0, 19], [3, 0])
    '0 19\\n19 16\\n'
    """
    records = zip(offsets, lengths, strict=True)
    return "".join(f"{offset} {length + _FRAME_BYTES}\n" for offset, length in records)


def _declared(data: bytes, start: int = 0) -> int:
    """The length in the header of a frame; -1 if its checksum is wrong."""
    length, checksum = _LENGTHS.unpack_from(data, start)
    return int(length) if masked_crc32c(data[start : start + 8]) == checksum else -1


def _read_payload(stream: BinaryIO, length: int, record: int, offset: int) -> bytes:
    if length <= _PIECE:
        return _read(stream, length, record, offset)
    held = io.BytesIO()
    while left := length - held.tell():
        piece = _read(stream, min(left, _PIECE), record, offset)
        if not piece:
            break
        held.write(piece)
    return held.getvalue()


def _read(stream: BinaryIO, size: int, record: int, offset: int) -> bytes:
    try:
        return stream.read(size)
    except (zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            # An error of the file system or the bucket, not of the bytes.
            raise
        raise TFRecordError(record, offset, f"cannot be read: {error}") from error
