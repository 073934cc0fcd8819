"""The command that every engine runs, and how it ends."""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.engines import dataset
from tests.engines.servers import environment
from tests.pipeline.commands import ROOT, digests

# Seconds; an engine that hangs must not hang the tests.
TIMEOUT = 900


class Conversion(NamedTuple):
    """How a conversion ended, and what it left."""

    code: int
    err: str
    seconds: float
    files: dict[str, str]


def start(*words: str) -> subprocess.Popen[str]:
    """Starts `convert`."""
    command = [sys.executable, "-m", "pipeline.convert", *words]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def plan(*words: str) -> tuple[str, str]:
    """What `plan` prints, and its errors."""
    command = [sys.executable, "-m", "pipeline.plan", *words]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return ran.stdout, ran.stderr


def convert(inputs: Path, output: Path, *words: str) -> Conversion:
    """Runs `convert` on the dataset with the flags of an engine."""
    return convert_flags(dataset.flags(inputs, output), output, *words)


def convert_flags(flags: list[str], output: Path, *words: str) -> Conversion:
    """Runs `convert` with the flags of a dataset and those of an engine."""
    started = time.monotonic()
    with start(*flags, *words) as process:
        try:
            _, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.terminate()
            _, err = process.communicate()
    return Conversion(process.returncode, err, time.monotonic() - started, digests(output))
