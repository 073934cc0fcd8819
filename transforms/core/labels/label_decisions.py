"""Decisions that need all labels, for the block "Decided": kind, ids and missing labels."""

from __future__ import annotations

import json
from collections.abc import Mapping

from transforms.core.decisions import Decision, given
from transforms.core.labels.label_kinds import LabelCells, integer_of
from transforms.core.labels.label_rules import LabelRules
from transforms.core.labels.vocabulary import Vocabulary

# Maximum number of labels in a line.
_MAX_SHOWN = 3


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
    kind = [_kind(vocabulary, cells, rules)] if vocabulary.lines() or unknown else []
    ids = [_ids(vocabulary, rules)] if vocabulary.lines() else []
    return [*kind, *ids, *_new(labels, rules), *missing, *unknown]


def _new(labels: Mapping[str, int], rules: LabelRules) -> list[Decision]:
    """The classes that the class names lack and that are added."""
    if rules.new_classes != "append":
        return []
    new = rules.added(labels)
    value = f"{len(new)} class{'' if len(new) == 1 else 'es'}"
    shown = ", ".join(f"{label[:40]!r}" for label in new[:_MAX_SHOWN])
    if len(new) > _MAX_SHOWN:
        shown += f" and {len(new) - _MAX_SHOWN} more"
    because = f"{shown}: after the known ones, sorted" if new else "all labels are known"
    return [Decision("new classes", value, because, "--new_classes")]


def _missing(cells: LabelCells) -> list[Decision]:
    if not cells.missing:
        return []
    count = f"{cells.missing} cell{'' if cells.missing == 1 else 's'}"
    spellings = [f"{text!r}" if text else "empty" for text in json.loads(cells.spellings)]
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
    shown = ", ".join(f"{label[:40]!r}" for label in unknown[:_MAX_SHOWN])
    if len(unknown) > _MAX_SHOWN:
        shown += f" and {len(unknown) - _MAX_SHOWN} more"
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
    lines = vocabulary.lines()
    kind = "integers" if vocabulary.is_integer else "text"
    value = f"{kind}, {len(lines)} class{'' if len(lines) == 1 else 'es'}"
    if rules.class_names is not None:
        because = "the known classes" if rules.known_ids else "the lines of the file"
        if rules.are_categories:
            return Decision("labels", value, "the categories of the files", "--class_names")
        return Decision("labels", value, because, "--class_names")
    if rules.kind != "auto":
        return given("labels", value, "--label_kind")
    if vocabulary.is_integer:
        because = f"all {cells.integers} labels are integers" if cells.integers else "all are"
    else:
        odd = [label for _, _, label in json.loads(cells.odd)]
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
