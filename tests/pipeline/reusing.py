"""Images for tests of `--reuse`, and conversions with a base and without one that are compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import Dataset, Ran, convert, digests, make_dataset
from transforms.images import check
from transforms.records import record_index


def drawn(folder: Path) -> Path:
    """Twelve images of two classes."""
    for number in range(12):
        draw(folder / ("cat", "dog")[number % 2] / f"{number}.jpg", seed=number)
    return folder


def flags_of(images: Path, **flags: Any) -> dict[str, Any]:
    given = {"images": f"{images}/*/*.jpg", "label_from": "directory", "num_shards": 3}
    return {**given, **flags}


def make_older(monkeypatch: pytest.MonkeyPatch, folder: Path, **flags: Any) -> Dataset:
    """A dataset as a version made it that hashed what images look like in another way."""
    with monkeypatch.context() as patch:
        patch.setattr(record_index, "HASHES", {})
        patch.setattr(check, "hash_of_grey", lambda *_: 7)
        return make_dataset(folder, **flags)


def check_same(base: Path | list[Path], folder: Path, **flags: Any) -> Ran:
    """Converts with and without the base, and compares every file."""
    for name in ("fresh", "reused"):
        shutil.rmtree(folder / name, ignore_errors=True)
    fresh = make_dataset(folder / "fresh" / "out", **flags)
    ran = convert(output=folder / "reused" / "out", reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert digests(folder / "reused" / "out") == digests(fresh.folder)
    return ran
