"""Notes which files are read."""

from __future__ import annotations

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
