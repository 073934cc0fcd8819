"""Runs `convert` in forks of a process that has Beam imported, and kills them: see `harness`."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from tests.pipeline.commands import ROOT

Content = TypeVar("Content")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Died(NamedTuple):
    """How a run ended: its exit code, its file operations, its standard error."""

    code: int
    operations: list[str]
    errors: str


Harness = Callable[..., Died]


def only_dataset(files: Mapping[str, Content]) -> dict[str, Content]:
    """Those of an output's files that are the dataset: neither staged nor the report."""
    return {k: v for k, v in files.items() if ".staging" not in k and "report.html" not in k}


@contextlib.contextmanager
def running_harness(variables: Mapping[str, str] = NO_VARIABLES) -> Iterator[Harness]:
    """A function that runs `convert` with words; the rest is as for a task.

    Args:
        variables: of the environment, in addition to those of this process.
    """
    command = [sys.executable, "-m", "tests.crash.harness"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **variables},
    ) as process:
        asked, answered = process.stdin, process.stdout
        assert asked
        assert answered

        def run(words: list[str], die_at: int | None = None, **others: object) -> Died:
            task = {"words": words, "die_at": die_at, "is_after": False, "counted": ".*", **others}
            print(json.dumps(task), file=asked, flush=True)
            return Died(**json.loads(answered.readline()))

        yield run
        asked.close()
