"""Reads TFRecord framing, and reports the number and the offset of a damaged record.

The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c

from transforms.core.messages import quantity

LARGEST_RECORD = 512 << 20
"""The maximum size of a record to read, unless its dataset was made with larger limits.

A gzip file of 2 MB can hold a record of 2 GB, which is held in memory.
"""

MAX_RECORD = 2**31
"""Bytes above which a length is damage, not a record: protobuf messages end at 2 GiB."""

HEAD_BYTES, _TRAILER_BYTES, FRAME_BYTES = 12, 4, 16
"""Bytes before a record: its length with a checksum; after it: a checksum; and both."""

# Bytes of a record that may be damaged: it is held twice, and decoded.
_MOST_SCANNED = 128 << 20

# What a larger one may have for each byte of a compressed file that was read up to its end: no
# photo comes near it, and a record of 500 MB, of which 500 KB can be a file, takes 1.5 GB.
_MOST_TIMES = 16

# Bytes that are searched at once for the next record, and in which one must begin: a sparse file
# may have terabytes.
_SEARCHED, _MOST_SEARCHED = 1 << 20, 256 << 20

# Bytes that are searched first: most damage is short, and there may be much of it.
_FIRST_SEARCHED = 256

# Bytes that are read at least: a record may have a few.
_AHEAD = 1 << 16

# Frames above this are asked for once their header, which costs a request, says the same length.
_BELIEVED = 16 << 20

# Why there are no further bytes, other than an error of decompression.
_ENDS, _NOT_READ = "the file ends inside the record", "not read"

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
    return min(max(wanted, LARGEST_RECORD), MAX_RECORD)


class TFRecordError(ValueError):
    """A record that cannot be read: its number, counted from 0, and its byte offset."""

    def __init__(self, record: int, offset: int, problem: str) -> None:
        super().__init__(f"record {record} at byte {offset}: {problem}")
        self.record = record
        self.offset = offset
        self.reason = problem
        self.problem = f"{problem} (at byte {offset})"


def masked_crc32c(data: bytes) -> int:
    """The checksum that the TFRecord format stores of `data`."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(payload: bytes) -> bytes:
    """A record as a file holds it."""
    parts = len(payload).to_bytes(8, "little"), payload
    return b"".join(part + masked_crc32c(part).to_bytes(4, "little") for part in parts)


def read_records(
    stream: BinaryIO, *, max_bytes: int = LARGEST_RECORD, stored: Callable[[], int] | None = None
) -> Iterator[bytes]:
    """The payloads of the records in an uncompressed stream.

    Args:
        stream: the bytes.
        max_bytes: of a record.
        stored: gives the bytes of a compressed file that were read.

    Raises:
        TFRecordError: at the first record whose length, bytes or checksums are wrong, or that
            is larger than `max_bytes`.
    """
    ahead, record, offset = _Ahead(stream, stored), 0, 0
    while ahead.has(1):
        length, payload, problem = _frame(ahead, max_bytes)
        if problem == _ENDS and len(ahead.held) < HEAD_BYTES:
            problem = "the file ends inside the record's header"
        if problem:
            raise TFRecordError(record, offset, problem)
        record, offset = record + 1, offset + ahead.skip(length)
        yield payload
    if ahead.end != _ENDS:
        raise TFRecordError(record, offset, ahead.end)


class Part(NamedTuple):
    """A record of a file that may be damaged, or damaged bytes in place of records.

    Attributes:
        record: its number, from 0; damaged bytes count as one record.
        offset: its first byte in the stream.
        length: the number of its bytes, with those of its frame.
        payload: of the record; empty if it is damaged.
        problem: what is damaged; empty if it is whole.
    """

    record: int
    offset: int
    length: int
    payload: bytes
    problem: str

    @property
    def damage(self) -> str:
        """What is damaged, and where."""
        where = f"(at byte {self.offset}, {quantity(self.length, 'byte')})"
        why = "" if self.offset else "; it is not a TFRecord file, or its beginning is damaged"
        return f"{self.problem} {where}{why}"


def scan_records(stream: BinaryIO) -> Iterator[Part]:
    """All bytes of an uncompressed stream: whole records, and what is damaged between them.

    Behind damage, the next record begins at the first length that has its checksum. A record of
    more than 128 MB counts as damaged.
    """
    ahead, problem = _Ahead(stream), ""
    record = offset = 0
    while ahead.has(1):
        length, payload, problem = _frame(ahead, _MOST_SCANNED)
        length = ahead.skip(length) if length else ahead.skip_to_header()
        if ahead.end == _NOT_READ:
            problem += f"; no record begins in {length} bytes, and the rest is not read"
        yield Part(record, offset, length, payload, problem)
        record += 1
        offset += length
    # It may begin behind a whole record.
    if ahead.end not in (_ENDS, _NOT_READ, problem):
        yield Part(record, offset, 0, b"", ahead.end)


class _Ahead:
    """The next bytes of a stream.

    Attributes:
        held: those that were read and not skipped.
        end: why there are no others; empty until then.
    """

    def __init__(self, stream: BinaryIO, stored: Callable[[], int] | None = None) -> None:
        self.held, self.end = bytearray(), ""
        self._stream, self._stored = stream, stored or (lambda: MAX_RECORD)

    def has(self, size: int) -> bool:
        """Whether there are so many bytes, which are then held."""
        while len(self.held) < size and not self.end:
            try:
                piece = self._stream.read(min(max(size - len(self.held), _AHEAD), _SEARCHED))
            except (zlib.error, EOFError, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    # An error of the file system or the bucket, not of the bytes.
                    raise
                piece, self.end = b"", f"cannot be read: {error}"
            self.held += piece
            if not piece:
                self.end = self.end or _ENDS
            elif len(self.held) > _MOST_SCANNED + _MOST_TIMES * self._stored():
                times = f"{_MOST_TIMES} times those of its file"
                self.end = f"it has {size - FRAME_BYTES} bytes, more than {times}: it is not read"
        return len(self.held) >= size

    def skip(self, length: int) -> int:
        """Skips held bytes, and returns their number."""
        length = min(length, len(self.held))
        del self.held[:length]
        return length

    def skip_to_header(self) -> int:
        """Skips at least one byte, to the next header of a record or the end."""
        skipped, size = self.skip(1), _FIRST_SEARCHED
        while self.has(HEAD_BYTES):
            self.has(size)
            searched = self.held[:size]
            found = _next_header(searched)
            skipped += self.skip(len(searched) - HEAD_BYTES + 1 if found < 0 else found)
            size = min(2 * size, _SEARCHED)
            if found >= 0:
                return skipped
            if skipped > _MOST_SEARCHED:
                self.end = _NOT_READ
                break
        return skipped + self.skip(len(self.held))


def _frame(ahead: _Ahead, max_bytes: int) -> tuple[int, bytes, str]:
    """The length of the frame that begins here, 0 if unknown, its payload, or what is damaged."""
    if not ahead.has(HEAD_BYTES):
        return len(ahead.held), b"", ahead.end
    size = _declared(bytes(ahead.held[:HEAD_BYTES]))
    length = size + FRAME_BYTES
    if not 0 <= size <= MAX_RECORD:
        return 0, b"", "the checksum of its length is wrong"
    if size > max_bytes:
        return 0, b"", f"it has {size} bytes, more than {max_bytes}: it is not read"
    if not ahead.has(length):
        return 0, b"", ahead.end
    payload = bytes(memoryview(ahead.held)[HEAD_BYTES : length - _TRAILER_BYTES])
    checksum = ahead.held[length - _TRAILER_BYTES : length]
    if masked_crc32c(payload) == int.from_bytes(checksum, "little"):
        return length, payload, ""
    # If bytes are lost, its length is not where the next record begins.
    after = length + HEAD_BYTES
    is_next = ahead.has(after) and _declared(bytes(ahead.held[length:after])) >= 0
    is_known = is_next or not ahead.has(length + 1)
    return length if is_known else 0, b"", "the checksum of its bytes is wrong"


def _next_header(held: bytearray) -> int:
    """The first place where a length and its checksum are; -1 if there is none."""
    import numpy as np

    count = len(held) - HEAD_BYTES + 1
    # What begins at each byte.
    sizes = np.ndarray(count, "<u8", held, 0, (1,))
    checksums = np.ndarray(count, "<u4", held, 8, (1,))
    # A length of zeros has another checksum than zeros.
    places = np.flatnonzero((sizes < MAX_RECORD) & ((sizes | checksums) != 0))
    left, crc = sizes[places], np.full(len(places), 0xFFFFFFFF, np.uint32)
    for _ in range(8):
        crc = _crc_table()[(left ^ crc) & 255] ^ (crc >> 8)
        left >>= 8
    masked = (~crc >> 15 | ~crc << 17) + np.uint32(0xA282EAD8)
    found = places[masked == checksums[places]]
    return int(found[0]) if len(found) else -1


@functools.cache
def _crc_table() -> Any:
    """What each byte makes of a CRC32C (Sarwate's table)."""
    import numpy as np

    values = (google_crc32c.value(bytes([byte ^ 255])) ^ 0xFF << 24 for byte in range(256))
    return np.fromiter(values, np.uint32)


def read_frames(read: Callable[[int, int], bytes], offset: int, length: int) -> bytes:
    """Consecutive records that are read at once; only its header, if a large one is not there.

    Args:
        read: gives a part of the file, by its first byte and its length.
        offset: the first byte of the first record's frame.
        length: bytes of all frames, according to an index that may have been edited.
    """
    if length > _BELIEVED:
        header = read(offset, HEAD_BYTES)
        if len(header) < HEAD_BYTES or _declared(header) != length - FRAME_BYTES:
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
    first = start + HEAD_BYTES
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
    return "".join(f"{offset} {length + FRAME_BYTES}\n" for offset, length in records)


def _declared(data: bytes, start: int = 0) -> int:
    """The length in the header of a frame; -1 if its checksum is wrong."""
    length, checksum = _LENGTHS.unpack_from(data, start)
    return int(length) if masked_crc32c(data[start : start + 8]) == checksum else -1
