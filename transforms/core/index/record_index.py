"""The index of a shard: a Parquet table with a row for each record, in the order of the records.

It is published as `index/SHARD.parquet`, and everything that must find a record reads it. The URI
of an image is not a column: it is `root` of the manifest and `path`, so that moved images change no
index. CSV rows are listed only where the layout keeps them: a line that is inserted at the
top of a CSV must not change every shard.

Without timestamps and statistics, the same rows give the same bytes with the same pyarrow. That is
imported when a table is made or read, not before: it takes 50 ms and 35 MB.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa

FRAME_BYTES = 16
"""Bytes of a TFRecord around its data: 12 before (length and its checksum), 4 after."""

HEAD_BYTES = 12
"""Bytes of a TFRecord before its data."""

LIBRARIES = b"libraries"
"""The key in the metadata of a table for library versions on which stored images depend."""

CONTENT_BYTES = 16
"""Bytes of a `content_hash`."""

HASH_BYTES = 8
"""Bytes of a perceptual hash, the most significant first."""

PARTNERS = "partners"
"""The column of masks and further images: only datasets that have any have it."""

# A column as Parquet names it.
_OF_PARTNERS = f"{PARTNERS}.list.element."

# Short texts and small numbers repeat; the rest are numbers that a difference to the one before
# makes small. Hashes are in none of these: they cannot be compressed.
_REPEATED = (
    *("shard", "split", "label", "label.list.element"),
    *("format", "height", "width", "channels", "orientation", "gps"),
    *("changes", "source_height", "source_width"),
    *(_OF_PARTNERS + name for name in ("name", "format", "gps", "changes")),
)
_DELTAS = (
    *("record", "offset", "length", "size", "version", "label_id", "label_id.list.element"),
    *(_OF_PARTNERS + name for name in ("size", "version", "length")),
)
_TEXTS = ("key", "path", "rows.list.element", f"{_OF_PARTNERS}path")

# More than any real index has for a record: it bounds what a damaged file can make of memory.
_MOST_ROW_BYTES = 1 << 16
_MOST_FILE_BYTES = 1 << 20
_MOST_ROWS_OF_BYTE = 16


class RecordIndexError(ValueError):
    """An index is damaged, or of other records; the message is one line."""


def content_hash(data: bytes) -> str:
    """128 bits of a file's content, as 32 hexadecimal digits.

    XXH3, because SHA-256 would take 30 times as long and 5% of a conversion.
    """
    return xxhash.xxh3_128_hexdigest(data)


def index_schema(*, many_labels: bool, has_partners: bool = False) -> pa.Schema:
    """The columns of an index.

    Args:
        many_labels: whether the layout holds several labels of an image: they are lists then.
        has_partners: whether images have masks or further images.
    """
    import pyarrow as pa

    text, number, size, small = pa.string(), pa.int64(), pa.int32(), pa.int8()
    label, label_id = (pa.list_(text), pa.list_(number)) if many_labels else (text, number)
    columns = {
        "shard": text,
        "record": number,
        "offset": number,
        "length": number,
        "key": text,
        "path": text,
        "size": number,
        "version": number,
        "split": text,
        "label": label,
        "label_id": label_id,
        "rows": pa.list_(text),
        "content": pa.binary(CONTENT_BYTES),
        "source_content": pa.binary(CONTENT_BYTES),
        "perceptual_hash": pa.binary(HASH_BYTES),
        "format": text,
        "height": size,
        "width": size,
        "channels": small,
        "orientation": small,
        "gps": small,
        "changes": text,
        "source_height": size,
        "source_width": size,
    }
    if has_partners:
        partner = {
            "name": text,
            "path": text,
            "size": number,
            "version": number,
            "length": number,
            "format": text,
            "content": pa.binary(CONTENT_BYTES),
            "gps": small,
            "changes": text,
        }
        columns[PARTNERS] = pa.list_(pa.struct(list(partner.items())))
    return pa.schema(list(columns.items()))


def index_bytes(table: pa.Table) -> bytes:
    """The file of an index; the same for the same rows, with the same pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [path for field in table.schema for path in _paths(field.name, field.type)]
    file = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        file,
        table.schema,
        compression="zstd",
        use_dictionary=[path for path in paths if path in _REPEATED],
        column_encoding={
            **{path: "DELTA_BINARY_PACKED" for path in paths if path in _DELTAS},
            **{path: "DELTA_LENGTH_BYTE_ARRAY" for path in paths if path in _TEXTS},
        },
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    with writer:
        writer.write_table(table)
        # Written with the schema, it would come with 2 KB more.
        if table.schema.metadata:
            writer.add_key_value_metadata(table.schema.metadata)
    return bytes(file.getvalue())


def read_index(
    data: bytes, path: str, *, records: int | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads a file that may have been edited.

    Args:
        data: its content.
        path: where it is, for messages.
        records: rows that it must have, or None for any number.
        columns: those to read, in their order, without `PARTNERS` if it has none; None for all.

    Raises:
        RecordIndexError: it is not an index, or not of this number of records.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        found, schema = file.metadata, file.schema_arrow
        kinds = itertools.product((False, True), repeat=2)
        schemas = (index_schema(many_labels=many, has_partners=has) for many, has in kinds)
        if all(schema != each for each in schemas):
            raise RecordIndexError(f"{path} is not the index of a shard: its columns are others")
        if records is not None and found.num_rows != records:
            raise RecordIndexError(
                f"{path} is damaged: it has {found.num_rows} rows, its shard {records} records"
            )
        if found.num_rows > _MOST_ROWS_OF_BYTE * len(data):
            raise RecordIndexError(f"{path} is damaged: {found.num_rows} rows do not fit into it")
        groups = (found.row_group(number) for number in range(found.num_row_groups))
        held = sum(group.total_byte_size for group in groups)
        if held > _MOST_FILE_BYTES + _MOST_ROW_BYTES * found.num_rows:
            raise RecordIndexError(f"{path} is damaged: it would take {held} bytes of memory")
        asked = schema.names if columns is None else columns
        names = [name for name in asked if name != PARTNERS or name in schema.names]
        table = file.read(columns=list(dict.fromkeys(["record", *names])), use_threads=False)
        table.validate(full=True)
        table = table.combine_chunks()
        if table.column("record").to_pylist() != list(range(found.num_rows)):
            raise RecordIndexError(f"{path} is damaged: its rows are not numbered in order")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise RecordIndexError(f"{path} is damaged: {detail}") from error
    return table.select(names)


def source_contents(table: pa.Table) -> list[bytes | None]:
    """The hash of each original file: `source_content`, or `content` where that is empty."""
    pairs = zip(
        table.column("source_content").to_pylist(), table.column("content").to_pylist(), strict=True
    )
    return [content if source is None else source for source, content in pairs]


def class_lists(table: pa.Table) -> list[list[str]]:
    """The result of `classes_of` for each record."""
    return [classes_of(label) for label in table.column("label").to_pylist()]


def classes_of(label: list[str] | str | None) -> list[str]:
    """The classes that a record counts for; one empty text if it has no label.

    >>> classes_of("cat"), classes_of(None), classes_of(["cat", "dog"]), classes_of([])
    (['cat'], [''], ['cat', 'dog'], [''])
    """
    return label or [""] if isinstance(label, list) else [label or ""]


def _paths(name: str, type_: pa.DataType) -> list[str]:
    """A column as Parquet names it: those of a list have two levels more."""
    import pyarrow as pa

    if pa.types.is_list(type_):
        return _paths(f"{name}.list.element", type_.value_type)
    if pa.types.is_struct(type_):
        return [path for field in type_ for path in _paths(f"{name}.{field.name}", field.type)]
    return [name]
