"""Cells of rows become values of their features' types, and boxes and labels lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from transforms.core.records import JoinSide, PlannedImage
from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import BoxRules
from transforms.examples.layouts import DETECTION, LAYOUTS, Feature
from transforms.examples.row_features import (
    TYPES,
    RowValues,
    parse_cell,
    parse_mark,
    row_requirements,
)
from transforms.images.pixel_options import Frame
from transforms.labels.joins import (
    RowRequirements,
    class_texts,
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


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - set(DETECTION)))
def test_layouts_of_one_label_ask_nothing_of_rows(layout: str) -> None:
    assert row_requirements(LAYOUTS[layout]) == RowRequirements()


def test_detection_asks_for_its_boxes() -> None:
    found = row_requirements(LAYOUTS["detection"], boxes=BoxRules(SIDES))
    assert found == RowRequirements(SIDES, True, True, True)


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
        # None of these fits.
        ("9223372036854775808", "int64", None),
        ("1.0", "int64", None),
        ("1_0", "int64", None),
        ("x", "int64", None),
        ("nan", "float", None),
        ("inf", "float", None),
        ("1e39", "float", None),
        ("1_0.0", "float", None),
        ("1,5", "float", None),
    ],
)
def test_cells(text: str, dtype: str, expected: object) -> None:
    if expected is not None:
        assert parse_cell(text, dtype) == expected
        return
    with pytest.raises(ValueError):
        parse_cell(text, dtype)


@pytest.mark.parametrize("type_", TYPES)
def test_every_type_takes_a_value_of_its_kind(type_: str) -> None:
    assert (
        type(parse_cell("1", type_)) is {"int64": int, "float": float, "bytes": bytes}[TYPES[type_]]
    )


@pytest.mark.parametrize(("text", "mark"), [("1.0", 1), ("yes", 1), ("FALSE", 0), ("-1", 0)])
def test_marks(text: str, mark: int) -> None:
    assert parse_mark(text) == mark
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        parse_mark(f"{text}?")


TAGS = column("bytes", shape=None, separator="|")


@pytest.mark.parametrize(
    ("feature", "cells", "expected"),
    [
        (column(), ["7"], 7),
        (column("float"), ["7"], 7.0),
        (column("bytes"), ["7"], b"7"),
        # Rows become a list in their order, and a cell may be a list.
        (column(shape=None), ["3", "1", "3"], [3, 1, 3]),
        (TAGS, ["x| y |"], [b"x", b"y"]),
        (TAGS, [""], []),
        # A default stands for an empty cell.
        (column(default="-1"), [""], -1),
        (column(shape=None, default="-1"), ["5", ""], [5, -1]),
    ],
)
def test_values(feature: Feature, cells: list[str], expected: object) -> None:
    assert value(feature, *cells) == expected


@pytest.mark.parametrize(
    ("feature", "cells", "reason", "detail"),
    [
        (column(), ["x"], "bad_cell", "a.csv:2, column 'a': 'x' is not of type int64"),
        (
            column(shape=None),
            ["1", ""],
            "bad_cell",
            "a.csv:3, column 'a': the cell is empty; give it a default",
        ),
        (column(), ["1", "2"], "row_conflict", "column 'a' is '1' in a.csv:2, but '2' in a.csv:3"),
        (TAGS, ["x", "y"], "row_conflict", "column 'a' is 'x' in a.csv:2, but 'y' in a.csv:3"),
    ],
)
def test_what_is_wrong_with_a_cell_names_row_and_column(
    feature: Feature, cells: list[str], reason: str, detail: str
) -> None:
    with pytest.raises(RejectedImageError) as caught:
        value(feature, *cells)
    assert (caught.value.reason.code, caught.value.detail) == (reason, detail)


def test_labels_of_objects_and_of_the_image() -> None:
    features = [Feature(s, s, "", None) for s in ("object.ids", "label.ids", "label.texts")]
    cat, dog = (0, "cat"), (1, "dog")
    image = rows(([dog], []), ([cat], []), ([dog], []))
    assert RowValues(features).of(image, Frame(12, 16)) == {
        "object.ids": [1, 0, 1],
        "label.ids": [1, 0],
        "label.texts": [b"dog", b"cat"],
    }
    assert class_texts(image) == ["dog", "cat"]


def test_boxes_follow_the_pixels() -> None:
    features = [feature for feature in LAYOUTS["detection"] if "bbox" in feature.name]
    values = RowValues(features, boxes=BoxRules(SIDES, units="pixel"))
    found = values.of(rows(([], ["4", "3", "8", "12"])), Frame(12, 16, 3))
    sides = {"xmin": [0.5], "ymin": [0.0], "xmax": [0.75], "ymax": [0.75]}
    assert found == {f"image/object/bbox/{side}": each for side, each in sides.items()}


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
