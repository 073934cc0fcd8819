"""Templates of the report are compiled once, not in each run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest

from transforms.report.page import page_template


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which Python keeps what it compiles."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The templates that are compiled."""
    names: list[Any] = []
    compile_ = jinja2.Environment.compile

    def noted(environment: jinja2.Environment, source: Any, name: Any, filename: Any) -> Any:
        names.append(name)
        return compile_(environment, source, name, filename)

    monkeypatch.setattr(jinja2.Environment, "compile", noted)
    return names


def start() -> None:
    """Loads the template of the page as a new process does."""
    page_template.cache_clear()
    page_template()


def kept(folder: Path) -> list[Path]:
    """Files of templates, also temporary ones; Python may keep a module that is imported late."""
    return [path for path in folder.rglob("*.template*") if path.is_file()]


def test_the_second_process_compiles_nothing(folder: Path, compiled: list[Any]) -> None:
    start()
    assert (compiled, len(kept(folder))) == (["page.html"], 1)
    start()
    assert (compiled, len(kept(folder))) == (["page.html"], 1)


@pytest.mark.parametrize("damage", [b"", b"no code", 20, 40, 1000, None])
def test_a_file_that_is_damaged_or_was_not_finished_is_written_again(
    damage: bytes | int | None, folder: Path, compiled: list[Any]
) -> None:
    start()
    (file,) = kept(folder)
    whole = file.read_bytes()
    if damage is None:
        file.rename(f"{file}.left.tmp")
    else:
        file.write_bytes(whole[:damage] if isinstance(damage, int) else damage)
    start()
    assert (len(compiled), file.read_bytes()) == (2, whole)


def test_another_jinja2_compiles(
    folder: Path, compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.setattr(jinja2, "__version__", "3.99")
    start()
    assert (len(compiled), len(kept(folder))) == (2, 2)


def test_a_folder_that_cannot_be_made_is_no_error(folder: Path, compiled: list[Any]) -> None:
    folder.rmdir()
    folder.write_bytes(b"in the way")
    start()
    assert compiled == ["page.html"]


def test_nothing_is_kept_where_python_keeps_nothing(
    folder: Path, compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    start()
    assert (compiled, kept(folder)) == (["page.html"], [])
