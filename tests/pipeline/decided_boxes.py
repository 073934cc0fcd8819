"""Rows of the table of `test_decided.py` about boxes."""

from __future__ import annotations

from tests.pipeline.decided_table import Row

BOXES: list[Row] = []
