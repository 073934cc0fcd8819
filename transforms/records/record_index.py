"""The index of a shard: a row for each record."""

from __future__ import annotations

import io
import itertools
import operator
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import xxhash

from transforms.core.records import PlannedImage, ShardRow
from transforms.dataset.manifest import INDEXED, manifest_shards, shards_by_name
from transforms.dataset.output_names import image_files, index_file
from transforms.examples.layouts import IMAGE, PATH, PIXELS
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.images.checked_images import LOOKS, CheckedImage
from transforms.images.pixel_options import CHANGES, UNTOUCHED
from transforms.labels.joins import parsed_rows
from transforms.labels.keys import MEMORY, image_key
from transforms.labels.label_tables import checked_parquet, numbers_of, plain_bytes, size_of_pages
from transforms.labels.shards import ShardName
from transforms.records.stored_images import changes_text, has_records, partner_rows

if TYPE_CHECKING:
    import pyarrow as pa


# Arrow arrays of Python values, without `pyarrow.array`: that imports pandas (0.3 s, 30 MB).


def to_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """The array of these values.

    Args:
        values: integers, texts, bytes, lists of these or of mappings, as the type has them; None
            is null.
        type_: of integers, UTF-8, bytes of a fixed size, a struct of these, or a list of one of
            them.

    Raises:
        OverflowError: an integer does not fit its type, or the texts have 2 GB.
    """
    import numpy as np
    import pyarrow as pa

    nulls, buffers, children = None, [], []
    if None in values:
        # A bit for each value that is not null.
        bits = np.packbits([each is not None for each in values], bitorder="little")
        nulls = pa.py_buffer(bits)
    if pa.types.is_list(type_):
        lists = [each or () for each in values]
        buffers = [_offset_buffer(list(map(len, lists)))]
        children = [to_array(list(chain.from_iterable(lists)), type_.value_type)]
    elif pa.types.is_struct(type_):
        children = [to_array([each[field.name] for each in values], field.type) for field in type_]
    elif pa.types.is_string(type_):
        encoded = [b"" if each is None else each.encode() for each in values]
        buffers = [_offset_buffer(list(map(len, encoded))), pa.py_buffer(b"".join(encoded))]
    elif pa.types.is_fixed_size_binary(type_):
        empty = bytes(type_.byte_width)
        buffers = [pa.py_buffer(b"".join(empty if each is None else each for each in values))]
    else:
        numbers = [0 if each is None else each for each in values]
        buffers = [pa.py_buffer(np.array(numbers, f"<i{type_.bit_width // 8}"))]
    return pa.Array.from_buffers(type_, len(values), [nulls, *buffers], children=children)


def joined(tables: list[pa.Table]) -> pa.Table:
    """The rows of tables in one chunk; the list is empty then."""
    import pyarrow as pa

    table = pa.concat_tables(tables).unify_dictionaries()
    tables.clear()
    # One column at a time: together they would take their memory twice.
    for at, name in enumerate(table.column_names):
        table = table.set_column(at, table.field(at), table.column(name).combine_chunks())
    pa.default_memory_pool().release_unused()
    return table


def _offset_buffer(lengths: Sequence[int]) -> pa.Buffer:
    import numpy as np
    import pyarrow as pa

    ends = np.cumsum([0, *lengths], dtype=np.int64)
    if ends[-1] >= 2**31:
        raise OverflowError("the texts of one column of an index have 2 GB")
    return pa.py_buffer(ends.astype("<i4"))


# The index of a shard: a Parquet table with a row for each record, in the order of the records.
#
# It is published as `index/SHARD.parquet`, and everything that must find a record reads it. The
# URI of an image is not a column: it is `root` of the manifest and `path`, so that moved images
# change no index. CSV rows are listed only where the layout keeps them: a line that is inserted at
# the top of a CSV must not change every shard.
#
# Without timestamps and statistics, the same rows give the same bytes with the same pyarrow. That
# is imported when a table is made or read, not before: it takes 50 ms and 35 MB.

LIBRARIES = b"libraries"
"""The key in the metadata of a table for library versions on which stored images depend."""

CONTENT_BYTES = 16
"""Bytes of a `content_hash`."""

HASH_BYTES = 8
"""Bytes of a perceptual hash, the most significant first."""

HASHES = {b"perceptual_hash": b"2"}
"""In the metadata of a table: the version of its perceptual hashes.

Raise it when the same image gets another hash: those of two versions cannot be compared.
"""

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
    *LOOKS,
    *(_OF_PARTNERS + name for name in ("name", "format", "gps", "changes")),
)
_DELTAS = (
    *("record", "offset", "length", "size", "version", "label_id", "label_id.list.element"),
    *(_OF_PARTNERS + name for name in ("size", "version", "length")),
)
_TEXTS = ("key", "path", "rows.list.element", f"{_OF_PARTNERS}path")

# What an index may take of memory, and the bytes of a row in its file: more and fewer than any real
# index has. Of images, a row takes 70 bytes, and 4 times as much in memory; of rows of a table it
# takes 8, and 30 times as much.
_MOST_BYTES = 1 << 16
_MOST_BYTES_OF_BYTE = 48
# Texts take four times their bytes while a column is read.
_MOST_COLUMN = 32 << 20
_MOST_COLUMN_OF_BYTE = 12
_LEAST_ROW_BYTES = 4
_LEAST_GROUP = 1 << 16
# Only of an index that takes more than this, the size of its shard is asked.
_UNASKED_BYTES = 4 << 20

# The columns that have no values if all images are stored as they are.
_OF_CHANGES = ("changes", "source_content", "source_height", "source_width")

# Rows that are Python objects at the same time: these take ten times the memory.
_BATCH = 1024


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
    content = pa.binary(CONTENT_BYTES)
    columns = {
        "shard": text,
        **dict.fromkeys(("record", "offset", "length"), number),
        **dict.fromkeys(("key", "path"), text),
        **dict.fromkeys(("size", "version"), number),
        "split": text,
        "label": label,
        "label_id": label_id,
        "rows": pa.list_(text),
        **dict.fromkeys(("content", "source_content"), content),
        "perceptual_hash": pa.binary(HASH_BYTES),
        "format": text,
        **dict.fromkeys(("height", "width"), size),
        **dict.fromkeys(("channels", "orientation", "gps"), small),
        "changes": text,
        **dict.fromkeys(("source_height", "source_width"), size),
        **dict.fromkeys(LOOKS, pa.int16()),
    }
    if has_partners:
        partner = {
            **dict.fromkeys(("name", "path"), text),
            **dict.fromkeys(("size", "version", "length"), number),
            "format": text,
            "content": content,
            "gps": small,
            "changes": text,
        }
        columns[PARTNERS] = pa.list_(pa.struct(list(partner.items())))
    return pa.schema(list(columns.items()), metadata=HASHES)


def index_bytes(table: pa.Table) -> bytes:
    """The file of an index; the same for the same rows, with the same pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        file,
        table.schema,
        compression="zstd",
        # Of all names, those of columns count.
        use_dictionary=[*_REPEATED],
        column_encoding={
            **dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
            **dict.fromkeys(_TEXTS, "DELTA_LENGTH_BYTE_ARRAY"),
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
    data: bytes,
    path: str,
    *,
    records: int | None = None,
    columns: Sequence[str] | None = None,
    changes: Sequence[str] = CHANGES,
    most_of_records: Callable[[], int | None] = lambda: None,
) -> pa.Table:
    """Reads a file that may have been edited.

    Args:
        data: its content.
        path: where it is, for messages.
        records: rows that it must have, or None for any number.
        columns: those to read, in their order, without `PARTNERS` if it has none; None for all.
            Perceptual hashes of another version are empty.
        changes: those that its images may have; none if all are stored as they are.
        most_of_records: the memory that rows of the records in its shard take at most; None if
            that is not known.

    Raises:
        RecordIndexError: it is not an index, or not of this number of records.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        options: dict[str, Any] = {"page_checksum_verification": True}
        file = checked_parquet(pa.BufferReader(data), **options)
        found, schema = file.metadata, file.schema_arrow
        kinds = itertools.product((False, True), repeat=2)
        schemas = (index_schema(many_labels=many, has_partners=has) for many, has in kinds)
        if all(schema != each for each in schemas):
            raise RecordIndexError(f"{path} is not the index of a shard: its columns are others")
        if records is not None and found.num_rows != records:
            raise RecordIndexError(
                f"{path} is damaged: it has {found.num_rows} rows, its shard {records} records"
            )
        # Of rows in a group each, 20,000 take 1.7 GB and 15 s; a group has a million of them.
        is_crowded = found.num_row_groups > 1 + found.num_rows // _LEAST_GROUP
        if is_crowded or found.num_rows > len(data) // _LEAST_ROW_BYTES:
            raise RecordIndexError(f"{path} is damaged: {found.num_rows} rows do not fit into it")
        asked = schema.names if columns is None else columns
        names = [name for name in asked if name != PARTNERS or name in schema.names]
        wanted = {"record", *names}
        chunks = [
            chunk
            for group in map(found.row_group, range(found.num_row_groups))
            for chunk in map(group.column, range(found.num_columns))
            if chunk.path_in_schema.partition(".")[0] in wanted
        ]
        sizes = [size_of_pages(chunk, io.BytesIO(data), is_of_index=True) for chunk in chunks]
        most = _MOST_BYTES + _MOST_BYTES_OF_BYTE * len(data)
        largest = max((size for size, *_ in sizes), default=0)
        _check_size(largest, _MOST_COLUMN + _MOST_COLUMN_OF_BYTE * len(data), path)
        # A page of a few bytes may repeat a value any number of times.
        held = sum(size + 8 * values for size, values, *_ in sizes)
        _check_size(held, most, path, most_of_records)
        # A text that a dictionary has once stays there until its size in each row is known.
        repeated = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
        options.update(metadata=found, read_dictionary=sorted(repeated))
        texts = pq.ParquetFile(pa.BufferReader(data), **options)
        texts = texts.read(columns=sorted(repeated), use_threads=False)
        texts.validate(full=True)
        arrays = (array for column in texts.columns for array in column.chunks)
        _check_size(sum(map(plain_bytes, arrays)), most, path, most_of_records)
        del texts, arrays
        table = file.read(columns=list(dict.fromkeys(["record", *names])), use_threads=False)
        table.validate(full=True)
        table = table.combine_chunks()
        record = table.column("record").combine_chunks()
        if record.null_count or (numbers_of(record) != np.arange(len(record))).any():
            raise RecordIndexError(f"{path} is damaged: its rows are not numbered in order")
        if "key" in names and table.column("key").null_count:
            raise RecordIndexError(f"{path} is damaged: a row of it has no key")
        for name in {*_OF_CHANGES} & {*names} if not changes else {"changes"} & {*names}:
            for text in table.column(name).unique().drop_null().to_pylist():
                each = str(text).split(",")
                if len({*each}) < len(each) or not {*each} <= {*changes}:
                    raise RecordIndexError(f"{path} is damaged: a {name} of it is {text!r:.60}")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise RecordIndexError(f"{path} is damaged: {detail}") from error
    table = table.select(names)
    if "perceptual_hash" in names and not has_current_hashes(table):
        at = names.index("perceptual_hash")
        unknown = pa.nulls(len(table), pa.binary(HASH_BYTES))
        table = table.set_column(at, table.field(at), unknown)
    return table


def has_current_hashes(table: pa.Table) -> bool:
    """Whether its perceptual hashes are of this version; `read_index` leaves out any others."""
    return HASHES.items() <= (table.schema.metadata or {}).items()


def has_fingerprints(index: pa.Table) -> bool:
    """Whether all records of a shard have the hash of their file; False if there is no record."""
    return bool(index.num_rows) and not index.column("content").null_count


def check_hashes(table: pa.Table) -> None:
    """Checks that an index has the hashes of its images.

    Raises:
        RecordIndexError: it has none, or its perceptual hashes are of another version.
    """
    if table.column("content").null_count:
        raise RecordIndexError("its images have no hashes, since it was made with --dedupe off")
    if not has_current_hashes(table):
        raise RecordIndexError(
            "another version of this program made its perceptual hashes: convert its images again"
        )


def _check_size(
    size: int, most: int, path: str, most_of_records: Callable[[], int | None] = lambda: None
) -> None:
    if size > _UNASKED_BYTES and (known := most_of_records()) is not None:
        most = min(most, _UNASKED_BYTES + known)
    if size > most:
        raise RecordIndexError(
            f"{path} is damaged: it would take {size} bytes of memory, more than {most}"
        )


def index_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of an index, a few of them at a time as Python objects."""
    for batch in table.to_batches(_BATCH):
        yield from batch.to_pylist()


def source_contents(table: pa.Table) -> list[bytes | None]:
    """The hash of each original file: `source_content`, or `content` where that is empty."""
    columns = (table.column(name).to_pylist() for name in ("source_content", "content"))
    return [original or stored for original, stored in zip(*columns, strict=True)]


def class_lists(table: pa.Table) -> list[list[str]]:
    """The result of `classes_of` for each record."""
    return [classes_of(label) for label in table.column("label").to_pylist()]


def classes_of(label: list[str] | str | None) -> list[str]:
    """The classes that a record counts for; one empty text if it has no label.

    >>> classes_of("cat"), classes_of(None), classes_of(["cat", "dog"]), classes_of([])
    (['cat'], [''], ['cat', 'dog'], [''])
    """
    return label or [""] if isinstance(label, list) else [label or ""]


# Compares the index of a shard with the records that it describes.

COMPARED = (
    *("record", "offset", "length", "key", "path", "label", "label_id", "content"),
    *("format", "height", "width", "channels", PARTNERS, *_OF_CHANGES),
)
"""The columns that `row_problems` and `read_index` compare."""

_COLUMNS = {
    **{f"image.{name}": name for name in COMPARED},
    **dict.fromkeys(("label.id", "label.ids"), "label_id"),
    **dict.fromkeys(("label.text", "label.texts"), "label"),
}
"""The column that holds the same value as a feature, by the feature's source."""

_SHOWN = 60
_Held: TypeAlias = Mapping[str, Sequence[Any]]  # the values of a record by their source


class IndexPlace(NamedTuple):
    """The rows of the records of one file.

    Attributes:
        entry: of the index, in the manifest; with its `shard`, unless its records have files of
            their own, the kind of its keys, and the changes of its images.
        first: the row of the file's first record.
    """

    entry: dict[str, Any]
    first: int = 0


def key_kind(manifest: Mapping[str, Any]) -> str | None:
    """The kind of keys that `path_key` makes of the paths of a dataset.

    Empty if they are not all made so; None if another program wrote its records.
    """
    if manifest.get(INDEXED):
        return None
    kind = manifest["options"].get("key")
    if has_records(manifest) or kind not in ("stem", "name", "path"):
        kind = ""
    return "uri" if manifest["root"] == MEMORY else kind


def _changes(manifest: Mapping[str, Any]) -> list[str]:
    """See `read_index`."""
    changes = [*manifest.get("pixels", ())]
    is_stripped = bool(manifest["options"].get("strip_metadata")) or has_records(manifest)
    holds_files = any(feature["source"] == IMAGE for feature in manifest["features"])
    return changes if changes or (holds_files and not is_stripped) else [*UNTOUCHED]


def path_key(path: str, kind: str) -> str:
    """The key of an image by its path below its root."""
    # Below a bucket, paths stay as they are.
    return image_key(path if kind != "path" else f"gs://x/{path}", kind=kind, root="gs://x")


def index_places(manifest: Mapping[str, Any]) -> dict[str, IndexPlace]:
    """The place of each file's records in the indexes, by the name of the file.

    A shard has its own index. Files of single images share that of the shard as which they were
    written: they follow each other in the order of its rows. A file without rows is left out.
    """
    known = {"keys": key_kind(manifest), "changes": _changes(manifest)}
    entries = {entry["file"]: {**entry, **known} for entry in manifest["index"]}
    if manifest["options"].get("files") != "per_image":
        return {
            shard["file"]: IndexPlace({**entry, "shard": shard["file"]})
            for name, shard in shards_by_name(manifest).items()
            if (entry := entries.get(index_file(name))) is not None
        }
    places: dict[str, IndexPlace] = {}
    for split, listed in manifest["splits"].items():
        own = [entry for entry in entries.values() if index_split(entry) == split]
        rows = (IndexPlace(entry, row) for entry in own for row in range(entry["records"]))
        places |= zip((shard["file"] for shard in listed["shards"]), rows, strict=False)
    return places


def indexed_files(
    manifest: Mapping[str, Any],
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The entry of each index, and those of the files of its records, in the order of its rows."""
    places, files = index_places(manifest), defaultdict(list)
    for shard in manifest_shards(manifest):
        if (place := places.get(shard["file"])) is not None:
            files[place.entry["file"]].append(shard)
    named = {place.entry["file"]: place.entry for place in places.values()}
    for entry in manifest["index"]:
        yield named.get(entry["file"], entry), files[entry["file"]]


def index_list_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Whether the indexes of a manifest have as many rows as the splits have records."""
    rows = dict.fromkeys(manifest["splits"], 0)
    for entry in manifest["index"]:
        split = index_split(entry)
        rows[split] = rows.get(split, 0) + entry["records"]
    for split, listed in manifest["splits"].items():
        if rows[split] != listed["records"]:
            yield f"the indexes of split {split!r} have {rows[split]} rows, not {listed['records']}"


def row_problems(
    row: Mapping[str, Any], record: bytes, offset: int, held: _Held, kind: str | None = ""
) -> Iterator[str]:
    """The differences between a record and its row.

    Args:
        row: with the columns `COMPARED`.
        record: the data of the record.
        offset: the first byte of its frame in the file.
        held: the values of the record by their source.
        kind: see `key_kind`.
    """
    if row["length"] != len(record):
        yield _problem("length", len(record), row["length"])
    # Compressed files have no offsets.
    if row["offset"] not in (None, offset):
        yield _problem("offset", offset, row["offset"])
    path = row["path"] or ""
    for source, values in held.items():
        column = _COLUMNS.get(source)
        if column is None or row[column] is None:
            continue
        values = values.tolist() if hasattr(values, "tolist") else values
        texts = [
            each.decode(errors="replace") if isinstance(each, bytes) else each for each in values
        ]
        found: Any = texts if isinstance(row[column], list) else texts[0] if texts else None
        if found != row[column]:
            yield _problem(column, found, row[column])
        if source == PATH:
            path = str(found)
    if kind and (own := path_key(path, kind)) != row["key"]:
        yield _problem("key", own, row["key"])
    if row["content"] is not None and (data := _stored(held)) is not None:
        found = content_hash(data)
        if found != row["content"].hex():
            yield _problem("content", found, row["content"].hex())
    for partner in row.get(PARTNERS) or ():
        yield from _partner_problems(partner, held)


def _partner_problems(row: Mapping[str, Any], held: _Held) -> Iterator[str]:
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


def _stored(held: _Held) -> bytes | None:
    """The stored image, or its pixels if only these are stored."""
    return next((held[name][0] for name in (IMAGE, PIXELS) if len(held.get(name, ()))), None)


def _problem(column: str, found: object, listed: object) -> str:
    return f"its {column} is {found!r:.{_SHOWN}}, the index says {listed!r:.{_SHOWN}}"


def index_split(entry: Mapping[str, Any]) -> str:
    """The split of an index, by its entry in the manifest."""
    return ShardName.parse(shard_of_index(entry["file"])).split


def shard_of_index(index: str) -> str:
    """The name of an uncompressed shard with this index."""
    return f"{index.rpartition('/')[2].removesuffix('.parquet')}.tfrecord"


# Collects the rows of the index of a shard while it is written.


# Images that are looked at together. Each takes as much memory as the largest, and a histogram, so
# that a bound of their pixels would not bound it.
_GREYS = 128

_NOTED = operator.attrgetter(
    *("info", "original", "changes", "orientation", "stored_content", "content", "has_place"),
    "partners",
)


class IndexRows:
    """Collects the records of one shard, with few calls for each.

    Attributes:
        checked: what each record was made of, without its image: see `add`.
        lengths: bytes of each record's data.
    """

    def __init__(self) -> None:
        self.checked: list[tuple[Any, ...]] = []
        self.lengths: list[int] = []
        self._looks: list[Sequence[int | None]] = []
        self._greys: dict[int, Any] = {}

    def add(self, checked: CheckedImage) -> None:
        """Notes what a record is made of; its length is added to `lengths` once it is known."""
        perceptual_hash, grey, looks = checked.seen
        if grey is not None:
            self._greys[len(self._looks)] = grey
        self._looks.append(looks)
        self.checked.append((checked.row or checked.image, *_NOTED(checked), perceptual_hash))
        if len(self._greys) == _GREYS:
            self._look()

    def _look(self) -> None:
        from transforms.images.check import looks_of

        for row, looks in zip(self._greys, looks_of([*self._greys.values()]), strict=True):
            self._looks[row] = looks
        self._greys.clear()

    def columns(self, rows: slice = slice(None)) -> list[tuple[Any, ...]]:
        """What `checked` has of some records, or of each."""
        return [*zip(*self.checked[rows], strict=True)] or [()] * 10

    def keys(self) -> list[str]:
        """The key of each record of an image."""
        return [planned.key for planned, *_ in self.checked]

    def table(
        self,
        shard: str,
        *,
        many_labels: bool = False,
        is_per_image: bool = False,
        libraries: str = "",
        partners: Sequence[str] = (),
        published: Sequence[str] = (),
    ) -> pa.Table:
        """The index of the shard.

        Args:
            shard: its file name.
            many_labels: see `index_schema`.
            is_per_image: whether each record has its own file.
            libraries: versions of the libraries on which the stored images depend.
            partners: the names of masks and further images, in their order.
            published: the file of each record in the dataset, if it has another name.
        """
        import pyarrow as pa

        count = len(self.checked)
        if self._greys:
            self._look()
        split, *_, gzip = ShardName.parse(shard)
        ends = itertools.accumulate(length + FRAME_BYTES for length in self.lengths)
        files, offsets = [shard] * count, [0, *ends][:count]
        if is_per_image:
            files = image_files([(split, key) for key in self.keys()], gzip=gzip)
            offsets = [0] * count
        schema = index_schema(many_labels=many_labels, has_partners=bool(partners))
        if libraries:
            schema = schema.with_metadata({**schema.metadata, LIBRARIES: libraries.encode()})
        # No record of a compressed file can be read alone.
        placed: dict[str, Sequence[Any]] = {"offset": [None] * count if gzip else offsets}
        placed |= {"shard": list(published) or files, "length": self.lengths}
        tables = []
        # All values of a million records would take 600 MB as Python objects.
        for start in range(0, count or 1, _LEAST_GROUP):
            rows = range(count)[start : start + _LEAST_GROUP]
            chosen = slice(rows.start, rows.stop)
            columns = {"record": rows, **{name: each[chosen] for name, each in placed.items()}}
            columns |= self._columns(chosen, split, partners, many_labels)
            arrays = [to_array(columns[field.name], field.type) for field in schema]
            tables.append(pa.Table.from_arrays(arrays, schema=schema))
        return joined(tables)

    def _columns(
        self, rows: slice, split: str, partners: Sequence[str], many_labels: bool
    ) -> dict[str, Sequence[Any]]:
        """The columns of some rows but for their numbers and places."""
        planned, infos, originals, changes, tags, contents, sources, places, stored, hashes = (
            self.columns(rows)
        )
        looks = zip(*self._looks[rows], strict=True) if planned else [()] * 4
        columns: dict[str, Sequence[Any]] = {
            "split": [split] * len(planned),
            "content": binary_values(contents),
            # Most images are stored as they are: their hash would take 16 bytes twice.
            "source_content": binary_values(
                [
                    "" if source == content else source
                    for content, source in zip(contents, sources, strict=True)
                ]
            ),
            "perceptual_hash": [
                None if value is None else value.to_bytes(HASH_BYTES, "big") for value in hashes
            ],
            **dict(zip(LOOKS, looks, strict=True)),
            "orientation": tags,
            "gps": places,
            "changes": list(map(changes_text, changes)),
            **plan_columns(planned, many_labels),
            **_of_sizes(infos, originals),
        }
        if partners:
            columns[PARTNERS] = list(map(partial(partner_rows, partners), planned, stored))
        return columns


def plan_columns(planned: Sequence[PlannedImage | ShardRow], many_labels: bool) -> dict[str, Any]:
    """The columns that are known before an image is opened.

    Args:
        planned: the images of a shard, or its rows.
        many_labels: see `index_schema`.
    """
    if planned and isinstance(planned[0], ShardRow):
        return _of_rows(cast(Sequence[ShardRow], planned))
    images = cast(Sequence[PlannedImage], planned)
    rows = [parsed_rows(image.cells) if image.cells else None for image in images]
    label: list[Any] = [image.label or None for image in images]
    label_id: list[Any] = [image.label_id if image.label else None for image in images]
    if many_labels:
        # All labels of an image's rows with their ids, each once.
        found = [{text: at for _, labels, _ in each or () for at, text in labels} for each in rows]
        label, label_id = [[*each] for each in found], [[*each.values()] for each in found]
    return {
        **{
            name: list(map(operator.attrgetter(name), images))
            for name in ("key", "path", "size", "version")
        },
        "label": label,
        "label_id": label_id,
        "rows": [None if each is None else [where for where, *_ in each] for each in rows],
    }


def _of_rows(rows: Sequence[ShardRow]) -> dict[str, Any]:
    nothing = [None] * len(rows)
    return {
        "key": [row.key or f"{row.path}:{row.line}" for row in rows],
        "path": [row.path for row in rows],
        **dict.fromkeys(("size", "version", "label", "label_id"), nothing),
        "rows": [[f"{os.path.basename(row.path)}:{row.line}"] for row in rows],
    }


def _of_sizes(infos: Sequence[Any], originals: Sequence[Any]) -> dict[str, Any]:
    """Format and size; the size in the file only where it is another one."""
    other = [
        None if (original.height, original.width) == (info.height, info.width) else original
        for info, original in zip(infos, originals, strict=True)
    ]
    return {
        **{
            name: [getattr(info, name) or None for info in infos]
            for name in ("format", "height", "width", "channels")
        },
        "source_height": [each and each.height for each in other],
        "source_width": [each and each.width for each in other],
    }


def binary_values(digits: Sequence[str]) -> list[bytes | None]:
    """Hexadecimal digits as bytes; an empty text is null."""
    return [bytes.fromhex(each) if each else None for each in digits]
