"""What a run says of a worker process that was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline.errors import DatasetError
from pipeline.run.launch import run_pipeline


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Runs a pipeline whose runner fails with an error."""

    def run(error: Exception) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(FnApiRunner, "run_pipeline", fail)
        run_pipeline(lambda _: None, (), progress="off", left="kept")

    return run


def test_a_worker_that_was_killed_is_one_line(failing: Callable[[Exception], None]) -> None:
    """The text is that of Beam's data plane, in whatever error it is wrapped."""
    error = ValueError("a bundle failed")
    error.__cause__ = RuntimeError("Channel closed prematurely.")
    with pytest.raises(
        DatasetError, match=r"^a worker process on this machine was killed.*; kept$"
    ):
        failing(error)


def test_other_errors_keep_their_traceback(failing: Callable[[Exception], None]) -> None:
    with pytest.raises(RuntimeError, match="^a bug$"):
        failing(RuntimeError("a bug"))
