"""What paths say of labels and splits, which classes are known, and what is said of them."""

import posixpath
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.labels.keys import full_uri, listed_key, listed_path, listed_problem, listed_uri
from transforms.labels.label_rows import label_text
from transforms.labels.label_rules import (
    ANY_LABELS,
    NO_FOLDER,
    LabelRules,
    PathRules,
    label_decisions,
    parse_label_regex,
)
from transforms.labels.shards import is_split_name
from transforms.labels.vocabulary import LabelCells, Vocabulary, with_images

# What flags say of labels that the class names lack.

LABELS = st.text(st.characters(codec="utf-8"), min_size=1).map(label_text).filter(bool)
NO_CELLS = LabelCells()
CATEGORIES = LabelRules("text", ("dog", "cat"), first_id=1, known_ids=True, class_ids=(1, 13))


@cases(
    (LabelRules(), "fox ant cat", {"dog": 0, "cat": 1, "ant": 2, "fox": 3}),
    # A number may be that of a class, so it is never the name of a new one.
    (LabelRules(), "1 7 fox", {"dog": 0, "cat": 1, "fox": 2}),
    (LabelRules("integer"), "1 7", {"dog": 0, "cat": 1}),
    (LabelRules("text"), "10 7 ", {"dog": 0, "cat": 1, "7": 2, "10": 3}),
    (LabelRules(first_id=1), "fox", {"dog": 1, "cat": 2, "fox": 3}),
    (LabelRules(class_names=("7", "12")), "9.0 12 x", {"7": 7, "9": 9, "12": 12}),
    (LabelRules("auto", ("12", "7"), True), "90 9 7", {"12": 0, "7": 1, "9": 2, "90": 3}),
    (LabelRules("integer", ("7",)), "007 +09 x", {"7": 7, "9": 9}),
    (LabelRules("text", ("7", "12")), "9 x", {"7": 0, "12": 1, "9": 2, "x": 3}),
    # Ids of categories have gaps, and no label is an id.
    (CATEGORIES, "fox 13 cat", {"dog": 1, "cat": 13, "13": 14, "fox": 15}),
)
def test_new_classes_are_behind(rules: LabelRules, labels: str, ids: dict[str, int]) -> None:
    names = rules.class_names or ("dog", "cat")
    rules = rules._replace(class_names=names, new_classes="append")
    vocabulary = rules.vocabulary(labels.split(" "), "text")
    assert dict(zip(vocabulary.lines, vocabulary.ids, strict=True)) == ids


@given(
    st.lists(LABELS, min_size=1, unique=True),
    st.sets(LABELS),
    st.sampled_from(["auto", "integer", "text"]),
    st.booleans(),
)
def test_no_known_class_moves(names: list[str], labels: set[str], kind: str, dense: bool) -> None:
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


REFUSE = LabelRules(class_names=("dog", "cat"), new_classes="refuse")
SEVERAL = "2 labels are not in --class_names, with the number of images: 'ant' (1), 'fox' (40). "


@cases(
    (REFUSE, {"dog": 3, "1": 1, "": 2}, ""),
    (REFUSE._replace(new_classes=""), {"fox": 1}, ""),
    (REFUSE, {"dog": 3, "fox": 40, "ant": 1, "": 2}, f"{SEVERAL}Correct them, or use"),
    (REFUSE, {"9": 1}, "1 label is not in --class_names, with the number of images: '9' (1). "),
    # An id of a category is no label.
    (CATEGORIES._replace(new_classes="refuse"), {"dog": 3, "1": 1}, "images: '1' (1). Correct"),
    (REFUSE, {f"label-{n}": 1 for n in range(10, 22)}, "'label-19' (1) and 2 more. Correct"),
)
def test_refused_classes_are_named(rules: LabelRules, labels: dict[str, int], says: str) -> None:
    if not says:
        rules.check(labels)
        return
    with pytest.raises(LabelsError, match=re.escape(says)):
        rules.check(labels)


# What the block "Decided" says of labels predicts their ids.

FILE = LabelRules(class_names=("dog", "cat"))
KNOWN = LabelRules("text", ("dog", "cat"), known_ids=True)
KNOWN_IDS = KNOWN._replace(class_ids=(7, 9))
APPEND = LabelRules(class_names=("dog",), new_classes="append")
INTEGER = LabelRules("integer")
MANY = "007 007 +3.0 x b b a z"


def said(labels: str, rules: LabelRules, cells: LabelCells = NO_CELLS) -> list[str]:
    counted = Counter(labels.split())
    cells = with_images(cells, counted)
    vocabulary = rules.vocabulary(counted, rules.decide(cells))
    return ["|".join(each) for each in label_decisions(vocabulary, counted, cells, rules)]


@cases(
    ("7 9.0 9", ANY_LABELS, "labels|integers, 2 classes|all 3 labels are integers"),
    ("b 1 a", ANY_LABELS, "labels|text, 3 classes|'a' is not an integer|--label_kind"),
    ("7", LabelRules("text"), "labels|text, 1 class|given|--label_kind"),
    ("cat 1", FILE, "labels|text, 2 classes|the lines of the file|--class_names"),
    ("cat", KNOWN, "labels|text, 2 classes|the known classes|--class_names"),
    ("1 0", ANY_LABELS, "class ids|0 to 1|the labels themselves|--dense_labels"),
    ("7 90.0", ANY_LABELS, "|7 to 90|the labels themselves; 89 numbers below are unused"),
    ("-3 7", ANY_LABELS, "themselves; labels.txt is empty: it has no lines for such ids"),
    ("7 90", LabelRules(dense=True), "|0 to 1|count the integers in their order"),
    ("7", LabelRules("text"), "class ids|0|count the sorted labels|--class_names"),
    ("cat", FILE, "|0 to 1|count the lines; labels are names or these numbers|--class_names"),
    ("cat", KNOWN, "class ids|0 to 1|count the known classes; labels are names|--class_names"),
    ("dog", KNOWN_IDS, "class ids|7 to 9|those of the known classes|--class_names"),
    (f"3 {MANY}", INTEGER, "|5 of 9|'a', 'b', 'x' and 1 more are not integers: their images"),
    (f"1 {'x' * 50}", INTEGER, f"|1 of 2|{'x' * 40!r} is not an integer: its image is"),
    (MANY, FILE, "unknown labels|8 of 8|'+3.0', '007', 'a' and 3 more are not in the file"),
    ("cow", KNOWN, "'cow' is not in --class_names: its image is rejected|--class_names"),
    ("e d c b b", APPEND, "new classes|4 classes|'b', 'c', 'd' and 1 more: after the known"),
    ("dog", APPEND, "new classes|0 classes|all labels are known|--new_classes"),
    ("dog 7", APPEND, "1 of 2|'7' cannot be a new class: its image is rejected|--class_names"),
)
def test_decisions_about_labels(labels: str, rules: LabelRules, says: str) -> None:
    assert says in "\n".join(said(labels, rules))


MISSING = LabelCells(missing=3, spellings=("", "nan"))


@cases(
    ("", ANY_LABELS, NO_CELLS, ""),
    ("1", ANY_LABELS, NO_CELLS, "labels, class ids"),
    ("", ANY_LABELS, MISSING, "missing labels"),
    # Nothing but labels that reject is said, too.
    ("x x", INTEGER, MISSING, "labels, missing labels, unknown labels"),
    ("e 7", APPEND, MISSING, "labels, class ids, new classes, missing labels, unknown labels"),
)
def test_decided_subjects(labels: str, rules: LabelRules, cells: LabelCells, subjects: str) -> None:
    found = said(labels, rules, cells)
    assert ", ".join(line.partition("|")[0] for line in found) == subjects
    says = (
        "missing labels|3 cells|empty, 'nan': not classes; their images are rejected|--label_kind"
    )
    assert (says in found) == (cells == MISSING)


@cases((["1"], "all are"), (["1", "x"], "'x' is not an integer"))
def test_labels_that_nobody_counted(labels: list[str], because: str) -> None:
    found = label_decisions(Vocabulary.build(labels), {}, NO_CELLS, ANY_LABELS)
    assert found[0].because == because


# Folders and regular expressions give classes and splits of paths.


@cases(
    (False, "roses/1.jpg", "", "", "roses"),
    (False, "a/b/1.jpg", "", "", "b"),
    (False, "1.jpg", "", "", ""),
    (False, "e\u0301/1.jpg", "", "", "\xe9"),
    # A folder of the glob is the class of an image in no other.
    (False, "1.jpg", "cat", "", "cat"),
    (False, "dog/1.jpg", "cat", "", "dog"),
    # The first folder is the split, and no class.
    (True, "train/cat/1.jpg", "", "train", "cat"),
    (True, "train/1.jpg", "train", "train", ""),
    (True, "VALIDATION/1.jpg", "", "validation", ""),
    (True, "holdout/a/1.jpg", "", "holdout", "a"),
    (True, "Unassigned/1.jpg", "", "", ""),
    (True, "1.jpg", "", NO_FOLDER, ""),
)
def test_folders_are_classes_and_splits(
    has_splits: bool, path: str, folder: str, split: str, label: str
) -> None:
    rules = PathRules("directory", has_splits=has_splits)
    assert (rules.split(path), rules.label(path, folder=folder)) == (split, label)
    assert PathRules("directory").split(path) == ""
    assert not is_split_name(NO_FOLDER)


@cases(
    (r"/(\w+)_\d+\.jpg$", "2024/cat_07.jpg", "cat"),
    (r"(?P<site>[^/]+)/(?P<label>[^/]+)/", "oslo/fox/1.jpg", "fox"),
    (r"(한강)", "\u1112\u1161\u11ab\u1100\u1161\u11bc/1.jpg", "한강"),
    ("(\u1112\u1161\u11ab)", "한/1.jpg", "한"),
    (r"(cat)|dog", "dog/1.jpg", ""),
    (r"(cat)", "dog/1.jpg", ""),
    (r"^( +)", "  /1.jpg", ""),
)
def test_the_regular_expression_finds_the_class(regex: str, path: str, label: str) -> None:
    assert PathRules("regex", regex).label(path, folder="other") == label


@cases(
    ("(", "is not a valid regular expression"),
    ("cat", "has no group"),
    ("(a)(b)", "has 2 groups"),
    ("(?P<name>a)(b)", "has 2 groups"),
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


def test_a_key_does_not_depend_on_how_a_row_spells_its_path() -> None:
    keys = {
        listed_key(listed_uri(cell, "/d/list.csv"), kind="path", root="/d")
        for cell in ("a/1.jpg", "./a/1.jpg", " a/1.jpg ", "/d/a/1.jpg", "b/../a/1.jpg")
    }
    assert keys == {"a/1.jpg"}
    assert listed_key("gs://b/1.jpg", kind="path", root="/d") == "gs://b/1.jpg"
    assert listed_key("gs://b/1.jpg", kind="stem", root="/d") == "1"
