"""Rows of the table of `test_decided.py` about labels."""

from __future__ import annotations

from tests.pipeline.decided_table import Row

LABELS: list[Row] = []
