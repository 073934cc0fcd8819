"""What tests of the commands share."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.pipeline.commands import Dataset
from tests.pipeline.right_command import write_inputs
from transforms.storage.local_storage import LocalStorage


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """A command of a test shows the logs of that test alone."""
    loggers = [logging.getLogger(), logging.getLogger("pipeline")]
    before = [(each, each.level, [*each.handlers]) for each in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def right_inputs(tmp_path: Path) -> Path:
    """The files of a command that is right."""
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture
def dataset(made: Dataset, tmp_path: Path) -> Dataset:
    """A copy of the dataset `made` of a module that a test may damage."""
    return Dataset(Path(shutil.copytree(made.folder, tmp_path / "out")))


@pytest.fixture(scope="module")
def files(photos: Path) -> dict[str, bytes]:
    """The photos by their paths."""
    paths = sorted(photos.glob("*/*.jpg"))
    return {path.relative_to(photos).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, running a graph is an error."""

    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("a graph was run")

    monkeypatch.setattr(beam.Pipeline, "run", run)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the originals that are read, and of their masks and further images."""
    found: list[str] = []
    read = LocalStorage.read_listed

    def noted(storage: LocalStorage, uri: str, **given: Any) -> bytes:
        found.append(Path(uri).name)
        return read(storage, uri, **given)

    monkeypatch.setattr(LocalStorage, "read_listed", noted)
    return found
