"""Rows as they travel, and what becomes of their cells."""

from __future__ import annotations

import pickle

import pytest

from transforms.convert_images import RowConverter
from transforms.core.messages import LabelsError
from transforms.core.records import ShardRow
from transforms.core.rejections import Rejection
from transforms.examples.encoder import ExampleEncoder, row_bytes, table_features
from transforms.examples.layouts import Feature
from transforms.examples.row_features import RowValues
from transforms.images.checked_images import CheckedImage
from transforms.packing import pack, unpack

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


def test_values() -> None:
    row = checked("4294967295", "1e3", "한강", "1;2")
    assert isinstance(row, CheckedImage)
    expected = {"n": 2**32 - 1, "x": 1000.0, "t": "한강".encode(), "l": [1, 2]}
    assert dict(row.values) == expected
    example = ExampleEncoder(FEATURES).encode(row)
    assert "한강".encode() in example
    # The size of a record is about right.
    planned = row_bytes(FEATURES) + len("4294967295\0001e3\0한강\0001;2".encode())
    assert 0.8 < planned / (len(example) + 16) < 1.3


def test_an_empty_cell_is_what_its_default_says() -> None:
    row = checked("1", "2", "", "")
    assert isinstance(row, CheckedImage)
    assert (row.values["t"], row.values["l"]) == (b"", [])


@pytest.mark.parametrize(
    ("cells", "detail"),
    [
        (("-1", "2", "", ""), "a.csv:7, column 'n': '-1' is not of type uint32"),
        (("1", "", "", ""), "a.csv:7, column 'x': the cell is empty; give it a default"),
        (("1", "2", "", "1;b"), "a.csv:7, column 'l': 'b' is not of type int64"),
    ],
)
def test_a_cell_that_does_not_fit(cells: tuple[str, ...], detail: str) -> None:
    assert checked(*cells, key="k") == Rejection("row", "bad_cell", detail, "data/sub/a.csv:7", "k")
    nameless = Rejection("row", "bad_cell", detail, "sub/a.csv:7", "sub/a.csv:7")
    assert checked(*cells, root="") == nameless


def test_rows_travel_unchanged() -> None:
    rows = [
        ShardRow(-5, "", "a.csv", 2, 'a"\n\0한'),
        ShardRow(2**63 - 1, "key", "a.csv", 3, ""),
    ]
    assert list(unpack(pack(rows), ShardRow)) == rows


def test_features_of_a_header() -> None:
    found = table_features(["a", "b", "c"], "b", path="t.csv")
    assert [(each.name, each.source) for each in found] == [("a", "csv.a"), ("c", "csv.c")]


@pytest.mark.parametrize(
    ("header", "says"),
    [(["a", ""], "column 2 has no name"), (["a", "a"], "'a' .1 and 2.: rename")],
)
def test_headers_that_name_no_features(header: list[str], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        table_features(header, None, path="t.csv")
