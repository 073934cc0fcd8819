"""What the summary lists of classes."""

from __future__ import annotations

import pytest

from pipeline.summary import _class_lines, _pixel_lines
from transforms.report.report_tables import class_table


def test_classes_that_are_integers_are_listed_as_numbers() -> None:
    splits = {"train": {"classes": {"100": 3, "9": 1}}, "test": {"classes": {"10": 2, "": 1}}}
    names = [line.split()[0] for line in _class_lines(splits)]
    assert names == ["class", "9", "10", "100"]
    assert [row["name"] for row in class_table(splits, 1)["rows"]] == ["9", "10", "100"]


def test_the_first_classes_are_the_smallest_numbers() -> None:
    classes = {str(number): 1 for number in range(1000)}
    names = [line.split()[0] for line in _class_lines({"train": {"classes": classes}})]
    assert names == ["class", *map(str, range(20)), "..."]


@pytest.mark.parametrize(
    ("options", "changes", "says"),
    [
        (
            {},
            {"to_8_bits": 3},
            ["depth    3 images of more than 8 bits were reduced to 8; --depth 16 keeps"],
        ),
        (
            {},
            {"to_8_bits": 1},
            ["depth    1 image of more than 8 bits was reduced to 8; --depth 16 keeps"],
        ),
        ({"transcode": "jpeg"}, {"to_8_bits": 3}, []),
        ({"depth": 16}, {"to_8_bits": 3}, []),
        ({}, {"resized": 3}, []),
    ],
)
def test_bits_that_are_lost_are_reported_with_their_remedy(
    options: dict[str, object], changes: dict[str, int], says: list[str]
) -> None:
    counts, *lines = _pixel_lines(changes, options)
    assert counts.startswith("pixels   ")
    assert [line[: len(part)] for line, part in zip(lines, says, strict=True)] == says
