"""The text files of YOLO as rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.annotations.yolo_text import YOLO_COLUMNS, yolo_rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "45 0.479492 0.688771 0.955609 0.5955\n",
            [["45", "0.479492", "0.688771", "0.955609", "0.5955"]],
        ),
        ("0 .5 .5 1 1\n\n1\t.5 .5 1 1", [["0", ".5", ".5", "1", "1"], ["1", ".5", ".5", "1", "1"]]),
        ("", [[""] * 5]),
        ("\n \n", [[""] * 5]),
        # A triangle, as the segmentation of an object.
        ("7 0 0.5 1 0.25 0.5 1", [["7", "0.5", "0.625", "1.0", "0.75"]]),
        ("7 0 0.5 x 0.25 0.5 1", [["7", *["0 0.5 x 0.25 0.5 1"] * 4]]),
        ("7 0 0.5 nan 0.25 0.5 1", [["7", *["0 0.5 nan 0.25 0.5 1"] * 4]]),
        ("7 0 0.5 1 inf 0.5 1", [["7", *["0 0.5 1 inf 0.5 1"] * 4]]),
        # A confidence, as in predictions.
        ("7 .5 .5 1 1 .9", [["7", ".5", ".5", "1", "1 .9"]]),
        ("7 .5 .5", [["7", ".5", ".5", "", ""]]),
        ("dog", [["dog", "", "", "", ""]]),
    ],
)
def test_lines(text: str, rows: list[list[str]]) -> None:
    found = list(yolo_rows(text.encode(), "labels/train/a.b.txt"))
    assert [(cells, problem) for _, cells, problem in found] == [
        (["a.b", *row], "") for row in rows
    ]


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"\xff\xfe0", "the file is not UTF-8 text"), (b"0\0", "the file holds a NUL character")],
)
def test_files_that_are_refused_reject_their_image(data: bytes, says: str) -> None:
    """An image without any row would be one without objects."""
    assert list(yolo_rows(data, "1.txt")) == [(1, ["1", "0", *[says] * 4], "")]


@given(st.binary())
def test_any_bytes_are_rows_or_one_problem(data: bytes) -> None:
    for _, cells, problem in yolo_rows(data, "1.txt"):
        assert len(cells) == len(YOLO_COLUMNS) and not problem
