"""Output folders on local disk: what is in their way may be a link, a FIFO or a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from transforms.core.dataset.output_names import (
    MANIFEST,
    STAGING,
    ForeignNameError,
    is_staged,
    is_staged_folder,
)
from transforms.storage.output_folders import OutputFolders, foreign_name

# The path does not exist: a part of it is missing, or a file is in place of a folder.
NOTHING_THERE = (FileNotFoundError, NotADirectoryError)


class LocalFolders(OutputFolders):
    """The part of `LocalStorage` for output folders."""

    def staged_names(self, staging: str) -> list[str]:
        """All files in a staging folder; a link is refused, too."""
        _check_folder(staging)
        try:
            entries = sorted(os.scandir(staging), key=lambda entry: entry.name)
        except NOTHING_THERE:
            return []
        names = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and is_staged_folder(entry.name):
                found = sorted(os.scandir(entry.path), key=lambda each: each.name)
                names += [_staged_name(each, f"{entry.name}/") for each in found]
            else:
                names.append(_staged_name(entry))
        return names

    def remove_staging(self, staging: str) -> None:
        super().remove_staging(staging)
        if os.path.lexists(staging):
            for entry in [*os.scandir(staging)]:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.path)
            os.rmdir(staging)

    def find_foreign(self, output: str) -> str | None:
        if not os.path.lexists(output):
            return None
        if not os.path.isdir(output):
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", output)
        names = sorted(os.listdir(output))
        is_ours = MANIFEST in names or STAGING in names
        return names[0] if names and not is_ours else None

    def check_folders(self, output: str, names: Iterable[str]) -> None:
        for folder in sorted({name.rpartition("/")[0] for name in names} - {""}):
            _check_folder(os.path.join(output, folder))

    def check_replaced(self, output: str, names: Iterable[str]) -> None:
        names = list(names)
        self.check_folders(output, names)
        for name in names:
            _check_file(os.path.join(output, name))


def _check_folder(path: str) -> None:
    """Checks that a folder of the output, if it exists, is a folder and not a link.

    Raises:
        ForeignNameError: it is something else.
    """
    with contextlib.suppress(*NOTHING_THERE):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "not a folder"
            raise ForeignNameError(f"{path} is {kind}: it must be a real folder; remove it")


def _check_file(path: str) -> None:
    """Checks that a file of the output does not replace a folder.

    Raises:
        ForeignNameError: it is a folder.
    """
    with contextlib.suppress(*NOTHING_THERE):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise ForeignNameError(
                f"{path} is a folder, but the dataset needs a file there; move the folder"
            )


def _staged_name(entry: os.DirEntry[str], folder: str = "") -> str:
    """The path below the staging folder of something in it, or in a folder of it.

    Raises:
        ForeignNameError: it is not a file that this tool writes, or is a link.
    """
    name = folder + entry.name
    if is_staged(name) and entry.is_file(follow_symlinks=False):
        return name
    raise foreign_name(entry.path)
