"""The Pythons that are declared: everywhere the same, and the dependencies resolve on each."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import cases
from tests.needs import skip_unless

ROOT = Path(__file__).parent.parent

# Beam and TensorFlow Datasets need some packages that have no wheels; of ours, each has one.
OFFLINE = ("error sending request", "failed to lookup address", "Could not connect")


def requirements() -> list[str]:
    """All requirements of setup.py, the tests' too."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("_REQUIRES")
    ]
    assert len(lists) == 4
    return [
        requirement.value
        for each in lists
        for requirement in ast.walk(each)
        if isinstance(requirement, ast.Constant)
    ]


def test_the_versions_are_the_same_everywhere() -> None:
    setup = (ROOT / "setup.py").read_text()
    assert 'python_requires=">=3.11,<3.14"' in setup
    script = (ROOT / "scripts" / "environment.sh").read_text()
    assert "(3, 11) <= sys.version_info < (3, 14)" in script
    named = "Python 3.11, 3.12 or 3.13"
    assert named in script and named in (ROOT / "README.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    assert 'target-version = "py311"' in project and 'python_version = "3.11"' in project


def find_python(folder: Path, **pythons: int) -> subprocess.CompletedProcess[str]:
    """What the script finds where only these commands are; 0 is a supported Python."""
    for name, code in pythons.items():
        path = folder / name.replace("_", ".")
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo Python 3.99.1\nexit {code}\n')
        path.chmod(0o755)
    for tool in ("head", "dirname"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    script = f"set -euo pipefail; . {ROOT}/scripts/environment.sh; find_python"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    given = {"PYTHON": "mine"} if "mine" in pythons else {}
    return subprocess.run(
        [str(shutil.which("bash")), "-c", script],
        env={**variables, "PATH": str(folder), **given},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_supported_python_is_found(tmp_path: Path) -> None:
    found = find_python(tmp_path, python3_11=1, python3_13=0, python3=0)
    assert (found.returncode, found.stdout, found.stderr) == (0, "python3.13\n", "")


@cases(
    ("python3", "no Python 3.11, 3.12 or 3.13 found (python3: Python 3.99.1): install one"),
    ("mine", "PYTHON=mine is not Python 3.11, 3.12 or 3.13 (Python 3.99.1): name another"),
)
def test_no_supported_python_is_one_line(name: str, said: str, tmp_path: Path) -> None:
    found = find_python(tmp_path, **{name: 1})
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(said) and found.stderr.count("\n") == 1


@pytest.mark.fresh
@pytest.mark.parametrize(
    ("python", "resolution"),
    [("3.11", "lowest-direct"), ("3.13", "lowest-direct"), ("3.13", "highest")],
)
def test_the_dependencies_resolve(python: str, resolution: str, tmp_path: Path) -> None:
    """The newest and the oldest allowed versions, all of ours from wheels.

    CI itself installs the newest ones for the oldest Python that it finds.
    """
    wanted = tmp_path / "requirements.in"
    wanted.write_text("\n".join(requirements()))
    ours = [re.split(r"[\[<>=]", each)[0] for each in requirements()]
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", str(wanted)]
    command += ["--python-version", python, "--resolution", resolution]
    command += [word for name in ours for word in ("--only-binary", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    skip_unless(
        not any(text in done.stderr for text in OFFLINE), "the package index is out of reach"
    )
    assert done.returncode == 0, done.stderr
    found = {line.split("==")[0].lower() for line in done.stdout.splitlines() if "==" in line}
    assert {name.lower() for name in ours} <= found
