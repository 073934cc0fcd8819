"""How a run ends: with 0, with 2 for a mistake, or with 130 if someone interrupts it."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.pipeline.commands import convert
from tests.pipeline.right_command import right_flags


def test_the_right_command_is_right(right_inputs: Path) -> None:
    assert convert(**right_flags(right_inputs)).code == 0


def test_interrupted(right_inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(beam.Pipeline, "run", run)
    ran = convert(**right_flags(right_inputs))
    assert ran.code == 130
    assert "interrupted" in ran.error()


def test_interrupted_while_a_job_runs_elsewhere(right_inputs: Path, monkeypatch: Any) -> None:
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
