"""Indexes that tests make from plain records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.records.comparison import COLUMNS, Records
from transforms.records.record_index import CONTENT_BYTES, PARTNERS, index_schema


class Row(NamedTuple):
    """A record as it is compared; contents are numbers, and labels a list for many.

    Attributes:
        partners: the contents of its masks and further images; None if the index lacks them.
    """

    key: str
    split: str = "train"
    label: Any = None
    label_id: Any = None
    content: int | None = 1
    source: int | None = None
    partners: Sequence[int | None] | None = None


def index_of(rows: Sequence[Row], *, many: bool = False) -> pa.Table:
    """The index of a shard with these records."""
    schema = index_schema(many_labels=many)
    values: dict[str, list[Any]] = {
        "key": [row.key for row in rows],
        "split": [row.split for row in rows],
        "label": [row.label for row in rows],
        "label_id": [row.label_id for row in rows],
        "content": [_hash(row.content) for row in rows],
        "source_content": [_hash(row.source) for row in rows],
    }
    columns = {name: pa.array(values[name], schema.field(name).type) for name in COLUMNS}
    if any(row.partners is not None for row in rows):
        partner = pa.struct([("content", pa.binary(CONTENT_BYTES))])
        lists = [
            None if row.partners is None else [{"content": _hash(each)} for each in row.partners]
            for row in rows
        ]
        columns[PARTNERS] = pa.array(lists, pa.list_(partner))
    return pa.table(columns)


def records_of(*shards: Sequence[Row], many: bool = False) -> Records:
    """A dataset with these shards."""
    return Records.joined(Records.of_index(index_of(rows, many=many)) for rows in shards)


def _hash(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(CONTENT_BYTES, "big")
