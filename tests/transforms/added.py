"""Totals of elements."""

from collections.abc import Iterable
from typing import Any, TypeVar

from transforms.core.rejections import Rejection, RejectionTotals

Added = TypeVar("Added")


def added_to(totals: Added, elements: Iterable[Any]) -> Added:
    """Totals after each element was added."""
    adding: Any = totals
    for element in elements:
        adding.add(element)
    return totals


def totals_of(rejections: Iterable[Rejection]) -> RejectionTotals:
    """The totals of these rejections."""
    return added_to(RejectionTotals(), rejections)
