"""Packages that take seconds to import are imported by the first test that uses them.

Every process that collects a test module runs its imports, for one test of it or for none.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Lazy:
    """Stands for an object that is made when the first of its attributes is read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Takes what makes the object."""
        self._make = functools.cache(make)

    def __getattr__(self, name: str) -> Any:
        # What collects tests asks each object of a module for such names.
        if name.startswith(("_", "pytest")):
            raise AttributeError(name)
        return getattr(self._make(), name)


def lazy_module(name: str) -> Any:
    """The module `name`, which is not imported yet."""
    return Lazy(lambda: importlib.import_module(name))


class LazyMapping(Mapping[str, Any]):
    """Stands for a mapping that is made when it is read first."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        """Takes what makes the mapping."""
        self._make = functools.cache(make)

    def __getitem__(self, name: str) -> Any:
        return self._make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())
