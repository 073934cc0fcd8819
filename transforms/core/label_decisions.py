"""What all labels tell, for the block "Decided": their kind, their ids, and what is missing."""

from __future__ import annotations

import json

from transforms.core.decisions import Decision, given
from transforms.core.label_kinds import LabelCells, integer_of
from transforms.core.vocabulary import LabelRules, Vocabulary


def label_decisions(vocabulary: Vocabulary, cells: LabelCells, rules: LabelRules) -> list[Decision]:
    """What only all labels tell; nothing when there is none.

    Args:
        vocabulary: the classes.
        cells: what was counted of the labels.
        rules: what the flags say of them.

    >>> label_decisions(Vocabulary.build(["7", "9"]), LabelCells(integers=5), LabelRules())[0][1:3]
    ('integers, 2 classes', 'all 5 labels are integers')
    """
    if not vocabulary.lines():
        return []
    found = [_kind(vocabulary, cells, rules), _ids(vocabulary, rules)]
    if cells.missing:
        count = f"{cells.missing} cell{'' if cells.missing == 1 else 's'}"
        spellings = [f"{text!r}" if text else "empty" for text in json.loads(cells.spellings)]
        because = f"{', '.join(spellings)}: no class, their images are rejected"
        found.append(Decision("missing labels", count, because, "--label_kind"))
    return found


def _kind(vocabulary: Vocabulary, cells: LabelCells, rules: LabelRules) -> Decision:
    lines = vocabulary.lines()
    kind = "integers" if vocabulary.is_integer else "text"
    value = f"{kind}, {len(lines)} class{'' if len(lines) == 1 else 'es'}"
    if rules.class_names is not None:
        return Decision("labels", value, "the lines of the file", "--class_names")
    if rules.kind != "auto":
        return given("labels", value, "--label_kind")
    if vocabulary.is_integer:
        because = f"all {cells.integers} labels are integers" if cells.integers else "all are"
    else:
        odd = [label for _, _, label in json.loads(cells.odd)]
        odd += [line for line in lines if integer_of(line) is None]
        because = f"{odd[0][:40]!r} is no integer" if odd else "not all are integers"
    return Decision("labels", value, because, "--label_kind")


def _ids(vocabulary: Vocabulary, rules: LabelRules) -> Decision:
    ids = vocabulary.ids
    value = f"{ids[0]} to {ids[-1]}" if len(ids) > 1 else str(ids[0])
    if not vocabulary.is_named:
        because = "the labels themselves"
        if vocabulary.id_count is None:
            because += "; labels.txt is empty, it has no lines of these numbers"
        elif unused := vocabulary.id_count - vocabulary.first_id - len(ids):
            because += f"; {unused} numbers below are unused"
        return Decision("class ids", value, because, "--dense_labels")
    if vocabulary.is_integer:
        return Decision("class ids", value, "count the integers in their order", "--dense_labels")
    if rules.class_names is None:
        return Decision("class ids", value, "count the sorted labels", "--class_names")
    or_index = {"auto": "labels are names or these numbers", "text": "labels are names"}
    because = f"count the lines; {or_index.get(rules.kind, 'labels are these numbers')}"
    return Decision("class ids", value, because, "--class_names")
