"""A hint is tried before it is given: who follows it has no error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import plan


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images with one name, in a working directory."""
    for at, name in enumerate(["a/1", "b/1"]):
        draw(tmp_path / "in" / f"{name}.jpg", seed=at)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(hint: str, **flags: Any) -> None:
    ran = plan(**flags)
    assert ran.code == 2 and hint in ran.error(), ran.err


def rows(folder: Path, *keys: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(["id,label", *(f"{key},x" for key in keys)]))
    return path


FLAGS = {"images": "in/*/*.jpg", "output": "out"}


def test_of_several_keys_the_one_that_tells_images_apart(twins: Path) -> None:
    labels = rows(twins, "a/1.jpg", "b/1.jpg")
    refused("; try --key path", **FLAGS, labels=labels, key="uri")
    assert "2 to convert" in plan(**FLAGS, labels=labels, key="path").out


def test_twins_are_reported(twins: Path) -> None:
    draw(twins / "in" / "b" / "2.jpg", seed=3)
    hint = "try --key stem, under which 1 images of 3 share a key and are rejected"
    refused(hint, **FLAGS, labels=rows(twins, "1", "2"), key="path")


def test_no_key_fits(twins: Path) -> None:
    refused("check --label_key and --key", **FLAGS, labels=rows(twins, "x"), key="path")


def test_folders(twins: Path) -> None:
    for at, name in enumerate(["one.PNG", "two.PNG"]):
        draw(twins / "in" / "c" / name, seed=at)
    (twins / "tables").mkdir()
    (twins / "empty").mkdir()
    (twins / "tables" / "some.csv").write_text("id,label\n1,a\n")
    refused("it is a folder: try 'in/c/**/*.PNG'", images="in/c", output="out")
    assert plan(images="in/c/**/*.PNG", output="out", label_from="none").code == 0
    refused("give a file; it holds no images", images="tables", output="out")
    refused("it is a folder: try 'tables/some.csv'", **FLAGS, labels="tables")
    refused("give a file; it holds no *.csv", **FLAGS, labels="empty")
    (twins / "tables" / "more.csv").write_text("id,label\n2,a\n")
    refused("it is a folder: try 'tables/*.csv'", **FLAGS, labels="tables")
    refused("there is no such file", **FLAGS, labels="nope.csv")
    refused("check the pattern", **FLAGS, labels="nope*.csv")


@pytest.mark.parametrize(
    ("kind", "line", "hint"),
    [
        ("stem", "1.jpg", "try --key name, under which 1 images of 2 share a key"),
        ("stem", "a/1.jpg", "try --key path"),
        ("path", "in/a/1.jpg", "try --key uri"),
        ("uri", "a/1.jpg", "try --key path"),
        ("name", "x/1.jpg", "write '1.jpg' for 'x/1.jpg'"),
        ("stem", "x/1.jpg", "write '1' for 'x/1.jpg'"),
        ("uri", "./in/a/1.jpg", "write 'in/a/1.jpg' for './in/a/1.jpg'"),
    ],
)
def test_keys_that_are_compared_as_they_are(twins: Path, kind: str, line: str, hint: str) -> None:
    keys = twins / "keys.txt"
    keys.write_text(f"{line}\n")
    refused(f"(--key {kind}); {hint}", **FLAGS, label_from="none", key=kind, keys=keys)
