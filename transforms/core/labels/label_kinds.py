"""The kind of labels: integers or text, and which cells are missing or do not fit."""

# Without postponed annotations: `LabelCells` crosses a shuffle, and RowCoder reads its types.

import json
import numbers
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from transforms.core.label_errors import LabelsError
from transforms.core.tables.csv_rows import label_text

LABEL_KINDS = ("auto", "integer", "text")

MISSING_LABELS = frozenset(
    "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a"
    "|nan|null".split("|")
)
"""Cells without a value: those that `pandas.read_csv` reads as missing."""

NEARLY_ALL = 0.8
"""The share of integers above which other labels are probably mistakes."""

# Maximum number of cells in a message.
_MAX_ODD = 3

_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,18})(?:\.0+)?", re.ASCII)
_LENIENT_INTEGER = re.compile(r"([+-]?[0-9]{1,30})(?:\.0*)?", re.ASCII)

LabelPlace = tuple[str, int, str]
"""The file and line of a label, or the path of its image and 0; and the label."""


def integer_of(label: str, *, lenient: bool = False) -> int | None:
    """The value of an integer label, an int64; None for other labels.

    Args:
        label: as `label_text` gives it.
        lenient: whether to accept leading zeros and a plus, as in `--label_kind integer`.

    >>> [integer_of(label) for label in ("7", "14950.0", "-3", "007", "7.5", "9223372036854775808")]
    [7, 14950, -3, None, None, None]
    >>> integer_of("007", lenient=True)
    7
    """
    # No integer: that is faster than a regular expression.
    if label[:1] > "9":
        return None
    found = (_LENIENT_INTEGER if lenient else _INTEGER).fullmatch(label)
    value = int(found[1]) if found else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def is_canonical_integer(label: str) -> bool:
    """Whether a label is an integer, written as `str` writes it.

    >>> [is_canonical_integer(label) for label in ("7", "7.0", "None")]
    [True, False, False]
    """
    value = integer_of(label)
    return value is not None and str(value) == label


def given_label(label: object) -> str:
    """The text of a label from the Python API; empty for None and NaN.

    >>> given_label(7.0), given_label(float("nan")), given_label("7.0"), given_label(None)
    ('7', '', '7.0', '')
    """
    if label is None:
        return ""
    if isinstance(label, numbers.Real) and not isinstance(label, numbers.Integral):
        value = float(label)
        if value != value:
            return ""
        if value.is_integer():
            return str(int(value))
    return label_text(str(label))


def missing_labels(kind: str, class_names: Iterable[str] | None = None) -> frozenset[str]:
    """The cells that count as missing, in addition to empty ones.

    Args:
        kind: one of `LABEL_KINDS`; with `text`, every text is a label.
        class_names: the classes, if they are given; a name among them is a label.
    """
    if kind == "text":
        return frozenset()
    return MISSING_LABELS - frozenset(class_names or ())


def labels_in(cell: str, missing: frozenset[str], separator: str = "") -> list[str]:
    """The labels in one cell; none if it is empty or missing.

    >>> labels_in("a| |nan|b", MISSING_LABELS, "|"), labels_in("NA", MISSING_LABELS)
    (['a', 'b'], [])
    """
    if not separator:
        return [cell] if cell and cell not in missing else []
    parts = [part.strip() for part in cell.split(separator)]
    return [part for part in parts if part and part not in missing]


class LabelCells(NamedTuple):
    """How many labels are of which kind.

    Attributes:
        integers: that are integers.
        others: that are not.
        missing: cells without a label.
        odd: the first by place that are not integers, a JSON list of `LabelPlace`.
        spellings: the texts of missing cells, a sorted JSON list.
    """

    integers: int = 0
    others: int = 0
    missing: int = 0
    odd: str = "[]"
    spellings: str = "[]"


class LabelCounter:
    """Counts labels as they are read, in bounded memory."""

    def __init__(self) -> None:
        self._integers = 0
        self._others = 0
        self._missing = 0
        self._odd: list[LabelPlace] = []
        self._spellings: set[str] = set()

    def add(self, label: str, path: str, line: int = 0) -> None:
        """Counts one label that is not empty, with its place."""
        if integer_of(label) is not None:
            self._integers += 1
            return
        self._others += 1
        odd, place = self._odd, (path, line, label)
        # A listing has any order; the first places by name are the same in each.
        if len(odd) < _MAX_ODD or place < odd[-1]:
            odd.append(place)
            odd.sort()
            del odd[_MAX_ODD:]

    def add_missing(self, cell: str) -> None:
        """Counts one missing label."""
        self._missing += 1
        self._spellings.add(cell)

    def counted(self) -> LabelCells:
        """The counts."""
        return LabelCells(
            self._integers,
            self._others,
            self._missing,
            json.dumps(self._odd),
            json.dumps(sorted(self._spellings)),
        )


def merge_cells(counted: Iterable[LabelCells]) -> LabelCells:
    """The sum of counts; their order does not matter."""
    integers = others = missing = 0
    odd: list[LabelPlace] = []
    spellings: set[str] = set()
    for cells in counted:
        integers += cells.integers
        others += cells.others
        missing += cells.missing
        spellings.update(json.loads(cells.spellings))
        if cells.odd != "[]":
            odd = sorted([*odd, *map(tuple, json.loads(cells.odd))])[:_MAX_ODD]
    return LabelCells(integers, others, missing, json.dumps(odd), json.dumps(sorted(spellings)))


def with_images(cells: LabelCells, images: Mapping[str, int]) -> LabelCells:
    """The counts of labels, at least those of images.

    The labels of records that are images of a run are in no cell.

    Args:
        cells: counts of the labels as they were read.
        images: how many images have each label; an empty one is none.

    >>> with_images(LabelCells(integers=1), {"7": 1, "cat": 2, "": 3})[:2]
    (1, 2)
    """
    others = {label: n for label, n in images.items() if label and integer_of(label) is None}
    count = sum(others.values())
    integers = sum(n for label, n in images.items() if label) - count
    if integers <= cells.integers and count <= cells.others:
        return cells
    odd = cells.odd
    if odd == "[]":
        odd = json.dumps([("of a record", 0, label) for label in sorted(others)[:_MAX_ODD]])
    return cells._replace(
        integers=max(integers, cells.integers), others=max(count, cells.others), odd=odd
    )


def decide_kind(cells: LabelCells, kind: str = "auto") -> str:
    """Whether labels are integers or text.

    If all labels are integers, they are integers; otherwise they are text. If nearly all
    (`NEARLY_ALL`) are integers, the kind is ambiguous.

    Args:
        cells: counts of all labels.
        kind: one of `LABEL_KINDS`; all except `auto` decide.

    Returns:
        `integer`, `text`, or `none` without labels.

    Raises:
        LabelsError: nearly all are integers, and some are not.
    """
    count = cells.integers + cells.others
    if kind != "auto":
        return kind if count else "none"
    if not cells.others:
        return "integer" if count else "none"
    if cells.integers < NEARLY_ALL * count:
        return "text"
    raise LabelsError(
        f"{cells.integers} of {count} labels are integers, but {_shown(cells)}: correct or empty "
        "these cells, or give --label_kind text (every label is the name of a class) or "
        "--label_kind integer (rejects images with other labels)"
    )


def _shown(cells: LabelCells) -> str:
    """The first labels that are not integers, with their places."""
    odd = [
        f"{label[:40]!r} ({path}:{line})" if line else f"{label[:40]!r} ({path})"
        for path, line, label in json.loads(cells.odd)
    ]
    more = cells.others - len(odd)
    verb = "is" if cells.others == 1 else "are"
    return f"{', '.join(odd)}{f' and {more} more' if more > 0 else ''} {verb} not"


def class_order(name: str) -> tuple[int, int, str]:
    """The sort key of classes in lists: integers as numbers, then text.

    >>> sorted(["cat", "10", "9"], key=class_order)
    ['9', '10', 'cat']
    """
    value = integer_of(name)
    return (1, 0, name) if value is None else (0, value, name)
