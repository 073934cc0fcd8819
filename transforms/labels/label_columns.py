"""Columns of a table: which one has keys, labels, splits, boxes."""

from __future__ import annotations

import dataclasses
import difflib
import re
import shlex
from collections.abc import Callable, Sequence

from transforms.core.messages import LabelsError
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
    NO_COLUMNS,
    CsvColumns,
    FirstRows,
    find_column,
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

# Without columns of splits and groups.
_NO_PLACES = SplitOptions()

IsImageKey = Callable[[str], bool]


FoundColumn = tuple[int, str]
"""The index of a column that was found, from 0, and the evidence for it."""


def resolve_columns(
    first: FirstRows,
    *,
    key: str | None,
    label: str | None,
    splits: SplitOptions = _NO_PLACES,
    is_image_key: IsImageKey | None = None,
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
    >>> resolve_columns(first, key=None, label=None, path="a.csv")[1:4]
    (True, 0, 1)
    """
    if not first.rows:
        raise LabelsError(f"{path} is empty: give a file with rows to --labels")
    finder = _Finder.of(first, path, is_image_key)
    try:
        columns = finder.columns(first, key, label, label_required)
    except LabelsError as error:
        if found := likely_delimiter(first.rows):
            raise LabelsError(
                f"{path} has one column ({quote_names(first.rows[0])}): if {found!r} separates "
                f"its cells, give --csv_delimiter {shlex.quote(delimiter_text(found))}"
            ) from error
        raise
    return _with_places(columns, finder, splits)


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
    finder = _Finder.of(first, path)
    columns = NO_COLUMNS._replace(
        delimiter=first.delimiter,
        has_header=True,
        width=len(finder.names),
        is_strict=True,
        because_delimiter=first.because,
        format=first.format,
    )
    if key is not None:
        at = finder.chosen(key, "--label_key", True)
        columns = columns._replace(key=at, key_name=finder.names[at])
    return _with_places(columns, finder, splits)


def find_further(columns: CsvColumns, first: FirstRows, wanted: str, flag: str, path: str) -> int:
    """The index of one more column, which a flag names or numbers.

    Args:
        columns: the result of `resolve_columns`.
        first: the same as for `resolve_columns`.
        wanted: a header name, or a number counted from 1.
        flag: the flag, for messages.
        path: the name of the file for messages.

    Raises:
        LabelsError: there is no such column.
    """
    return _Finder.of(first, path).chosen(wanted, flag, columns.has_header)


@dataclasses.dataclass(frozen=True)
class _Finder:
    """The questions `resolve_columns` asks about the start of one CSV.

    Attributes:
        names: the cells of the first row, as header names.
        rows: the first rows, `names` among them.
        is_image_key: whether a cell is the key of some image, if that is known.
        path: the file, for messages.
        is_named: whether the first row is a header for certain, as in files with named columns.
    """

    names: list[str]
    rows: Sequence[Sequence[str]]
    is_image_key: IsImageKey | None
    path: str
    is_named: bool

    @classmethod
    def of(cls, first: FirstRows, path: str, is_image_key: IsImageKey | None = None) -> _Finder:
        """The finder for the first rows of a file."""
        names = header_names(first.rows[0])
        return cls(names, first.rows, is_image_key, path, is_named=first.format != CSV)

    def columns(
        self, first: FirstRows, key: str | None, label: str | None, label_required: bool
    ) -> CsvColumns:
        """The result of `resolve_columns`."""
        has_header = self.has_header(key and self.number_of(key), label and self.number_of(label))
        key_at = None if key is None else self.chosen(key, "--label_key", has_header)
        label_at = None if label is None else self.chosen(label, "--label_column", has_header)
        why_key = why_label = "given"
        if key_at is None:
            key_at, why_key = (self.key_of_header if has_header else self.key_of_data)(label_at)
        if label_at is None and label_required:
            known = self._known(LABEL_NAMES, key_at) if has_header else []
            because = "a usual name for the label"
            label_at, why_label = self._only(known, key_at, "--label_column", because)
        if key_at == label_at:
            raise LabelsError(
                f"{self.path}: --label_key and --label_column name the same column; name two"
            )
        return CsvColumns(
            delimiter=first.delimiter,
            has_header=has_header,
            key=key_at,
            label=label_at,
            key_name=self.name_of(key_at, has_header),
            label_name=None if label_at is None else self.name_of(label_at, has_header),
            width=len(self.names) if has_header else max(len(row) for row in self.rows),
            because=(why_key, why_label),
            because_delimiter=first.because,
            format=first.format,
            categories=first.categories,
        )

    def has_header(self, key: str | None, label: str | None) -> bool:
        """Whether the first row is a header: it contains a chosen or a known name."""
        flags = ((key, "--label_key"), (label, "--label_column"))
        by_name = [(name, flag) for name, flag in flags if name and not _is_number(name)]
        missing = [(name, flag) for name, flag in by_name if self._find(name) is None]
        if len(missing) < len(by_name):
            return True
        if self.is_named or {*map(folded, self.names)} & (KEY_NAMES | LABEL_NAMES):
            numbered = self._numbered(key, "--label_key") if key and _is_number(key) else None
            return numbered is None or not self._is_key(self.rows[0][numbered])
        if missing:
            raise self._missing(*missing[0])
        if key or label or any(self._is_key(cell) for cell in self.rows[0]):
            return False
        raise LabelsError(
            f"{self.path}: cannot tell whether its first line is a header"
            f" ({quote_names(self.names)}): name its columns with --label_key and --label_column;"
            f" {_BY_NUMBER}"
        )

    def number_of(self, wanted: str) -> str:
        """`wanted`, or N if it is `column N`, our name for a column that has none."""
        found = _UNNAMED.fullmatch(wanted)
        return found[1] if found and self._find(wanted) is None else wanted

    def chosen(self, wanted: str, flag: str, has_header: bool) -> int:
        """The index of the column that a flag names or numbers."""
        at = self._find(wanted) if has_header else None
        if at is not None:
            return at
        wanted = self.number_of(wanted)
        if _is_number(wanted):
            return self._numbered(wanted, flag)
        raise self._missing(wanted, flag)

    def key_of_header(self, label_at: int | None) -> FoundColumn:
        """The only column with a known key name, or the other one of two."""
        found, because = self._known(KEY_NAMES, label_at), "a usual name for the key"
        if len(found) > 1 and self.is_image_key:
            found = [at for at in found if self._keys_in(at, self.rows[1:])] or found
            because = "its cells name images"
        if not found and label_at is None:
            labels = self._known(LABEL_NAMES, None)
            label_at = labels[0] if len(labels) == 1 else None
        return self._only(found, label_at, "--label_key", because)

    def key_of_data(self, label_at: int | None) -> FoundColumn:
        """The column whose cells are most often keys of images, or the other one of two."""
        hits = {at: self._keys_in(at, self.rows) for at in range(len(self.names)) if at != label_at}
        most = max(hits.values(), default=0)
        found = [at for at, count in hits.items() if count == most and most]
        return self._only(found, label_at, "--label_key", "its cells name images")

    def name_of(self, at: int, has_header: bool) -> str:
        """The column's name, used to find it in other files of the same glob."""
        if not has_header:
            return f"column {at + 1}"
        find_column(self.names, self.names[at], path=self.path)  # raises if it is repeated
        return self.names[at]

    def _only(self, found: list[int], other: int | None, flag: str, because: str) -> FoundColumn:
        if not found and len(self.names) == 2 and other is not None:
            return 1 - other, OTHER_COLUMN
        if len(found) == 1:
            return found[0], because
        which = quote_names([self.names[at] for at in found] or self.names)
        problem = "several columns may be" if found else "cannot tell which column is"
        is_label = flag == "--label_column" and not found
        hint = "; or, without --images, --label_from none" if is_label else ""
        raise LabelsError(
            f"{self.path}: {problem} {flag} ({which}): give {flag} a name or number{hint}"
        )

    def _known(self, known: frozenset[str], but: int | None) -> list[int]:
        return [at for at, name in enumerate(self.names) if at != but and folded(name) in known]

    def _keys_in(self, at: int, rows: Sequence[Sequence[str]]) -> int:
        return sum(at < len(row) and self._is_key(row[at]) for row in rows)

    def _is_key(self, cell: str) -> bool:
        return self.is_image_key is not None and self.is_image_key(cell)

    def _find(self, wanted: str) -> int | None:
        return find_column(self.names, wanted, path=self.path)

    def _numbered(self, number: str, flag: str) -> int:
        if 1 <= int(number) <= len(self.names):
            return int(number) - 1
        raise LabelsError(
            f"{self.path} has no column {number}, only {len(self.names)} "
            f"({quote_names(self.names)}): give {flag} a name, or a number counted from 1"
        )

    def _missing(self, wanted: str, flag: str) -> LabelsError:
        by_folded = {folded(name): name for name in self.names}
        near = difflib.get_close_matches(folded(wanted), by_folded, n=1)
        hint = f"did you mean {by_folded[near[0]]!r}?" if near else f"give one of them to {flag}"
        if any(self._is_key(cell) for cell in self.rows[0]):
            hint = f"its first line is not a header; {_BY_NUMBER}"
        return LabelsError(
            f"{self.path} has no column {wanted!r} ({flag}); it has "
            f"{quote_names(self.names)}: {hint}"
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


# Finds the columns of a CSV with the split and the group of an image.

# The default name of the column with the split.
_SPLIT_COLUMN = "split"


def _with_places(columns: CsvColumns, finder: _Finder, options: SplitOptions) -> CsvColumns:
    """Adds the positions of split and group, if they are needed."""
    path = finder.path
    if options.split_from == "csv" or options.split_column is not None:
        at = _split_column(columns, finder, options.split_column)
        if at == columns.label and columns.because[1] == OTHER_COLUMN:
            raise LabelsError(
                f"{path} has no column of labels, only keys and the splits of --split_column: add "
                "one, which --label_column names"
            )
        rows = finder.rows[columns.has_header :]
        said = [split_text(row[at]) for row in rows if at < len(row)]
        if said and not any(not name or is_split_name(name) for name in said):
            raise LabelsError(
                f"{path}: --split_column has values such as {said[0]!r}, which cannot be splits "
                "(a letter, then letters, digits and '_'): give the column that names the splits"
            )
        columns = columns._replace(split=at, split_name=finder.name_of(at, columns.has_header))
    if options.group_by is not None:
        at = finder.chosen(options.group_by, "--group_by", columns.has_header)
        columns = columns._replace(group=at, group_name=finder.name_of(at, columns.has_header))
    return columns


def _split_column(columns: CsvColumns, finder: _Finder, wanted: str | None) -> int:
    if wanted is not None:
        return finder.chosen(wanted, "--split_column", columns.has_header)
    names = finder.names if columns.has_header else []
    at = find_column(names, _SPLIT_COLUMN, path=finder.path)
    if at is None:
        raise LabelsError(
            f"{finder.path} has no column {_SPLIT_COLUMN!r}: name the one that holds the splits "
            "with --split_column"
        )
    return at
