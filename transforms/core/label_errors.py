"""What is wrong with a label file, for the person who gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


class LabelsError(ValueError):
    """A label file that cannot be used: what, which file or flag, and what to do, in one line."""
