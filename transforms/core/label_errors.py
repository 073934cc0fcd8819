"""Errors in label files."""

from __future__ import annotations


class LabelsError(ValueError):
    """A label file cannot be used; one line: problem, file or flag, and what to do."""
