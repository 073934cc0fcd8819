"""Columns of a table: which one has keys, labels, splits, boxes."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Sequence

from transforms.core.messages import LabelsError
from transforms.core.option import alike, text_of
from transforms.labels.csv_tables import (
    KEY_NAMES,
    LABEL_NAMES,
    delimiter_text,
    folded,
    likely_delimiter,
)
from transforms.labels.label_options import SplitOptions
from transforms.labels.label_rows import (
    CSV,
    JSONL,
    NO_COLUMN,
    Column,
    CsvColumns,
    FirstRows,
    column_finder,
    header_names,
    quote_names,
)
from transforms.labels.shards import is_split_name, split_text

# Finds the columns of keys and labels in a CSV.

_BY_NUMBER = "for a CSV without a header give --label_key N and --label_column N, counted from 1"

OTHER_COLUMN = "the other of two columns"
"""The evidence for a column whose name says nothing."""

# What `name_of` calls a column of a CSV without a header.
_UNNAMED = re.compile(r"column ([1-9][0-9]*)")

# The default name of the column with the split.
_SPLIT_COLUMN = "split"

# Without columns of splits and groups.
_NO_PLACES = SplitOptions()

IsImageKey = Callable[[str], bool]


def _is_no_key(_: str) -> bool:
    return False


def resolve_columns(
    first: FirstRows,
    *,
    key: str | None,
    label: str | None,
    splits: SplitOptions = _NO_PLACES,
    is_image_key: IsImageKey = _is_no_key,
    path: str,
    label_required: bool = True,
) -> CsvColumns:
    """Finds the columns of keys, labels, splits and groups, and whether the first row is a header.

    Args:
        first: the result of `first_rows`.
        key: `--label_key`: a header name, or a number counted from 1; None to infer it.
        label: `--label_column`, the same way.
        splits: of which the columns are found if they are needed; without a name, that of the
            splits is found by its usual one.
        is_image_key: whether a cell is the key of some image; used if names do not decide.
        path: the name of the file for messages.
        label_required: if False, the label is only looked up if `label` names it.

    Raises:
        LabelsError: a column is missing, repeated or ambiguous, it is unclear whether there is a
            header, or the cells of a column name no splits.

    >>> first = FirstRows(",", (("id", "landmark_id"), ("a1", "7")))
    >>> resolve_columns(first, key=None, label=None, path="a.csv").label
    Column(at=1, name='landmark_id', because='a usual name for the label')
    """
    if not first.rows:
        raise LabelsError(f"{path} is empty: give a file with rows to --labels")
    finder = _Finder(first, path, is_image_key)
    try:
        columns = finder.columns(key, label, label_required)
    except LabelsError as error:
        if found := likely_delimiter(first.rows):
            raise LabelsError(
                f"{path} has one column ({quote_names(first.rows[0])}): if {found!r} separates "
                f"its cells, give --csv_delimiter {shlex.quote(delimiter_text(found))}"
            ) from error
        raise
    return finder.with_places(columns, splits)


def table_columns(
    first: FirstRows, *, key: str | None, splits: SplitOptions, path: str
) -> CsvColumns:
    """The columns of keys, splits and groups in rows that are records, which need none of them.

    Args:
        first: the result of `first_rows`, which begins with a header.
        key: see `resolve_columns`.
        splits: see `resolve_columns`.
        path: the name of the file for messages.

    Raises:
        LabelsError: see `resolve_columns`.
    """
    finder = _Finder(first, path)
    found = NO_COLUMN if key is None else finder.chosen(key, "--label_key")
    return finder.with_places(finder.found(found)._replace(is_strict=True), splits)


def find_further(
    columns: CsvColumns, first: FirstRows, wanted: str, flag: str, path: str
) -> Column:
    """One more column, which a flag names or numbers.

    Args:
        columns: the result of `resolve_columns`.
        first: the same as for `resolve_columns`.
        wanted: a header name, or a number counted from 1.
        flag: the flag, for messages.
        path: the name of the file for messages.

    Raises:
        LabelsError: there is no such column.
    """
    return _Finder(first, path, has_header=columns.has_header).chosen(wanted, flag)


@dataclasses.dataclass
class _Finder:
    """The questions that are asked about the start of one table.

    Attributes:
        first: its first rows.
        path: the file, for messages.
        is_image_key: whether a cell is the key of some image, as far as that is known.
        has_header: whether the first row holds names.
        names: the cells of the first row, as header names.
    """

    first: FirstRows
    path: str
    is_image_key: IsImageKey = _is_no_key
    has_header: bool = True
    names: list[str] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.names = header_names(self.first.rows[0])
        self._find = column_finder(self.names, path=self.path)

    def columns(self, key: str | None, label: str | None, label_required: bool) -> CsvColumns:
        """The result of `resolve_columns`, without splits and groups."""
        self.has_header = self._finds_header(
            key and self._number_of(key), label and self._number_of(label)
        )
        keys = NO_COLUMN if key is None else self.chosen(key, "--label_key")
        labels = NO_COLUMN if label is None else self.chosen(label, "--label_column")
        if key is None:
            keys = self._key_of_header(labels) if self.has_header else self._key_of_data(labels)
        if label is None and label_required:
            known = self._known(LABEL_NAMES, keys) if self.has_header else []
            labels = self._only(known, keys, "--label_column", "a usual name for the label")
        if keys.at == labels.at:
            raise LabelsError(
                f"{self.path}: --label_key and --label_column name the same column; name two"
            )
        return self.found(keys, labels)

    def found(self, key: Column, label: Column = NO_COLUMN) -> CsvColumns:
        """The columns of a table in which these were found."""
        return CsvColumns(
            key=key,
            label=label,
            width=len(self.names) if self.has_header else max(map(len, self.first.rows)),
            has_header=self.has_header,
            delimiter=self.first.delimiter,
            because_delimiter=self.first.because,
            format=self.first.format,
            categories=self.first.categories,
        )

    def chosen(self, wanted: str, flag: str) -> Column:
        """The column that a flag names or numbers."""
        at = self._find(wanted) if self.has_header else None
        if at is None:
            wanted = self._number_of(wanted)
            if not _is_number(wanted):
                raise self._missing(wanted, flag)
            at = self._numbered(wanted, flag)
        return self._column(at, "given")

    def _finds_header(self, key: str | None, label: str | None) -> bool:
        """Whether the first row is a header: it contains a chosen or a known name."""
        flags = ((key, "--label_key"), (label, "--label_column"))
        by_name = [(name, flag) for name, flag in flags if name and not _is_number(name)]
        missing = [(name, flag) for name, flag in by_name if self._find(name) is None]
        if len(missing) < len(by_name):
            return True
        is_named = self.first.format != CSV
        if is_named or {*map(folded, self.names)} & (KEY_NAMES | LABEL_NAMES):
            numbered = self._numbered(key, "--label_key") if key and _is_number(key) else None
            return numbered is None or not self.is_image_key(self.first.rows[0][numbered])
        if missing:
            raise self._missing(*missing[0])
        if key or label or any(self.is_image_key(cell) for cell in self.first.rows[0]):
            return False
        raise LabelsError(
            f"{self.path}: cannot tell whether its first line is a header"
            f" ({quote_names(self.names)}): name its columns with --label_key and --label_column;"
            f" {_BY_NUMBER}"
        )

    def _number_of(self, wanted: str) -> str:
        """`wanted`, or N if it is `column N`, our name for a column that has none."""
        found = _UNNAMED.fullmatch(wanted)
        return found[1] if found and self._find(wanted) is None else wanted

    def _key_of_header(self, label: Column) -> Column:
        """The only column with a known key name, or the other one of two."""
        found, because = self._known(KEY_NAMES, label), "a usual name for the key"
        if len(found) > 1:
            found = [at for at in found if self._keys_in(at, self.first.rows[1:])] or found
            because = "its cells name images"
        if not found and label.at < 0:
            labels = self._known(LABEL_NAMES, label)
            label = Column(labels[0]) if len(labels) == 1 else label
        return self._only(found, label, "--label_key", because)

    def _key_of_data(self, label: Column) -> Column:
        """The column whose cells are most often keys of images, or the other one of two."""
        at_others = (at for at in range(len(self.names)) if at != label.at)
        hits = {at: self._keys_in(at, self.first.rows) for at in at_others}
        most = max(hits.values(), default=0)
        found = [at for at, count in hits.items() if count == most and most]
        return self._only(found, label, "--label_key", "its cells name images")

    def with_places(self, columns: CsvColumns, options: SplitOptions) -> CsvColumns:
        """Adds the columns of split and group, if they are needed."""
        if (options.split_by or "").startswith("column"):
            split = self._split(text_of(options.split_by))
            if split.at == columns.label.at and columns.label.because == OTHER_COLUMN:
                raise LabelsError(
                    f"{self.path} has no column of labels, only keys and the splits of "
                    "--split_by: add one, which --label_column names"
                )
            rows = self.first.rows[self.has_header :]
            said = [split_text(row[split.at]) for row in rows if split.at < len(row)]
            if said and not any(not name or is_split_name(name) for name in said):
                raise LabelsError(
                    f"{self.path}: --split_by names values such as {said[0]!r}, which cannot be "
                    "splits (a letter, then letters, digits and '_'): give the column that names "
                    "the splits; write folds as fold_0, read as fold_0+fold_1"
                )
            columns = columns._replace(split=split)
        if options.group_by is not None:
            columns = columns._replace(group=self.chosen(options.group_by, "--group_by"))
        return columns

    def _split(self, wanted: str) -> Column:
        if wanted:
            return self.chosen(wanted, "--split_by")
        at = self._find(_SPLIT_COLUMN) if self.has_header else None
        if at is None:
            raise LabelsError(
                f"{self.path} has no column {_SPLIT_COLUMN!r}: name the one that holds the splits "
                "with --split_by column:NAME"
            )
        return self._column(at)

    def _column(self, at: int, because: str = "") -> Column:
        """A column with its name, by which it is found in other files of the same glob."""
        if not self.has_header:
            return Column(at, f"column {at + 1}", because)
        self._find(self.names[at])  # raises if it is repeated
        return Column(at, self.names[at], because)

    def _only(self, found: list[int], other: Column, flag: str, because: str) -> Column:
        if not found and len(self.names) == 2 and other.at >= 0:
            return self._column(1 - other.at, OTHER_COLUMN)
        if len(found) == 1:
            return self._column(found[0], because)
        if not found and (why := self._is_no_table(other.at)):
            raise LabelsError(f"{self.path} {why}")
        which = quote_names([self.names[at] for at in found] or self.names)
        problem = "several columns may be" if found else "cannot tell which column is"
        is_label = flag == "--label_column" and not found
        hint = "; or, without --images, --label_from none" if is_label else ""
        raise LabelsError(
            f"{self.path}: {problem} {flag} ({which}): give {flag} a name or number{hint}"
        )

    def _is_no_table(self, key: int) -> str:
        """Why none of the columns can be that of the labels; empty if there is no reason."""
        header, *rows = self.first.rows
        others = [[cell for at, cell in enumerate(row) if at != key] for row in rows]
        if all(row.count("0") == len(row) - 1 > 1 == row.count("1") for row in others) and rows:
            names = quote_names([name for at, name in enumerate(header) if at != key], 3, 40)
            return (
                f"looks one-hot: in each row, one of {names} is 1. Make one column of their names, "
                f"in pandas: frame.drop(columns={header[max(key, 0)]!r}).idxmax(axis=1)"
            )
        if self.first.format == JSONL and len(rows) == 1 and self.path.endswith(".json"):
            return "is neither COCO (an object with images and categories) nor one object per row"
        return ""

    def _known(self, known: frozenset[str], but: Column) -> list[int]:
        return [at for at, name in enumerate(self.names) if at != but.at and folded(name) in known]

    def _keys_in(self, at: int, rows: Sequence[Sequence[str]]) -> int:
        return sum(at < len(row) and self.is_image_key(row[at]) for row in rows)

    def _numbered(self, number: str, flag: str) -> int:
        if 1 <= int(number) <= len(self.names):
            return int(number) - 1
        raise LabelsError(
            f"{self.path} has no column {number}, only {len(self.names)} "
            f"({quote_names(self.names)}): give {flag} a name, or a number counted from 1"
        )

    def _missing(self, wanted: str, flag: str) -> LabelsError:
        by_folded = {folded(name): name for name in self.names}
        near = alike(folded(wanted), [*by_folded])
        hint = f"did you mean {by_folded[near[0]]!r}?" if near else f"give one of them to {flag}"
        if any(self.is_image_key(cell) for cell in self.first.rows[0]):
            hint = f"its first line is not a header; {_BY_NUMBER}"
        return LabelsError(
            f"{self.path} has no column {wanted!r} ({flag}); it has "
            f"{quote_names(self.names)}: {hint}"
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
