"""Which cases of a parametrized test are quick: a few stand for all, and CI runs all."""

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Cases for `parametrize`, of which all but the first few are marked `slow`.

    Args:
        cases: a value each, or a tuple of values for a test with several parameters.
        quick: how many of them are not marked.
    """
    marked = []
    for at, case in enumerate(cases):
        values = case if type(case) is tuple else (case,)
        marked.append(pytest.param(*values, marks=[pytest.mark.slow] if at >= quick else []))
    return marked
