"""The scripts of the root say what they do without installing anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipeline.command_line import COMMANDS
from tests.marks import cases
from tests.pipeline.commands import ROOT
from tests.report_picture import OF_THE_SAMPLE


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


def test_the_installation_shows_its_progress(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("run_local.sh", "scripts/environment.sh", "setup.py"):
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    installer = '#!/bin/sh\necho "Downloading tensorflow"\n'
    for name in (".venv/bin/python", "uv"):
        (tmp_path / name).write_text(installer)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("VENV", None)
    command = [str(tmp_path / "run_local.sh"), "show", "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    announced, shown = done.stderr.splitlines()
    assert announced.startswith("installing into ")
    assert shown == "Downloading tensorflow"


@cases(
    (["--help"], "-m pipeline.convert --help"),
    (["--images", "a b", "--output", "o"], "-m pipeline.convert --images a b --output o"),
    *(([command, "o", "--flag"], f"-m pipeline.{command} o --flag") for command in COMMANDS),
    (["help", "show"], "-m pipeline.show --help"),
    (["help"], "-m pipeline.convert --help"),
)
def test_flags_are_those_of_convert_and_commands_are_passed_on(
    words: list[str], runs: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path)}
    command = [str(ROOT / "run_local.sh"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{runs}\n"


def test_the_readme_names_the_two_commands_that_do_all_the_set_up() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    for script in ("run_local.sh", "run_tests.sh"):
        [line] = (line for line in lines if line.startswith(f"| `./{script}` |"))
        assert line.count(" minutes |") and (ROOT / script).stat().st_mode & 0o111


def test_the_picture_of_the_readme_is_of_the_run_of_the_sample() -> None:
    assert f" {' '.join(OF_THE_SAMPLE)}\n" in (ROOT / "run_local.sh").read_text()


def test_what_calls_the_scripts_names_those_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    steps = [step["run"].split()[-1] for job in jobs for step in job["steps"] if "run" in step]
    recipes = [
        line.split()[0]
        for line in (ROOT / "justfile").read_text().splitlines()
        if line[:4] == "    "
    ]
    scripts = {*steps, *recipes} - {".venv/bin/python"}
    assert scripts == {"./run_local.sh", "./run_tests.sh", ".ci/run"}
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)
    programs = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert programs == {"ruff", "mypy"}
    for form in (ROOT / ".github/ISSUE_TEMPLATE").iterdir():
        assert {"name", "description", "body"} <= {*yaml.safe_load(form.read_text())}


def test_the_citation_is_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["license"] == "Apache-2.0" and {"title", "authors", "message"} <= {*citation}
