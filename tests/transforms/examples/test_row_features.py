"""Cells of rows become values of their features' types, and boxes and labels lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from transforms.core.records import JoinSide, PlannedImage
from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import BoxRules
from transforms.examples.layouts import DETECTION, LAYOUTS, Feature
from transforms.examples.row_features import RowValues, parse_cell, row_requirements
from transforms.images.pixel_options import Frame
from transforms.labels.joins import (
    RowRequirements,
    class_texts,
    parsed_rows,
    row_labels,
    rows_text,
    with_ids,
)

SIDES = ("xmin", "ymin", "xmax", "ymax")


def rows(*each: tuple[list[tuple[int, str]], list[str]]) -> PlannedImage:
    """An image whose rows have these labels and cells; they stand in the lines 2, 3 ..."""
    parsed = [[f"a.csv:{at}", labels, cells] for at, (labels, cells) in enumerate(each, 2)]
    return PlannedImage(0, "k", "k.jpg", 1, 1, "", 0, json.dumps(parsed))


def column(dtype: str = "int64", **changes: Any) -> Feature:
    return Feature("a", "csv.a", dtype)._replace(**changes)


def value(feature: Feature, *cells: str) -> Any:
    image = rows(*[([], [cell]) for cell in cells])
    return RowValues([feature]).of(image, Frame(12, 16))["a"]


def rejected(feature: Feature, *cells: str) -> tuple[str, str]:
    with pytest.raises(RejectedImageError) as caught:
        value(feature, *cells)
    return caught.value.reason.code, caught.value.detail


def test_the_rows_of_an_image_are_decoded_once_for_its_counts_and_its_values() -> None:
    image = rows(([(1, "cat")], ["7"]), ([(0, "dog")], ["7"]))
    parsed_rows.cache_clear()
    assert class_texts(image) == ["cat", "dog"]
    values = RowValues([column()])
    assert values.of(image, Frame(12, 16)) == {"a": 7}
    values.check_cells(image)
    assert class_texts(image) == ["cat", "dog"]
    assert parsed_rows.cache_info().misses == 1


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - set(DETECTION)))
def test_layouts_of_one_label_ask_nothing_of_rows(layout: str) -> None:
    assert row_requirements(LAYOUTS[layout]) == RowRequirements()


def test_detection_asks_for_its_boxes() -> None:
    requirements = row_requirements(
        LAYOUTS["detection"], boxes=BoxRules(("XMin", "YMin", "XMax", "YMax"))
    )
    assert requirements == RowRequirements(("XMin", "YMin", "XMax", "YMax"), True, True, True)


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("-9223372036854775808", "int64", -(2**63)),
        ("+7", "int64", 7),
        ("007", "int64", 7),
        ("False", "int64", 0),
        (".5", "float", 0.5),
        ("-1E-3", "float", -0.001),
        ("한강", "bytes", "한강".encode()),
    ],
)
def test_cells_that_fit(text: str, dtype: str, expected: object) -> None:
    assert parse_cell(text, dtype) == expected


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("9223372036854775808", "int64"),
        ("1.0", "int64"),
        ("1_0", "int64"),
        ("x", "int64"),
        ("nan", "float"),
        ("inf", "float"),
        ("1e39", "float"),
        ("1_0.0", "float"),
        ("1,5", "float"),
    ],
)
def test_cells_that_do_not_fit(text: str, dtype: str) -> None:
    with pytest.raises(ValueError):
        parse_cell(text, dtype)


def test_a_single_value() -> None:
    assert value(column(), "7") == 7
    assert value(column("float"), "7") == 7.0
    assert value(column("bytes"), "7") == b"7"


def test_rows_become_a_list_in_their_order() -> None:
    assert value(column(shape=None), "3", "1", "3") == [3, 1, 3]


def test_a_cell_may_be_a_list() -> None:
    tags = column("bytes", shape=None, separator="|")
    assert value(tags, "x| y |") == [b"x", b"y"]
    assert value(tags, "") == []
    assert rejected(tags, "x", "y")[0] == "row_conflict"


def test_a_default_stands_for_an_empty_cell() -> None:
    assert value(column(default="-1"), "") == -1
    assert value(column(default="-1", shape=None), "5", "") == [5, -1]


def test_what_is_wrong_with_a_cell_names_row_and_column() -> None:
    assert rejected(column(), "x") == ("bad_cell", "a.csv:2, column 'a': 'x' is not of type int64")
    assert rejected(column(shape=None), "1", "") == (
        "bad_cell",
        "a.csv:3, column 'a': the cell is empty; give it a default",
    )
    assert rejected(column(), "1", "2") == (
        "row_conflict",
        "column 'a' is '1' in a.csv:2, but '2' in a.csv:3",
    )


def test_labels_of_objects_and_of_the_image() -> None:
    features = [Feature(s, s, "", None) for s in ("object.ids", "label.ids", "label.texts")]
    cat, dog = (0, "cat"), (1, "dog")
    image = rows(([dog], []), ([cat], []), ([dog], []))
    values = RowValues(features).of(image, Frame(12, 16))
    assert values == {
        "object.ids": [1, 0, 1],
        "label.ids": [1, 0],
        "label.texts": [b"dog", b"cat"],
    }
    assert class_texts(image) == ["dog", "cat"]


def boxes(cells: list[str], orientation: int = 1, units: str = "pixel") -> dict[str, Any]:
    features = [feature for feature in LAYOUTS["detection"] if "bbox" in feature.name]
    rules = BoxRules(SIDES, units=units)
    values = RowValues(features, boxes=rules)
    found = values.of(rows(([], cells)), Frame(12, 16, orientation))
    return {name.rpartition("/")[2]: sides for name, sides in found.items()}


def test_boxes_follow_the_pixels() -> None:
    assert boxes(["4", "3", "8", "12"]) == dict(xmin=[0.25], xmax=[0.5], ymin=[0.25], ymax=[1.0])
    assert boxes(["4", "3", "8", "12"], 3) == dict(xmin=[0.5], xmax=[0.75], ymin=[0.0], ymax=[0.75])


@pytest.mark.parametrize(
    ("cells", "detail"),
    [
        (["4", "3", "80", "12"], "a.csv:2: xmax 80 is outside of the image, 0 to 16 (pixel)"),
        (["4", "", "8", "12"], "a.csv:2, column 'ymin' (ymin): the cell is empty"),
        (["4", "nan", "8", "12"], "a.csv:2: ymin is nan"),
        (["4", "3", "x", "12"], "a.csv:2, column 'xmax' (xmax): 'x' is not a number"),
    ],
)
def test_boxes_that_reject_their_image(cells: list[str], detail: str) -> None:
    with pytest.raises(RejectedImageError) as caught:
        boxes(cells)
    assert (caught.value.reason.code, caught.value.detail) == ("bad_box", detail)


def test_rows_from_the_join_to_the_shard() -> None:
    requirements = RowRequirements(("a",), True, True, True, "|")
    sides = [JoinSide("", 0, 0, "cat| dog", "in/a.csv:2", cells='["1"]')]
    sides += [JoinSide("", 0, 0, "cat", "in/a.csv:10", cells='[""]')]
    text = rows_text(sides, requirements)
    assert row_labels(text) == (2, ["cat", "dog", "cat"])
    assert json.loads(with_ids(text, {"cat": 0, "dog": 1}.get, str.upper)) == [
        ["a.csv:2", [[0, "CAT"], [1, "DOG"]], ["1"]],
        ["a.csv:10", [[0, "CAT"]], [""]],
    ]
    with pytest.raises(RejectedImageError, match=r"'dog' \(a.csv:2\) is not in --class_names"):
        with_ids(text, {"cat": 0}.get, str)
