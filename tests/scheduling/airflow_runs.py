"""Runs the DAGs of `examples/airflow` with a real Airflow, which has an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.needs import skip_unless
from tests.pipeline.commands import ROOT
from tests.servers.gcs import CLOSED_PORT, HOST

DAGS = ROOT / "examples" / "airflow"
SCRIPT = ROOT / "scripts" / "airflow_environment.sh"
PAUSE = '"retry_delay": timedelta(minutes=5)'

# Seconds; a run that hangs must not hang the tests.
TIMEOUT = 600


class Ran(NamedTuple):
    """How `airflow dags test` ended.

    Attributes:
        code: its exit code.
        log: what it wrote, as Airflow shows it to the operator.
    """

    code: int
    log: str

    def tries(self, command: str) -> int:
        """How often a command of the project was started."""
        started = rf"Running command: \['[^']+', '-m', 'pipeline\.{command}'"
        return len(re.findall(started, self.log))


class Airflow(NamedTuple):
    """An installed Airflow.

    Attributes:
        program: `airflow`.
        home: with a new database.
        dags: the DAGs, which wait a second between two tries.
    """

    program: Path
    home: Path
    dags: Path

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """What the program needs, and no way out of this machine."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AIRFLOW_HOME": str(home),
            # Else that of the home in which the configuration was made.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": "google-cloud-platform://",
            "IMAGE_TFRECORDS_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "HTTPS_PROXY": CLOSED_PORT,
            "NO_PROXY": f"{HOST},localhost",
            "NO_GCE_CHECK": "true",
            **more,
        }

    def start(
        self, dag: str, date: str, environment: Mapping[str, str], **params: Any
    ) -> subprocess.Popen[str]:
        """Starts `airflow dags test` with a database of its own."""
        home = Path(str(self.home) + f"-{dag}-{date}-{os.urandom(4).hex()}")
        shutil.copytree(self.home, home)
        return subprocess.Popen(
            [self.program, "dags", "test", dag, date, "--conf", json.dumps(params)],
            env=self.environment(home, **environment),
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, dag: str, date: str, environment: Mapping[str, str], **params: Any) -> Ran:
        """Runs it to its end."""
        with self.start(dag, date, environment, **params) as process:
            return ended(process)

    def value(self, script: str) -> Any:
        """What a Python program that may import the DAGs prints as JSON on its last line."""
        done = subprocess.run(
            [self.program.with_name("python"), "-c", script],
            env=self.environment(self.home, PYTHONPATH=str(self.dags)),
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


def ended(process: subprocess.Popen[str]) -> Ran:
    """Waits for the end of a run."""
    try:
        log = process.communicate(timeout=TIMEOUT)[0]
    finally:
        process.kill()
    return Ran(process.returncode, log)


def install_airflow(folder: Path) -> Airflow:
    """Airflow, installed before or now; `folder` takes the database.

    Skips the test where it cannot be had; in CI that fails.
    """
    made = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if made.returncode:
        message = made.stderr.strip().splitlines()[-1:]
        skip_unless(message != ["the package registry is out of reach"], f"no Airflow: {message}")
        pytest.fail(f"{SCRIPT.name}: {made.stderr}")
    program = Path(made.stdout.strip()) / "bin" / "airflow"
    dags = folder / "dags"
    shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("__pycache__"))
    tasks = dags / "image_tfrecords_tasks.py"
    text = tasks.read_text("utf-8")
    assert text.count(PAUSE) == 1
    tasks.write_text(text.replace(PAUSE, '"retry_delay": timedelta(seconds=1)'), "utf-8")
    airflow = Airflow(program, folder / "home", dags)
    airflow.home.mkdir()
    subprocess.run(
        [program, "db", "migrate"],
        env=airflow.environment(airflow.home),
        cwd=airflow.home,
        check=True,
        capture_output=True,
    )
    return airflow


def kill_converter(output: str) -> None:
    """Kills the process that Airflow started to convert into a folder, as the kernel would."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    found = {
        int(pid): int(parent)
        for pid, parent, command in rows
        if " -m pipeline.convert " in command and f"--output={output} " in command
    }
    # Its child, which has the same command line, ends with it.
    (first,) = (pid for pid, parent in found.items() if parent not in found)
    os.kill(first, signal.SIGKILL)
