"""What differs between two datasets."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from transforms.core.messages import as_written
from transforms.core.option import renamed
from transforms.core.records import PlannedImage
from transforms.dataset.manifest import INDEXED, manifest_shards
from transforms.labels.keys import nfc
from transforms.labels.vocabulary import parse_labels
from transforms.records.record_index import (
    CONTENT_BYTES,
    PARTNERS,
    binary_values,
    index_schema,
    joined,
    plan_columns,
    to_array,
)
from transforms.records.stored_images import StoredImage

if TYPE_CHECKING:
    import pyarrow as pa

    Rows: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


# Compares two manifests: the options of the datasets, and the checksums of their shards.


Changed: TypeAlias = dict[str, tuple[Any, Any]]
"""The former value and the new one of each name that has another one; None where it has none."""


def changed_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changed:
    """The values that differ, by name.

    >>> changed_values({"seed": 1, "key": "stem"}, {"key": "stem", "color": "rgb"})
    {'color': (None, 'rgb'), 'seed': (1, None)}
    """
    pairs = {name: (old.get(name), new.get(name)) for name in sorted({*old, *new})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def option_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changed:
    """The options that differ, or `features` if a layout file of the same name has changed.

    Args:
        old: the manifest of a dataset.
        new: that of another one; nothing is known of the options of other programs.
    """
    if INDEXED in {*old, *new}:
        return {}
    changed = changed_values(*(renamed(each["options"]) for each in (old, new)))
    if not changed and old["features"] != new["features"]:
        was, now = ([feature["name"] for feature in each["features"]] for each in (old, new))
        changed["features"] = was, now
    return changed


def other_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """The number of shards of either dataset that the other one does not have.

    Records may differ in what no index holds: boxes and the cells of columns. Those of other
    programs have other features anyway.
    """
    if (INDEXED in old) != (INDEXED in new):
        return 0
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
        table: the columns `key`, `split`, `label`, `content`, `source_content`, which is the
            content of an image that is stored as it is, and `partners` with the hashes of masks and
            further images, one after the other. Only a hash may be null: it is not known.
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
        content = index.column("content")
        columns = {
            "key": index.column("key"),
            "content": content,
            "source_content": pc.coalesce(index.column("source_content"), content),
            PARTNERS: _partner_hashes(index),
            "split": split,
            "label": label,
        }
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
        # Rows of one chunk are taken without copying a column.
        return cls(joined(tables), classes, many_labels)

    def rekeyed(self, lost: str, got: str) -> Records:
        """The records with the keys that their files have below another root.

        Args:
            lost: what keys lose at their begin; others are no keys below that root.
            got: what they get there.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = self.table.column("key")
        up, slash, start, empty = (pa.scalar(each, keys.type) for each in ("..", "/", nfc(got), ""))
        if lost:
            # A name that no key has.
            others = pc.binary_join_element_wise(up, keys, slash)
            kept = pc.utf8_slice_codeunits(keys, len(nfc(lost)))
            keys = pc.if_else(pc.starts_with(keys, nfc(lost)), kept, others)
        if got:
            keys = pc.binary_join_element_wise(start, keys, empty)
        at = self.table.column_names.index("key")
        return dataclasses.replace(self, table=self.table.set_column(at, "key", keys))


# The changes of records that are in both datasets, and the column that shows them.
_CHANGES = {
    "relabelled": "label",
    "moved": "split",
    "pixels": "content",
    "originals": "source_content",
    "partners": PARTNERS,
}


def compare_records(
    old: Records, new: Records, options: Mapping[str, tuple[Any, Any]] | None = None
) -> Differences:
    """The differences between two datasets, whose keys are distinct.

    Args:
        old: the former records.
        new: the other ones.
        options: those that differ, see `option_changes`.
    """
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
    both = ((old.table, old_rows), (new.table, new_rows))

    def differing(column: str) -> Rows:
        if not len(new_rows):
            # Arrow selects nothing from nothing with an error.
            return new_rows
        one, other = (table.column(column).take(rows) for table, rows in both)
        # Some datasets have no hashes; checksums of shards tell them apart.
        differs = pc.fill_null(pc.not_equal(one, other), False).to_numpy()
        rows: Rows = np.flatnonzero(differs)
        return rows

    changes = {change: differing(column) for change, column in _CHANGES.items()}
    if all(_is_null(each, PARTNERS).all() for each in (old, new)):
        del changes["partners"]
    return Differences(
        old,
        new,
        np.flatnonzero(~found),
        np.flatnonzero(is_gone),
        (old_rows, new_rows),
        changes,
        options or {},
    )


def _is_null(records: Records, column: str) -> Any:
    """Whether the value of each record is not known."""
    import pyarrow.compute as pc

    return pc.is_null(records.table.column(column)).to_numpy()


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
        # All keys of a dataset may have more than 2 GB.
        "key": pa.large_string(),
        "content": content,
        "source_content": content,
        PARTNERS: pa.binary(),
    }
    return pa.schema(list({**columns, "split": text, "label": text}.items()))


# The differences between two datasets as a summary, and as lines of JSON for programs.

_NONE = np.zeros(0, np.int64)

# Differences named in a line of the summary, and characters of each name.
_MAX_NAMED = 3
_MAX_TEXT = 60

# `dumps` would make one for each of a million lines.
_ENCODER = json.JSONEncoder(ensure_ascii=False)

# Records that become lines of JSON at a time.
_BATCH = 10_000


@dataclasses.dataclass(frozen=True)
class Differences:
    """All differences between two datasets; rows are numbered over all shards.

    Attributes:
        old: the former records.
        new: the other ones.
        added: rows of `new` with new keys.
        removed: rows of `old` whose keys are gone.
        kept: rows of `old` and of `new` with the same keys, in the same order.
        changes: which of `kept` have another label, split, stored image, original, or masks and
            further images, by the name of the change; those without a hash are not compared.
            `partners` only if a dataset has their hashes.
        options: those that differ, see `option_changes`.
        files: shards with other bytes although the indexes agree.
    """

    old: Records
    new: Records
    added: Rows
    removed: Rows
    kept: tuple[Rows, Rows]
    changes: Mapping[str, Rows]
    options: Mapping[str, tuple[Any, Any]]
    files: int = 0

    @functools.cached_property
    def classes(self) -> Changed:
        """The classes that are new, gone or have another id: former and new id, by name."""
        if not (self.old.classes and self.new.classes):
            # Records of other programs may have labels without ids.
            return {}
        return changed_values(self.old.classes, self.new.classes)

    def counts(self) -> dict[str, int]:
        """The number of differences of each kind."""
        return {
            "added": len(self.added),
            "removed": len(self.removed),
            **{name: len(rows) for name, rows in self.changes.items()},
            "class_ids": len(self.classes),
            "options": len(self.options),
            "files": self.files,
        }

    def total(self) -> str:
        """The kinds of differences with their counts, in one line; empty without any."""
        found = self.counts().items()
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found if count)

    def summary_lines(self) -> Iterator[str]:
        """One line for each kind of difference."""
        yield from self._lines_of_records()
        yield self._named("pixels", self.changes["pixels"], "with another stored image")
        yield _line("originals", f"{len(self.changes['originals'])} made from another file")
        if "partners" in self.changes:
            partners = self.changes["partners"]
            yield self._named("partners", partners, "with another mask or further image")
        yield from self._lines_of_options()
        other = "other features, such as boxes and cells, or with images without hashes"
        yield _line("files", f"{self.files} with {other}")

    def planned_lines(self) -> Iterator[str]:
        """The lines that are known before images are opened, in which hashes are missing.

        The other dataset is only planned: of images in both, those without a hash would be opened.
        """
        yield from self._lines_of_records()
        yield self._named("pixels", self.unknown("content"), "to be read again")
        if "partners" in self.changes:
            again = self.unknown(PARTNERS, was_known=True)
            yield self._named("partners", again, "with a mask or further image to be read again")
        yield from self._lines_of_options()

    def unknown(self, column: str, *, was_known: bool = False) -> Rows:
        """Which of `kept` have no hash in `new`; `was_known`, only those that have it in `old`."""
        was, now = (
            _is_null(each, column)[rows]
            for each, rows in zip((self.old, self.new), self.kept, strict=True)
        )
        return np.flatnonzero(now & ~was if was_known else now)

    def _named(self, name: str, kept: Rows, what: str) -> str:
        """A line about some of the images that are in both datasets."""
        keys = _keys(self.new.table, self.kept[1][kept])
        return _line(name, f"{len(kept)} {what}", len(kept), keys)

    def _lines_of_records(self) -> Iterator[str]:
        old, new = self.old.table, self.new.table
        yield _line("records", f"{old.num_rows} -> {new.num_rows}, {len(self.kept[0])} in both")
        for name, table, rows in (("added", new, self.added), ("removed", old, self.removed)):
            yield _line(name, str(len(rows)), len(rows), _keys(table, rows))
        for name, words in (("relabelled", "with another label"), ("moved", "in another split")):
            count = len(self.changes[name])
            named = (
                f"{row['key'][:_MAX_TEXT]!r} from {_text(row['from'])} to {_text(row['to'])}"
                for row in self._pairs(name, _MAX_NAMED)
            )
            yield _line(name, f"{count} {words}", count, named)

    def _pairs(self, change: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The records with a change by their keys: `key`, and the values `from` and `to`."""
        import pyarrow as pa

        column, chosen = _CHANGES[change], self.changes[change]
        if not len(chosen):
            return
        (old, was), (new, now) = (
            (each.table, rows[chosen])
            for each, rows in zip((self.old, self.new), self.kept, strict=True)
        )
        values = {"from": old.column(column).take(was), "to": new.column(column).take(now)}
        table = pa.table({"key": new.column("key").take(now), **values})
        yield from _sorted(table, np.arange(len(chosen)), limit)

    def _lines_of_options(self) -> Iterator[str]:
        classes = self.classes
        named = (
            f"{name[:_MAX_TEXT]!r} from {_id(was)} to {_id(now)}"
            for name, (was, now) in classes.items()
        )
        yield _line("class ids", str(len(classes)), len(classes), named)
        named = (
            f"--{name} from {as_written(was)} to {as_written(now)}"
            for name, (was, now) in self.options.items()
        )
        yield _line("options", str(len(self.options)), len(self.options), named)

    def json_lines(self) -> Iterator[str]:
        """A line of JSON for each difference, records sorted by key; the last has the counts."""
        for change, side, rows in (
            ("added", self.new, self.added),
            ("removed", self.old, self.removed),
        ):
            for row in _sorted(side.table.select(["key", "split", "label"]), rows):
                yield _json(**{"change": change, **row, "label": _label(row["label"], side)})
        for row in self._pairs("relabelled"):
            labels = {"from": _label(row["from"], self.old), "to": _label(row["to"], self.new)}
            yield _json(**{"change": "relabelled", **row, **labels})
        for row in self._pairs("moved"):
            yield _json(change="moved", **row)
        table = self.new.table.select(["key"])
        for change in ("pixels", "originals", "partners"):
            for row in _sorted(table, self.kept[1][self.changes.get(change, _NONE)]):
                yield _json(change=change, **row)
        for change, changed in (("class_id", self.classes), ("option", self.options)):
            for name, (was, now) in changed.items():
                yield _json(change=change, name=name, **{"from": was, "to": now})
        records = [self.old.table.num_rows, self.new.table.num_rows]
        yield _json(equal=not self.total(), records=records, **self.counts())


def _sorted(table: pa.Table, rows: Rows, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Some rows of a table, by their keys.

    Args:
        table: has the column `key`.
        rows: their numbers.
        limit: how many to return; None for all.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(rows):
        return
    keys = pa.table({"key": table.column("key").take(rows)})
    by_key = [("key", "ascending")]
    if limit is None:
        places = pc.sort_indices(keys, sort_keys=by_key)
    else:
        places = pc.select_k_unstable(keys, k=min(limit, len(rows)), sort_keys=by_key)
    order = rows[places.to_numpy()]
    for start in range(0, len(order), _BATCH):
        yield from table.take(order[start : start + _BATCH]).to_pylist()


def _keys(table: pa.Table, rows: Rows) -> Iterator[str]:
    """The first keys of some rows of a table, as they are shown."""
    found = _sorted(table.select(["key"]), rows, _MAX_NAMED)
    return (repr(row["key"][:_MAX_TEXT]) for row in found)


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
        taken: images that are taken from records of other datasets.
        originals: images, masks and further images that are opened.
        bytes: of these.
        ranges: of neighbouring records, each read at once.
        copied: shards that are copied without reading their records.
        records: images that are records of `--images` and not taken: no file of theirs is opened.
    """

    taken: int = 0
    originals: int = 0
    bytes: int = 0
    ranges: int = 0
    copied: int = 0
    records: int = 0


def planned_part(
    images: Sequence[PlannedImage], split: str, reads: PlannedReads, *, many_labels: bool
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

    records = [StoredImage.of(each.stored[0]) if each.stored else None for each in images]
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
