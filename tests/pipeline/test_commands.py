"""The helpers that run the commands."""

from __future__ import annotations

from tests.pipeline.commands import arguments


def test_flags_are_written_as_a_shell_would() -> None:
    assert arguments(images=["a", "b"], overwrite=True, labels=None) == [
        "--progress=off",
        "--images=a",
        "--images=b",
        "--overwrite",
    ]
