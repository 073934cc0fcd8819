"""Runs a command in a process that may not have more than so much memory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.commands import ROOT, Ran, arguments
from transforms.core.machine import usable_cores

# Address space of `convert`: on four photos it has 450 MB, and up to 16 MB more for each core,
# the stacks of its threads. A label file of 1 GB must not show.
CONVERT_BYTES = (700 + 16 * usable_cores()) << 20

_LIMITED = """if True:
    import resource, runpy, sys
    memory, module, *words = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

# Each thread would reserve an arena of 64 MB, used or not.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "PYTHONPATH": str(ROOT)}


def run_limited(
    module: str,
    *words: str,
    memory: int = CONVERT_BYTES,
    seconds: float = 300,
    cwd: Path = ROOT,
    **flags: Any,
) -> Ran:
    """Runs `python -m module` with a ceiling on its address space.

    Raises:
        subprocess.TimeoutExpired: it takes longer than `seconds`.
    """
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(memory), module, *words, *arguments(**flags)],
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
