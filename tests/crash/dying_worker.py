"""A worker process that may be killed, and a conversion on two of them.

`python -m tests.crash.dying_worker convert WORDS` runs `convert WORDS` on two worker processes,
with the steps of several machines. The first worker that comes to the file operation that `DIE_AT`
matches is killed before it, and makes the file `DIED`.
"""

import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.run import beam_compat
from transforms.storage.local_storage import LocalStorage

DIE_AT, DIED = "DYING_WORKER_DIE_AT", "DYING_WORKER_DIED"

OPERATIONS = ("list_range", "open_writer", "rename", "write_whole", "remove_staging")


def plant_death(die_at: str, died: Path) -> None:
    """Kills this process before an operation, unless another one was."""

    def wrap(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(operation)
        def matched(*args: Any, **kwargs: Any) -> Any:
            # For a rename, the new name counts.
            path = args[1 + (name == "rename")]
            place = f"{name} {Path(path if isinstance(path, str) else path.glob).name}"
            if re.fullmatch(die_at, place) and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args, **kwargs)

        return matched

    for name in OPERATIONS:
        setattr(LocalStorage, name, wrap(name, getattr(LocalStorage, name)))


def convert(words: Sequence[str]) -> int:
    """The exit code of a conversion."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from pipeline import convert as command
    from pipeline.errors import run_command
    from pipeline.run import launch
    from pipeline.run.launch import runner_with

    class SeveralMachines(FnApiRunner):  # type: ignore[misc]
        """Beam's in-process runner, which the steps take for another."""

    def with_dying_workers(options: Any) -> Any:
        runner = runner_with(options)
        runner.__class__ = SeveralMachines
        environment = runner._default_environment
        environment.command_string = environment.command_string.replace(
            beam_compat.__name__, "tests.crash.dying_worker"
        )
        return runner

    launch.runner_with = with_dying_workers
    return run_command(lambda: command.main([*words, "--workers", "2"]), "convert")


if __name__ == "__main__":
    if sys.argv[1:2] == ["convert"]:
        sys.exit(convert(sys.argv[2:]))
    plant_death(os.environ[DIE_AT], Path(os.environ[DIED]))
    beam_compat.main()
