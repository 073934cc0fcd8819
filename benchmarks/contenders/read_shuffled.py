"""Reads all records in one global random order through Grain: `Records`, or ArrayRecord files.

`records` gives a parsed Example, whose checksum is compared. `array-record` gives a record as it is
stored, and with `--parse` an Example parsed by protobuf. It needs the environment `grain` of
`benchmarks/environments.py`; `copy` writes its files from the TFRecords.
"""

from __future__ import annotations

import argparse
import glob
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
from timed_epoch import time_epoch

_SEED = 7

# Grain's threads. With its default of 500 elements ahead, it counts those that are ready at each
# step (0.2.18), so that a source that is fast takes longer than one that is slow.
_THREADS = 16

_ONE, _MANY = 1, 3
_MESSAGE, _FLOAT, _INT64, _BYTES, _STRING = 11, 2, 3, 12, 9

# Fields of `tf.train.Example`: number, name, label, type (of descriptor.proto) and message.
# https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/example
_MESSAGES: dict[str, list[tuple[int, str, int, int, str | None]]] = {
    "BytesList": [(1, "value", _MANY, _BYTES, None)],
    "FloatList": [(1, "value", _MANY, _FLOAT, None)],
    "Int64List": [(1, "value", _MANY, _INT64, None)],
    "Feature": [
        (1, "bytes_list", _ONE, _MESSAGE, ".t.BytesList"),
        (2, "float_list", _ONE, _MESSAGE, ".t.FloatList"),
        (3, "int64_list", _ONE, _MESSAGE, ".t.Int64List"),
    ],
    "Entry": [
        (1, "key", _ONE, _STRING, None),
        (2, "value", _ONE, _MESSAGE, ".t.Feature"),
    ],
    "Features": [(1, "feature", _MANY, _MESSAGE, ".t.Entry")],
    "Example": [(1, "features", _ONE, _MESSAGE, ".t.Features")],
}


def records(folder: str) -> Any:
    """`pipeline.Records`, without a second copy of the data."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pipeline import Records

    return Records(folder, "train")


def array_record(folder: str) -> Any:
    """What Grain's documentation recommends."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    return ArrayRecordDataSource(sorted(glob.glob(f"{glob.escape(folder)}/*.array_record")))


def example_parser() -> Callable[[bytes], dict[str, Any]]:
    """What parses an Example with protobuf, without TensorFlow."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, label, kind, of in fields:
            message.field.add(name=field, number=number, label=label, type=kind, type_name=of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    example = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))

    def parse(record: bytes) -> dict[str, Any]:
        values = {}
        for entry in example.FromString(record).features.feature:
            _, stored = entry.value.ListFields()[0]
            values[entry.key] = stored.value[0]
        return values

    return parse


def copy_records(folder: str, copy: Path) -> None:
    """Writes an ArrayRecord file for each shard; a record is a group, to be read alone."""
    from array_record.python.array_record_module import ArrayRecordWriter

    copy.mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(folder).glob("train-*.tfrecord")):
        # JPEGs cannot be compressed.
        writer = ArrayRecordWriter(
            str(copy / f"{path.stem}.array_record"), "group_size:1,uncompressed"
        )
        with path.open("rb") as file:
            while head := file.read(12):
                writer.write(file.read(struct.unpack_from("<Q", head)[0]))
                file.read(4)
        writer.close()


def main() -> None:
    """Reads the folder of the command line, or writes the copy."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("reader", choices=("records", "array-record", "copy"))
    parser.add_argument("folder")
    parser.add_argument("--to", type=Path, help="folder of the copy")
    parser.add_argument("--parse", action="store_true", help="ArrayRecord's records, too")
    parser.add_argument("--alone", action="store_true", help="without Grain's threads")
    args = parser.parse_args()
    if args.reader == "copy":
        copy_records(args.folder, args.to)
        return
    source = (records if args.reader == "records" else array_record)(args.folder)
    shuffled = grain.MapDataset.source(source).seed(_SEED).shuffle()
    if args.parse:
        shuffled = shuffled.map(example_parser())
    threads = 0 if args.alone else _THREADS
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads)

    def size(record: Any) -> int:
        return len(record) if isinstance(record, bytes) else len(record["image/encoded"])

    time_epoch(lambda: shuffled.to_iter_dataset(options), size)


if __name__ == "__main__":
    main()
