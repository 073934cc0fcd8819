"""Columns are found, or the message says which flag to give."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.core.messages import LabelsError
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_rows import NO_COLUMN, CsvColumns, FirstRows

IMAGES = {"1", "2", "3", "a1", "cat_01"}


def resolve(*rows: str, **given: Any) -> CsvColumns:
    first = FirstRows(",", tuple(tuple(row.split(",")) for row in rows))
    asked = {"key": None, "label": None, "is_image_key": IMAGES.__contains__, **given}
    return resolve_columns(first, path="a.csv", **asked)


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
        ("id,column 1", "id", "column 1", (0, 1)),  # called like an unnamed one
        ("id,image,label", "id", None, (0, 2)),
        ("id,class,species", None, "species", (0, 2)),
    ],
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


@pytest.mark.parametrize(
    ("rows", "key", "label", "found"),
    [
        (("1,cat", "2,dog"), None, None, (0, 1)),
        (("cat,1", "dog,2"), None, None, (1, 0)),
        (("1,2", "2,7", "3,7"), None, None, (0, 1)),  # the column with more keys of images
        (("1,cat,x",), None, "2", (0, 1)),
        (("x,y,z",), "3", "1", (2, 0)),
        (("x,y",), "2", None, (1, 0)),
        (("x,y",), "column 2", "column 1", (1, 0)),  # as manifests name them
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
    assert (columns.key.at, columns.label.at) == found


def test_width_without_a_header_is_the_widest_row() -> None:
    assert resolve("1,cat", "2,dog,x", key="1", label="2").width == 3


def test_keys_of_images_tell_two_known_names_apart() -> None:
    columns = resolve("id,name,label", "900,cat_01,cat", "901,a1,dog")
    assert (columns.key.name, columns.label.name) == ("name", "label")


def test_without_labels() -> None:
    columns = resolve("id,width", "1,640", label_required=False)
    assert (columns.key.at, columns.label) == (0, NO_COLUMN)
    assert resolve("image", "1", label_required=False).key.at == 0


@pytest.mark.parametrize(
    ("rows", "key", "label", "message"),
    [
        ((), None, None, "a.csv is empty"),
        (
            ("id,label",),
            "idd",
            None,
            "no column 'idd' .--label_key.; it has 'id', 'label': did you mean 'id'",
        ),
        (("id,lable",), "id", "label", "no column 'label' .--label_column.*did you mean 'lable'"),
        (("id,label",), "zzz", None, "it has 'id', 'label': give one of them to --label_key"),
        (("x,y",), "id", None, "no column 'id'"),
        (
            ("1,cat",),
            "id",
            None,
            "its first line is not a header; .*--label_key N and --label_column N",
        ),
        (("id,label",), "3", None, "no column 3, only 2"),
        (("id,label",), None, "0", "no column 0"),
        (("id,label,id",), "id", None, "has several columns 'id' .1 and 3."),
        (("id,label,label",), None, None, "--label_column"),
        (("id,label,id",), "1", "2", "has several columns 'id' .1 and 3."),
        (("id,label",), "id", "1", "name the same column"),
        (("id,image,label",), None, None, "'id', 'image'.: give --label_key a name or number"),
        (("id,class,species",), None, None, "'class', 'species'.: give --label_column a name"),
        (("id,x,y",), None, None, "'id', 'x', 'y'.: give --label_column"),
        (("x,y,label",), None, None, "cannot tell which column is --label_key"),
        (("1,x,y",), None, None, "give --label_column a name or number"),
        (("1,2",), None, None, "several columns may be --label_key"),
        (("x,y",), None, None, "cannot tell whether its first line is a header .'x', 'y'."),
        (("id",), None, None, "--label_column"),
    ],
)
def test_columns_that_cannot_be_recognised(
    rows: tuple[str, ...], key: str | None, label: str | None, message: str
) -> None:
    with pytest.raises(LabelsError, match=message) as caught:
        resolve(*rows, key=key, label=label)
    assert str(caught.value).startswith("a.csv")
    assert "\n" not in str(caught.value)


def test_without_knowing_the_images() -> None:
    assert resolve("id,label", is_image_key=lambda cell: False).key.at == 0
    with pytest.raises(LabelsError, match="cannot tell whether"):
        resolve("1,cat", is_image_key=lambda cell: False)


def test_long_headers_are_cut_in_messages() -> None:
    header = ",".join(f"column_{at}" for at in range(500))
    with pytest.raises(LabelsError, match="and 480 more") as caught:
        resolve(header, key="missing", label="2")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("key", [None, "id"])
def test_one_column_names_what_may_separate_its_cells(key: str | None) -> None:
    with pytest.raises(LabelsError) as caught:
        resolve("id~label", "a~1", key=key)
    assert str(caught.value) == (
        "a.csv has one column ('id~label'): if '~' separates its cells, give --csv_delimiter '~'"
    )


@pytest.mark.parametrize("rows", [("x", "a"), ("x~y", "a"), ("x~y", "a~b~c"), ("a.b-c_d/e",)])
def test_one_column_that_nothing_separates(rows: tuple[str, ...]) -> None:
    with pytest.raises(LabelsError, match="cannot tell whether its first line is a header"):
        resolve(*rows)
