"""What is wrong with a label file, for the person who gave it."""

from __future__ import annotations


class LabelsError(ValueError):
    """A label file that cannot be used: what, which file or flag, and what to do, in one line."""
