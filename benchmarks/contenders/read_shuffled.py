"""Reads all records in one global random order through Grain: `Records`, or ArrayRecord files.

Both give bytes: `records` a parsed Example, compared with its checksum, `array-record` a record as
it is stored, not parsed. The latter needs the environment `grain` of `benchmarks/environments.py`,
and writes its files from the TFRecords first.
"""

from __future__ import annotations

import argparse
import glob
import struct
import sys
from pathlib import Path
from typing import Any

import grain
from timed_epoch import time_epoch

_SEED = 7


def records(folder: str) -> Any:
    """`pipeline.Records`, without a second copy of the data."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pipeline import Records

    return Records(folder, "train")


def array_record(folder: str) -> Any:
    """What Grain's documentation recommends."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    return ArrayRecordDataSource(sorted(glob.glob(f"{glob.escape(folder)}/*.array_record")))


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
    parser.add_argument("--alone", action="store_true", help="without Grain's threads")
    args = parser.parse_args()
    if args.reader == "copy":
        copy_records(args.folder, args.to)
        return
    source = (records if args.reader == "records" else array_record)(args.folder)
    shuffled = grain.MapDataset.source(source).seed(_SEED).shuffle()

    def size(record: Any) -> int:
        return len(record) if isinstance(record, bytes) else len(record["image/encoded"])

    time_epoch(lambda: shuffled if args.alone else shuffled.to_iter_dataset(), size)


if __name__ == "__main__":
    main()
