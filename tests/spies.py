"""Notes which files are read, and how much memory is taken."""

import contextlib
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from transforms.storage.interface import Storage


def paths_given(monkeypatch: pytest.MonkeyPatch, storage: type[Storage], method: str) -> list[str]:
    """The paths with which a method of a kind of storage is called from now on."""
    paths: list[str] = []
    original = getattr(storage, method)

    def noted(self: Storage, path: str, *given: Any, **more: Any) -> Any:
        paths.append(path)
        return original(self, path, *given, **more)

    monkeypatch.setattr(storage, method, noted)
    return paths


@contextlib.contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fails if what Python and NumPy hold in the block reaches so many bytes at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
