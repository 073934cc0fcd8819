"""Compares the indexes of many records in a process of its own, and prints its peak memory."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.diff import read_records
from pipeline.run.beam_compat import import_beam
from transforms.dataset.manifest import crc32c_hex
from transforms.dataset.output_names import index_file
from transforms.records.comparison import compare_records
from transforms.records.record_index import CONTENT_BYTES, index_bytes, index_schema

RECORDS = 200_000
_SHARDS = 20


def write_many(folder: Path, records: int) -> None:
    """Writes the indexes of a dataset without its shards."""
    (folder / "index").mkdir()
    schema, count = index_schema(many_labels=False), records // _SHARDS
    for number, name in enumerate(_names()):
        rows = np.arange(count)
        hashes = np.random.default_rng(number).bytes(CONTENT_BYTES * count)
        type_ = pa.binary(CONTENT_BYTES)
        columns: dict[str, Any] = {
            "record": pa.array(rows),
            "key": pa.array([f"class/photo-{number * count + row:09}.jpg" for row in rows]),
            "split": pa.array(["train"] * count),
            "label": pa.array([f"class-{row % 1000}" for row in rows]),
            "label_id": pa.array(rows % 1000),
            "content": pa.FixedSizeBinaryArray.from_buffers(
                type_, count, [None, pa.py_buffer(hashes)]
            ),
        }
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        (folder / index_file(name)).write_bytes(index_bytes(table))


def _names() -> list[str]:
    return [f"train-{number:05}-of-{_SHARDS:05}.tfrecord" for number in range(_SHARDS)]


def _entries(folder: Path) -> list[dict[str, Any]]:
    """The entries of the indexes in the manifest."""
    found = []
    for name in map(index_file, _names()):
        data = (folder / name).read_bytes()
        sizes = {"records": RECORDS // _SHARDS, "bytes": len(data), "crc32c": crc32c_hex(data)}
        found.append({"file": name, **sizes})
    return found


if __name__ == "__main__":
    import_beam(sys.argv)
    folder = Path(sys.argv[1])
    manifest = {"index": _entries(folder), "files": {}}
    old, new = (read_records(str(folder), manifest) for _ in range(2))
    changes = compare_records(old, new)
    assert len(changes.kept[0]) == RECORDS and not any(changes.counts().values())
    # `getrusage` also counts the peak of the process that started it.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) << 10)
