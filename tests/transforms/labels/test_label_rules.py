"""What paths say of labels and splits, and which classes are known."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels.keys import full_uri, listed_key, listed_path, listed_problem, listed_uri
from transforms.labels.label_rows import label_text
from transforms.labels.label_rules import NO_FOLDER, LabelRules, PathRules, parse_label_regex
from transforms.labels.shards import is_split_name

# What flags say of labels that the class names lack.

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


# Folders and regular expressions give classes and splits of paths.

FOLDERS = PathRules("directory")


@pytest.mark.parametrize(
    ("path", "label"),
    [("roses/1.jpg", "roses"), ("a/b/1.jpg", "b"), ("1.jpg", ""), ("e\u0301/1.jpg", "\xe9")],
)
def test_the_folder_is_the_class(path: str, label: str) -> None:
    assert FOLDERS.label(path) == label


def test_a_folder_of_the_glob_is_the_class_of_an_image_in_no_other() -> None:
    assert FOLDERS.label("1.jpg", folder="cat") == "cat"
    assert FOLDERS.label("dog/1.jpg", folder="cat") == "dog"


def test_the_folder_of_a_split_is_no_class() -> None:
    rules = PathRules("directory", has_splits=True)
    assert (rules.split("train/cat/1.jpg"), rules.label("train/cat/1.jpg")) == ("train", "cat")
    assert (rules.split("train/1.jpg"), rules.label("train/1.jpg", folder="train")) == ("train", "")


@pytest.mark.parametrize(
    ("path", "split"),
    [("VALIDATION/1.jpg", "validation"), ("holdout/a/1.jpg", "holdout"), ("Unassigned/1.jpg", "")],
)
def test_the_first_folder_is_the_split(path: str, split: str) -> None:
    assert PathRules(has_splits=True).split(path) == split
    assert PathRules().split(path) == ""


def test_an_image_in_no_folder_has_no_split() -> None:
    assert PathRules(has_splits=True).split("1.jpg") == NO_FOLDER
    assert not is_split_name(NO_FOLDER)


@pytest.mark.parametrize(
    ("regex", "path", "label"),
    [
        (r"/(\w+)_\d+\.jpg$", "2024/cat_07.jpg", "cat"),
        (r"(?P<site>[^/]+)/(?P<label>[^/]+)/", "oslo/fox/1.jpg", "fox"),
        (r"(한강)", "\u1112\u1161\u11ab\u1100\u1161\u11bc/1.jpg", "한강"),
        ("(\u1112\u1161\u11ab)", "한/1.jpg", "한"),
        (r"(cat)|dog", "dog/1.jpg", ""),
        (r"(cat)", "dog/1.jpg", ""),
        (r"^( +)", "  /1.jpg", ""),
    ],
)
def test_the_regular_expression_finds_the_class(regex: str, path: str, label: str) -> None:
    assert PathRules("regex", regex).label(path, folder="other") == label


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("(", "is not a valid regular expression"),
        ("cat", "has no group"),
        ("(a)(b)", "has 2 groups"),
        ("(?P<name>a)(b)", "has 2 groups"),
    ],
)
def test_an_expression_without_one_label(regex: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_label_regex(regex)


# Images that rows list are found from the CSV's folder, and have one key each.

ROOTS = ["data", "/home/data", "gs://bucket/data"]
CELLS = ["photos/1.jpg", "./1.jpg", "../1.jpg", "/photos/1.jpg", "gs://other/1.jpg"]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("root", ROOTS)
def test_the_path_and_the_root_are_the_file_again(root: str, cell: str) -> None:
    path = f"{root}/list.csv"
    if problem := listed_problem(cell, path):
        message = "'/photos/1.jpg' is a local file, but its CSV is in a bucket"
        assert (root, problem) == ("gs://bucket/data", message)
        return
    uri = listed_uri(cell, path)
    found = full_uri(root, listed_path(uri, root))
    assert (found if "://" in found else posixpath.normpath(found)) == uri


def test_keys_do_not_depend_on_how_a_row_spells_its_path() -> None:
    keys = {
        listed_key(listed_uri(cell, "/d/list.csv"), kind="path", root="/d")
        for cell in ("a/1.jpg", "./a/1.jpg", " a/1.jpg ", "/d/a/1.jpg", "b/../a/1.jpg")
    }
    assert keys == {"a/1.jpg"}


def test_a_file_that_lies_elsewhere_keeps_its_whole_path() -> None:
    assert listed_key("gs://b/1.jpg", kind="path", root="/d") == "gs://b/1.jpg"
    assert listed_key("gs://b/1.jpg", kind="stem", root="/d") == "1"
