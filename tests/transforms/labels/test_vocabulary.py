"""Labels become class ids, and `labels.txt` names the ids, one a line."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels.label_rows import label_text
from transforms.labels.vocabulary import MAX_LINES, Vocabulary, parse_labels, read_class_names

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
