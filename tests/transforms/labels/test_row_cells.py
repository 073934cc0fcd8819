"""Rows of an image travel as one JSON text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import JoinSide
from transforms.labels.joins import RowRequirements, cells_text, rows_text

TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", "],[", "\n", "한"])
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.lists(TEXTS, max_size=3)), max_size=3)


@given(ROWS)
def test_rows_are_compact_json_whatever_their_texts(rows: list[tuple[str, str, list[str]]]) -> None:
    sides = [
        JoinSide("", 0, 0, label.strip(), f"{place}.csv:2", cells=cells_text(cells))
        for place, label, cells in rows
    ]
    expected = [
        [f"{place}.csv:2", [label.strip()] if label.strip() else [], cells]
        for place, label, cells in rows
    ]
    text = rows_text(sides, RowRequirements())
    assert text == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
