"""Kinds of labels, and the ids of classes."""

import bisect
import dataclasses
import itertools
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from transforms.core.messages import LabelsError, and_more
from transforms.core.records import Plain
from transforms.labels.keys import nfc
from transforms.labels.label_rows import MAX_KEY, label_text

# The kind of labels: integers or text, and which cells are missing or do not fit.

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
        kind: `auto`, `integer` or `text`; with `text`, every text is a label.
        class_names: the classes, if they are given; a name among them is a label.
    """
    return frozenset() if kind == "text" else MISSING_LABELS - frozenset(class_names or ())


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
        odd: the `LabelPlace` of the first by place that are not integers.
        spellings: the texts of missing cells, sorted.
    """

    integers: int = 0
    others: int = 0
    missing: int = 0
    odd: Plain = ()
    spellings: Plain = ()


class LabelCounter:
    """Counts labels as they are read, in bounded memory."""

    def __init__(self) -> None:
        self._integers = self._others = self._missing = 0
        self._odd: list[LabelPlace] = []
        self._spellings: set[str] = set()

    def add(self, label: str, path: str, line: int = 0) -> None:
        """Counts one label that is not empty, with its place."""
        if integer_of(label) is not None:
            self._integers += 1
            return
        self._others += 1
        place = path, line, label
        # A listing has any order; the first places by name are the same in each.
        if len(self._odd) < _MAX_ODD or place < self._odd[-1]:
            self._odd = sorted([*self._odd, place])[:_MAX_ODD]

    def add_missing(self, cell: str) -> None:
        """Counts one missing label."""
        self._missing += 1
        self._spellings.add(cell)

    def counted(self) -> LabelCells:
        """The counts."""
        counts = (self._integers, self._others, self._missing)
        return LabelCells(*counts, tuple(self._odd), tuple(sorted(self._spellings)))


def merge_cells(counted: Iterable[LabelCells]) -> LabelCells:
    """The sum of counts; their order does not matter."""
    integers, others, missing, odd, spellings = zip(LabelCells(), *counted, strict=True)
    # The first places by name are the same in any order.
    first = sorted(itertools.chain.from_iterable(odd))[:_MAX_ODD]
    said = sorted({*itertools.chain.from_iterable(spellings)})
    return LabelCells(sum(integers), sum(others), sum(missing), tuple(first), tuple(said))


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
    odd = cells.odd or tuple(("of a record", 0, label) for label in sorted(others)[:_MAX_ODD])
    return cells._replace(
        integers=max(integers, cells.integers), others=max(count, cells.others), odd=odd
    )


def decide_kind(cells: LabelCells, kind: str = "auto") -> str:
    """Whether labels are integers or text.

    If all labels are integers, they are integers; otherwise they are text. If nearly all
    (`NEARLY_ALL`) are integers, the kind is ambiguous.

    Args:
        cells: counts of all labels.
        kind: `auto`, `integer` or `text`; all except `auto` decide.

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
    verb = "is" if cells.others == 1 else "are"
    raise LabelsError(
        f"{cells.integers} of {count} labels are integers, but "
        f"{and_more(_odd_labels(cells), cells.others)} {verb} not: correct or empty these cells, "
        "or give --label_kind text (every label is the name of a class) or --label_kind integer "
        "(rejects images with other labels)"
    )


def check_integers(cells: LabelCells) -> None:
    """Refuses `--label_kind integer` if it would reject every image.

    Args:
        cells: counts of the first labels.

    Raises:
        LabelsError: none of them is an integer.
    """
    if cells.others and not cells.integers:
        raise LabelsError(
            f"--label_kind integer rejects every image: {_odd_labels(cells)[0]} is not an "
            "integer, nor is another label; leave it out, or give --label_kind text"
        )


def _odd_labels(cells: LabelCells) -> list[str]:
    return [
        f"{label[:40]!r} ({path}:{line})" if line else f"{label[:40]!r} ({path})"
        for path, line, label in cells.odd
    ]


def class_order(name: str) -> tuple[int, int, str]:
    """The sort key of classes in lists: integers as numbers, then text.

    >>> sorted(["cat", "10", "9"], key=class_order)
    ['9', '10', 'cat']
    """
    value = integer_of(name)
    return (1, 0, name) if value is None else (0, value, name)


# The vocabulary maps labels to class ids; `labels.txt` names the ids.
#
# Line *n* of `labels.txt`, counted from 0, is the class with the id *n*: its name, or the number
# itself. A line is empty where no class has its number.

MAX_LINES = 10_000_000
"""The maximum lines of `labels.txt`; it is empty if a class id is larger, or below 0."""

# Each takes 14 microseconds and a kilobyte; the labels themselves may be as many as they are.
_MAX_NAMES = 500_000

BACKGROUND = "background"
"""The name of the id 0 if readers reserve it for the background."""

_ID_AND_NAME = re.compile(r"([0-9]+):(.*\S.*)", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The classes of a dataset; built by `build`, small and picklable.

    Text labels get the ids 0, 1, 2 … in the order of their code points, or of the given class
    names. Integer labels are kept as ids, unless class names define their meaning, or they are
    to be dense.

    Attributes:
        is_named: ids count the lines of `lines`, or are given for them; otherwise labels are
            their own ids.
        is_integer: whether labels are integers.
        ids: the class ids in order.
        lines: the names of the classes in the order of their ids; digits for integers.
        first_id: where ids that count begin.
    """

    is_named: bool
    is_integer: bool
    ids: Sequence[int]
    lines: tuple[str, ...] = dataclasses.field(repr=False)
    _known: dict[str, int] = dataclasses.field(repr=False)
    first_id: int = 0

    @classmethod
    def build(
        cls,
        labels: Iterable[str],
        class_names: Sequence[str] | None = None,
        *,
        kind: str = "auto",
        dense: bool = False,
        first_id: int = 0,
    ) -> "Vocabulary":
        """The vocabulary of these labels, regardless of order and repetitions.

        Args:
            labels: the labels of a dataset.
            class_names: the result of `read_class_names`, the only known classes. A label is one
                of the names, or the index of a name, from 0. Names that are all integers are the
                integers allowed, in which case nothing is an index.
            kind: `text`; `integer`, in which case other labels are unknown; or `auto`:
                integers if all labels are.
            dense: whether integers are numbered from `first_id` in their order.
            first_id: the id of the first class. With 1, the id 0 is that of the
                background, which no label has; given names may have it in their first line.

        Raises:
            LabelsError: an integer is below `first_id`, or above what readers of boxes take.

        >>> Vocabulary.build(["dog", "cat", "dog"]).lines
        ('cat', 'dog')
        >>> Vocabulary.build(["10", "9.0"]).id_of("9.0")
        9
        >>> Vocabulary.build(["10", "9"], dense=True).id_of("10")
        1
        """
        distinct = {label_text(label) for label in labels}
        distinct.discard("")  # an image without a label
        integers = {label: integer_of(label, lenient=kind == "integer") for label in distinct}
        if class_names is not None:
            names = tuple(map(label_text, class_names))
            is_integer = kind != "text" and all(map(is_canonical_integer, names))
            if is_integer and not dense:
                names = tuple(sorted(names, key=int))
        else:
            are_integers = bool(distinct) and None not in integers.values()
            is_integer = kind == "integer" or (kind == "auto" and are_integers)
            values = sorted({value for value in integers.values() if value is not None})
            names = tuple(map(str, values)) if is_integer else tuple(sorted(distinct))
        # If the file also names the background, indexes include it.
        is_background = class_names is not None and not is_integer and names[0] == BACKGROUND
        first_index = 1 if first_id and is_background else 0
        names = names[first_index:]
        is_named = dense or not is_integer
        counted = range(first_id, first_id + len(names))
        ids = counted if is_named else tuple(map(int, names))
        if odd := [number for number in ids if first_id and not 0 < number < 2**31]:
            raise LabelsError(
                f"the label {min(odd)} cannot be a class id of --layout detection, whose readers "
                "reserve 0 for the background: number the labels from 1 with --dense_labels, or "
                "name label 0 in the first line of --class_names FILE, which gets the id 1"
            )
        known = dict(zip(names, ids, strict=True))
        if is_integer:
            known = _with_spellings(known, integers)
        elif class_names is not None and kind != "text":
            indices = {str(at): id_ for at, id_ in enumerate(ids, first_index)}
            spelled = _with_spellings(indices, integers)
            known = spelled if kind == "integer" else spelled | known
        return cls(is_named, is_integer, ids, names, known, first_id)

    def id_of(self, label: str) -> int | None:
        """The label's class id, an int64; None when the label is unknown.

        >>> Vocabulary.build(["3"], ["cat", "dog"]).id_of("1")
        1
        """
        known = self._known.get(label)
        return self._known.get(label_text(label)) if known is None else known

    def text_of(self, label: str) -> str:
        """The class name: the name at an index, or the digits of an integer.

        >>> Vocabulary.build(["1"], ["cat", "dog"]).text_of("1")
        'dog'
        """
        class_id = self.id_of(label)
        if class_id is None:
            return label_text(label)
        return self.lines[bisect.bisect_left(self.ids, class_id)]

    @property
    def id_names(self) -> tuple[str, ...] | None:
        """The name of each id from 0; None if ids have gaps or there is no class.

        If ids count from 1, the background has the first name.

        >>> Vocabulary.build(["1", "0"]).id_names, Vocabulary.build(["7"]).id_names
        (('0', '1'), None)
        """
        names = self.lines
        if not names or [*self.ids] != [*range(self.first_id, self.first_id + len(names))]:
            return None
        if self.first_id and (not self.is_named or BACKGROUND in names):
            return None
        return (*[BACKGROUND] * self.first_id, *names)

    @property
    def id_count(self) -> int | None:
        """The number of lines of `labels.txt`: one more than the largest id; None without lines.

        >>> Vocabulary.build(["7", "2"]).id_count, Vocabulary.build(["-1"]).id_count
        (8, None)
        """
        ids = self.ids
        return ids[-1] + 1 if ids and ids[0] >= 0 and ids[-1] < MAX_LINES else None

    def labels_text(self) -> str:
        """The content of `labels.txt`, which `parse_labels` reads.

        >>> Vocabulary.build(["3", "1"]).labels_text().split(chr(10))
        ['', '1', '', '3', '']
        """
        if self.id_count is None:
            return ""
        parts = []
        line = 0
        for class_id, name in zip(self.ids, self.lines, strict=True):
            parts += ["\n" * (class_id - line), name, "\n"]
            line = class_id + 1
        return "".join(parts)


def _with_spellings(known: Mapping[str, int], integers: Mapping[str, int | None]) -> dict[str, int]:
    """The ids of integers, and of all labels that spell them."""
    spelled = {label: known.get(str(value)) for label, value in integers.items()}
    return {**known, **{label: id_ for label, id_ in spelled.items() if id_ is not None}}


def parse_labels(text: str) -> dict[int, str]:
    """The names in `labels.txt` by class id, in the order of the ids.

    >>> parse_labels(chr(10) + "cat" + chr(10))
    {1: 'cat'}
    """
    return {number: line for number, line in enumerate(text.split("\n")) if line}


def read_class_names(text: str) -> tuple[str, ...]:
    """The names in a `--class_names` file: one a line, blank lines left out.

    Lines `0:cat`, `1:dog` … are read as TF-Slim writes them, if all are so and count from 0.

    Raises:
        LabelsError: there is no name, one is repeated, or is too long for an index.

    >>> read_class_names("0:cat" + chr(10) + "1:dog"), read_class_names("cat" + chr(10))
    (('cat', 'dog'), ('cat',))
    """
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    numbered = [(at, nfc(line.strip())) for at, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise LabelsError("--class_names is empty: write one class name per line")
    if len(numbered) > _MAX_NAMES:
        raise LabelsError(f"--class_names has {len(numbered)} names, more than {_MAX_NAMES}")
    slim = [_ID_AND_NAME.fullmatch(name) for _, name in numbered]
    if all(match and match[1] == str(at) for at, match in enumerate(slim)):
        numbered = [
            (at, match[2].strip()) for (at, _), match in zip(numbered, slim, strict=True) if match
        ]
    first_line: dict[str, int] = {}
    for at, name in numbered:
        if len(name) > MAX_KEY:
            problem = f"has {len(name)} characters, more than {MAX_KEY}"
            raise LabelsError(f"--class_names line {at} {problem}: it is not the name of a class")
        if first_line.setdefault(name, at) != at:
            raise LabelsError(
                f"--class_names line {at} repeats {name!r} of line {first_line[name]}: keep one"
            )
    return tuple(first_line)
