"""What flags say of labels that the class names lack."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels.label_rows import label_text
from transforms.labels.label_rules import LabelRules

LABELS = st.text(st.characters(codec="utf-8"), min_size=1).map(label_text).filter(bool)


def ids_of(rules: LabelRules, labels: Iterable[str]) -> dict[str, int]:
    """The classes of a vocabulary and their ids."""
    vocabulary = rules.vocabulary(labels, "text")
    return dict(zip(vocabulary.lines, vocabulary.ids, strict=True))


@pytest.mark.parametrize(
    ("rules", "labels", "ids"),
    [
        (LabelRules(), ["fox", "ant", "cat"], {"dog": 0, "cat": 1, "ant": 2, "fox": 3}),
        # A number may be that of a class, so it is never the name of a new one.
        (LabelRules(), ["1", "7", "fox"], {"dog": 0, "cat": 1, "fox": 2}),
        (LabelRules("integer"), ["1", "7"], {"dog": 0, "cat": 1}),
        (LabelRules("text"), ["10", "7", ""], {"dog": 0, "cat": 1, "7": 2, "10": 3}),
        (LabelRules(first_id=1), ["fox"], {"dog": 1, "cat": 2, "fox": 3}),
        (LabelRules(class_names=("7", "12")), ["9.0", "12", "x"], {"7": 7, "9": 9, "12": 12}),
        (
            LabelRules(class_names=("12", "7"), dense=True),
            ["100", "9", "7"],
            {"12": 0, "7": 1, "9": 2, "100": 3},
        ),
        (LabelRules("integer", class_names=("7",)), ["007", "+09", "x"], {"7": 7, "9": 9}),
        (
            LabelRules("text", class_names=("7", "12")),
            ["9", "x"],
            {"7": 0, "12": 1, "9": 2, "x": 3},
        ),
        # Ids of categories have gaps, and no label is an id.
        (
            LabelRules("text", first_id=1, known_ids=True, class_ids=(1, 13)),
            ["fox", "13", "cat"],
            {"dog": 1, "cat": 13, "13": 14, "fox": 15},
        ),
    ],
)
def test_new_classes_follow_the_known_ones(
    rules: LabelRules, labels: list[str], ids: dict[str, int]
) -> None:
    names = rules.class_names or ("dog", "cat")
    assert ids_of(rules._replace(class_names=names, new_classes="append"), labels) == ids


@given(
    st.lists(LABELS, min_size=1, unique=True),
    st.sets(LABELS),
    st.sampled_from(["auto", "integer", "text"]),
    st.booleans(),
)
def test_new_classes_change_no_known_class(
    names: list[str], labels: set[str], kind: str, dense: bool
) -> None:
    known = LabelRules(kind, tuple(names), dense)
    rules = known._replace(new_classes="append")
    before, after = known.vocabulary(labels, kind), rules.vocabulary(sorted(labels), kind)
    for label in (*names, *labels):
        if (class_id := before.id_of(label)) is not None:
            assert (after.id_of(label), after.text_of(label)) == (class_id, before.text_of(label))
    # Tomorrow, the classes of today are known, and nothing changes.
    tomorrow = rules._replace(class_names=after.lines)
    assert tomorrow.vocabulary(labels, kind).lines == after.lines
    assert tomorrow.added(labels) == ()


def test_refused_classes_are_named_with_their_images() -> None:
    rules = LabelRules(class_names=("dog", "cat"), new_classes="refuse")
    rules.check({"dog": 3, "1": 1, "": 2})
    with pytest.raises(LabelsError) as caught:
        rules.check({"dog": 3, "fox": 40, "ant": 1, "": 2})
    assert str(caught.value) == (
        "2 labels are not in --class_names, with the number of images: 'ant' (1), 'fox' (40). "
        "Correct them, or use --new_classes append"
    )
    with pytest.raises(LabelsError, match=r"^1 label is not .*'9' \(1\)\. Correct it, "):
        rules.check({"9": 1})
    categories = rules._replace(kind="text", class_ids=(1, 13), known_ids=True)
    categories.check({"dog": 3, "cat": 1})
    # An id is no label.
    with pytest.raises(LabelsError, match=r"^1 label is not .*'1' \(1\)\. Correct it, "):
        categories.check({"1": 1})
    with pytest.raises(LabelsError, match=r"^12 labels .*'label-9' \(1\) and 2 more"):
        rules.check({f"label-{chr(48 + number)}": 1 for number in range(12)})
    rules._replace(new_classes="").check({"fox": 1})
