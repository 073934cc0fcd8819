"""Folders and regular expressions give classes and splits of paths."""

from __future__ import annotations

import pytest

from transforms.labels.label_rules import NO_FOLDER, PathRules, parse_label_regex
from transforms.labels.shards import is_split_name

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
