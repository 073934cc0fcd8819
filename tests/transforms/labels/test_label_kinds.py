"""A column of labels is integers or text; what is missing is no class, and a mixture is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.io.parsers.readers import STR_NA_VALUES

from transforms.core.messages import LabelsError
from transforms.labels.vocabulary import (
    MISSING_LABELS,
    LabelCells,
    LabelCounter,
    class_order,
    decide_kind,
    given_label,
    integer_of,
    labels_in,
    merge_cells,
    missing_labels,
)

LISTS = st.lists(st.sampled_from(["1", "2.0", "x", "007", "nan", ""]), max_size=12)


def count(*labels: str, first_line: int = 2) -> LabelCells:
    """What is counted of the cells of `a.csv`."""
    counter = LabelCounter()
    for line, cell in enumerate(labels, first_line):
        kept = labels_in(cell, MISSING_LABELS)
        if not kept:
            counter.add_missing(cell)
        for label in kept:
            counter.add(label, "a.csv", line)
    return counter.counted()


@pytest.mark.parametrize(
    ("label", "strict", "lenient"),
    [
        ("0", 0, 0),
        ("-7", -7, -7),
        ("14950.0", 14950, 14950),
        ("7.000", 7, 7),
        ("-0.0", None, 0),
        ("007", None, 7),
        ("+7", None, 7),
        ("7.", None, 7),
        ("7.5", None, None),
        ("1e3", None, None),
        ("1,000", None, None),
        ("٣", None, None),
        ("", None, None),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("9223372036854775808", None, None),
        ("1" * 5000, None, None),
    ],
)
def test_integers(label: str, strict: int | None, lenient: int | None) -> None:
    assert integer_of(label) == strict
    assert integer_of(label, lenient=True) == lenient


def test_labels_of_a_program() -> None:
    assert [given_label(label) for label in (7, 7.0, "7.0", None, math.nan, 7.5, True, "nan")] == [
        *("7", "7", "7.0", "", "", "7.5", "True", "nan")
    ]


def test_missing_cells_are_those_of_pandas() -> None:
    assert MISSING_LABELS | {""} == set(STR_NA_VALUES)


def test_missing_cells_are_labels_if_it_is_said() -> None:
    assert missing_labels("text") == frozenset()
    assert missing_labels("integer") == missing_labels("auto") == MISSING_LABELS
    assert "NA" not in missing_labels("auto", ["DE", "NA"])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([], "none"),
        (["", "nan"], "none"),
        (["14950.0", "7.0", "10", "100000", "nan"], "integer"),
        (["cat", "dog", "NA"], "text"),
        (["1", "2", "cat"], "text"),
        (["001", "002", "010"], "text"),
        (["1"] * 79 + ["x"] * 21, "text"),
        (["0.5", "1.5"], "text"),
    ],
)
def test_kinds(cells: list[str], kind: str) -> None:
    assert decide_kind(count(*cells)) == kind


def test_a_label_that_is_none_among_integers_is_shown_with_its_line() -> None:
    with pytest.raises(LabelsError) as caught:
        decide_kind(count("14950", "7", "abc", "10", "100000"))
    assert str(caught.value) == (
        "4 of 5 labels are integers, but 'abc' (a.csv:4) is not: correct or empty these cells, or "
        "give --label_kind text (every label is the name of a class) or --label_kind integer "
        "(rejects images with other labels)"
    )
    many = count(*["1"] * 80, *["x", "y", "007", "z", "w"])
    shown = r"'x' \(a.csv:82\), 'y' \(a.csv:83\), '007' \(a.csv:84\) and 2 more are not"
    with pytest.raises(LabelsError, match=shown):
        decide_kind(many)
    assert decide_kind(many, "text") == "text"
    assert decide_kind(many, "integer") == "integer"


def test_a_long_label_is_cut_in_the_message() -> None:
    with pytest.raises(LabelsError) as caught:
        decide_kind(count(*["1"] * 9, "x" * 10_000))
    assert len(str(caught.value)) < 400


@given(LISTS, LISTS, LISTS)
def test_counts_do_not_depend_on_bundles(one: list[str], two: list[str], three: list[str]) -> None:
    at = 2 + len(one)
    parts = [count(*one), count(*two, first_line=at), count(*three, first_line=at + len(two))]
    whole = count(*one, *two, *three)
    assert merge_cells(parts) == merge_cells([parts[2], merge_cells(parts[:2])])
    assert merge_cells(reversed(parts)) == merge_cells([whole])


@given(st.permutations(["d/4", "a/1", "c/3", "b/2", "e/5"]))
def test_the_order_of_a_listing_does_not_matter(paths: list[str]) -> None:
    counter = LabelCounter()
    for path in paths:
        counter.add(path[0], path)
    assert counter.counted().odd == (("a/1", 0, "a"), ("b/2", 0, "b"), ("c/3", 0, "c"))


def test_classes_are_listed_as_numbers() -> None:
    names = ["100", "9", "-1", "10", "cat", "Ant", "007"]
    assert sorted(names, key=class_order) == ["-1", "9", "10", "100", "007", "Ant", "cat"]
