"""The scripts of the root say what they do without installing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pipeline.commands import ROOT


@pytest.mark.parametrize("script", ["run_local.sh", "run_dataflow.sh", "run_tests.sh"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_installs_nothing(script: str, flag: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in (script, "scripts/environment.sh", "setup.py"):
        shutil.copy2(ROOT / name, tmp_path / name)
    environment = {name: value for name, value in os.environ.items() if name != "VENV"}
    command = [str(tmp_path / script), flag]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    first_line = (ROOT / script).read_text().splitlines()[1]
    assert done.stdout.startswith(first_line.removeprefix("# "))
    assert not (tmp_path / ".venv").exists()


def test_help_of_an_environment_is_that_of_convert(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path)}
    command = [str(ROOT / "run_local.sh"), "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "-m pipeline.convert --help\n"
