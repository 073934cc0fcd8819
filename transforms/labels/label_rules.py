"""How an image gets its label, and what is said about that."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from transforms.core.messages import Decision, LabelsError, and_more, given, quantity
from transforms.labels.keys import nfc
from transforms.labels.label_rows import label_text, quote_names
from transforms.labels.shards import split_text
from transforms.labels.vocabulary import (
    LabelCells,
    Vocabulary,
    class_order,
    decide_kind,
    integer_of,
    is_canonical_integer,
)

# Labels and splits from image paths: the class by folder or regular expression.

NO_FOLDER = "."
"""The result of `split_folder` for an image without a folder; not a valid split name."""


class PathRules(NamedTuple):
    """What to read from a path below the images' common folder; by default, nothing.

    Attributes:
        label_from: `directory`, `regex`, or any other source, which does not use the path.
        label_regex: valid for `parse_label_regex`; for `regex`.
        has_splits: whether the first folder names the split.
    """

    label_from: str = "none"
    label_regex: str = ""
    has_splits: bool = False

    def label(self, path: str, *, folder: str = "") -> str:
        """The class of an image; empty if its path has none.

        Args:
            path: below the images' common folder.
            folder: the class that the glob itself names, for an image without a folder.

        >>> PathRules("directory").label("flowers/roses/1.jpg")
        'roses'
        >>> PathRules("directory", has_splits=True).label("train/1.jpg")
        ''
        >>> PathRules("regex", r"([a-z]+)_[0-9]+").label("2024/cat_07.jpg")
        'cat'
        """
        if self.label_from == "regex":
            found = parse_label_regex(self.label_regex).search(nfc(path))
            group = "label" if found and "label" in found.re.groupindex else 1
            return label_text(found[group] or "") if found else ""
        if self.label_from != "directory":
            return ""
        if self.has_splits:
            return label_text(os.path.basename(os.path.dirname(path.partition("/")[2])))
        return label_text(os.path.basename(os.path.dirname(path))) or folder

    def split(self, path: str) -> str:
        """The split in the path; empty if paths do not decide the split.

        >>> PathRules(has_splits=True).split("TRAIN/cat/1.jpg")
        'train'
        """
        return split_folder(path) if self.has_splits else ""


def split_folder(path: str) -> str:
    """The split that the first folder of a path names, `NO_FOLDER` without one.

    >>> split_folder("test/1.jpg"), split_folder("1.jpg")
    ('test', '.')
    """
    folder, slash, _ = path.partition("/")
    return split_text(folder) if slash else NO_FOLDER


@functools.lru_cache(maxsize=16)
def parse_label_regex(text: str) -> re.Pattern[str]:
    """The expression of labels in paths: it has a group called `label`, or only one group.

    Raises:
        ValueError: it is not such an expression.
    """
    try:
        pattern = re.compile(nfc(text))
    except re.error as error:
        raise ValueError(f"{text!r} is not a valid regular expression: {error}") from error
    if "label" not in pattern.groupindex and pattern.groups != 1:
        problem = "has no group" if pattern.groups == 0 else f"has {pattern.groups} groups"
        raise ValueError(
            f"{text!r} {problem}: put the label in one group, such as '(?P<label>[a-z]+)_'"
        )
    return pattern


# The rules of flags for labels: which become classes, and with which ids.

# Maximum number of labels in a message.
_MAX_SHOWN_LABELS = 10


class LabelRules(NamedTuple):
    """The rules of flags for labels and their ids.

    Attributes:
        kind: `auto`, `integer` or `text`.
        class_names: the classes in the order of their ids, or None for sorted labels.
        dense: whether integers are numbered from the first id.
        first_id: the id of the first class: 1 if readers reserve 0 for the
            background.
        new_classes: what happens to labels that the class names lack: `append` makes them classes
            after the known ones, `refuse` ends the run; empty rejects their images.
        known_ids: whether the class names are those of a dataset, which no file lists.
        class_ids: the ids of the class names, if categories of label files gave them; they may
            have gaps.
    """

    kind: str = "auto"
    class_names: tuple[str, ...] | None = None
    dense: bool = False
    first_id: int = 0
    new_classes: str = ""
    known_ids: bool = False
    class_ids: tuple[int, ...] | None = None

    @property
    def are_categories(self) -> bool:
        """Whether the classes and their ids are those of the label files of this run."""
        return self.class_ids is not None and not self.known_ids

    @property
    def unknown(self) -> str:
        """The problem with a label that gets no id, for messages."""
        if self.class_names is None:
            return "is not an integer (--label_kind integer)"
        if self.are_categories:
            return "is not in the categories of --labels"
        if self.new_classes != "append":
            return "is not in --class_names"
        if self._names_are_integers:
            return "is not an integer, as all classes in --class_names are"
        return "is a number that no class has (--label_kind text makes it a new class)"

    def decide(self, cells: LabelCells) -> str:
        """The kind of the labels; class names define the allowed labels themselves.

        Raises:
            LabelsError: see `decide_kind`.
        """
        kind = self.kind
        if self.class_names is not None and kind == "auto":
            kind = "integer" if not cells.others else "text"
        return decide_kind(cells, kind)

    def vocabulary(self, labels: Iterable[str], kind: str) -> Vocabulary:
        """The vocabulary of these labels.

        Args:
            labels: the labels of a dataset.
            kind: the result of `decide_kind` for them.
        """
        labels = {*labels}
        if self.class_names is not None:
            return self._known(labels, self.added(labels))
        decided = kind if kind in ("integer", "text") else self.kind
        return Vocabulary.build(labels, kind=decided, dense=self.dense, first_id=self.first_id)

    def added(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The new classes of `--new_classes append` in the order of their ids: sorted.

        The known classes keep their ids and what a label means. So a label that may be the number
        of a class is not a new class, and integers stay the only classes where all are integers.

        >>> LabelRules(class_names=("dog", "cat"), new_classes="append").added(["fox", "ant", "1"])
        ('ant', 'fox')
        """
        if self.new_classes != "append":
            return ()
        unlisted = self._unlisted(labels)
        if self._names_are_integers:
            is_lenient = self.kind == "integer"
            values = {integer_of(label, lenient=is_lenient) for label in unlisted}
            return tuple(str(value) for value in sorted(v for v in values if v is not None))
        if self.kind == "text":
            return tuple(unlisted)
        is_name = self.kind == "auto"
        return tuple(label for label in unlisted if is_name and integer_of(label) is None)

    def check(self, labels: Mapping[str, int]) -> None:
        """Refuses new classes with `--new_classes refuse`.

        Args:
            labels: how many images have each label.

        Raises:
            LabelsError: there are some.
        """
        unlisted = self._unlisted(labels) if self.new_classes == "refuse" else []
        if not unlisted:
            return
        first = [f"{label[:40]!r} ({labels[label]})" for label in unlisted[:_MAX_SHOWN_LABELS]]
        shown = and_more(first, len(unlisted))
        one = len(unlisted) == 1
        raise LabelsError(
            f"{len(unlisted)} label{' is' if one else 's are'} not in --class_names, with the "
            f"number of images: {shown}. Correct {'it' if one else 'them'}, or use "
            "--new_classes append"
        )

    @property
    def _names_are_integers(self) -> bool:
        return self.kind != "text" and all(map(is_canonical_integer, self.class_names or ()))

    def _unlisted(self, labels: Iterable[str]) -> list[str]:
        """The labels that the class names lack, sorted."""
        labels = {*labels} - {""}
        known = self._known(labels)
        return sorted((each for each in labels if known.id_of(each) is None), key=class_order)

    def _known(self, labels: set[str], added: tuple[str, ...] = ()) -> Vocabulary:
        """The vocabulary of the class names, and of those that are added."""
        names, ids = (*(self.class_names or ()), *added), self.class_ids
        if ids is not None:
            after = max(ids, default=self.first_id - 1) + 1
            new_ids = range(after, after + len(added))
            every = (*ids, *new_ids)
            known = dict(zip(names, every, strict=True))
            return Vocabulary(True, False, every, names, known, self.first_id)
        return Vocabulary.build(
            labels, names, kind=self.kind, dense=self.dense, first_id=self.first_id
        )


ANY_LABELS = LabelRules()


KNOWN_CLASSES = "known classes"
"""The subject of the decision about the classes of a dataset; a repeated run finds it."""


class KnownClasses(NamedTuple):
    """The classes of `--class_names`: names in a file, or those of a dataset with their ids.

    Attributes:
        names: in the order of their ids; None without the flag.
        ids: of the names in a dataset, which they keep; None for a file; empty for a repeated run,
            whose flags keep them.
        source: the dataset's folder; empty for a file.
        numbers: the ids of the names, if categories of label files gave them; None otherwise.
    """

    names: tuple[str, ...] | None = None
    ids: Mapping[str, int] | None = None
    source: str = ""
    numbers: tuple[int, ...] | None = None

    def decisions(self, given_kind: str) -> tuple[Decision, ...]:
        """What was decided, for the block "Decided".

        Args:
            given_kind: the value of `--label_kind`.
        """
        if self.ids is None or self.names is None:
            return ()
        count = quantity(len(self.names), "class", "classes")
        because = f"keep their ids in {self.source}"
        known = Decision(KNOWN_CLASSES, count, because, "--class_names")
        # The kind also follows from the names: a repeated run must know which of both it was.
        kind = given("kind of labels", given_kind, "--label_kind")
        return (known,) if given_kind == "auto" else (known, kind)

    def kind(self, given: str) -> str:
        """The kind of labels: no number is the index of a name that a dataset gave.

        Args:
            given: the value of `--label_kind`.
        """
        if self.numbers is not None:
            return "text"
        is_text = self.ids is not None and not all(map(is_canonical_integer, self.names or ()))
        return "text" if given == "auto" and is_text else given


# Decisions that need all labels, for the block "Decided": kind, ids and missing labels.

# Maximum number of labels in a line.
_MAX_SHOWN_CLASSES = 3


def label_decisions(
    vocabulary: Vocabulary, labels: Mapping[str, int], cells: LabelCells, rules: LabelRules
) -> list[Decision]:
    """The decisions that need all labels; none without labels.

    Args:
        vocabulary: the classes.
        labels: how many images have each label.
        cells: counts of the labels as they were read.
        rules: the flags about labels.

    >>> sevens = Vocabulary.build(["7"])
    >>> label_decisions(sevens, {"7": 5}, LabelCells(integers=5), LabelRules())[0][1:3]
    ('integers, 1 class', 'all 5 labels are integers')
    """
    missing, unknown = _missing(cells), _unknown(vocabulary, labels, rules)
    kind = [_kind(vocabulary, cells, rules)] if vocabulary.lines or unknown else []
    ids = [_ids(vocabulary, rules)] if vocabulary.lines else []
    return [*kind, *ids, *_new(labels, rules), *missing, *unknown]


def _new(labels: Mapping[str, int], rules: LabelRules) -> list[Decision]:
    """The classes that the class names lack and that are added."""
    if rules.new_classes != "append":
        return []
    new = rules.added(labels)
    value = quantity(len(new), "class", "classes")
    shown = quote_names(new, _MAX_SHOWN_CLASSES, 40)
    because = f"{shown}: after the known ones, sorted" if new else "all labels are known"
    return [Decision("new classes", value, because, "--new_classes")]


def _missing(cells: LabelCells) -> list[Decision]:
    if not cells.missing:
        return []
    count = quantity(cells.missing, "cell")
    spellings = [f"{text!r}" if text else "empty" for text in cells.spellings]
    because = f"{', '.join(spellings)}: not classes; their images are rejected"
    return [Decision("missing labels", count, because, "--label_kind")]


def _unknown(
    vocabulary: Vocabulary, labels: Mapping[str, int], rules: LabelRules
) -> list[Decision]:
    """The labels that are not missing but get no id."""
    named = {label: count for label, count in labels.items() if label}
    unknown = sorted(label for label in named if vocabulary.id_of(label) is None)
    if not unknown:
        return []
    count = sum(named[label] for label in unknown)
    shown = quote_names(unknown, _MAX_SHOWN_CLASSES, 40)
    is_one = len(unknown) == 1
    if rules.class_names is None:
        flag, wrong = "--label_kind", "is not an integer" if is_one else "are not integers"
    else:
        where = "--class_names" if rules.known_ids else "the file"
        where = "the categories" if rules.are_categories else where
        flag, wrong = "--class_names", f"{'is' if is_one else 'are'} not in {where}"
        if rules.new_classes == "append":
            wrong = "cannot be a new class" if is_one else "cannot be new classes"
    images = "its image is" if count == 1 else "their images are"
    because = f"{shown} {wrong}: {images} rejected"
    return [Decision("unknown labels", f"{count} of {sum(named.values())}", because, flag)]


def _kind(vocabulary: Vocabulary, cells: LabelCells, rules: LabelRules) -> Decision:
    lines = vocabulary.lines
    kind = "integers" if vocabulary.is_integer else "text"
    value = f"{kind}, {quantity(len(lines), 'class', 'classes')}"
    if rules.class_names is not None:
        because = "the known classes" if rules.known_ids else "the lines of the file"
        because = "the categories of the files" if rules.are_categories else because
        return Decision("labels", value, because, "--class_names")
    if rules.kind != "auto":
        return given("labels", value, "--label_kind")
    if vocabulary.is_integer:
        because = f"all {cells.integers} labels are integers" if cells.integers else "all are"
    else:
        odd = [label for _, _, label in cells.odd]
        odd += [line for line in lines if integer_of(line) is None]
        because = f"{odd[0][:40]!r} is not an integer" if odd else "not all are integers"
    return Decision("labels", value, because, "--label_kind")


def _ids(vocabulary: Vocabulary, rules: LabelRules) -> Decision:
    ids = vocabulary.ids
    value = f"{ids[0]} to {ids[-1]}" if len(ids) > 1 else str(ids[0])
    if not vocabulary.is_named:
        because = "the labels themselves"
        if vocabulary.id_count is None:
            because += "; labels.txt is empty: it has no lines for such ids"
        elif unused := vocabulary.id_count - vocabulary.first_id - len(ids):
            because += f"; {unused} numbers below are unused"
        return Decision("class ids", value, because, "--dense_labels")
    if rules.class_ids is not None:
        because = "those of the known classes" if rules.known_ids else "those of the categories"
        return Decision("class ids", value, because, "--class_names")
    if vocabulary.is_integer:
        return Decision("class ids", value, "count the integers in their order", "--dense_labels")
    if rules.class_names is None:
        return Decision("class ids", value, "count the sorted labels", "--class_names")
    or_index = {"auto": "labels are names or these numbers", "text": "labels are names"}
    counted = "known classes" if rules.known_ids else "lines"
    because = f"count the {counted}; {or_index.get(rules.kind, 'labels are these numbers')}"
    return Decision("class ids", value, because, "--class_names")
