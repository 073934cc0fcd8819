"""Local files by names that somebody else may have written: no link is followed, nothing waits.

A folder that was copied from elsewhere may hold links, FIFOs and devices under the names of a
dataset's files. Opening a FIFO would wait for ever; through a link, a file elsewhere would be read
or overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from typing import BinaryIO

from transforms.core.dataset.output_names import ForeignNameError, is_attempt, is_staged
from transforms.storage.ordinary_files import is_ordinary

# Refused for a link in the last part of a path, by Linux and macOS.
_IS_LINK = errno.ELOOP

# Nothing is at a path: a part of it is missing, or a file is where it names a folder.
_NOTHING_THERE = (FileNotFoundError, NotADirectoryError)


def open_regular(path: str, *, follow_links: bool) -> BinaryIO:
    """A regular file to read.

    Args:
        path: the file.
        follow_links: whether the path may be a link to it.

    Raises:
        OSError: it is something else, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == _IS_LINK and not follow_links and os.path.islink(path):
            raise OSError(errno.EINVAL, "it is a link, not a file of the dataset", path) from error
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, "it is no regular file", path) from error
        raise
    try:
        if not is_ordinary(os.fstat(descriptor)):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def create(path: str) -> BinaryIO:
    """A new file to write, in the place of what a killed run left there; makes its folder.

    Raises:
        OSError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    except FileExistsError:
        # Not truncated: a link would lead elsewhere, and a FIFO would wait for a reader.
        remove(path)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def could_write(folder: str) -> bool:
    """Writes a file that never gets a name, so that nothing is left of it.

    Returns:
        False where the file system or the kernel has no such files.

    Raises:
        OSError: the folder cannot be written to.
    """
    nameless = getattr(os, "O_TMPFILE", 0)
    if not nameless:
        return False
    try:
        os.close(os.open(folder, os.O_WRONLY | nameless, 0o600))
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return False
        raise
    return True


def remove(path: str) -> None:
    """Removes a file, or a link itself; nothing there is fine, a folder is an error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_plain_file(path: str) -> bool:
    """Whether this is a regular file, and no link to one."""
    return os.path.isfile(path) and not os.path.islink(path)


def has_size(path: str, size: int) -> bool:
    """Whether a regular file is there, no link, and has `size` bytes."""
    try:
        status = os.lstat(path)
    except _NOTHING_THERE:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def check_folder(path: str) -> None:
    """Checks that a folder of the output is one, if it is there, and not a link.

    Raises:
        ForeignNameError: it is something else.
    """
    with contextlib.suppress(*_NOTHING_THERE):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "no folder"
            raise ForeignNameError(f"{path} is {kind}: it must be a folder of its own; remove it")


def check_file(path: str) -> None:
    """Checks that what a file of the output replaces, if anything, is no folder.

    Raises:
        ForeignNameError: it is a folder.
    """
    with contextlib.suppress(*_NOTHING_THERE):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise ForeignNameError(f"{path} is a folder where a file of the dataset goes; move it")


def staged_names(staging: str) -> list[str]:
    """All that is in a staging folder, by paths below it, sorted; nothing when there is none.

    Raises:
        ForeignNameError: something in it is none that this tool writes, or is a link.
    """
    check_folder(staging)
    try:
        entries = sorted(os.scandir(staging), key=lambda entry: entry.name)
    except _NOTHING_THERE:
        return []
    names = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and is_attempt(entry.name):
            found = sorted(os.scandir(entry.path), key=lambda each: each.name)
            names += [f"{entry.name}/{each.name}" for each in found if _is_ours(entry.name, each)]
        elif _is_ours("", entry):
            names.append(entry.name)
    return names


def _is_ours(folder: str, entry: os.DirEntry[str]) -> bool:
    name = f"{folder}/{entry.name}" if folder else entry.name
    if is_staged(name) and entry.is_file(follow_symlinks=False):
        return True
    raise ForeignNameError(
        f"{entry.path!r:.300} is nothing that this tool writes into its staging folder: "
        "move it away"
    )


def remove_staging(staging: str) -> None:
    """Removes a staging folder with what this tool writes there; nothing there is fine.

    Raises:
        ForeignNameError: something else is in it; nothing was removed then.
    """
    names = staged_names(staging)
    if not os.path.lexists(staging):
        return
    for name in names:
        remove(f"{staging}/{name}")
    for folder in _folders_in(staging):
        os.rmdir(folder)
    os.rmdir(staging)


def _folders_in(staging: str) -> Iterable[str]:
    return [entry.path for entry in os.scandir(staging) if entry.is_dir(follow_symlinks=False)]
