"""Runs conversions that die: `python -m tests.crash.harness SPEC` reads one task a line.

A task is JSON: `words` for `convert`; `die_at`, the number of the file operation before or after
which the process is killed (null: it lives); `counted`, a regular expression: other operations have
no number, since shards are written side by side, in another order each time. Each task runs in a
fork of this process, which has all that a run imports, so that many deaths take little time. The
answer is a line of JSON: `code` of the fork, `operations` it began, `errors`, what it wrote to the
standard error.
"""

import functools
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.convert import main
from pipeline.errors import run_command
from pipeline.graph import build
from pipeline.options.parser import parse_flags
from pipeline.resolve.preflight import check_flags
from tests.images import picture, saved
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.local_storage import LocalStorage

# All through which a run changes its output folder: on a disk, and in a bucket.
OPERATIONS: dict[type, tuple[str, ...]] = {
    LocalStorage: (
        *("open_writer", "rename", "remove", "remove_staging", "make_directory", "write_whole"),
    ),
    GcsStorage: ("open_writer", "move", "remove", "write_whole"),
}

# Operations whose second path, the new name, is reported.
_MOVES = ("rename", "move")


def plant_death(die_at: int | None, *, counted: str, is_after: bool, log: Path) -> None:
    """Kills this process, as the kernel or a power cut would, at one of its file operations."""
    numbers = itertools.count()

    def wrap(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(operation)
        def numbered(*args: Any, **kwargs: Any) -> Any:
            operation_and_file = f"{name} {Path(args[1 + (name in _MOVES)]).name}"
            number = next(numbers) if re.fullmatch(counted, operation_and_file) else -1
            with log.open("a") as lines:
                lines.write(f"{operation_and_file}\n")
            if number == die_at and not is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = operation(*args, **kwargs)
            if number == die_at and is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return numbered

    for storage, names in OPERATIONS.items():
        for name in names:
            setattr(storage, name, wrap(name, getattr(storage, name)))


def _live_and_die(task: dict[str, Any], errors: Path, log: Path) -> NoReturn:
    code = 99
    try:
        with errors.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        plant_death(task["die_at"], counted=task["counted"], is_after=task["is_after"], log=log)
        code = run_command(lambda: main(task["words"]), "convert")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Runs one task in a fork."""
    with tempfile.TemporaryDirectory() as scratch:
        errors, log = Path(scratch, "errors"), Path(scratch, "log")
        log.touch()
        child = os.fork()
        if child == 0:
            _live_and_die(task, errors, log)
        _, status = os.waitpid(child, 0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "operations": log.read_text().splitlines(),
            "errors": errors.read_text(),
        }


def construct_once() -> None:
    """Constructs a graph, so that Beam knows its steps: a fifth of the time of each fork."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "1.jpg").write_bytes(saved(picture("RGB"), "JPEG"))
        words = [f"--images={scratch}/*.jpg", "--label_from=none", f"--output={scratch}/out"]
        pipeline = beam.Pipeline(options=PipelineOptions([]))
        build(pipeline, check_flags(parse_flags("convert", words)[0]))
        pipeline.to_runner_api()


if __name__ == "__main__":
    # What a run imports and compiles on its way, before the first fork: nearly half of its time.
    import apache_beam.runners.portability.fn_api_runner.fn_runner

    import pipeline.run.launch
    import pipeline.summary  # noqa: F401
    import transforms.report.thumbnails  # noqa: F401
    from tests.remembered_beam import remember
    from transforms.report.page import page_template

    page_template()
    # Beam's introspection would be a fifth of the time of each fork.
    remember()
    construct_once()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
