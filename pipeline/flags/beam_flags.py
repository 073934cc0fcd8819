"""Options of Apache Beam on our command lines: most pass, some do not do what their names say.

tests/pipeline/flags/test_beam_flags.py classifies every option of the installed Beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.errors import UsageError
from pipeline.flags.flag_spelling import flag_name
from pipeline.flags.job_labels import is_job_label

_TESTS = "is for tests of Beam itself: leave it out"
_BATCH = "is for streaming jobs, and this is a batch job: leave it out"

# What each does here, and what to use instead.
_REFUSED = {
    "--dry_run": (
        "is for tests of Beam and would not prevent the conversion. To see what `convert` would "
        "do, and write nothing, give the same flags to the command `plan`"
    ),
    "--on_success_matcher": _TESTS,
    "--pubsub_root_url": _TESTS,
    "--direct_runner_bundle_repeat": _TESTS,
    "--direct_test_splits": _TESTS,
    "--wait_until_finish_duration": (
        "is for tests of Beam and limits nothing: put `timeout SECONDS` before the command"
    ),
    "--streaming": _BATCH,
    "--transform_name_mapping": _BATCH,
    "--create_from_snapshot": _BATCH,
    "--update": (
        "replaces a streaming job, and this is a batch job: leave it out "
        "(--overwrite replaces a dataset)"
    ),
    "--no_wait_until_finish": (
        "has no effect: the command waits for its job, which decides the exit code. "
        "Ctrl-C leaves a Dataflow job running"
    ),
    "--output_executable_path": (
        "would write a jar and convert nothing: leave it out (--output DIR names the dataset)"
    ),
}

# The default runner ignores these: a user who gives one means another runner.
_ELSEWHERE = {
    "--num_workers": "DataflowRunner",
    "--max_num_workers": "DataflowRunner",
    "--worker_machine_type": "DataflowRunner",
    "--machine_type": "DataflowRunner",
    "--flink_master": "FlinkRunner",
    "--parallelism": "FlinkRunner",
    "--max_parallelism": "FlinkRunner",
    "--spark_master_url": "SparkRunner",
    "--job_endpoint": "PortableRunner",
}

# The default runner, which `--runner` may also name.
_LOCAL_RUNNER = "FnApiRunner"

_OWN_WORKERS = (
    "--direct_num_workers",
    "--direct_running_mode",
    "--environment_type",
    "--environment_config",
    "--sdk_worker_parallelism",
)

DECIDE_WORKERS = frozenset({"--runner", *_OWN_WORKERS})
"""The options that decide about workers, as `--workers` does."""

# Beam's two names of one option. `convert` and `plan` have a --labels of their own.
_JOB_LABELS = ("--label", "--labels")


def check_beam_flags(words: Sequence[str]) -> None:
    """Refuses options of Beam that would not do what their names say.

    Args:
        words: the command line without our flags, as it was typed.

    Raises:
        UsageError: there is such an option; the message names the likely intended one.
    """
    given = list(_options(words))
    names = {flag_name(typed) for typed, _ in given}
    for typed, value in given:
        name = flag_name(typed)
        if name in _REFUSED:
            raise UsageError(f"{typed} {_REFUSED[name]}")
        if name in _JOB_LABELS and not is_job_label(value):
            meant = f"; did you mean --labels {value}?" if name == "--label" and value else ""
            raise UsageError(f"{name} {value!r}: a label of the job is KEY=VALUE{meant}")
        if name in _ELSEWHERE and "--runner" not in names:
            local = (
                "; on this machine: --workers N"
                if "workers" in name or "parallelism" in name
                else ""
            )
            raise UsageError(
                f"{typed} needs --runner {_ELSEWHERE[name]}: without it the job runs on this "
                f"machine, which ignores {typed}{local}"
            )


def check_workers(workers: int | None, words: Sequence[str]) -> None:
    """Refuses `--workers` with options of Beam that decide about workers, too.

    Args:
        workers: the value of the flag; None without it.
        words: the command line without our flags, as it was typed.

    Raises:
        UsageError: there is such an option.
    """
    for typed, value in () if workers is None else _options(words):
        name = flag_name(typed)
        if name in _OWN_WORKERS:
            raise UsageError(f"--workers cannot be used with {typed}: give one of them")
        if name == "--runner" and value.rpartition(".")[2] != _LOCAL_RUNNER:
            raise UsageError(
                f"--workers cannot be used with --runner {value}: it sets the worker processes of "
                "the default runner, on this machine"
            )


def proposed(beams: Sequence[str]) -> list[str]:
    """The flags of Beam that a hint may suggest."""
    return [flag for flag in beams if flag not in _REFUSED and flag not in _JOB_LABELS]


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every option with its value; the value of a switch is empty, or the word that follows."""
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            follows = words[at + 1] if at + 1 < len(words) else ""
            yield name, value if equals else ("" if follows.startswith("--") else follows)
