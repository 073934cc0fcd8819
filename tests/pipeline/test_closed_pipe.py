"""`command | head`: a reader that has enough ends the command without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.commands import ROOT, make_dataset


def run_unread(module: str, *words: str) -> tuple[int, str]:
    """Runs a command whose output nobody reads; its exit code and what it said on stderr."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", module, *words]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writes)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_show_stops_as_cat_would(photos: Path, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg", label_from="none")
    assert run_unread("pipeline.show", str(dataset.folder)) == (141, "")


@pytest.mark.slow
def test_what_convert_made_is_there(photos: Path, tmp_path: Path) -> None:
    flags = [f"--images={photos}/*/*.jpg", "--label_from=none", f"--output={tmp_path}/out"]
    assert run_unread("pipeline.convert", *flags, "--progress=off") == (141, "")
    assert (tmp_path / "out" / "manifest.json").exists()
