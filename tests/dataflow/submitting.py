"""A copy of the tree, from which `run_dataflow.sh` submits, so that no test writes into ours."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = (
    "LICENSE",
    "README.md",
    "deploy",
    "pipeline",
    "pyproject.toml",
    "run_dataflow.sh",
    "scripts",
    "setup.py",
    "transforms",
)

# Seconds; a job that hangs must not hang the tests.
TIMEOUT = 300


class Submitted(NamedTuple):
    """How a command ended that submits a job."""

    code: int
    out: str
    err: str

    def last_line(self) -> str:
        """The end of what it said on stderr."""
        return [line for line in self.err.splitlines() if line.strip()][-1]


def copy_tree(target: Path) -> Path:
    """Copies what a job is made of."""
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    return target


def files_of(folder: Path) -> set[str]:
    """Paths of the files below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def run(command: list[str], environment: Mapping[str, str], cwd: Path) -> Submitted:
    """Runs a command with this environment in addition to what every process needs."""
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "TMPDIR": temporary, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    return Submitted(done.returncode, done.stdout, done.stderr)


def run_dataflow(tree: Path, *words: str, **environment: str) -> Submitted:
    """Runs the script of a tree in the environment that the tests run in."""
    variables = {"VENV": sys.prefix, **environment}
    return run([str(tree / "run_dataflow.sh"), *words], variables, tree)
