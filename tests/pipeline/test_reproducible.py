"""Same inputs and options, same bytes: whatever the workers and the order of things."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import Dataset, digests, make_dataset
from transforms.storage import local_storage

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {
    "splits": "train=0.7,test=0.3",
    "num_shards": 3,
    "max_rejected": "50%",
    "layout": "slim",
}

Listing = Callable[[list[str]], None]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty images and their rows, with something to reject in every step."""
    folder = tmp_path_factory.mktemp("inputs")
    rows = ["id,label"]
    for number in range(60):
        draw(folder / f"in-{number % 4}" / f"{number}.jpg", seed=number)
        rows.append(f"{number},class {number % 7}")
    (folder / "in-0" / "text.jpg").write_text("moved")
    (folder / "in-1" / "empty.jpg").touch()
    draw(folder / "in-1" / "unlabelled.jpg")
    draw(folder / "in-2" / "3.jpg")  # a second 3
    # These lines are named in rejected.jsonl, so shuffles leave them where they are.
    rows += ["text,a", "empty,b", "gone,a", "59,other", "5", "4,class 4"]
    (folder / "labels.csv").write_text("\n".join(rows))
    return folder


def make(inputs: Path, folder: Path, *words: str, **flags: Any) -> Dataset:
    """Converts the inputs."""
    images = [f"{inputs}/in-0/*.jpg", f"{inputs}/in-[123]/*.jpg"]
    return make_dataset(
        folder, *words, images=images, labels=inputs / "labels.csv", **{**FLAGS, **flags}
    )


@pytest.fixture(scope="module")
def expected(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digest of every file of the dataset."""
    dataset = make(inputs, tmp_path_factory.mktemp("out") / "first")
    assert len(dataset.shards()) == 6
    assert {line["reason"] for line in dataset.rejected} == {
        "duplicate_key",
        "empty_file",
        "label_conflict",
        "malformed_row",
        "no_label",
        "not_an_image",
        "row_without_image",
    }
    return digests(dataset.folder)


THREADS = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]


@pytest.mark.parametrize("words", [THREADS, ["--workers=2"]], ids=["threads", "processes"])
def test_two_workers(
    words: list[str], inputs: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    assert digests(make(inputs, tmp_path / "out", *words).folder) == expected


@pytest.mark.parametrize("arrange", [list.reverse, random.Random(1).shuffle])
def test_any_order_of_the_listing(
    arrange: Listing,
    inputs: Path,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = local_storage._entries
    arranged = 0

    def entries(folder: str) -> Iterator[os.DirEntry[str]]:
        nonlocal arranged
        found = {entry.name: entry for entry in original(folder)}
        names = sorted(found)
        arrange(names)
        arranged += len(names)
        return iter([found[name] for name in names])

    monkeypatch.setattr(local_storage, "_entries", entries)
    assert digests(make(inputs, tmp_path / "out").folder) == expected
    assert arranged >= 64


def test_any_order_of_the_rows(inputs: Path, expected: dict[str, str], tmp_path: Path) -> None:
    lines = (inputs / "labels.csv").read_text().splitlines()
    named = {line for line in lines if line.split(",")[0] in ("59", "3")}
    moved = [at for at in range(1, 61) if lines[at] not in named]
    contents = [lines[at] for at in moved]
    random.Random(2).shuffle(contents)
    for at, content in zip(moved, contents, strict=True):
        lines[at] = content
    assert lines != (inputs / "labels.csv").read_text().splitlines()
    kept = shutil.copy2(inputs / "labels.csv", tmp_path / "kept.csv")
    try:
        (inputs / "labels.csv").write_text("\n".join(lines))
        assert digests(make(inputs, tmp_path / "out").folder) == expected
    finally:
        shutil.move(kept, inputs / "labels.csv")


def test_any_order_of_the_globs(inputs: Path, expected: dict[str, str], tmp_path: Path) -> None:
    images = [f"{inputs}/in-[321]/*.jpg", f"{inputs}/in-*/*.jpg"]
    dataset = make_dataset(tmp_path / "out", images=images, labels=inputs / "labels.csv", **FLAGS)
    files = digests(dataset.folder)
    # The manifest names the globs, and so does the report.
    different = {name for name, digest in files.items() if digest != expected[name]}
    assert different == {"manifest.json", "report.html"}
    assert files.keys() == expected.keys()
