"""Indexes that tests make from plain records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.core.comparison.record_changes import COLUMNS, Records
from transforms.core.index.record_index import CONTENT_BYTES, index_schema


class Row(NamedTuple):
    """A record as it is compared; contents are numbers, and labels a list for many."""

    key: str
    split: str = "train"
    label: Any = None
    label_id: Any = None
    content: int | None = 1
    source: int | None = None


def index_of(rows: Sequence[Row], *, many: bool = False) -> pa.Table:
    """The index of a shard with these records."""
    schema = index_schema(many_labels=many)
    values = {
        "key": [row.key for row in rows],
        "split": [row.split for row in rows],
        "label": [row.label for row in rows],
        "label_id": [row.label_id for row in rows],
        "content": [_hash(row.content) for row in rows],
        "source_content": [_hash(row.source) for row in rows],
    }
    return pa.table({name: pa.array(values[name], schema.field(name).type) for name in COLUMNS})


def records_of(*shards: Sequence[Row], many: bool = False) -> Records:
    """A dataset with these shards."""
    return Records.joined(Records.of_index(index_of(rows, many=many)) for rows in shards)


def _hash(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(CONTENT_BYTES, "big")
