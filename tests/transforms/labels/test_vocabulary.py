"""Labels become class ids: their kind, their ids, and what is said of them."""

from __future__ import annotations

import math
import pickle
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pandas.io.parsers.readers import STR_NA_VALUES

from transforms.core.messages import Decision, LabelsError
from transforms.labels.label_rows import label_text
from transforms.labels.label_rules import LabelRules, label_decisions
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

# Labels become class ids, and `labels.txt` names the ids, one a line.

LABELS = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda label: label_text(label) != ""
)
INTEGERS = st.integers(-(2**63), 2**63 - 1).map(str)


def test_text_labels_get_ids_by_code_point() -> None:
    vocabulary = Vocabulary.build(["dog", "Cat", "한강", "ant", "dog"])
    assert vocabulary.lines == ("Cat", "ant", "dog", "한강")
    assert [vocabulary.id_of(name) for name in vocabulary.lines] == [0, 1, 2, 3]
    assert vocabulary.id_of("cow") is None
    assert vocabulary.text_of("dog") == "dog"
    assert vocabulary.is_named


def test_integer_labels_stay() -> None:
    vocabulary = Vocabulary.build(["10", "-2", "9", "10"])
    assert not vocabulary.is_named
    assert vocabulary.lines == ("-2", "9", "10")
    assert [vocabulary.id_of(label) for label in ("10", "9", "-2", "3")] == [10, 9, -2, None]
    assert vocabulary.text_of("10") == "10"


@pytest.mark.parametrize("odd", ["007", "+1", "-0", "1.5", "1e3", "٣", "9223372036854775808", "x"])
def test_labels_of_which_one_is_no_integer_are_text(odd: str) -> None:
    vocabulary = Vocabulary.build(["1", "10", "2", odd])
    assert vocabulary.is_named
    assert vocabulary.lines == tuple(sorted(["1", "10", "2", odd]))
    assert {vocabulary.id_of(label) for label in vocabulary.lines} == {0, 1, 2, 3}


def test_integral_floats_are_integers_where_all_labels_are() -> None:
    vocabulary = Vocabulary.build(["14950.0", "7", "7.00", "-3.0"])
    assert vocabulary.lines == ("-3", "7", "14950")
    ids = [vocabulary.id_of(label) for label in ("14950.0", "14950", "7.00", "-3.0")]
    assert ids == [14950, 14950, 7, -3]
    assert vocabulary.text_of("14950.0") == "14950"
    text = Vocabulary.build(["14950.0", "7", "v"])
    assert text.lines == ("14950.0", "7", "v")
    assert text.text_of("14950.0") == "14950.0"


def test_the_kind_can_be_given() -> None:
    text = Vocabulary.build(["10", "9", "9.0"], kind="text")
    assert (text.lines, text.id_of("9")) == (("10", "9", "9.0"), 1)
    integers = Vocabulary.build(["10", "007", "+9", "x"], kind="integer")
    assert integers.lines == ("7", "9", "10")
    assert [integers.id_of(label) for label in ("007", "+9", "x")] == [7, 9, None]


def test_dense_ids_count_from_0_in_the_order_of_the_numbers() -> None:
    vocabulary = Vocabulary.build(["100000", "7.0", "7", "14950", "-5"], dense=True)
    assert vocabulary.lines == ("-5", "7", "14950", "100000")
    assert [vocabulary.id_of(label) for label in ("-5", "7", "7.0", "100000")] == [0, 1, 1, 3]
    assert vocabulary.text_of("7.0") == "7"
    assert vocabulary.id_names == vocabulary.lines
    assert vocabulary.labels_text() == "-5\n7\n14950\n100000\n"
    assert Vocabulary.build(["b", "a"], dense=True) == Vocabulary.build(["b", "a"])


def test_dense_ids_of_given_integers_are_their_lines() -> None:
    vocabulary = Vocabulary.build(["7", "12.0", "9"], ["12", "7"], dense=True)
    assert [vocabulary.id_of(label) for label in ("12.0", "7", "9")] == [0, 1, None]
    assert vocabulary.text_of("12.0") == "12"


def test_kinds_of_labels_with_class_names() -> None:
    names = ["cat", "1", "dog"]
    text = Vocabulary.build(["1", "2"], names, kind="text")
    assert [text.id_of(label) for label in ("cat", "1", "2")] == [0, 1, None]
    indices = Vocabulary.build(["1", "2.0", "cat"], names, kind="integer")
    assert [indices.id_of(label) for label in ("1", "2.0", "cat")] == [1, 2, None]
    either = Vocabulary.build(["1", "2.0", "cat"], names)
    assert [either.id_of(label) for label in ("1", "2.0", "cat")] == [1, 2, 0]


def test_line_n_of_labels_txt_is_class_n() -> None:
    vocabulary = Vocabulary.build(["3", "0", "5.0"])
    assert vocabulary.labels_text() == "0\n\n\n3\n\n5\n"
    assert vocabulary.id_count == 6
    assert Vocabulary.build(["b", "a"]).labels_text() == "a\nb\n"
    assert Vocabulary.build([]).labels_text() == ""


@pytest.mark.parametrize("label", ["-1", str(MAX_LINES), str(2**63 - 1)])
def test_ids_that_no_line_can_stand_for_leave_labels_txt_empty(label: str) -> None:
    vocabulary = Vocabulary.build(["3", label])
    assert (vocabulary.labels_text(), vocabulary.id_count) == ("", None)
    assert vocabulary.id_of(label) == int(label)


@given(
    st.one_of(
        st.sets(LABELS, min_size=1), st.sets(st.integers(0, 3000).map(str), min_size=1, max_size=9)
    ),
    st.booleans(),
)
def test_labels_txt_reads_back_as_the_name_of_each_id(labels: set[str], dense: bool) -> None:
    vocabulary = Vocabulary.build(labels, dense=dense)
    names = parse_labels(vocabulary.labels_text())
    if vocabulary.id_count is not None:
        assert names == dict(zip(vocabulary.ids, vocabulary.lines, strict=True))
        assert len(vocabulary.labels_text().split("\n")) == vocabulary.id_count + 1
    for label in labels if vocabulary.id_count else ():
        assert names[vocabulary.id_of(label) or 0] == vocabulary.text_of(label)


def test_no_labels() -> None:
    for labels in ([], [""]):
        vocabulary = Vocabulary.build(labels)
        assert vocabulary.lines == ()
        assert vocabulary.id_of("cat") is None


def test_labels_match_across_unicode_forms() -> None:
    decomposed = unicodedata.normalize("NFD", "한강")
    vocabulary = Vocabulary.build([decomposed, "한강"])
    assert vocabulary.lines == ("한강",)
    assert vocabulary.id_of(decomposed) == vocabulary.id_of("한강") == 0
    assert vocabulary.text_of(decomposed) == "한강"
    assert Vocabulary.build([], [decomposed]).id_of("한강") == 0


def test_class_names_give_the_order() -> None:
    vocabulary = Vocabulary.build(["cat", "dog"], ["dog", "cow", "cat"])
    assert vocabulary.lines == ("dog", "cow", "cat")
    assert [vocabulary.id_of(label) for label in ("dog", "cow", "cat", "ant")] == [0, 1, 2, None]


def test_integer_labels_are_indices_of_class_names() -> None:
    vocabulary = Vocabulary.build(["0", "1", "2"], ["cat", "dog"])
    assert [vocabulary.id_of(label) for label in ("0", "1", "2", "-1")] == [0, 1, None, None]
    assert [vocabulary.text_of(label) for label in ("0", "1", "2")] == ["cat", "dog", "2"]
    assert vocabulary.lines == ("cat", "dog")


def test_where_ids_begin_at_1_class_names_may_begin_with_the_background() -> None:
    for names in (["background", "cat", "dog"], ["cat", "dog"]):
        vocabulary = Vocabulary.build(["cat", "dog"], names, first_id=1)
        assert [vocabulary.id_of(label) for label in ("cat", "dog")] == [1, 2]
        assert vocabulary.id_of("background") is None


def test_one_junk_label_does_not_change_what_class_names_mean() -> None:
    assert Vocabulary.build(["1", "??"], ["cat", "dog"]).id_of("1") == 1


def test_a_class_called_by_a_number_goes_before_an_index() -> None:
    vocabulary = Vocabulary.build(["1", "cat"], ["cat", "7", "1"])
    assert (vocabulary.id_of("1"), vocabulary.text_of("1")) == (2, "1")
    assert (vocabulary.id_of("2"), vocabulary.text_of("2")) == (2, "1")


def test_the_lines_of_integer_labels_serve_as_class_names() -> None:
    first = Vocabulary.build(["5", "12"])
    again = Vocabulary.build(["12"], read_class_names("\n".join(first.lines)))
    assert again.id_of("12") == first.id_of("12") == 12
    assert again.id_of("1") is None


@given(st.lists(LABELS, min_size=1))
def test_vocabulary_is_bijective_whatever_the_order(labels: list[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    assert vocabulary == Vocabulary.build(reversed(labels + labels[:1]))
    distinct = {label_text(label) for label in labels}
    ids = {vocabulary.id_of(label) for label in labels}
    assert None not in ids
    assert len(ids) == len(vocabulary.lines) <= len(distinct)
    assert vocabulary.is_integer or len(ids) == len(distinct)
    if vocabulary.is_named:
        assert ids == set(range(len(distinct)))
        assert all(
            vocabulary.lines[vocabulary.id_of(x) or 0] == vocabulary.text_of(x) for x in labels
        )


@given(st.sets(INTEGERS, min_size=1))
def test_integers_are_their_own_ids(labels: set[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    assert not vocabulary.is_named
    assert {label: vocabulary.id_of(label) for label in labels} == {x: int(x) for x in labels}
    assert [int(line) for line in vocabulary.lines] == sorted(map(int, labels))


@given(st.sets(LABELS.map(label_text), min_size=1))
@example({"None"})
def test_lines_read_back_as_class_names_give_the_same_ids(labels: set[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    names = read_class_names("\n".join(vocabulary.lines) + "\n")
    if names == vocabulary.lines:  # all but names that look like TF-Slim lines
        again = Vocabulary.build(labels, names)
        assert all(again.id_of(label) == vocabulary.id_of(label) for label in labels)


def test_vocabulary_travels_to_workers() -> None:
    vocabulary = Vocabulary.build(["cat", "dog"], ["dog", "cat"])
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat\ndog\n", ("cat", "dog")),
        ("\ufeffcat\r\n\r\n dog ", ("cat", "dog")),
        ("0:cat\n1:big dog\n", ("cat", "big dog")),
        ("0: cat\n\n1: a:b\n", ("cat", "a:b")),
        ("1:cat\n2:dog\n", ("1:cat", "2:dog")),
        ("0:cat\n2:dog\n", ("0:cat", "2:dog")),
        ("0:cat\ndog\n", ("0:cat", "dog")),
        ("0:\n1:\n", ("0:", "1:")),
        ("big\x0bcat\n", ("big\x0bcat",)),
    ],
)
def test_class_names(text: str, names: tuple[str, ...]) -> None:
    assert read_class_names(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat\n\ndog\ncat\n", "--class_names line 4 repeats 'cat' of line 1: keep one"),
        ("0:cat\n1:cat\n", "line 2 repeats 'cat' of line 1"),
        ("e\u0301\n\xe9\n", "line 2 repeats"),
        ("\n \n", "--class_names is empty"),
        ("", "--class_names is empty"),
        ("a\n" * 600_000, "--class_names has 600000 names, more than 500000"),
    ],
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


# What the block "Decided" says of labels predicts their ids.

ODD = (("a.csv", 3, "cat"), ("a.csv", 4, "dog"))


@pytest.mark.parametrize(
    ("labels", "cells", "rules", "kind", "ids"),
    [
        (
            ["7", "100000.0"],
            LabelCells(3),
            LabelRules(),
            "integers, 2 classes|all 3 labels are integers|--label_kind",
            "7 to 100000|the labels themselves; 99999 numbers below are unused|--dense_labels",
        ),
        (
            ["1", "0"],
            LabelCells(2),
            LabelRules(),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "0 to 1|the labels themselves|--dense_labels",
        ),
        (
            ["-3", "7"],
            LabelCells(2),
            LabelRules(),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "-3 to 7|the labels themselves; labels.txt is empty: it has no lines for such ids"
            "|--dense_labels",
        ),
        (
            ["7", "100000"],
            LabelCells(2),
            LabelRules(dense=True),
            "integers, 2 classes|all 2 labels are integers|--label_kind",
            "0 to 1|count the integers in their order|--dense_labels",
        ),
        (
            ["cat", "dog", "1"],
            LabelCells(1, 2, odd=ODD),
            LabelRules(),
            "text, 3 classes|'cat' is not an integer|--label_kind",
            "0 to 2|count the sorted labels|--class_names",
        ),
        (
            ["7"],
            LabelCells(1),
            LabelRules("text"),
            "text, 1 class|given|--label_kind",
            "0|count the sorted labels|--class_names",
        ),
        (
            ["cat", "1"],
            LabelCells(1, 1, odd=ODD),
            LabelRules(class_names=("dog", "cat")),
            "text, 2 classes|the lines of the file|--class_names",
            "0 to 1|count the lines; labels are names or these numbers|--class_names",
        ),
        (
            ["cat"],
            LabelCells(0, 1, odd=ODD),
            LabelRules("text", class_names=("dog", "cat"), known_ids=True),
            "text, 2 classes|the known classes|--class_names",
            "0 to 1|count the known classes; labels are names|--class_names",
        ),
    ],
)
def test_kind_and_ids(
    labels: list[str], cells: LabelCells, rules: LabelRules, kind: str, ids: str
) -> None:
    vocabulary = rules.vocabulary(labels, rules.decide(cells))
    counted = dict.fromkeys(labels, 1)
    assert label_decisions(vocabulary, counted, cells, rules) == [
        Decision("labels", *kind.split("|")),
        Decision("class ids", *ids.split("|")),
    ]


def test_missing_labels_are_counted() -> None:
    cells = LabelCells(2, 0, 3, spellings=("", "nan"))
    assert label_decisions(Vocabulary.build(["1", "2"]), {}, cells, LabelRules())[2:] == [
        Decision(
            "missing labels",
            "3 cells",
            "empty, 'nan': not classes; their images are rejected",
            "--label_kind",
        )
    ]


def test_without_labels_nothing_is_decided() -> None:
    assert label_decisions(Vocabulary.build([]), {}, LabelCells(), LabelRules()) == []


def test_labels_that_nobody_counted() -> None:
    kinds = [
        label_decisions(Vocabulary.build(labels), {}, LabelCells(), LabelRules())[0].because
        for labels in (["1"], ["1", "x"])
    ]
    assert kinds == ["all are", "'x' is not an integer"]


@pytest.mark.parametrize(
    ("rules", "value", "because", "flag"),
    [
        (
            LabelRules("integer"),
            "8 of 12",
            "'a', 'b', 'x' and 1 more are not integers: their images are rejected",
            "--label_kind",
        ),
        (
            LabelRules(class_names=("7", "cat", "b", "a", "dog")),
            "7 of 12",
            "'+3.0', '007', 'x' and 1 more are not in the file: their images are rejected",
            "--class_names",
        ),
        (
            LabelRules("text", class_names=("7", "cat", "b", "a", "dog"), known_ids=True),
            "7 of 12",
            "'+3.0', '007', 'x' and 1 more are not in --class_names: their images are rejected",
            "--class_names",
        ),
    ],
)
def test_labels_without_an_id_are_counted(
    rules: LabelRules, value: str, because: str, flag: str
) -> None:
    labels = {"007": 3, "+3.0": 1, "x": 2, "b": 4, "a": 1, "": 9, "z": 1}
    vocabulary = rules.vocabulary(labels, "integer")
    (*_, unknown) = label_decisions(vocabulary, labels, LabelCells(4, 8), rules)
    assert unknown == Decision("unknown labels", value, because, flag)


def test_one_label_without_an_id() -> None:
    (_, _, unknown) = label_decisions(
        Vocabulary.build(["1"]), {"1": 2, "x" * 50: 1}, LabelCells(2, 1), LabelRules("integer")
    )
    assert unknown.because == f"{'x' * 40!r} is not an integer: its image is rejected"


def test_nothing_but_labels_that_reject_is_said_too() -> None:
    rules = LabelRules("integer")
    found = label_decisions(
        rules.vocabulary(["x"], "integer"), {"x": 3}, LabelCells(0, 3, 1, ODD, ("NA",)), rules
    )
    assert [(each.what, each.value) for each in found] == [
        ("labels", "integers, 0 classes"),
        ("missing labels", "1 cell"),
        ("unknown labels", "3 of 3"),
    ]


def test_missing_labels_are_said_without_any_other() -> None:
    (missing,) = label_decisions(
        Vocabulary.build([]), {}, LabelCells(missing=2, spellings=("NA",)), LabelRules()
    )
    assert (missing.what, missing.value) == ("missing labels", "2 cells")


def test_new_classes_are_named() -> None:
    rules = LabelRules(class_names=("dog",), new_classes="append")
    labels = {"dog": 3, "e": 1, "d": 1, "c": 1, "b": 2, "7": 1}
    *_, new, unknown = label_decisions(
        rules.vocabulary(labels, "text"), labels, LabelCells(1, 8, odd=ODD), rules
    )
    because = "'b', 'c', 'd' and 1 more: after the known ones, sorted"
    assert new == Decision("new classes", "4 classes", because, "--new_classes")
    because = "'7' cannot be a new class: its image is rejected"
    assert unknown == Decision("unknown labels", "1 of 9", because, "--class_names")
    rules = LabelRules("text", ("dog",), class_ids=(7,), known_ids=True)
    kind, ids, unknown = label_decisions(
        rules.vocabulary(labels, "text"), {"e": 1}, LabelCells(1), rules
    )
    assert (kind.because, ids[1:3]) == ("the known classes", ("7", "those of the known classes"))
    assert unknown.because == "'e' is not in --class_names: its image is rejected"
    assert rules.unknown == "is not in --class_names"


def test_known_classes_without_new_ones() -> None:
    rules = LabelRules(class_names=("dog",), new_classes="append")
    known = {"dog": 3}
    *_, new = label_decisions(rules.vocabulary(known, "text"), known, LabelCells(0, 3), rules)
    assert new[1:3] == ("0 classes", "all labels are known")
