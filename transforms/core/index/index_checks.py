"""Compares the index of a shard with the records that it describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.dataset.output_names import index_file
from transforms.core.features.feature_sources import PIXELS, SOURCES, Role
from transforms.core.index.record_index import FRAME_BYTES, PARTNERS, content_hash
from transforms.core.planning.shards import ShardName

COMPARED = (
    *("record", "offset", "length", "key", "path", "label", "label_id", "content"),
    *("format", "height", "width", "channels", PARTNERS),
)
"""The columns that `row_problems` reads."""

_COLUMNS = {
    "image.key": "key",
    "image.path": "path",
    "image.format": "format",
    "image.height": "height",
    "image.width": "width",
    "image.channels": "channels",
    "label.id": "label_id",
    "label.text": "label",
    "label.ids": "label_id",
    "label.texts": "label",
}
"""The column that holds the same value as a feature, by the feature's source."""

_SHOWN = 60


class IndexPlace(NamedTuple):
    """The rows of the records of one file.

    Attributes:
        entry: of the index, in the manifest.
        first: the row of the file's first record.
    """

    entry: Mapping[str, Any]
    first: int = 0


def index_places(manifest: Mapping[str, Any]) -> dict[str, IndexPlace]:
    """The place of each file's records in the indexes, by the name of the file.

    A shard has its own index. Files of single images share that of the shard as which they were
    written: they follow each other in the order of its rows. A file without rows is left out.
    """
    entries = {entry["file"]: entry for entry in manifest.get("index", ())}
    places: dict[str, IndexPlace] = {}
    for split, listed in manifest["splits"].items():
        own = [
            entry
            for name, entry in entries.items()
            if ShardName.parse(shard_of_index(name)).split == split
        ]
        rows = ((entry, row) for entry in own for row in range(entry["records"]))
        for shard in listed["shards"]:
            if "/" not in shard["file"]:
                if (entry := entries.get(index_file(shard["file"]))) is not None:
                    places[shard["file"]] = IndexPlace(entry)
            elif (place := next(rows, None)) is not None:
                places[shard["file"]] = IndexPlace(*place)
    return places


def index_list_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Whether the indexes of a manifest have as many rows as the splits have records."""
    rows = dict.fromkeys(manifest["splits"], 0)
    for entry in manifest.get("index", ()):
        split = ShardName.parse(shard_of_index(entry["file"])).split
        rows[split] = rows.get(split, 0) + entry["records"]
    for split, listed in manifest["splits"].items():
        if rows[split] != listed["records"]:
            yield f"the indexes of split {split!r} have {rows[split]} rows, not {listed['records']}"


def row_problems(
    row: Mapping[str, Any], record: bytes, offset: int, held: Mapping[str, Sequence[Any]]
) -> Iterator[str]:
    """The differences between a record and its row.

    Args:
        row: with the columns `COMPARED`.
        record: the data of the record.
        offset: the first byte of its frame in the file.
        held: the values of the record by their source.
    """
    if row["length"] != len(record):
        yield _problem("length", len(record), row["length"])
    # Compressed files have no offsets.
    if row["offset"] not in (None, offset):
        yield _problem("offset", offset, row["offset"])
    for source, values in held.items():
        column = _COLUMNS.get(source)
        if column is None or row[column] is None:
            continue
        texts = [
            each.decode(errors="replace") if isinstance(each, bytes) else each for each in values
        ]
        found: Any = texts if isinstance(row[column], list) else texts[0] if texts else None
        if found != row[column]:
            yield _problem(column, found, row[column])
    if row["content"] is not None and (data := _stored(held)) is not None:
        found = content_hash(data)
        if found != row["content"].hex():
            yield _problem("content", found, row["content"].hex())
    for partner in row.get(PARTNERS) or ():
        yield from _partner_problems(partner, held)


def _partner_problems(row: Mapping[str, Any], held: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """The differences between a mask or further image of a record and its entry in the row."""
    name, content = row["name"], row["content"]
    known = {"path": row["path"], "format": row["format"], "bytes": content and content.hex()}
    for field, listed in known.items():
        values = held.get(f"{name}.{field}", ())
        if listed is None or not len(values):
            continue
        value = values[0]
        found = content_hash(value) if field == "bytes" else value.decode(errors="replace")
        if found != listed:
            yield _problem(f"{name}.{field}", found, listed)


def next_offset(offset: int, record: bytes) -> int:
    """The first byte of the next record's frame."""
    return offset + len(record) + FRAME_BYTES


def _stored(held: Mapping[str, Sequence[Any]]) -> bytes | None:
    """The stored image, or its pixels if only these are stored."""
    images = [name for name, source in SOURCES.items() if source.role is Role.IMAGE]
    for name in (*images, PIXELS):
        if len(held.get(name, ())):
            data: bytes = held[name][0]
            return data
    return None


def _problem(column: str, found: object, listed: object) -> str:
    return f"its {column} is {found!r:.{_SHOWN}}, the index says {listed!r:.{_SHOWN}}"


def shard_of_index(index: str) -> str:
    """The name of an uncompressed shard with this index."""
    return f"{index.rpartition('/')[2].removesuffix('.parquet')}.tfrecord"
