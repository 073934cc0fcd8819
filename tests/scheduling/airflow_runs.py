"""Runs the DAGs of `examples/airflow` with a real Airflow, which has an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

# Runs the program for each line of stdin, and prints its exit code. It is imported once: that takes
# longer than its part of a run.
MANY = """
import json, os, sys, traceback
from airflow.__main__ import main
answers, own = os.fdopen(os.dup(1), "w"), dict(os.environ)
for line in sys.stdin:
    words, environment, log = json.loads(line)
    os.environ.clear()
    os.environ.update(environment | own)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.argv[1:] = words
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    print(int(bool(code)), file=answers, flush=True)
"""


class Ran(NamedTuple):
    """How the program ended.

    Attributes:
        code: 1 if it failed.
        log: what it wrote, as Airflow shows it to the operator.
    """

    code: int
    log: str

    def tries(self, command: str) -> int:
        """How often a command of the project was started."""
        started = rf"Running command: \['[^']+', '-m', 'pipeline\.{command}'"
        return len(re.findall(started, self.log))


class Airflow(NamedTuple):
    """A process of an installed Airflow.

    Attributes:
        process: runs `MANY`.
        log: takes what it writes in a run.
    """

    process: subprocess.Popen[str]
    log: Path

    def command(self, *words: str, **environment: str) -> Ran:
        """Runs `airflow WORDS`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([words, environment, str(self.log)]), file=self.process.stdin, flush=True)
        timer = threading.Timer(TIMEOUT, self.process.kill)
        timer.start()
        code = self.process.stdout.readline()
        timer.cancel()
        log = self.log.read_text("utf-8")
        assert code, log
        return Ran(int(code), log)

    def run(self, dag: str, date: str, environment: Mapping[str, str], **params: Any) -> Ran:
        """Runs `airflow dags test`."""
        return self.command("dags", "test", dag, date, "--conf", json.dumps(params), **environment)


@contextmanager
def start_airflow(folder: Path, settings: Mapping[str, str]) -> Iterator[Airflow]:
    """Airflow, installed before or now; `folder` takes the database.

    Skips the test where it cannot be had; in CI that fails.
    """
    made = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if made.returncode:
        message = made.stderr.strip().splitlines()[-1:]
        skip_unless(message != ["the package registry is out of reach"], f"no Airflow: {message}")
        pytest.fail(f"{SCRIPT.name}: {made.stderr}")
    dags = folder / "dags"
    shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("__pycache__"))
    tasks = dags / "image_tfrecords_tasks.py"
    text = tasks.read_text("utf-8")
    assert text.count(PAUSE) == 1
    tasks.write_text(text.replace(PAUSE, '"retry_delay": timedelta(seconds=1)'), "utf-8")
    # What the program needs, and no way out of this machine.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": "google-cloud-platform://",
        "IMAGE_TFRECORDS_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "HTTPS_PROXY": CLOSED_PORT,
        "NO_PROXY": f"{HOST},localhost",
        "NO_GCE_CHECK": "true",
        **settings,
    }
    with subprocess.Popen(
        [Path(made.stdout.strip()) / "bin" / "python", "-c", MANY],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        airflow = Airflow(process, folder / "log.txt")
        migrated = airflow.command("db", "migrate")
        assert migrated.code == 0, migrated.log
        yield airflow


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
