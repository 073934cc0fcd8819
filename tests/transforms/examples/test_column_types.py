"""A column has the narrowest type that its values fit, and the cell that decided it is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.rejections import RejectedImageError
from transforms.examples.layouts import Feature
from transforms.examples.row_features import (
    DTYPES,
    TYPES,
    RowValues,
    cell_values,
    infer_types,
    odd_cells,
)
from transforms.labels.label_rows import LabelRow


def infer(feature: Feature, *cells: str) -> tuple[str, str]:
    """The dtype of a column, and why it is that."""
    rows = [LabelRow("", "", line, cells=("other", cell)) for line, cell in enumerate(cells, 2)]
    (typed,), (decision,) = infer_types([feature], rows, ["b", "a"])
    assert (decision.what, decision.value, decision.flag) == ("type of x", typed.dtype, "--layout")
    return typed.dtype, decision.because


OPEN = Feature("x", "csv.a", "")
IMAGE = Feature("i", "image.bytes", "bytes")


@pytest.mark.parametrize(
    ("cells", "dtype", "because"),
    [
        (["1", "-7"], "int64", "all are integers, first '1' (line 2)"),
        (["1", "2.5"], "float", "'2.5' (line 3) is not an integer"),
        (["1", "2.5", "x", "y"], "bytes", "'x' (line 4) is not a number"),
        (["x"], "bytes", "'x' (line 2) is not a number"),
        (["true", "false"], "int64", "all are integers, first 'true' (line 2)"),
        (
            ["7", "007"],
            "int64",
            "all are integers, first '7' (line 2); '007' (line 3) loses its zeros",
        ),
        (
            ["", ""],
            "bytes",
            "no cell has a value; 2 of 2 cells missing: rejected without a default",
        ),
        (
            ["", "41", "NA", "nan"],
            "int64",
            "all are integers, first '41' (line 3); "
            "3 of 4 cells missing: rejected without a default",
        ),
        (["NA", "x"], "bytes", "'x' (line 3) is not a number"),
        (
            ["NA", "x", ""],
            "bytes",
            "'x' (line 3) is not a number; 1 of 3 cells missing: rejected without a default",
        ),
    ],
)
def test_types_that_are_not_given(cells: list[str], dtype: str, because: str) -> None:
    assert infer(OPEN, *cells) == (dtype, because)


@pytest.mark.parametrize(
    ("cell", "dtype", "reason"),
    [
        ("1e39", "bytes", "outside the range of 32-bit floats"),
        ("-inf", "bytes", "not finite"),
        ("Infinity", "bytes", "not finite"),
        ("+nan", "bytes", "not finite"),
        ("1_0", "bytes", "not a number"),
        ("9" * 19, "float", "outside the range of int64"),
        ("9" * 40, "bytes", "outside the range of 32-bit floats"),
        ("2.5", "float", "not an integer"),
    ],
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


def odd(feature: Feature, *cells: str) -> list[str]:
    """The warnings about a column."""
    rows = [LabelRow("", "", line, cells=(cell,)) for line, cell in enumerate(cells, 2)]
    features, _ = infer_types([feature, IMAGE], rows, ["a"])
    return odd_cells([feature, IMAGE], features, rows, ["a"])


def test_a_default_is_a_value_and_stands_for_missing_cells() -> None:
    because = "'unknown' (default) is not a number"
    assert infer(OPEN._replace(default="unknown"), "1") == ("bytes", because)
    because = "all are integers, first '-1' (default); 2 of 3 cells missing: read as '-1'"
    assert infer(OPEN._replace(default="-1"), "3", "NA", "") == ("int64", because)


def test_types_of_lists() -> None:
    tags = Feature("x", "csv.a", "", None, None, "|")
    assert infer(tags, "1|2", "3")[0] == "int64"
    assert infer(tags, "1|x")[1] == "'x' (line 2) is not a number"
    assert infer(tags, "1", "NA")[1].endswith("1 of 2 cells missing: empty lists")
    pairs = tags._replace(shape=(2,))
    assert infer(pairs, "1|2", "")[1].endswith("1 of 2 cells missing: rejected without a default")
    because = "all are integers, first '1' (line 2); 1 of 2 cells do not fit, first '3' (line 3)"
    assert infer(pairs, "1|2", "3")[1] == f"{because}: rejected"
    rows = tags._replace(separator="", shape=(2,))
    assert infer(rows, "1", "2")[1] == "all are integers, first '1' (line 2)"


def test_a_type_that_is_given_stays() -> None:
    whole = Feature("x", "csv.a", "int64", type="uint32")
    (typed, image), (decision,) = infer_types(
        [whole, Feature("i", "image.bytes", "bytes")], [LabelRow("", "", 2, cells=("x",))], ["a"]
    )
    assert (typed, image.name) == (whole, "i")
    unfit = "given; 1 of 1 cells do not fit, first 'x' (line 2): rejected"
    assert (decision.value, decision.because) == ("uint32", unfit)


@pytest.mark.parametrize(
    ("feature", "because"),
    [
        (Feature("x", "csv.a", "int64"), "given; 2 of 4 cells missing: rejected without a default"),
        (Feature("x", "csv.a", "int64", (), "5"), "given; 2 of 4 cells missing: read as '5'"),
        (Feature("x", "csv.a", "int64", None, None, "|"), "given; 2 of 4 cells missing: empty"),
        (Feature("x", "csv.a", "bytes"), "given; 1 of 4 cells missing: rejected"),
        (Feature("x", "csv.a", "bytes", (), "none"), "given; 2 of 4 cells missing: read as"),
    ],
)
def test_missing_cells_of_a_type_that_is_given_are_counted(feature: Feature, because: str) -> None:
    rows = [
        LabelRow("", "", line, cells=(cell,)) for line, cell in enumerate(["1", "NA", "", "007"], 2)
    ]
    _, (decision,) = infer_types([feature], rows, ["a"])
    assert decision.because.startswith(because)
    assert "fit" not in decision.because


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
        rows = [LabelRow("", "", line, cells=(cell,)) for line, cell in enumerate(cells, 2)]
        (typed,), (decision,) = infer_types([feature], rows, ["a"])
        values = RowValues([typed])
        rejected = 0
        for cell in cells:
            try:
                values.of_row(("a.csv", 2), [cell])
            except RejectedImageError:
                rejected += 1
        counts = re.findall(r"([0-9]+) of [0-9]+ cells[^;]*: rejected", decision.because)
        assert sum(map(int, counts)) == rejected


@pytest.mark.parametrize("cell", ["", "NA", "nan", "null", "None"])
def test_missing_numbers_are_the_default(cell: str) -> None:
    for dtype, default, value in (("int64", "-1", -1), ("float", "0.5", 0.5)):
        feature = Feature("x", "csv.a", dtype, (), default)
        assert cell_values(feature, "a.csv:2", cell) == [value]
        values = RowValues([feature])
        assert values.of_row(("a.csv", 2), [cell]) == {"x": value}


def test_missing_numbers_without_a_default_are_reported() -> None:
    feature = Feature("x", "csv.a", "int64")
    message = {"": "the cell is empty; give it a default", "NA": "'NA' is a missing value; give it"}
    for cell, detail in message.items():
        with pytest.raises(RejectedImageError) as caught:
            cell_values(feature, "a.csv:2", cell)
        assert caught.value.detail.startswith(f"a.csv:2, column 'a': {detail}")


def test_texts_may_say_na_unless_there_is_a_default() -> None:
    for default, value in ((None, b"NA"), ("unknown", b"unknown")):
        feature = Feature("x", "csv.a", "bytes", (), default)
        assert cell_values(feature, "a.csv:2", "NA") == [value]
        values = RowValues([feature])
        assert values.of_row(("a.csv", 2), ["NA"]) == {"x": value}
