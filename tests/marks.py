"""Tables of tests: a test runs for each row, and a few rows that stand for all are quick."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


def cases(*rows: Any, **options: Any) -> Callable[[Test], Test]:
    """Runs a test for each row, whose values are those of its first parameters.

    It is `pytest.mark.parametrize` with the names that are in the signature.

    Args:
        rows: a tuple of values each, a `pytest.param`, or a value for the first parameter alone.
        options: more for `parametrize`, such as `ids`.
    """
    given = [row.values if isinstance(row, type(pytest.param())) else row for row in rows]
    [count] = {len(row) if type(row) is tuple else 1 for row in given}

    def marked(test: Test) -> Test:
        names = [name for name in inspect.signature(test).parameters if name != "self"][:count]
        named = pytest.mark.parametrize(names if count > 1 else names[0], rows, **options)
        decorated: Test = named(test)
        return decorated

    return marked


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
