"""Cells that spell paths otherwise name images where that is beyond doubt."""

from __future__ import annotations

import pytest

from transforms.labels.label_rows import AS_THEY_ARE, KeyCells, find_key_cells

KEYS = {"cat/1.jpg", "cat/2.jpg", "1"}


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        (["x", "cat/1.jpg"], AS_THEY_ARE),
        (["cat\\1.jpg"], KeyCells(backslashes=True)),
        (["", "/data/cat/9.jpg", "/data/cat/2.jpg"], KeyCells(prefix="/data/")),
        (["photos/cat/2.jpg"], KeyCells(prefix="photos/")),
        (["D:\\photos\\cat\\2.jpg"], KeyCells(True, "D:/photos/")),
        (["x", "dog/1.jpg"], None),
        ([], None),
    ],
)
def test_rules(cells: list[str], rule: KeyCells | None) -> None:
    assert find_key_cells(cells, KEYS.__contains__) == rule


def test_what_the_rule_does_not_fit_stays() -> None:
    rule = KeyCells(True, "D:/p/")
    assert [rule.key(cell) for cell in (" D:\\p\\a\\1.jpg", "b\\1.jpg", "E:/1")] == [
        "a/1.jpg",
        "b/1.jpg",
        "E:/1",
    ]
    assert str(rule) == "'\\' is '/', without 'D:/p/'" and str(AS_THEY_ARE) == ""
