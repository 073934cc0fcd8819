"""Runs that are killed while they decode, and one that is not: what that one pays for them.

`python -m tests.crash.kills WORDS` runs `convert WORDS` in forks of one process, and prints a line
of JSON: `suspects` that the killed runs left, `children` that the last run started, and `left`, the
suspects after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import simplejpeg

from pipeline.convert import main
from pipeline.errors import run_command
from tests.campaign import size
from transforms.images.guard import Suspects

KILLS = size(4, 10)


def run(words: Sequence[str], *, is_killed: bool) -> tuple[int, int]:
    """The exit code of a run in a fork, and how many processes it started."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if is_killed:
                plant_death()
            os.dup2(2, 1)
            code = run_command(lambda: main(words), "convert")
            os.write(writes, str(Started.count).encode())
        finally:
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as answer:
        started = answer.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(started or 0)


def plant_death() -> None:
    """Kills this process over the first image, when all threads that may decode do."""

    def decode_jpeg(*_: Any, **__: Any) -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)

    simplejpeg.decode_jpeg = decode_jpeg


class Started(subprocess.Popen):  # type: ignore[type-arg]
    """Counts the processes that are started."""

    count = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type(self).count += 1
        super().__init__(*args, **kwargs)


if __name__ == "__main__":
    subprocess.Popen = Started  # type: ignore[misc]
    import transforms.convert_images  # noqa: F401

    codes = {run(sys.argv[1:], is_killed=True)[0] for _ in range(KILLS)}
    assert codes == {-signal.SIGKILL}, codes
    suspects = len(Suspects().notes)
    code, children = run(sys.argv[1:], is_killed=False)
    left = len(Suspects().notes)
    message = {"code": code, "suspects": suspects, "children": children, "left": left}
    print(json.dumps(message))
