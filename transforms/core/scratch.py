"""Folders for temporary files, which do not accumulate if processes are killed.

The owner of a folder holds a lock on it (`flock`), which the kernel releases with the process and
its forks. Before a new folder is made, those of this user's dead processes are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator

# A younger folder may belong to a process that has not locked it yet.
_MADE_SECONDS = 60


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that only this user may enter; it is removed at the end of the block."""
    _sweep_once()
    folder = tempfile.mkdtemp(prefix=_prefix())
    try:
        descriptor = _open_folder(folder)
        try:
            # Without locks, as on some network file systems, it only stays behind after a kill.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def temporary_files_in(folder: str) -> Iterator[None]:
    """Makes `tempfile` use a folder within the block."""
    former = tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = former


def sweep() -> None:
    """Removes the folders of this user's dead processes; anything else stays."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix()):
                with contextlib.suppress(OSError):
                    _remove_if_left(entry.path)


_sweep_once = functools.lru_cache(maxsize=1)(sweep)


def _prefix() -> str:
    return f"image-tfrecords-scratch-{os.getuid()}-"


def _open_folder(path: str) -> int:
    """A descriptor of a folder.

    Raises:
        OSError: it is not a folder, or is a link.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove_if_left(path: str) -> None:
    descriptor = _open_folder(path)
    try:
        status = os.fstat(descriptor)
        is_ours = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if not is_ours or time.time() - status.st_mtime < _MADE_SECONDS:
            return
        # It fails if the owner is alive, or if locks are not supported.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
