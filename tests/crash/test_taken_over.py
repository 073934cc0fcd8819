"""A run on a bucket that sleeps while it publishes, and wakes up after another one took over."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.resolve.config import ConvertConfig
from tests.campaign import CAMPAIGN
from tests.servers.gcs import GcsServer
from tests.transforms.beam import changed, convert, make_config, make_images
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.output_changes import OutputChanges

NAMES = [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(3)]


class Sleeper:
    """Runs something else before one of the changes that a run makes while it publishes.

    Attributes:
        changes: the names of all changes, in their order.
    """

    def __init__(self, at: int | None, meanwhile: Callable[[], object]) -> None:
        self._at = at
        self._meanwhile = meanwhile
        self._is_publishing = False
        self._is_asleep = False
        self.changes: list[str] = []

    def wrap(self, function: Callable[..., Any], end: int) -> Callable[..., Any]:
        def changing(*args: Any, **kwargs: Any) -> Any:
            if self._is_publishing and not self._is_asleep:
                if len(self.changes) == self._at:
                    self._is_asleep = True
                    self._meanwhile()
                    self._is_asleep = False
                self.changes.append(f"{function.__name__} {args[end].rpartition('/')[2]}")
            return function(*args, **kwargs)

        return changing

    def begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def beginning(changes: Any) -> None:
            original(changes)
            self._is_publishing = True

        return beginning


@pytest.fixture
def images(tmp_path: Path) -> Path:
    make_images(tmp_path / "images", NAMES)
    return tmp_path / "images"


@contextlib.contextmanager
def sleeping(at: int | None, meanwhile: Callable[[], object]) -> Iterator[Sleeper]:
    """Makes a run sleep before one of its changes, given by its number."""
    sleeper = Sleeper(at, meanwhile)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GcsStorage, "move", sleeper.wrap(GcsStorage.move, 2))
        patch.setattr(GcsStorage, "remove", sleeper.wrap(GcsStorage.remove, 1))
        patch.setattr(GcsStorage, "write_whole", sleeper.wrap(GcsStorage.write_whole, 1))
        patch.setattr(OutputChanges, "begin", sleeper.begin(OutputChanges.begin))
        yield sleeper


def objects(server: GcsServer, folder: str) -> dict[str, bytes]:
    """A dataset's objects: not what is staged, and not the report."""
    found = {}
    for name in server.names("datasets"):
        below = name.removeprefix(f"{folder}/")
        if below != name and not below.startswith((".staging/", "report.html")):
            found[below] = server.get("datasets", name)
    return found


def runs(images: Path, *, gzip: bool) -> tuple[ConvertConfig, ConvertConfig]:
    """One that sleeps, and one with other options: fewer small files if compressed."""
    sleeper = make_config(images, Path("out"), output="gs://datasets/out", num_shards=2)
    other = changed(
        sleeper, seed=1, num_shards=3, compression="gzip" if gzip else "none", overwrite=True
    )
    return sleeper, other


def wakes_up(server: GcsServer, images: Path, at: int, *, gzip: bool) -> None:
    """Checks that the dataset of the run that took over is whole."""
    server.make_bucket("datasets")
    mine, other = runs(images, gzip=gzip)
    convert(changed(other, output="gs://datasets/fresh"))
    with sleeping(at, lambda: convert(other)) as sleeper:
        # It fails at the next of its changes, or had only a report or staged files to tidy.
        with contextlib.suppress(Exception):
            convert(mine)
    assert at < len(sleeper.changes)
    expected = objects(server, "fresh")
    assert json.loads(expected["manifest.json"])["options"]["seed"] == 1
    assert objects(server, "out") == expected, sleeper.changes[at:]


# Before the first change, a shard's move and its removal, a small file's, and the manifest's. In a
# campaign before each of the changes, with as many and with fewer small files.
MOMENTS = [(0, False), (1, True), (4, True), (9, True), (19, False)]
EVERY_MOMENT = [(at, gzip) for at in range(25) for gzip in (True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(("at", "gzip"), EVERY_MOMENT if CAMPAIGN else MOMENTS)
def test_a_run_that_was_taken_over_changes_nothing(
    gcs: GcsServer, images: Path, at: int, gzip: bool
) -> None:
    wakes_up(gcs, images, at, gzip=gzip)
