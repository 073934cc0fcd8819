"""How a run ends: with 0, with 2 for a mistake, or with 130 if someone interrupts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import convert, run_process
from tests.pipeline.right_command import check_usage, right_flags


def test_the_right_command_is_right(right_inputs: Path) -> None:
    assert convert(**right_flags(right_inputs)).code == 0


def test_interrupted(right_inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(beam.Pipeline, "run", run)
    ran = convert(**right_flags(right_inputs))
    assert ran.code == 130
    assert "interrupted" in ran.error()


def test_interrupted_while_a_job_runs_elsewhere(
    right_inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Job:
        has_job = True

        def job_id(self) -> str:
            return "2026-11-21_1"

        def wait_until_finish(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(beam.Pipeline, "run", lambda _: Job())
    ran = convert(**right_flags(right_inputs))
    assert ran.code == 130
    _, message = ran.err.splitlines()
    assert (
        "the job continues: cancel it at https://console.cloud.google.com/dataflow/jobs/" in message
    )
    assert "2026-11-21_1" in message


@pytest.mark.slow
def test_a_flag_of_beam_is_none_of_our_errors(right_inputs: Path) -> None:
    words = ["--runner=FnApiRunner", "--direct_num_workers", "1", "--job_name=mine"]
    assert convert(*words, **right_flags(right_inputs)).code == 0


@pytest.mark.parametrize(
    ("name", "value", "says"),
    rest_slow(
        [
            ("images", "phtos/*.jpg", "there is no folder"),
            ("num_shardz", 3, "did you mean --num_shards?"),
            ("output", "labels.csv", "is a file"),
        ]
    ),
)
def test_a_process_ends_with_the_code_and_the_line(
    name: str, value: object, says: str, right_inputs: Path
) -> None:
    value = right_inputs / value if isinstance(value, str) else value
    ran = run_process("pipeline.convert", **{**right_flags(right_inputs), name: value})
    check_usage(ran, f"--{name}", says)
