"""Cells of rows become values of the types of their columns, and boxes and labels lists."""

import json
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.convert_images import RowConverter
from transforms.core.messages import LabelsError
from transforms.core.records import JoinSide, PlannedImage, ShardRow
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.examples.boxes import BoxRules
from transforms.examples.encoder import ExampleEncoder, row_bytes, table_features
from transforms.examples.layouts import DETECTION, LAYOUTS, Feature
from transforms.examples.row_features import (
    DTYPES,
    TYPES,
    RowValues,
    infer_types,
    odd_cells,
    parse_cell,
    parse_mark,
    row_requirements,
)
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import Frame
from transforms.labels.joins import RowRequirements, class_texts, row_labels, rows_text, with_ids
from transforms.labels.label_rows import LabelRow
from transforms.packing import pack, unpack

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


def test_detection_asks_for_its_boxes_and_they_follow_the_pixels() -> None:
    found = row_requirements(LAYOUTS["detection"], boxes=BoxRules(SIDES))
    assert found == RowRequirements(SIDES, True, True, True)
    features = [feature for feature in LAYOUTS["detection"] if "bbox" in feature.name]
    values = RowValues(features, boxes=BoxRules(SIDES, units="pixel"))
    found = values.of(rows(([], ["4", "3", "8", "12"])), Frame(12, 16, 3))
    sides = {"xmin": [0.5], "ymin": [0.0], "xmax": [0.75], "ymax": [0.75]}
    assert found == {f"image/object/bbox/{side}": each for side, each in sides.items()}


@cases(
    ("-9223372036854775808", "int64", -(2**63)),
    ("+7", "int64", 7),
    ("007", "int64", 7),
    ("False", "int64", 0),
    (".5", "float", 0.5),
    ("-1E-3", "float", -0.001),
    ("한강", "bytes", "한강".encode()),
    # None of these fits.
    ("9223372036854775808", "int64", None),
    ("2147483648", "int32", None),
    ("-1", "uint32", None),
    ("1.0", "int64", None),
    ("1_0", "int64", None),
    ("x", "int64", None),
    ("nan", "float", None),
    ("inf", "float", None),
    ("1e39", "float", None),
    ("1_0.0", "float", None),
    ("1,5", "float", None),
)
def test_cells(text: str, dtype: str, expected: object) -> None:
    if expected is not None:
        assert parse_cell(text, dtype) == expected
        return
    with pytest.raises(ValueError):
        parse_cell(text, dtype)


@pytest.mark.parametrize(("text", "mark"), [("1.0", 1), ("yes", 1), ("FALSE", 0), ("-1", 0)])
def test_marks(text: str, mark: int) -> None:
    assert parse_mark(text) == mark
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        parse_mark(f"{text}?")


TAGS = column("bytes", shape=None, separator="|")


@cases(
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
    *((column(default="-1"), [cell], -1) for cell in ("NA", "nan", "null", "None")),
    (column("float", default="0.5"), ["NA"], 0.5),
    # Texts may say NA unless there is a default.
    (column("bytes"), ["NA"], b"NA"),
    (column("bytes", default="unknown"), ["NA"], b"unknown"),
)
def test_values(feature: Feature, cells: list[str], expected: object) -> None:
    assert value(feature, *cells) == expected


@cases(
    (column(), ["x"], "bad_cell", "a.csv:2, column 'a': 'x' is not of type int64"),
    (
        column(),
        ["NA"],
        "bad_cell",
        "a.csv:2, column 'a': 'NA' is a missing value; give it a default",
    ),
    (
        column(shape=None),
        ["1", ""],
        "bad_cell",
        "a.csv:3, column 'a': the cell is empty; give it a default",
    ),
    (column(), ["1", "2"], "row_conflict", "column 'a' is '1' in a.csv:2, but '2' in a.csv:3"),
    (TAGS, ["x", "y"], "row_conflict", "column 'a' is 'x' in a.csv:2, but 'y' in a.csv:3"),
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


# A column has the narrowest type that its values fit, and the cell that decided it is named.

OPEN = Feature("x", "csv.a", "")
IMAGE = Feature("i", "image.bytes", "bytes")
GIVEN = OPEN._replace(dtype="int64", type="uint32")
LISTS = OPEN._replace(shape=None, separator="|")
PAIRS = LISTS._replace(shape=(2,))


def rows_of(*cells: str) -> list[LabelRow]:
    return [LabelRow("", "", line, cells=(cell,)) for line, cell in enumerate(cells, 2)]


def infer(feature: Feature, *cells: str) -> tuple[str, str]:
    """The type of a column, and why it is that."""
    (typed, image), (decision,) = infer_types([feature, IMAGE], rows_of(*cells), ["a"])
    assert (decision.what, decision.flag, image) == ("type of x", "--layout", IMAGE)
    assert decision.value == (feature.type or typed.dtype)
    return typed.dtype, decision.because


def odd(feature: Feature, *cells: str) -> list[str]:
    """The warnings about a column."""
    features, _ = infer_types([feature, IMAGE], rows_of(*cells), ["a"])
    return odd_cells([feature, IMAGE], features, rows_of(*cells), ["a"])


INTEGERS = "all are integers, first '1' (line 2)"
REJECTED = "cells missing: rejected without a default"


@cases(
    (OPEN, ["1", "-7"], "int64", INTEGERS),
    (OPEN, ["1", "2.5"], "float", "'2.5' (line 3) is not an integer"),
    (OPEN, ["1", "2.5", "x", "y"], "bytes", "'x' (line 4) is not a number"),
    (OPEN, ["x"], "bytes", "'x' (line 2) is not a number"),
    (OPEN, ["true", "false"], "int64", "all are integers, first 'true' (line 2)"),
    (OPEN, ["1", "007"], "int64", f"{INTEGERS}; '007' (line 3) loses its zeros"),
    (OPEN, ["", ""], "bytes", f"no cell has a value; 2 of 2 {REJECTED}"),
    (OPEN, ["1", "NA", "nan", ""], "int64", f"{INTEGERS}; 3 of 4 {REJECTED}"),
    (OPEN, ["NA", "x"], "bytes", "'x' (line 3) is not a number"),
    (OPEN, ["NA", "x", ""], "bytes", f"'x' (line 3) is not a number; 1 of 3 {REJECTED}"),
    # A default is a value, and stands for missing cells.
    (OPEN._replace(default="unknown"), ["1"], "bytes", "'unknown' (default) is not a number"),
    (
        OPEN._replace(default="-1"),
        ["3", "NA", ""],
        "int64",
        "all are integers, first '-1' (default); 2 of 3 cells missing: read as '-1'",
    ),
    # Lists.
    (LISTS, ["1|2", "3"], "int64", INTEGERS),
    (LISTS, ["1|x"], "bytes", "'x' (line 2) is not a number"),
    (LISTS, ["1", "NA"], "int64", f"{INTEGERS}; 1 of 2 cells missing: empty lists"),
    (PAIRS, ["1|2", ""], "int64", f"{INTEGERS}; 1 of 2 {REJECTED}"),
    (
        PAIRS,
        ["1|2", "3"],
        "int64",
        f"{INTEGERS}; 1 of 2 cells do not fit, first '3' (line 3): rejected",
    ),
    (PAIRS._replace(separator=""), ["1", "2"], "int64", INTEGERS),
    # A type that is given stays.
    (GIVEN, ["x"], "int64", "given; 1 of 1 cells do not fit, first 'x' (line 2): rejected"),
    (GIVEN, ["1", "NA", "", "007"], "int64", f"given; 2 of 4 {REJECTED}"),
    (
        GIVEN._replace(default="5"),
        ["1", "NA", "", "007"],
        "int64",
        "given; 2 of 4 cells missing: read as '5'",
    ),
    (
        LISTS._replace(dtype="int64"),
        ["1", "NA", "", "007"],
        "int64",
        "given; 2 of 4 cells missing: empty lists",
    ),
    (OPEN._replace(dtype="bytes"), ["1", "NA", ""], "bytes", f"given; 1 of 3 {REJECTED}"),
    (
        OPEN._replace(dtype="bytes", default="none"),
        ["1", "NA", ""],
        "bytes",
        "given; 2 of 3 cells missing: read as 'none'",
    ),
)
def test_types(feature: Feature, cells: list[str], dtype: str, because: str) -> None:
    assert infer(feature, *cells) == (dtype, because)


@cases(
    ("1e39", "bytes", "outside the range of 32-bit floats"),
    ("-inf", "bytes", "not finite"),
    ("Infinity", "bytes", "not finite"),
    ("+nan", "bytes", "not finite"),
    ("1_0", "bytes", "not a number"),
    ("9" * 19, "float", "outside the range of int64"),
    ("9" * 40, "bytes", "outside the range of 32-bit floats"),
    ("2.5", "float", "not an integer"),
)
def test_the_cell_that_decides_is_described_as_it_is(cell: str, dtype: str, reason: str) -> None:
    assert infer(OPEN, "1", cell) == (dtype, f"{cell!r} (line 3) is {reason}")
    # One of thousands is a warning, too; two of them are not one.
    narrower = DTYPES[DTYPES.index(dtype) - 1]
    others = ["1.5" if narrower == "float" else "7"] * 999
    text = (
        f"1 of 1000 cells of column 'a' makes it {dtype}, not {narrower}: {cell!r} (line 2) is "
        f"{reason}; correct it, or give the type in a layout file"
    )
    assert odd(OPEN, cell, *others) == [text]
    assert odd(OPEN, cell, *others[1:]) == odd(OPEN, cell, cell, *others) == []
    assert odd(OPEN._replace(dtype="float"), cell, *others) == []


@pytest.mark.parametrize("type_", sorted(TYPES))
@given(
    st.lists(
        st.sampled_from(["", "NA", "1", "007", "-1", "2.5", "1e40", "x", "true", "9" * 19, "1|2"])
    ),
    st.sampled_from([None, "1"]),
    st.sampled_from([((), ""), (None, "|"), ((2,), "|")]),
)
def test_the_cells_that_are_counted_are_those_that_reject(
    type_: str, cells: list[str], default: str | None, form: tuple[tuple[int, ...] | None, str]
) -> None:
    """This holds for given and for inferred types."""
    shape, separator = form
    default = default if shape != (2,) else default and "1|1"
    given_type = Feature("x", "csv.a", TYPES[type_], shape, default, separator, type=type_)
    for feature in (given_type, given_type._replace(dtype="", type="")):
        (typed,), (decision,) = infer_types([feature], rows_of(*cells), ["a"])
        values = RowValues([typed])
        rejected = 0
        for cell in cells:
            try:
                values.of_row(("a.csv", 2), [cell])
            except RejectedImageError:
                rejected += 1
        counts = re.findall(r"([0-9]+) of [0-9]+ cells[^;]*: rejected", decision.because)
        assert sum(map(int, counts)) == rejected


# Rows as they travel, and what becomes of their cells.

FEATURES = (
    Feature("n", "csv.n", "int64", type="uint32"),
    Feature("x", "csv.x", "float"),
    Feature("t", "csv.t", "bytes", default=""),
    Feature("l", "csv.l", "int64", None, separator=";"),
)


def checked(*cells: str, key: str = "", root: str = "data") -> CheckedImage | Rejection:
    """What a row with these cells becomes, after a journey to a worker."""
    values = RowValues(FEATURES)
    travelled: RowConverter = pickle.loads(pickle.dumps(RowConverter(FEATURES, values, root=root)))
    [result] = travelled.load([ShardRow(5, key, "sub/a.csv", 7, "\0".join(cells))])
    return result


def test_values_of_a_row() -> None:
    row = checked("4294967295", "1e3", "한강", "1;2")
    assert isinstance(row, CheckedImage)
    expected = {"n": 2**32 - 1, "x": 1000.0, "t": "한강".encode(), "l": [1, 2]}
    assert dict(row.values) == expected
    example = ExampleEncoder(FEATURES).encode(row)
    assert "한강".encode() in example
    # The size of a record is about right.
    planned = row_bytes(FEATURES) + len("4294967295\0001e3\0한강\0001;2".encode())
    assert 0.8 < planned / (len(example) + 16) < 1.3


@cases(
    (("-1", "2", "", ""), "a.csv:7, column 'n': '-1' is not of type uint32"),
    (("1", "", "", ""), "a.csv:7, column 'x': the cell is empty; give it a default"),
    (("1", "2", "", "1;b"), "a.csv:7, column 'l': 'b' is not of type int64"),
)
def test_a_cell_that_does_not_fit(cells: tuple[str, ...], detail: str) -> None:
    assert checked(*cells, key="k") == Rejection("row", "bad_cell", detail, "data/sub/a.csv:7", "k")
    nameless = Rejection("row", "bad_cell", detail, "sub/a.csv:7", "sub/a.csv:7")
    assert checked(*cells, root="") == nameless


def test_rows_travel_unchanged() -> None:
    rows = [ShardRow(-5, "", "a.csv", 2, 'a"\n\0한'), ShardRow(2**63 - 1, "key", "a.csv", 3, "")]
    assert list(unpack(pack(rows), ShardRow)) == rows


def test_features_of_a_header() -> None:
    found = table_features(["a", "b", "c"], "b", path="t.csv")
    assert [(each.name, each.source) for each in found] == [("a", "csv.a"), ("c", "csv.c")]


@cases(
    (["a", ""], "column 2 has no name"),
    (["a" * 257], "column 1 has 257 characters in its name: give it 1 to 256"),
    (["a", "a"], "'a' .1 and 2.: rename"),
)
def test_headers_that_name_no_features(header: list[str], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        table_features(header, None, path="t.csv")
