"""Labels become class ids: their kind, their ids, and the lines of `labels.txt`."""

import math
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pandas.io.parsers.readers import STR_NA_VALUES

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.labels.label_rows import label_text
from transforms.labels.vocabulary import (
    MAX_LINES,
    MISSING_LABELS,
    LabelCells,
    LabelCounter,
    Vocabulary,
    class_order,
    decide_kind,
    given_label,
    integer_of,
    labels_in,
    merge_cells,
    missing_labels,
    parse_labels,
    read_class_names,
)

LABELS = st.text(st.characters(codec="utf-8"), min_size=1).map(label_text).filter(bool)
INTEGERS = st.integers(-(2**63), 2**63 - 1).map(str)
NFD = unicodedata.normalize("NFD", "한강")


def names(text: str, **others: Any) -> dict[str, Any]:
    return {"class_names": text.split(" "), **others}


@cases(
    ("dog Cat 한강 ant dog", {}, "Cat ant dog 한강", {"Cat": 0, "dog": 2, "cow": None}),
    (f"{NFD} 한강", {}, "한강", {NFD: 0, "한강": 0}),
    ("", {}, "", {"cat": None, "": None}),
    # Integers are their own ids if all labels are integers, or if it is said.
    ("10 -2 9 10", {}, "-2 9 10", {"10": 10, "9": 9, "-2": -2, "3": None}),
    ("14950.0 7 7.00", {}, "7 14950", {"14950.0": 14950, "14950": 14950, "7.00": 7}),
    ("14950.0 7 v", {}, "14950.0 7 v", {"14950.0": 0, "14950": None}),
    ("10 9 9.0", {"kind": "text"}, "10 9 9.0", {"9": 1}),
    ("10 007 +9 x", {"kind": "integer"}, "7 9 10", {"007": 7, "+9": 9, "x": None}),
    ("7.0 7 90 -5", {"dense": True}, "-5 7 90", {"-5": 0, "7": 1, "7.0": 1, "90": 2}),
    ("b a", {"dense": True}, "a b", {"a": 0, "b": 1}),
    # Names have the order of their lines, and an integer is the number of a line.
    ("cat dog", names("dog cow cat"), "dog cow cat", {"dog": 0, "cat": 2, "ant": None}),
    ("0 1 2", names("cat dog"), "cat dog", {"0": 0, "1": 1, "2": None, "-1": None}),
    ("1 ??", names("cat dog"), "cat dog", {"1": 1}),
    ("", names(NFD), "한강", {"한강": 0}),
    ("1 cat", names("cat 7 1"), "cat 7 1", {"1": 2, "2": 2, "7": 1}),
    ("1 2.0", names("cat 1 dog"), "cat 1 dog", {"1": 1, "2.0": 2, "cat": 0}),
    ("1 2", names("cat 1 dog", kind="text"), "cat 1 dog", {"cat": 0, "1": 1, "2": None}),
    ("1 2.0", names("a 1 b", kind="integer"), "a 1 b", {"1": 1, "2.0": 2, "a": None}),
    # Names that are integers are those integers.
    ("12", names("5 12"), "5 12", {"12": 12, "1": None}),
    ("7 12.0", names("12 7", dense=True), "12 7", {"12.0": 0, "7": 1, "9": None}),
    # Where ids begin at 1, names may begin with the background.
    ("cat", names("cat dog", first_id=1), "cat dog", {"cat": 1, "dog": 2}),
    ("", names("background cat", first_id=1), "cat", {"cat": 1, "background": None}),
)
def test_ids_of_labels(labels: str, given: Any, lines: str, ids: dict[str, int | None]) -> None:
    vocabulary = Vocabulary.build(labels.split(" "), **given)
    assert vocabulary.lines == tuple(lines.split())
    assert {label: vocabulary.id_of(label) for label in ids} == ids
    by_id = dict(zip(vocabulary.ids, vocabulary.lines, strict=True))
    for label, number in ids.items():
        assert vocabulary.text_of(label) == (label if number is None else by_id[number])


@cases(
    (["3", "0", "5.0"], False, "0\n\n\n3\n\n5\n", 6),
    (["100000", "7", "-5"], True, "-5\n7\n100000\n", 3),
    (["b", "a"], False, "a\nb\n", 2),
    ([str(MAX_LINES - 1)], False, "\n" * (MAX_LINES - 1) + f"{MAX_LINES - 1}\n", MAX_LINES),
    # No line can stand for these ids.
    ([], False, "", None),
    (["3", "-1"], False, "", None),
    (["3", str(MAX_LINES)], False, "", None),
    (["3", str(2**63 - 1)], False, "", None),
    ids=["gaps", "dense", "text", "most", "none", "negative", "large", "largest"],
)
def test_line_n_is_class_n(labels: list[str], dense: bool, text: str, count: int | None) -> None:
    vocabulary = Vocabulary.build(labels, dense=dense)
    assert vocabulary.id_count == count
    assert vocabulary.labels_text() == text


@given(
    st.lists(LABELS, min_size=1)
    | st.lists(INTEGERS | st.integers(0, 3000).map(str), min_size=1, max_size=9),
    st.booleans(),
)
def test_each_class_has_an_id_and_its_line(labels: list[str], dense: bool) -> None:
    vocabulary = Vocabulary.build(labels, dense=dense)
    assert vocabulary == Vocabulary.build(reversed(labels + labels[:1]), dense=dense)
    assert {vocabulary.id_of(label) for label in labels} == {*vocabulary.ids}
    if vocabulary.is_named:
        assert [*vocabulary.ids] == [*range(len(vocabulary.lines))]
    else:
        assert {vocabulary.id_of(label) for label in labels} == {*map(integer_of, labels)}
    if vocabulary.id_count is not None:
        found = parse_labels(vocabulary.labels_text())
        assert found == dict(zip(vocabulary.ids, vocabulary.lines, strict=True))
        assert len(vocabulary.labels_text().split("\n")) == vocabulary.id_count + 1
        assert all(found[vocabulary.id_of(x) or 0] == vocabulary.text_of(x) for x in labels)


@given(st.sets(LABELS | INTEGERS, min_size=1))
@example({"None"})
def test_lines_read_back_as_class_names_give_the_same_ids(labels: set[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    found = read_class_names("\n".join(vocabulary.lines) + "\n")
    if found == vocabulary.lines:  # all but names that look like TF-Slim lines
        again = Vocabulary.build(labels, found)
        assert all(again.id_of(label) == vocabulary.id_of(label) for label in labels)


@cases(
    ("cat\ndog\n", ["cat", "dog"]),
    ("\ufeffcat\r\n\r\n dog ", ["cat", "dog"]),
    ("0:cat\n1:big dog\n", ["cat", "big dog"]),
    ("0: cat\n\n1: a:b\n", ["cat", "a:b"]),
    ("1:cat\n2:dog\n", ["1:cat", "2:dog"]),
    ("0:cat\n2:dog\n", ["0:cat", "2:dog"]),
    ("0:cat\ndog\n", ["0:cat", "dog"]),
    ("0:\n1:\n", ["0:", "1:"]),
    ("big\x0bcat\n", ["big\x0bcat"]),
)
def test_class_names(text: str, lines: list[str]) -> None:
    assert read_class_names(text) == tuple(lines)


@cases(
    ("cat\n\ndog\ncat\n", "--class_names line 4 repeats 'cat' of line 1: keep one"),
    ("0:cat\n1:cat\n", "line 2 repeats 'cat' of line 1"),
    ("e\u0301\n\xe9\n", "line 2 repeats"),
    ("\n \n", "--class_names is empty"),
    ("", "--class_names is empty"),
    ("a\n" + "b" * 5000, "line 2 has 5000 characters, more than 4096"),
    ("a\n" * 600_000, "--class_names has 600000 names, more than 500000"),
)
def test_class_names_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(LabelsError, match=message):
        read_class_names(text)


# A column of labels is integers or text; what is missing is no class, and a mixture is refused.

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


@cases(
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
)
def test_integers(label: str, strict: int | None, lenient: int | None) -> None:
    assert integer_of(label) == strict
    assert integer_of(label, lenient=True) == lenient


def test_labels_of_a_program_and_their_order() -> None:
    given = [7, 7.0, "7.0", None, math.nan, 7.5, True]
    assert [*map(given_label, given)] == ["7", "7", "7.0", "", "", "7.5", "True"]
    found = sorted(["100", "9", "-1", "10", "cat", "Ant", "007"], key=class_order)
    assert found == ["-1", "9", "10", "100", "007", "Ant", "cat"]


def test_missing_cells_are_those_of_pandas_unless_they_are_classes() -> None:
    assert MISSING_LABELS | {""} == set(STR_NA_VALUES)
    assert missing_labels("text") == frozenset()
    assert missing_labels("integer") == missing_labels("auto") == MISSING_LABELS
    assert missing_labels("auto", ["DE", "NA"]) == MISSING_LABELS - {"NA"}


@cases(
    ([], "none"),
    (["", "nan"], "none"),
    (["14950.0", "7.0", "10", "100000", "nan"], "integer"),
    (["1", "2", "cat", "NA"], "text"),
    (["001", "002", "010"], "text"),
    (["1"] * 79 + ["x"] * 21, "text"),
)
def test_kinds(cells: list[str], kind: str) -> None:
    assert decide_kind(count(*cells)) == kind


MIXED = count(*["1"] * 80, *["x", "y", "007", "z", "w"])


@cases(
    (
        count("14950", "7", "abc", "10", "100000"),
        "4 of 5 labels are integers, but 'abc' (a.csv:4) is not: correct or empty these cells, "
        "or give --label_kind text (every label is the name of a class) or --label_kind "
        "integer (rejects images with other labels)",
    ),
    (MIXED, "'x' (a.csv:82), 'y' (a.csv:83), '007' (a.csv:84) and 2 more are not: correct"),
    (count(*["1"] * 9, "x" * 10_000), f"9 of 10 labels are integers, but '{'x' * 40}' (a.csv"),
    ids=["one", "several", "long"],
)
def test_labels_that_are_none_among_integers_are_shown(cells: LabelCells, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        decide_kind(cells)
    assert says in str(caught.value)
    assert [decide_kind(cells, kind) for kind in ("text", "integer")] == ["text", "integer"]


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
