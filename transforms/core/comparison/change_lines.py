"""The differences between two datasets as a summary, and as lines of JSON for programs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from transforms.core.comparison.option_changes import OptionChange
from transforms.core.comparison.record_changes import SEPARATOR, RecordChanges
from transforms.core.shown_text import as_written

if TYPE_CHECKING:
    import pyarrow as pa

    from transforms.core.comparison.record_changes import Records, Rows

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
        found, new = self.records, self.records.new.table
        yield from self._lines_of_records()
        named = _keys(new, found.kept[1][found.pixels])
        count = len(found.pixels)
        yield _line("pixels", f"{count} with another stored image", count, named)
        yield _line("originals", f"{len(found.originals)} made from another file")
        if found.has_partners:
            named, count = _keys(new, found.kept[1][found.partners]), len(found.partners)
            yield _line("partners", f"{count} with another mask or further image", count, named)
        yield from self._lines_of_options()
        other = "other features, such as boxes and cells, or with images without hashes"
        yield _line("files", f"{self.files} with {other}")

    def planned_lines(self) -> Iterator[str]:
        """The lines that are known before images are opened, in which hashes are missing.

        The other dataset is only planned: of images in both, those without a hash would be opened.
        """
        found, new = self.records, self.records.new.table
        yield from self._lines_of_records()
        opened = found.kept[1][found.new_unknown()]
        count = len(opened)
        yield _line("pixels", f"{count} to be read again", count, _keys(new, opened))
        if found.has_partners:
            opened = found.kept[1][found.new_partners()]
            count = len(opened)
            what = f"{count} with a mask or further image to be read again"
            yield _line("partners", what, count, _keys(new, opened))
        yield from self._lines_of_options()

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
            for _, row in _sorted(side.table, rows, ("key", "split", "label")):
                label = _label(row["label"], side)
                yield _json(change=name, key=row["key"], split=row["split"], label=label)
        for key, was, now in _pairs(found, found.relabelled, "label"):
            labels = {"from": _label(was, found.old), "to": _label(now, found.new)}
            yield _json(change="relabelled", key=key, **labels)
        for key, was, now in _pairs(found, found.moved, "split"):
            yield _json(change="moved", key=key, **{"from": was, "to": now})
        is_other = np.isin(found.pixels, found.originals)
        for place, row in _sorted(found.new.table, found.kept[1][found.pixels]):
            yield _json(change="pixels", key=row["key"], other_original=bool(is_other[place]))
        same_pixels = np.setdiff1d(found.originals, found.pixels)
        for _, row in _sorted(found.new.table, found.kept[1][same_pixels]):
            yield _json(change="originals", key=row["key"])
        for _, row in _sorted(found.new.table, found.kept[1][found.partners]):
            yield _json(change="partners", key=row["key"])
        for name, (was_id, now_id) in found.classes().items():
            yield _json(change="class_id", name=name, **{"from": was_id, "to": now_id})
        for option in self.options:
            yield _json(change="option", name=option.name, **{"from": option.old, "to": option.new})
        records = [found.old.table.num_rows, found.new.table.num_rows]
        yield _json(equal=not self.total(), records=records, **self.counts())


def _sorted(
    table: pa.Table, rows: Rows, columns: Sequence[str] = ("key",), limit: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Rows of a table by their keys: the place of each in `rows`, and its values.

    Args:
        table: has the column `key`.
        rows: some of its rows.
        columns: those to return.
        limit: how many rows to return; None for all.
    """
    for places in _in_order(table, rows, limit):
        found = table.select(columns).take(rows[places])
        yield from zip(places.tolist(), found.to_pylist(), strict=True)


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
    for _, row in _sorted(table, rows, limit=_MAX_NAMED):
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
