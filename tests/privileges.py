"""Tests of permissions run as a user whom they bind."""

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534

# Modules of the standard library that commands import late.
_STANDARD = ("encodings.utf_8_sig", "cProfile", "pstats")


def reachable_folder() -> Path:
    """A folder for temporary files that every user can enter, as `TMPDIR` need not be."""
    candidates = [Path(name).resolve() for name in (tempfile.gettempdir(), "/tmp", "/var/tmp")]
    return next(
        folder
        for folder in candidates
        if all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))
    )


@contextlib.contextmanager
def _temporary_files_of(user: int) -> Iterator[None]:
    """A folder of the user's own takes the temporary files: only root may write to `TMPDIR`."""
    with tempfile.TemporaryDirectory(dir=reachable_folder()) as name:
        os.chown(name, user, user)
        former, tempfile.tempdir = tempfile.tempdir, name
        try:
            yield
        finally:
            tempfile.tempdir = former


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Runs as a user without root's privileges, so that permissions apply."""
    if os.geteuid() != 0:
        yield
        return
    # Python may lie where only root can read it: what commands import late is imported now.
    for name in ("pipeline.run.launch", "pipeline.summary", *_STANDARD):
        importlib.import_module(name)
    with _temporary_files_of(NOBODY):
        # All but the saved user, which leads back.
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield
        finally:
            os.setresuid(0, 0, 0)
