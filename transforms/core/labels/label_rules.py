"""The rules of flags for labels: which become classes, and with which ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_kinds import (
    LabelCells,
    class_order,
    decide_kind,
    integer_of,
    is_canonical_integer,
)
from transforms.core.labels.vocabulary import Vocabulary

NEW_CLASSES = ("append", "refuse")

# Maximum number of labels in a message.
_MAX_SHOWN = 10


class LabelRules(NamedTuple):
    """The rules of flags for labels and their ids.

    Attributes:
        kind: one of `LABEL_KINDS`.
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
        labels, names, ids = {*labels}, self.class_names, self.class_ids
        if names is not None:
            names = (*names, *self.added(labels))
        if names is not None and ids is not None:
            after = max(ids, default=self.first_id - 1) + 1
            new_ids = range(after, after + len(names) - len(ids))
            return Vocabulary.of_ids(names, (*ids, *new_ids), self.first_id)
        is_open = names is not None or kind not in ("integer", "text")
        decided = self.kind if is_open else kind
        return Vocabulary.build(
            labels, names, kind=decided, dense=self.dense, first_id=self.first_id
        )

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
        shown = ", ".join(f"{label[:40]!r} ({labels[label]})" for label in unlisted[:_MAX_SHOWN])
        if len(unlisted) > _MAX_SHOWN:
            shown += f" and {len(unlisted) - _MAX_SHOWN} more"
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
        if self.class_ids is not None:
            known = Vocabulary.of_ids(self.class_names or (), self.class_ids, self.first_id)
        else:
            known = Vocabulary.build(
                labels, self.class_names, kind=self.kind, dense=self.dense, first_id=self.first_id
            )
        return sorted((each for each in labels if known.id_of(each) is None), key=class_order)


ANY_LABELS = LabelRules()
