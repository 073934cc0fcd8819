"""Converts with a dataset of `--reuse` and without one, and compares the results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.pipeline.commands import Ran, convert, digests, make_dataset


def check_same(base: Path | list[Path], folder: Path, **flags: Any) -> Ran:
    """Converts with and without the base, and compares every file."""
    for name in ("fresh", "reused"):
        shutil.rmtree(folder / name, ignore_errors=True)
    fresh = make_dataset(folder / "fresh" / "out", **flags)
    ran = convert(output=folder / "reused" / "out", reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert digests(folder / "reused" / "out") == digests(fresh.folder)
    return ran
