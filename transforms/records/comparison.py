"""What differs between two datasets."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from transforms.core.messages import as_written
from transforms.core.records import ShardImage
from transforms.dataset.manifest import manifest_shards
from transforms.labels.keys import nfc
from transforms.labels.vocabulary import parse_labels
from transforms.records.record_index import (
    CONTENT_BYTES,
    PARTNERS,
    binary_values,
    index_schema,
    plan_columns,
    to_array,
)
from transforms.records.stored_images import StoredImage

if TYPE_CHECKING:
    import pyarrow as pa

    Rows: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


# Compares two manifests: the options of the datasets, and the checksums of their shards.


class OptionChange(NamedTuple):
    """An option with another value.

    Attributes:
        name: of the option; `features` if a layout file of the same name has changed.
        old: its former value; None if it was not given.
        new: its value now.
    """

    name: str
    old: Any
    new: Any


def option_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[OptionChange]:
    """The options that differ, by name.

    Args:
        old: the manifest of a dataset.
        new: that of another one.

    >>> one = {"options": {"seed": 1, "key": "stem"}, "features": []}
    >>> option_changes(one, {"options": {"key": "stem", "color": "rgb"}, "features": []})
    [OptionChange(name='color', old=None, new='rgb'), OptionChange(name='seed', old=1, new=None)]
    """
    was, now = old["options"], new["options"]
    changed = [
        OptionChange(name, was.get(name), now.get(name))
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    if not changed and old["features"] != new["features"]:
        names = ([feature["name"] for feature in each["features"]] for each in (old, new))
        changed.append(OptionChange("features", *names))
    return changed


def other_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """The number of shards of either dataset that the other one does not have.

    Records may differ in what no index holds: boxes and the cells of columns.
    """
    one, other = (
        {(each["file"], each["crc32c"]) for each in manifest_shards(manifest)}
        for manifest in (old, new)
    )
    return max(len(one - other), len(other - one))


# Compares the records of two datasets by their indexes: with Arrow's tables, not record by record.
#
# A million records of both sides take 300 MB, and two seconds of CPU time.

COLUMNS = ("key", "split", "label", "label_id", "content", "source_content")
"""The columns of an index that are compared, with `PARTNERS` where that is one."""

SEPARATOR = "\x1f"
"""Between the labels of an image that has several, in the column `label` of `Records`."""


@dataclasses.dataclass(frozen=True)
class Records:
    """The records of a dataset.

    Attributes:
        table: the columns `key`, `split`, `label`, `content` and `source_content`, and `partners`
            with the hashes of masks and further images, one after the other.
        classes: the class ids by their names, also of classes without records.
        many_labels: whether a record may have several labels.
    """

    table: pa.Table
    classes: Mapping[str, int]
    many_labels: bool = False

    @classmethod
    def of_index(cls, index: pa.Table) -> Records:
        """The records of one shard, in a tenth of the memory of its index.

        Args:
            index: with the columns `COLUMNS`, and `PARTNERS` if there are any.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        label, label_id = index.column("label"), index.column("label_id")
        names, ids = label, label_id
        many_labels = pa.types.is_list(label.type)
        if many_labels:
            names, ids = pc.list_flatten(label), pc.list_flatten(label_id)
            label = pc.binary_join(label, SEPARATOR)
        split = pc.dictionary_encode(pc.fill_null(index.column("split"), ""))
        label = pc.dictionary_encode(pc.fill_null(label, ""))
        kept = {name: index.column(name) for name in ("key", "content", "source_content")}
        columns = {**kept, "split": split, "label": label, PARTNERS: _partner_hashes(index)}
        table = pa.table(columns, schema=_schema())
        return cls(table, _classes(names, ids), many_labels)

    @classmethod
    def joined(cls, shards: Iterable[Records], labels: str = "") -> Records:
        """The records of all shards of a dataset, each as `of_index` gives it.

        Args:
            shards: of the dataset.
            labels: the content of its `labels.txt`, which is empty if it cannot list all classes.
        """
        import pyarrow as pa

        classes = {name: number for number, name in parse_labels(labels).items()}
        many_labels = False
        tables = [_schema().empty_table()]
        for shard in shards:
            many_labels |= shard.many_labels
            tables.append(shard.table)
            classes.update(shard.classes)
            # Arrow would keep the memory of what was read for this shard, 100 MB of a million.
            pa.default_memory_pool().release_unused()
        table = pa.concat_tables(tables).unify_dictionaries()
        del tables
        # One chunk: rows of it are taken without copying a column. One column at a time: together
        # they would take their memory twice.
        for at, name in enumerate(table.column_names):
            table = table.set_column(at, name, table.column(name).combine_chunks())
        pa.default_memory_pool().release_unused()
        return cls(table, classes, many_labels)

    def rekeyed(self, lost: str, got: str) -> Records:
        """The records with the keys that their files have below another root.

        Args:
            lost: what keys lose at their begin; others are no keys below that root.
            got: what they get there.
        """
        import pyarrow.compute as pc

        keys = self.table.column("key")
        if lost:
            # A name that no key has.
            others = pc.binary_join_element_wise("..", keys, "/")
            kept = pc.utf8_slice_codeunits(keys, len(nfc(lost)))
            keys = pc.if_else(pc.starts_with(keys, nfc(lost)), kept, others)
        if got:
            keys = pc.binary_join_element_wise(nfc(got), keys, "")
        at = self.table.column_names.index("key")
        return dataclasses.replace(self, table=self.table.set_column(at, "key", keys))


@dataclasses.dataclass(frozen=True)
class RecordChanges:
    """The differences between two datasets; rows are numbered over all shards.

    Attributes:
        old: the former records.
        new: the other ones.
        added: rows of `new` with new keys.
        removed: rows of `old` whose keys are gone.
        kept: rows of `old` and of `new` with the same keys, in the same order.
        relabelled: which of `kept` have other labels.
        moved: which of `kept` are in another split.
        pixels: which of `kept` hold other images; those without a hash are not compared.
        originals: which of `kept` were made from other files; as for `pixels`.
        partners: which of `kept` hold other masks or further images; as for `pixels`.
    """

    old: Records
    new: Records
    added: Rows
    removed: Rows
    kept: tuple[Rows, Rows]
    relabelled: Rows
    moved: Rows
    pixels: Rows
    originals: Rows
    partners: Rows

    @property
    def has_partners(self) -> bool:
        """Whether a record of either dataset has masks or further images, with their hashes."""
        columns = (each.table.column(PARTNERS) for each in (self.old, self.new))
        return any(column.null_count < len(column) for column in columns)

    def counts(self) -> dict[str, int]:
        """The number of records of each change, by its name."""
        names = ["added", "removed", "relabelled", "moved", "pixels", "originals"]
        names += ["partners"] if self.has_partners else []
        return {name: len(getattr(self, name)) for name in names}

    def new_unknown(self) -> Rows:
        """Which of `kept` have no hash in `new`."""
        import pyarrow.compute as pc

        content = self.new.table.column("content")
        is_null: Rows = pc.is_null(content).to_numpy()
        return np.flatnonzero(is_null[self.kept[1]])

    def new_partners(self) -> Rows:
        """Which of `kept` have hashes of masks and further images in `old`, and not in `new`."""
        import pyarrow.compute as pc

        tables = zip((self.old, self.new), self.kept, strict=True)
        was, now = (
            pc.is_null(each.table.column(PARTNERS)).to_numpy()[rows] for each, rows in tables
        )
        return np.flatnonzero(now & ~was)

    def classes(self) -> dict[str, tuple[int | None, int | None]]:
        """The classes that are new, gone or have another id: former and new id, by name."""
        old, new = self.old.classes, self.new.classes
        names = sorted({*old, *new})
        ids = {name: (old.get(name), new.get(name)) for name in names}
        return {name: pair for name, pair in ids.items() if pair[0] != pair[1]}


def compare_records(old: Records, new: Records) -> RecordChanges:
    """The differences between the records of two datasets, whose keys are distinct."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(new.table.column("key"), value_set=old.table.column("key"))
    found = places.is_valid().to_numpy()
    old_rows = places.drop_null().to_numpy()
    del places
    pa.default_memory_pool().release_unused()
    new_rows = np.flatnonzero(found)
    is_gone = np.ones(old.table.num_rows, bool)
    is_gone[old_rows] = False

    def differing(name: str) -> Rows:
        one, other = _codes(old.table.column(name), new.table.column(name))
        return np.flatnonzero(one[old_rows] != other[new_rows])

    def other_bytes(hashes: Callable[[pa.Table], Any]) -> Rows:
        words = (_words(hashes(each.table)) for each in (old, new))
        one, other = (each[rows] for each, rows in zip(words, (old_rows, new_rows), strict=True))
        # Some datasets have no hashes; checksums of shards tell them apart.
        is_known = one.any(axis=1) & other.any(axis=1)
        return np.flatnonzero(is_known & (one != other).any(axis=1))

    return RecordChanges(
        old=old,
        new=new,
        added=np.flatnonzero(~found),
        removed=np.flatnonzero(is_gone),
        kept=(old_rows, new_rows),
        relabelled=differing("label"),
        moved=differing("split"),
        pixels=other_bytes(lambda table: table.column("content")),
        originals=other_bytes(_sources),
        partners=_other_partners(old.table, new.table, old_rows, new_rows),
    )


def _other_partners(old: pa.Table, new: pa.Table, old_rows: Rows, new_rows: Rows) -> Rows:
    """Which of these pairs of rows have masks and further images with other hashes."""
    import pyarrow.compute as pc

    if not len(old_rows):
        return old_rows
    one, other = (
        table.column(PARTNERS).take(rows) for table, rows in ((old, old_rows), (new, new_rows))
    )
    return np.flatnonzero(pc.fill_null(pc.not_equal(one, other), False).to_numpy())


def _partner_hashes(index: pa.Table) -> pa.Array:
    """The hashes of the masks and further images of each record; null if one is not known."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if PARTNERS not in index.column_names:
        return pa.nulls(len(index), pa.binary())
    lists = index.column(PARTNERS).combine_chunks()
    hashes = pc.struct_field(lists.values, "content").cast(pa.binary())
    return pc.binary_join(
        pa.ListArray.from_arrays(lists.offsets, hashes, mask=lists.is_null()), b""
    )


def _sources(table: pa.Table) -> pa.ChunkedArray:
    """The hashes of the original files: an image that is stored as it is has only one."""
    import pyarrow.compute as pc

    return pc.coalesce(table.column("source_content"), table.column("content"))


def _classes(names: pa.ChunkedArray, ids: pa.ChunkedArray) -> dict[str, int]:
    """The ids of classes by their names."""
    import pyarrow as pa

    if len(names) != len(ids):
        return {}
    pairs = pa.table({"name": names, "id": ids}).group_by(["name", "id"]).aggregate([])
    found = zip(pairs.column("name").to_pylist(), pairs.column("id").to_pylist(), strict=True)
    return {name: class_id for name, class_id in found if name is not None and class_id is not None}


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, content = pa.dictionary(pa.int32(), pa.string()), pa.binary(CONTENT_BYTES)
    columns = {
        "key": pa.string(),
        "content": content,
        "source_content": content,
        PARTNERS: pa.binary(),
    }
    return pa.schema(list({**columns, "split": text, "label": text}.items()))


def _codes(old: pa.ChunkedArray, new: pa.ChunkedArray) -> tuple[Rows, Rows]:
    """Numbers that are equal where the texts of two columns are."""
    import pyarrow as pa

    both = pa.chunked_array([*old.chunks, *new.chunks], type=old.type).unify_dictionaries()
    codes = [chunk.indices.to_numpy() for chunk in both.chunks]
    return _joined(codes[: old.num_chunks]), _joined(codes[old.num_chunks :])


def _joined(parts: Sequence[Any]) -> Rows:
    joined: Rows = np.concatenate([np.zeros(0, np.int32), *parts])
    return joined


def _words(column: Any) -> Any:
    """Hashes as two numbers each, in the shape `[rows, 2]`; 0 where there is none."""
    import pyarrow.compute as pc

    parts = []
    for chunk in pc.fill_null(column, bytes(CONTENT_BYTES)).chunks:
        words = np.frombuffer(chunk.buffers()[1], "<u8") if len(chunk) else np.zeros(0, "<u8")
        parts.append(words[2 * chunk.offset : 2 * (chunk.offset + len(chunk))].reshape(-1, 2))
    return np.concatenate([np.zeros((0, 2), "<u8"), *parts])


# The differences between two datasets as a summary, and as lines of JSON for programs.

# Differences named in a line of the summary, and characters of each name.
_MAX_NAMED = 3
_MAX_TEXT = 60

# `dumps` would make one for each of a million lines.
_ENCODER = json.JSONEncoder(ensure_ascii=False)

# Records that become lines of JSON at a time.
_BATCH = 10_000


class Differences(NamedTuple):
    """All differences between two datasets.

    Attributes:
        records: of records and their classes.
        options: of options.
        files: shards with other bytes although the indexes agree.
    """

    records: RecordChanges
    options: Sequence[OptionChange]
    files: int = 0

    def counts(self) -> dict[str, int]:
        """The number of differences of each kind."""
        classes = len(self.records.classes())
        return {
            **self.records.counts(),
            "class_ids": classes,
            "options": len(self.options),
            "files": self.files,
        }

    def total(self) -> str:
        """The kinds of differences with their counts, in one line; empty without any."""
        found = self.counts().items()
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found if count)

    def summary_lines(self) -> Iterator[str]:
        """One line for each kind of difference."""
        found = self.records
        yield from self._lines_of_records()
        yield self._named("pixels", found.pixels, "with another stored image")
        yield _line("originals", f"{len(found.originals)} made from another file")
        if found.has_partners:
            yield self._named("partners", found.partners, "with another mask or further image")
        yield from self._lines_of_options()
        other = "other features, such as boxes and cells, or with images without hashes"
        yield _line("files", f"{self.files} with {other}")

    def planned_lines(self) -> Iterator[str]:
        """The lines that are known before images are opened, in which hashes are missing.

        The other dataset is only planned: of images in both, those without a hash would be opened.
        """
        found = self.records
        yield from self._lines_of_records()
        yield self._named("pixels", found.new_unknown(), "to be read again")
        if found.has_partners:
            what = "with a mask or further image to be read again"
            yield self._named("partners", found.new_partners(), what)
        yield from self._lines_of_options()

    def _named(self, name: str, kept: Rows, what: str) -> str:
        """A line about some of the images that are in both datasets."""
        rows = self.records.kept[1][kept]
        keys = _keys(self.records.new.table, rows)
        return _line(name, f"{len(rows)} {what}", len(rows), keys)

    def _lines_of_records(self) -> Iterator[str]:
        found = self.records
        old, new = found.old.table, found.new.table
        yield _line("records", f"{old.num_rows} -> {new.num_rows}, {len(found.kept[0])} in both")
        for name, table, rows in (("added", new, found.added), ("removed", old, found.removed)):
            yield _line(name, str(len(rows)), len(rows), _keys(table, rows))
        for name, column, words in (
            ("relabelled", "label", "with another label"),
            ("moved", "split", "in another split"),
        ):
            rows = getattr(found, name)
            named = (
                f"{key[:_MAX_TEXT]!r} from {_text(was)} to {_text(now)}"
                for key, was, now in _pairs(found, rows, column, _MAX_NAMED)
            )
            yield _line(name, f"{len(rows)} {words}", len(rows), named)

    def _lines_of_options(self) -> Iterator[str]:
        classes = self.records.classes()
        named = (
            f"{name[:_MAX_TEXT]!r} from {_id(was)} to {_id(now)}"
            for name, (was, now) in classes.items()
        )
        yield _line("class ids", str(len(classes)), len(classes), named)
        named = (
            f"--{each.name} from {as_written(each.old)} to {as_written(each.new)}"
            for each in self.options
        )
        yield _line("options", str(len(self.options)), len(self.options), named)

    def json_lines(self) -> Iterator[str]:
        """A line of JSON for each difference, records sorted by key; the last has the counts."""
        found = self.records
        for name, side, rows in (
            ("added", found.new, found.added),
            ("removed", found.old, found.removed),
        ):
            for row in _sorted(side.table, rows, ("key", "split", "label")):
                label = _label(row["label"], side)
                yield _json(change=name, key=row["key"], split=row["split"], label=label)
        for key, was, now in _pairs(found, found.relabelled, "label"):
            labels = {"from": _label(was, found.old), "to": _label(now, found.new)}
            yield _json(change="relabelled", key=key, **labels)
        for key, was, now in _pairs(found, found.moved, "split"):
            yield _json(change="moved", key=key, **{"from": was, "to": now})
        for change in ("pixels", "originals", "partners"):
            rows = found.kept[1][getattr(found, change)]
            for row in _sorted(found.new.table, rows):
                yield _json(change=change, key=row["key"])
        for name, (was_id, now_id) in found.classes().items():
            yield _json(change="class_id", name=name, **{"from": was_id, "to": now_id})
        for option in self.options:
            yield _json(change="option", name=option.name, **{"from": option.old, "to": option.new})
        records = [found.old.table.num_rows, found.new.table.num_rows]
        yield _json(equal=not self.total(), records=records, **self.counts())


def _sorted(
    table: pa.Table, rows: Rows, columns: Sequence[str] = ("key",), limit: int | None = None
) -> Iterator[Any]:
    """The values of rows of a table, by their keys.

    Args:
        table: has the column `key`.
        rows: some of its rows.
        columns: those to return.
        limit: how many rows to return; None for all.
    """
    for places in _in_order(table, rows, limit):
        yield from table.select(columns).take(rows[places]).to_pylist()


def _in_order(table: pa.Table, rows: Rows, limit: int | None) -> Iterator[Rows]:
    """The places of rows, by their keys, in batches; see `_sorted`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(rows):
        # Arrow selects nothing from nothing with an error.
        return
    keys = pa.table({"key": table.column("key").take(rows)})
    by_key = [("key", "ascending")]
    if limit is None:
        places = pc.sort_indices(keys, sort_keys=by_key)
    else:
        places = pc.select_k_unstable(keys, k=min(limit, len(rows)), sort_keys=by_key)
    order = places.to_numpy()
    for start in range(0, len(order), _BATCH):
        yield order[start : start + _BATCH]


def _keys(table: pa.Table, rows: Rows) -> Iterator[str]:
    """The first keys of some rows of a table, as they are shown."""
    for row in _sorted(table, rows, limit=_MAX_NAMED):
        yield repr(row["key"][:_MAX_TEXT])


def _pairs(
    found: RecordChanges, rows: Rows, column: str, limit: int | None = None
) -> Iterator[tuple[str, str, str]]:
    """The keys of some of `kept`, sorted, with the former and the new value of a column."""
    old, new = found.old.table, found.new.table
    old_rows, new_rows = found.kept[0][rows], found.kept[1][rows]
    for places in _in_order(new, new_rows, limit):
        keys = new.column("key").take(new_rows[places])
        was = old.column(column).take(old_rows[places])
        now = new.column(column).take(new_rows[places])
        yield from zip(keys.to_pylist(), was.to_pylist(), now.to_pylist(), strict=True)


def _line(name: str, text: str, count: int = 0, examples: Iterable[str] = ()) -> str:
    """A line of the summary, with the first of `count` examples."""
    shown = list(itertools.islice(examples, _MAX_NAMED))
    more = ", ..." if count > len(shown) else ""
    return f"{name:<11} {text}{': ' if shown else ''}{', '.join(shown)}{more if shown else ''}"


def _text(text: str) -> str:
    return repr(text.replace(SEPARATOR, "|")[:_MAX_TEXT])


def _id(class_id: int | None) -> str:
    return "none" if class_id is None else str(class_id)


def _label(text: str, records: Records) -> str | list[str]:
    """The label of a record, empty without one; a list if its dataset has several."""
    if not records.many_labels:
        return text
    return text.split(SEPARATOR) if text else []


def _json(**fields: Any) -> str:
    return _ENCODER.encode(fields)


# The records that a run would write, and what it would read for them: of one planned shard.

# The key of `PlannedReads` in the metadata of a table.
_READS = b"reads"


class PlannedReads(NamedTuple):
    """What a run would read.

    Attributes:
        reused: images that are taken from records of other datasets.
        originals: images, masks and further images that are opened.
        bytes: of these.
        ranges: of neighbouring records, each read at once.
        copied: shards that are copied without reading their records.
        records: images that are records of `--images` and not reused: no file of theirs is opened.
    """

    reused: int = 0
    originals: int = 0
    bytes: int = 0
    ranges: int = 0
    copied: int = 0
    records: int = 0

    def plus(self, other: PlannedReads) -> PlannedReads:
        """The sums of both.

        >>> PlannedReads(1, 2, 30, 1).plus(PlannedReads(reused=4))
        PlannedReads(reused=5, originals=2, bytes=30, ranges=1, copied=0, records=0)
        """
        return PlannedReads(*(mine + its for mine, its in zip(self, other, strict=True)))


def planned_part(
    images: Sequence[ShardImage], split: str, reads: PlannedReads, *, many_labels: bool
) -> bytes:
    """A planned shard as a file: its records as `Records.of_index` takes them, and its reads.

    The hashes of images that would be opened are not known, and null.

    Args:
        images: those of the shard.
        split: of the shard.
        reads: what the run would read for it.
        many_labels: see `index_schema`.
    """
    import pyarrow as pa

    records = [StoredImage.of_text(each.stored) if each.stored else None for each in images]
    columns = {
        **plan_columns(images, many_labels),
        "split": [split] * len(images),
        "content": binary_values([each.content if each else "" for each in records]),
        "source_content": binary_values([each.source_content if each else "" for each in records]),
    }
    fields = [index_schema(many_labels=many_labels).field(name) for name in COLUMNS]
    if any(image.partners for image in images):
        columns[PARTNERS] = [each and _known_partners(each) for each in records]
        partner = pa.struct([("content", pa.binary(CONTENT_BYTES))])
        fields.append(pa.field(PARTNERS, pa.list_(partner)))
    schema = pa.schema(fields, metadata={_READS: ",".join(map(str, reads)).encode()})
    arrays = [to_array(columns[field.name], field.type) for field in schema]
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, schema) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return bytes(file.getvalue())


def _known_partners(stored: StoredImage) -> list[dict[str, Any]] | None:
    """The masks and further images of a record by their hashes alone; None if one is read again."""
    found = [{"content": bytes.fromhex(each.content)} for each in stored.partners if each]
    return found if len(found) == len(stored.partners) else None


def read_part(data: bytes) -> tuple[pa.Table, PlannedReads]:
    """The records and the reads of a `planned_part`."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    reads = table.schema.metadata[_READS].decode().split(",")
    return table, PlannedReads(*map(int, reads))
