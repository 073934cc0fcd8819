"""What `verify` compares between a record and its row of the index."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.records.record_index import COMPARED, content_hash, row_problems

RECORD = b"the whole record"
HELD: dict[str, list[Any]] = {
    "image.bytes": [b"data"],
    "image.key": [b"a"],
    "image.height": [3],
    "label.texts": [b"cat", b"dog"],
}
ROW: dict[str, Any] = {
    **dict.fromkeys(COMPARED),
    "length": len(RECORD),
    "offset": 0,
    "key": "a",
    "height": 3,
    "label": ["cat", "dog"],
    "content": bytes.fromhex(content_hash(b"data")),
}


def test_a_record_that_fits_its_row() -> None:
    assert list(row_problems(ROW, RECORD, 0, HELD)) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("length", 1), ("offset", 1), ("key", "b"), ("height", 4), ("label", ["cat"])),
        ("content", bytes(16)),
    ],
)
def test_each_column_that_differs_is_named(column: str, value: Any) -> None:
    [problem] = row_problems({**ROW, column: value}, RECORD, 0, HELD)
    assert problem.startswith(f"its {column} is ")
