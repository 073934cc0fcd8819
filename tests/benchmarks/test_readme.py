"""The commands of benchmarks/README.md run, as written but without the round that warms up.

CI runs two that are short, of which the second takes what the first leaves; a campaign runs all.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "benchmarks" / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
SHORT = {"floor_parts.py", "photos.py"}


def test_every_benchmark_has_a_command_that_is_run() -> None:
    scripts = {name for name in re.findall(r"python benchmarks/(\w+\.py)", README)}
    assert scripts == {shlex.split(command)[1].split("/")[1] for command in COMMANDS}


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    for command in COMMANDS:
        if not CAMPAIGN and shlex.split(command)[1].removeprefix("benchmarks/") not in SHORT:
            continue
        result = subprocess.run(
            [sys.executable, *shlex.split(command)[1:]],
            cwd=tmp_path,
            env={**os.environ, "BENCHMARK_WARM_UP": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{command}\n{result.stderr}"
        assert result.stdout
