"""Columns are found, or the message says which flag to give; cells that spell paths otherwise."""

from typing import Any

import pytest

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_options import SplitOptions
from transforms.labels.label_rows import (
    AS_THEY_ARE,
    NO_COLUMN,
    CsvColumns,
    FirstRows,
    KeyCells,
    find_key_cells,
)

IMAGES = {"1", "2", "3", "a1", "cat_01"}


def resolve(*rows: str, **given: Any) -> CsvColumns:
    first = FirstRows(",", tuple(tuple(row.split(",")) for row in rows))
    asked = {"key": None, "label": None, "is_image_key": IMAGES.__contains__, **given}
    return resolve_columns(first, path="a.csv", **asked)


@cases(
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
    ("id,column 1", "id", "column 1", (0, 1)),  # called like an unnamed one
    ("id,image,label", "id", None, (0, 2)),
    ("id,class,species", None, "species", (0, 2)),
)
def test_columns_of_a_header(
    header: str, key: str | None, label: str | None, found: tuple[int, int]
) -> None:
    columns = resolve(header, "v,w,x,y", key=key, label=label)
    assert columns.has_header
    assert (columns.key.at, columns.label.at) == found
    names = [name.strip() for name in header.split(",")]
    assert (columns.key.name, columns.label.name) == (names[found[0]], names[found[1]])
    assert columns.width == len(names)


@cases(
    (["1,cat", "2,dog"], None, None, (0, 1), 2),
    (["cat,1", "dog,2"], None, None, (1, 0), 2),
    (["1,2", "2,7", "3,7"], None, None, (0, 1), 2),  # the column with more keys of images
    (["1,cat,x"], None, "2", (0, 1), 3),
    (["1,cat", "2,dog,x"], "1", "2", (0, 1), 3),  # the widest row
    (["x,y,z"], "3", "1", (2, 0), 3),
    (["x,y"], "2", None, (1, 0), 2),
    (["x,y"], "column 2", "column 1", (1, 0), 2),  # as manifests name them
    (["x,y"], None, "2", (0, 1), 2),
    (["2,1"], "1", "2", (0, 1), 2),  # the cell 1 is not a column called 1
    (["1,label"], "1", "2", (0, 1), 2),  # a class called label
)
def test_columns_without_a_header(
    rows: list[str], key: str | None, label: str | None, found: tuple[int, int], width: int
) -> None:
    columns = resolve(*rows, key=key, label=label)
    assert (columns.has_header, columns.width) == (False, width)
    assert (columns.key.at, columns.label.at) == found


def test_columns_that_the_keys_or_the_flags_tell_apart() -> None:
    columns = resolve("id,name,label", "900,cat_01,cat", "901,a1,dog")
    assert (columns.key.name, columns.label.name) == ("name", "label")
    assert resolve("id,label", is_image_key=lambda cell: False).key.at == 0
    columns = resolve("id,width", "1,640", label_required=False)
    assert (columns.key.at, columns.label) == (0, NO_COLUMN)
    assert resolve("image", "1", label_required=False).key.at == 0
    assert place("id,split", "a,test", label="split", split_by="column:split")[0] == (1, "split")


HEADER = ",".join(f"column_{at}" for at in range(500))
ONE = "a.csv has one column ('id~label'): if '~' separates its cells, give --csv_delimiter '~'$"


@cases(
    ([], None, None, "a.csv is empty"),
    (["id,label"], "idd", None, "no column 'idd' .--label_key.; it has 'id', 'label': did"),
    (["id,lable"], "id", "label", "no column 'label' .--label_column.*did you mean 'lable'"),
    (["id,label"], "zzz", None, "it has 'id', 'label': give one of them to --label_key"),
    (["x,y"], "id", None, "no column 'id'"),
    (["1,cat"], "id", None, "its first line is not a header; .*--label_key N and --label_col"),
    (["id,label"], "3", None, "no column 3, only 2"),
    (["id,label"], None, "0", "no column 0"),
    (["id,label,id"], "id", None, "has several columns 'id' .1 and 3."),
    (["id,label,label"], None, None, "--label_column"),
    (["id,label,id"], "1", "2", "has several columns 'id' .1 and 3."),
    (["id,label"], "id", "1", "name the same column"),
    (["id,image,label"], None, None, "'id', 'image'.: give --label_key a name or number"),
    (["id,class,species"], None, None, "'class', 'species'.: give --label_column a name"),
    (["id,x,y"], None, None, "'id', 'x', 'y'.: give --label_column"),
    (["x,y,label"], None, None, "cannot tell which column is --label_key"),
    (["1,x,y"], None, None, "give --label_column a name or number"),
    (["1,2"], None, None, "several columns may be --label_key"),
    (["x,y"], None, None, "cannot tell whether its first line is a header .'x', 'y'."),
    (["7,cat"], None, None, "cannot tell whether its first line is a header .'7', 'cat'."),
    (["id"], None, None, "--label_column"),
    # Long headers are cut.
    ([HEADER], "missing", "2", "and 480 more"),
    # One column names what may separate its cells.
    (["id~label", "a~1"], None, None, ONE),
    (["id~label", "a~1"], "id", None, ONE),
    *[
        ([*rows], None, None, "cannot tell whether its first line is a header")
        for rows in (("x", "a"), ("x~y", "a"), ("x~y", "a~b~c"), ("a.b-c_d/e",))
    ],
)
def test_columns_unknown(rows: list[str], key: str | None, label: str | None, message: str) -> None:
    with pytest.raises(
        LabelsError, match=message.replace("(", r"\(").replace(")", r"\)")
    ) as caught:
        resolve(*rows, key=key, label=label)
    assert str(caught.value).startswith("a.csv")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


# The columns that decide where an image goes.

ROWS = ("id,label,split,who", "1,cat,train,a", "2,dog,,b")
NONE, SPLIT, WHO = NO_COLUMN[:2], (2, "split"), (3, "who")


def place(*rows: str, key: str | None = "id", label: str | None = "label", **asked: Any) -> Any:
    columns = resolve(*rows, key=key, label=label, splits=SplitOptions(**asked))
    return columns.split[:2], columns.group[:2]


@cases(
    ({}, NONE, NONE),
    ({"split_by": "column"}, SPLIT, NONE),
    ({"split_by": "column:split"}, SPLIT, NONE),
    ({"split_by": "column:3", "group_by": "4"}, SPLIT, WHO),
)
def test_places_are_found_by_name_or_number(asked: dict[str, Any], split: Any, group: Any) -> None:
    assert place(*ROWS, **asked) == (split, group)


@cases(
    (("id,label", "1,cat"), {"split_by": "column"}, "no column 'split': name the one"),
    (ROWS, {"split_by": "column:set"}, "no column 'set'"),
    (ROWS, {"group_by": "5"}, "no column 5, only 4"),
    (ROWS, {"split_by": "column:1"}, "names values such as '1', which cannot be splits"),
    # The only other column is not both the split and the label.
    (
        ("id,split", "a,test"),
        {"split_by": "column:split", "key": None, "label": None},
        "^a.csv has no column of labels, only keys and",
    ),
)
def test_places_that_are_none(rows: tuple[str, ...], asked: dict[str, Any], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        place(*rows, **asked)


# Cells that spell paths otherwise name images where that is beyond doubt.


@cases(
    (["x", "cat/1.jpg"], AS_THEY_ARE),
    (["cat\\1.jpg"], KeyCells(backslashes=True)),
    (["", "/data/cat/9.jpg", "/data/cat/2.jpg"], KeyCells(prefix="/data/")),
    (["photos/cat/2.jpg"], KeyCells(prefix="photos/")),
    (["D:\\photos\\cat\\2.jpg"], KeyCells(True, "D:/photos/")),
    # Each slash could begin a key: this took minutes.
    (["x", "dog/1.jpg", "/" * 1_000_000, "/" * 4_000 + "cat/1.jpg"], None),
    ([], None),
)
def test_rules_of_keys(cells: list[str], rule: KeyCells | None) -> None:
    assert find_key_cells(cells, {"cat/1.jpg", "cat/2.jpg", "1"}.__contains__) == rule


def test_what_the_rule_does_not_fit_stays() -> None:
    rule = KeyCells(True, "D:/p/")
    cells = (" D:\\p\\a\\1.jpg", "b\\1.jpg", "E:/1")
    assert [*map(rule.key, cells)] == ["a/1.jpg", "b/1.jpg", "E:/1"]
    assert str(rule) == "'\\' is '/', without 'D:/p/'" and str(AS_THEY_ARE) == ""
