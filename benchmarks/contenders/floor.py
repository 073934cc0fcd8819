"""The lower bound of the work: the product's libraries in a bare loop, without Beam.

Two threads read and check (all entropy-coded data, at 1/8 scale in grey), the main thread encodes
batches of 4 through Arrow and writes frames to eight files, in the order of the names. No join
except a dictionary, no plan, no report, no second check: a doubtful file ends the run.
The last line is JSON; `seconds` counts from the first import to the last closed file.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from class_labels import read_labels

_START = time.perf_counter()

import google_crc32c  # noqa: E402 - the import is timed
import pyarrow as pa  # noqa: E402 - the import is timed
import simplejpeg  # noqa: E402 - the import is timed
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder  # noqa: E402 - timed

_IMPORT_SECONDS = time.perf_counter() - _START
_SHARDS = 8
_THREADS = 2
_WINDOW = 32  # files read ahead
_BATCH = 4  # images in an Arrow batch


class _Checked(NamedTuple):
    """One image that decodes, with its label and its size in pixels."""

    data: bytes
    label: int
    height: int
    width: int


def _check(path: str, label: int) -> _Checked:
    """Reads one JPEG and raises ValueError if libjpeg only warns."""
    data = Path(path).read_bytes()
    height, width = simplejpeg.decode_jpeg_header(data)[:2]
    simplejpeg.decode_jpeg(
        data, colorspace="GRAY", min_factor=8, min_height=1, min_width=1, strict=True
    )
    return _Checked(data, label, height, width)


def _check_ahead(paths: Sequence[str], label_of: dict[str, int]) -> Iterator[_Checked]:
    """Yields the checked images in order, with no more than `_WINDOW` of them waiting."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[_Checked]] = deque()
        for path in paths:
            waiting.append(pool.submit(_check, path, label_of[Path(path).stem]))
            if len(waiting) >= _WINDOW:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _batches(images: Iterator[_Checked]) -> Iterator[list[_Checked]]:
    """Yields the images in lists of `_BATCH`; the last may be shorter."""
    batch: list[_Checked] = []
    for image in images:
        batch.append(image)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _encode(encoder: RecordBatchToExamplesEncoder, batch: list[_Checked]) -> list[bytes]:
    """The serialized Examples of a batch."""
    offsets = pa.array(range(len(batch) + 1), type=pa.int64())
    columns = {
        "image/encoded": pa.array([image.data for image in batch], type=pa.large_binary()),
        "image/format": pa.array([b"jpeg"] * len(batch), type=pa.large_binary()),
        "image/class/label": pa.array([image.label for image in batch], type=pa.int64()),
        "image/height": pa.array([image.height for image in batch], type=pa.int64()),
        "image/width": pa.array([image.width for image in batch], type=pa.int64()),
    }
    lists = [pa.LargeListArray.from_arrays(offsets, values) for values in columns.values()]
    examples: list[bytes] = encoder.encode(pa.RecordBatch.from_arrays(lists, names=list(columns)))
    return examples


def _masked_crc(data: bytes) -> bytes:
    """The checksum of a TFRecord frame."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _frame(record: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The four parts of a TFRecord frame."""
    length = struct.pack("<Q", len(record))
    return length, _masked_crc(length), record, _masked_crc(record)


def convert(images: str, labels: str, output: str) -> int:
    """Converts the JPEGs that a glob matches and returns how many records were written."""
    paths = sorted(glob.glob(images))
    encoder = RecordBatchToExamplesEncoder()
    number = 0
    with ExitStack() as stack:
        names = [f"{output}/train-{i:05d}-of-{_SHARDS:05d}.tfrecord" for i in range(_SHARDS)]
        files = [stack.enter_context(open(name, "wb")) for name in names]
        for batch in _batches(_check_ahead(paths, read_labels(labels))):
            for record in _encode(encoder, batch):
                files[number * _SHARDS // len(paths)].writelines(_frame(record))
                number += 1
    return number


def main() -> None:
    """Runs the conversion of the command line and prints the count and the time."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--images", required=True, metavar="GLOB")
    parser.add_argument("--labels", required=True, metavar="CSV")
    parser.add_argument("--output", required=True, metavar="DIR")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    records = convert(args.images, args.labels, args.output)
    seconds = time.perf_counter() - _START
    print(json.dumps({"records": records, "seconds": seconds, "import_seconds": _IMPORT_SECONDS}))


if __name__ == "__main__":
    main()
