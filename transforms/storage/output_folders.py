"""What a storage checks in an output folder: its staging folder, and files of others."""

from __future__ import annotations

import abc
from collections.abc import Iterable

from transforms.core.dataset.output_names import ForeignNameError, is_staged


class OutputFolders(abc.ABC):
    """The part of a storage for output folders, whose names are not trusted.

    The methods implemented here are right for storages without folders and links.
    """

    @abc.abstractmethod
    def names_below(self, folder: str) -> list[str]:
        """The files below a folder, relative to it, sorted."""

    @abc.abstractmethod
    def remove(self, path: str, *, generation: int | None = None) -> None:
        """Removes a file, or only one generation of it; a missing file is fine."""

    def staged_names(self, staging: str) -> list[str]:
        """All files below a staging folder, relative to it, sorted.

        Raises:
            ForeignNameError: a file is not one that this tool writes there.
        """
        names = self.names_below(staging)
        check_staged(staging, names)
        return names

    def remove_staging(self, staging: str) -> None:
        """Removes a staging folder and this tool's files in it; a missing folder is fine.

        Raises:
            ForeignNameError: something else is in it; in that case nothing was removed.
        """
        for name in self.staged_names(staging):
            self.remove(f"{staging}/{name}")

    def find_foreign(self, output: str) -> str | None:
        """A foreign file in an output folder that holds neither a dataset nor staged files.

        Raises:
            NotADirectoryError: the folder is a file.
            OSError: it cannot be read.
        """
        return None

    def check_folders(self, output: str, names: Iterable[str]) -> None:
        """Checks that the folders of a dataset's files are in it, and are not links out of it.

        Raises:
            ForeignNameError: one is not.
        """
        return

    def check_replaced(self, output: str, names: Iterable[str]) -> None:
        """Like `check_folders`; also checks that no file to write or to remove is a folder.

        Raises:
            ForeignNameError: one is.
        """
        return


def check_staged(staging: str, names: Iterable[str]) -> None:
    """Checks the names of the files below a staging folder, relative to it.

    Raises:
        ForeignNameError: a file is not one that this tool writes there.
    """
    if foreign := [name for name in names if not is_staged(name)]:
        raise foreign_name(f"{staging}/{foreign[0]}")


def foreign_name(path: str) -> ForeignNameError:
    """The error for a file in a staging folder that this tool does not write there."""
    return ForeignNameError(
        f"{path!r:.300} is in the staging folder, but this tool did not write it: move it away"
    )
