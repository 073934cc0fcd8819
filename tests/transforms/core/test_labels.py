"""Columns are found or asked for, and labels get the same ids in any order."""

from __future__ import annotations

import pickle
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.csv_lines import LabelsError
from transforms.core.csv_rows import CsvColumns, FirstRows, label_text
from transforms.core.labels import Vocabulary, read_class_names, resolve_columns

IMAGES = {"1", "2", "3", "a1", "cat_01"}
LABELS = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda label: label_text(label) != ""
)
INTEGERS = st.integers(-(2**63), 2**63 - 1).map(str)


def resolve(
    *rows: str,
    key: str | None = None,
    label: str | None = None,
    is_image_key: Callable[[str], bool] | None = IMAGES.__contains__,
    label_required: bool = True,
) -> CsvColumns:
    first = FirstRows(",", tuple(tuple(row.split(",")) for row in rows))
    return resolve_columns(
        first,
        key=key,
        label=label,
        is_image_key=is_image_key,
        path="a.csv",
        label_required=label_required,
    )


@pytest.mark.parametrize(
    ("header", "key", "label", "found"),
    [
        ("id,landmark_id", None, None, (0, 1)),
        ("label,x,Image ID", None, None, (2, 0)),
        ("filename,width,height,class", None, None, (0, 3)),
        ("image,kind", None, None, (0, 1)),  # two columns, one known
        ("what,label", None, None, (0, 1)),
        ("image,name", None, "name", (0, 1)),
        ("image,name", "image", None, (0, 1)),
        ("a,b,c", "c", "a", (2, 0)),
        ("A,b,c", "a", "B", (0, 1)),
        ("a, label ,c", "c", None, (2, 1)),
        ("a,b", "a", None, (0, 1)),
        ("a,b", None, "a", (1, 0)),
        ("id,x,y", None, "3", (0, 2)),
        ("id,x,y", "1", "3", (0, 2)),
        ("id,3,x", None, "3", (0, 1)),  # a column that is called 3
        ("id,image,label", "id", None, (0, 2)),
        ("id,class,species", None, "species", (0, 2)),
    ],
)
def test_columns_of_a_header(
    header: str, key: str | None, label: str | None, found: tuple[int, int]
) -> None:
    columns = resolve(header, "v,w,x,y", key=key, label=label)
    assert columns.has_header
    assert (columns.key, columns.label) == found
    names = [name.strip() for name in header.split(",")]
    assert (columns.key_name, columns.label_name) == (names[found[0]], names[found[1]])
    assert columns.width == len(names)


@pytest.mark.parametrize(
    ("rows", "key", "label", "found"),
    [
        (("1,cat", "2,dog"), None, None, (0, 1)),
        (("cat,1", "dog,2"), None, None, (1, 0)),
        (("1,2", "2,7", "3,7"), None, None, (0, 1)),  # the column with more keys of images
        (("1,cat,x",), None, "2", (0, 1)),
        (("x,y,z",), "3", "1", (2, 0)),
        (("x,y",), "2", None, (1, 0)),
        (("x,y",), None, "2", (0, 1)),
        (("2,1",), "1", "2", (0, 1)),  # the cell 1 is not a column called 1
        (("1,label",), "1", "2", (0, 1)),  # a class called label
    ],
)
def test_columns_without_a_header(
    rows: tuple[str, ...], key: str | None, label: str | None, found: tuple[int, int]
) -> None:
    columns = resolve(*rows, key=key, label=label)
    assert not columns.has_header
    assert (columns.key, columns.label) == found


def test_width_without_a_header_is_the_widest_row() -> None:
    assert resolve("1,cat", "2,dog,x", key="1", label="2").width == 3


def test_keys_of_images_tell_two_known_names_apart() -> None:
    columns = resolve("id,name,label", "900,cat_01,cat", "901,a1,dog")
    assert (columns.key_name, columns.label_name) == ("name", "label")


def test_without_labels() -> None:
    columns = resolve("id,width", "1,640", label_required=False)
    assert (columns.key, columns.label, columns.label_name) == (0, None, None)
    assert resolve("image", "1", label_required=False).key == 0


@pytest.mark.parametrize(
    ("rows", "key", "label", "message"),
    [
        ((), None, None, "CSV a.csv is empty"),
        (
            ("id,label",),
            "idd",
            None,
            "no column 'idd' .--label_key. but 'id', 'label': did you mean 'id'",
        ),
        (("id,lable",), "id", "label", "no column 'label' .--label_column.*did you mean 'lable'"),
        (("id,label",), "zzz", None, "but 'id', 'label': give one of them to --label_key"),
        (("x,y",), "id", None, "no column 'id'"),
        (
            ("1,cat",),
            "id",
            None,
            "its first line is no header; .*--label_key N and --label_column N",
        ),
        (("id,label",), "3", None, "no column 3 but 2"),
        (("id,label",), None, "0", "no column 0"),
        (("id,label,id",), "id", None, "calls columns 1 and 3 'id'"),
        (("id,label,label",), None, None, "--label_column"),
        (("id,label,id",), "1", "2", "calls columns 1 and 3 'id'"),
        (("id,label",), "id", "1", "are one column"),
        (("id,image,label",), None, None, "'id', 'image'.: give --label_key a name or number"),
        (("id,class,species",), None, None, "'class', 'species'.: give --label_column a name"),
        (("id,x,y",), None, None, "'id', 'x', 'y'.: give --label_column"),
        (("x,y,label",), None, None, "no column is known to be the one for --label_key"),
        (("1,x,y",), None, None, "give --label_column a name or number"),
        (("1,2",), None, None, "several columns may be the one for --label_key"),
        (("x,y",), None, None, "cannot tell whether its first line is a header .'x', 'y'."),
        (("id",), None, None, "--label_column"),
    ],
)
def test_columns_that_cannot_be_told(
    rows: tuple[str, ...], key: str | None, label: str | None, message: str
) -> None:
    with pytest.raises(LabelsError, match=message) as caught:
        resolve(*rows, key=key, label=label)
    assert str(caught.value).startswith("CSV a.csv")
    assert "\n" not in str(caught.value)


def test_without_knowing_the_images() -> None:
    assert resolve("id,label", is_image_key=None).key == 0
    with pytest.raises(LabelsError, match="cannot tell whether"):
        resolve("1,cat", is_image_key=None)


def test_long_headers_are_cut_in_messages() -> None:
    header = ",".join(f"column_{at}" for at in range(500))
    with pytest.raises(LabelsError, match="and 480 more") as caught:
        resolve(header, key="missing", label="2")
    assert len(str(caught.value)) < 500


def test_text_labels_get_ids_by_code_point() -> None:
    vocabulary = Vocabulary.build(["dog", "Cat", "한강", "ant", "dog"])
    assert vocabulary.lines() == ("Cat", "ant", "dog", "한강")
    assert [vocabulary.id_of(name) for name in vocabulary.lines()] == [0, 1, 2, 3]
    assert vocabulary.id_of("cow") is None
    assert vocabulary.text_of("dog") == "dog"
    assert vocabulary.is_named


def test_integer_labels_stay() -> None:
    vocabulary = Vocabulary.build(["10", "-2", "9", "10"])
    assert not vocabulary.is_named
    assert vocabulary.lines() == ("-2", "9", "10")
    assert [vocabulary.id_of(label) for label in ("10", "9", "-2", "3")] == [10, 9, -2, None]
    assert vocabulary.text_of("10") == "10"


@pytest.mark.parametrize("odd", ["007", "+1", "-0", "1.0", "1e3", "٣", "9223372036854775808", "x"])
def test_one_label_that_is_no_integer_makes_all_text(odd: str) -> None:
    vocabulary = Vocabulary.build(["1", "10", "2", odd])
    assert vocabulary.is_named
    assert vocabulary.lines() == tuple(sorted(["1", "10", "2", odd]))
    assert {vocabulary.id_of(label) for label in vocabulary.lines()} == {0, 1, 2, 3}


def test_no_labels() -> None:
    for labels in ([], [""]):
        vocabulary = Vocabulary.build(labels)
        assert vocabulary.lines() == ()
        assert vocabulary.id_of("cat") is None


def test_labels_match_across_unicode_forms() -> None:
    decomposed = unicodedata.normalize("NFD", "한강")
    vocabulary = Vocabulary.build([decomposed, "한강"])
    assert vocabulary.lines() == ("한강",)
    assert vocabulary.id_of(decomposed) == vocabulary.id_of("한강") == 0
    assert vocabulary.text_of(decomposed) == "한강"
    assert Vocabulary.build([], [decomposed]).id_of("한강") == 0


def test_class_names_give_the_order() -> None:
    vocabulary = Vocabulary.build(["cat", "dog"], ["dog", "cow", "cat"])
    assert vocabulary.lines() == ("dog", "cow", "cat")
    assert [vocabulary.id_of(label) for label in ("dog", "cow", "cat", "ant")] == [0, 1, 2, None]


def test_integer_labels_are_indices_of_class_names() -> None:
    vocabulary = Vocabulary.build(["0", "1", "2"], ["cat", "dog"])
    assert [vocabulary.id_of(label) for label in ("0", "1", "2", "-1")] == [0, 1, None, None]
    assert [vocabulary.text_of(label) for label in ("0", "1", "2")] == ["cat", "dog", "2"]
    assert vocabulary.lines() == ("cat", "dog")


def test_one_junk_label_does_not_change_what_class_names_mean() -> None:
    assert Vocabulary.build(["1", "??"], ["cat", "dog"]).id_of("1") == 1


def test_a_class_called_by_a_number_goes_before_an_index() -> None:
    vocabulary = Vocabulary.build(["1", "cat"], ["cat", "7", "1"])
    assert (vocabulary.id_of("1"), vocabulary.text_of("1")) == (2, "1")
    assert (vocabulary.id_of("2"), vocabulary.text_of("2")) == (2, "1")


def test_the_lines_of_integer_labels_serve_as_class_names() -> None:
    first = Vocabulary.build(["5", "12"])
    again = Vocabulary.build(["12"], read_class_names("\n".join(first.lines())))
    assert again.id_of("12") == first.id_of("12") == 12
    assert again.id_of("1") is None


@given(st.lists(LABELS, min_size=1))
def test_vocabulary_is_bijective_whatever_the_order(labels: list[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    assert vocabulary == Vocabulary.build(reversed(labels + labels[:1]))
    distinct = {label_text(label) for label in labels}
    ids = {vocabulary.id_of(label) for label in labels}
    assert None not in ids
    assert len(ids) == len(distinct) == len(vocabulary.lines())
    if vocabulary.is_named:
        assert ids == set(range(len(distinct)))
        assert all(
            vocabulary.lines()[vocabulary.id_of(x) or 0] == vocabulary.text_of(x) for x in labels
        )


@given(st.sets(INTEGERS, min_size=1))
def test_integers_are_their_own_ids(labels: set[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    assert not vocabulary.is_named
    assert {label: vocabulary.id_of(label) for label in labels} == {x: int(x) for x in labels}
    assert [int(line) for line in vocabulary.lines()] == sorted(map(int, labels))


@given(st.sets(LABELS.map(label_text), min_size=1))
def test_lines_read_back_as_class_names_give_the_same_ids(labels: set[str]) -> None:
    vocabulary = Vocabulary.build(labels)
    names = read_class_names("\n".join(vocabulary.lines()) + "\n")
    if names == vocabulary.lines():  # all but names that look like TF-Slim lines
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
        ("\n \n", "--class_names holds no name"),
        ("", "--class_names holds no name"),
    ],
)
def test_class_names_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(LabelsError, match=message):
        read_class_names(text)
