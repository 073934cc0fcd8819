"""Writes shards of any records with their indexes, and a manifest that lists both."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from transforms.dataset.manifest import content_digest, crc32c_hex
from transforms.dataset.metadata import ShardRange
from transforms.dataset.output_names import index_file
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.examples.tfrecord import framed as framed
from transforms.records.record_index import PARTNERS, index_bytes, index_schema

Shards = Mapping[str, Mapping[str, bytes]]
"""The payloads of each shard by their keys."""

SHARDS: Shards = {
    "train-00000-of-00003.tfrecord": {"b": b"1", "a/x": b"22", "c": b""},
    "train-00001-of-00003.tfrecord": {},
    "train-00002-of-00003.tfrecord": {"z": bytes(1000), "y": b"yy"},
}


def table(columns: Mapping[str, Any], count: int) -> bytes:
    """The file of an index in which the other columns are empty."""
    schema = index_schema(many_labels=False, has_partners=PARTNERS in columns)
    arrays = [pa.array(columns.get(each.name, [None] * count), each.type) for each in schema]
    return index_bytes(pa.Table.from_arrays(arrays, schema=schema))


BARE: Mapping[str, Any] = {"root": "", "inputs": {}, "options": {}, "features": []}
"""A manifest of nothing."""


def write_shards(folder: Path, shards: Shards = SHARDS) -> dict[str, Any]:
    """Writes them, all of the split `train`; what `IndexReader` reads of their manifest."""
    (folder / "index").mkdir(parents=True)
    listed, indexes = [], []
    for name, records in shards.items():
        frames = list(map(framed, records.values()))
        (folder / name).write_bytes(b"".join(frames))
        lengths = list(map(len, records.values()))
        offsets = [sum(lengths[:at]) + FRAME_BYTES * at for at in range(len(lengths))]
        numbers, keys = range(len(lengths)), [*records]
        columns = {"record": numbers, "offset": offsets, "length": lengths, "key": keys}
        index = table(columns, len(lengths))
        (folder / index_file(name)).write_bytes(index)
        listed.append({"file": name, "records": len(records), "bytes": sum(map(len, frames))})
        indexes.append(entry(index_file(name), index, len(records)))
    splits = {"train": {"shards": listed}}
    return {**BARE, "options": {"files": "sharded"}, "index": indexes, "splits": splits}


def write_dataset(folder: Path, indexes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Writes the indexes of a dataset without records, of which `key` names each; the manifest."""
    (folder / "index").mkdir(parents=True)
    listed, entries = [], []
    for number, columns in enumerate(indexes):
        name = f"train-{number:05d}-of-{len(indexes):05d}.tfrecord"
        records = len(columns["key"])
        each = {
            key: value if isinstance(value, list) else [value] * records
            for key, value in {**columns, "shard": name}.items()
        }
        index = table({"record": range(records), **each}, records)
        (folder / index_file(name)).write_bytes(index)
        listed.append({"file": name, "records": records, "bytes": 1000, "crc32c": f"{number:08x}"})
        entries.append(entry(index_file(name), index, records))
    splits = {"train": {"shards": listed}}
    manifest: dict[str, Any] = {**BARE, "index": entries, "splits": splits}
    return {**manifest, "digest": content_digest(manifest)}


def entry(name: str, data: bytes, records: int) -> dict[str, Any]:
    """What the manifest says of an index."""
    return {"file": name, "records": records, "bytes": len(data), "crc32c": crc32c_hex(data)}


def whole(manifest: Mapping[str, Any]) -> list[ShardRange]:
    """The ranges of all records."""
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    return [ShardRange(each["file"], 0, each["records"], each["records"]) for each in shards]
