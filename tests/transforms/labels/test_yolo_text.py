"""The text files of YOLO as rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels.annotations import YOLO_COLUMNS, yaml_class_names, yolo_rows


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
        (["a.b", *row, ""], "") for row in rows
    ]


@pytest.mark.parametrize(
    ("line", "segmentation"),
    [
        ("7 0 0.5 1 .25 5e-1 1", '{"normalized":[[0.0,0.5,1.0,0.25,0.5,1.0]]}'),
        ("7 .5 .5 1 1", ""),
        ("7 0 0.5 nan 0.25 0.5 1", ""),
        ("7" + " 0.125 1" * 110_000, "more than 1048576 characters"),
    ],
    ids=["outline", "box", "no outline", "long outline"],
)
def test_outlines(line: str, segmentation: str) -> None:
    """They change nothing in the box."""
    [(_, *row)], [(_, *plain)] = (
        list(yolo_rows(line.encode(), "1.txt", segmentations=each)) for each in (True, False)
    )
    assert row == [[*plain[0][:-1], segmentation], ""]


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"\xff\xfe0", "the file is not UTF-8 text"), (b"0\0", "the file holds a NUL character")],
)
def test_files_that_are_refused_reject_their_image(data: bytes, says: str) -> None:
    """An image without any row would be one without objects."""
    assert list(yolo_rows(data, "1.txt")) == [(1, ["1", "0", *[says] * 4, ""], "")]


@given(st.binary() | st.text("0123456789.e \n").map(str.encode))
def test_any_bytes_are_rows_or_one_problem(data: bytes) -> None:
    for _, cells, problem in yolo_rows(data, "1.txt", segmentations=True):
        assert len(cells) == len(YOLO_COLUMNS) and not problem


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train: ../train/images\nnc: 2\nnames: ['cat', 'no']\n", ("cat", "no")),
        ("names:\n  - 007\n  - hot dog\n", ("007", "hot dog")),
        ("path: ../coco8\nnames:\n  1: bicycle\n  0: person\n", ("person", "bicycle")),
        ("names: {0: 고양이}", ("고양이",)),
    ],
)
def test_classes_of_a_yaml_file(text: str, names: tuple[str, ...]) -> None:
    assert yaml_class_names(text, "data.yaml") == names


ALIASES = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "data.yaml has no names: write 'names: [cat, dog]'"),
        ("nc: 2", "data.yaml has no names"),
        ("[cat]", "data.yaml has no names"),
        ("names: cat", "data.yaml has no names"),
        ("names: []", "data.yaml has no names"),
        ("names: {}", "data.yaml has no names"),
        ("names: [cat", "data.yaml is not YAML: while parsing"),
        ("[" * 5000, "data.yaml is not YAML: "),
        ("names: {0: cat, 2: dog}", "data.yaml: names has no class 1: number all classes from 0"),
        ("names: {cat: 0}", "data.yaml: names has no class 0"),
        ("names: [cat, '']", "data.yaml: '' in names is not the name of a class"),
        ("names: [cat, [dog]]", "data.yaml: \"['dog']\" in names is not"),
        ('names: ["a\\nb"]', "data.yaml: 'a\\nb' in names is not"),
        # A list of ten lists, each of ten lists, and so on: 10^12 names.
        ("a0: &a0 [x]\n" + "".join(ALIASES) + "names: *a12", "data.yaml: '[["),
    ],
)
def test_yaml_files_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as raised:
        yaml_class_names(text, "data.yaml")
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_too_many_objects_reject_their_image() -> None:
    [(_, cells, problem)] = yolo_rows(b"0 .5 .5 1 1\n" * 50_001, "labels/a.txt")
    assert problem == ""
    assert cells[:3] == ["a", "0", "the file has more than 50000 lines"]
