"""What a run says of a worker process that was killed."""

from __future__ import annotations

import pytest

from pipeline.errors import DatasetError
from pipeline.run.launch import _raise_known


def test_a_worker_that_was_killed_is_one_line() -> None:
    """The text is that of Beam's data plane, in whatever error it is wrapped."""
    error = ValueError("a bundle failed")
    error.__cause__ = RuntimeError("Channel closed prematurely.")
    with pytest.raises(
        DatasetError, match=r"^a worker process on this machine was killed.*; kept$"
    ):
        _raise_known(error, "kept")


def test_other_errors_keep_their_traceback() -> None:
    _raise_known(RuntimeError("a bug"), "kept")
