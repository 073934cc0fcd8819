"""Totals of elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

Added = TypeVar("Added")


def added_to(totals: Added, elements: Iterable[Any]) -> Added:
    """Totals after each element was added."""
    adding: Any = totals
    for element in elements:
        adding.add(element)
    return totals
