"""Tests of permissions run as a user whom they bind."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator

NOBODY = 65534


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom permissions bind, if this is root."""
    if os.geteuid() != 0:
        yield
        return
    # Python may lie where only root can read it: what commands import late is imported now.
    for name in ("pipeline.summary", "encodings.utf_8_sig", "cProfile", "pstats"):
        importlib.import_module(name)
    # All but the saved user, which leads back.
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
