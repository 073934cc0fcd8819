"""Lists the files of a glob, or of a range of its names, as sides of the join. Opens none."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from transforms.core.planning.image_globs import any_case
from transforms.core.records import Count, JoinSide, NameRange
from transforms.core.rejections import Rejection
from transforms.storage.file_metadata import FoundFile
from transforms.storage.files import storage_of


class LeftOut(NamedTuple):
    """Files that are not images, even if a glob matches them.

    Attributes:
        files: each in all spellings that a listing may use.
        folders: each in all spellings, with a slash at the end.
    """

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def has(self, uri: str) -> bool:
        """Whether a file is left out.

        >>> LeftOut(frozenset(["a.csv"]), ("out/",)).has("out/labels.txt")
        True
        """
        return uri in self.files or uri.startswith(self.folders)


class FileFinder(abc.ABC):
    """Lists globs; a subclass gives the files their keys."""

    counts: ClassVar[str]
    """The name of the count of files."""

    def __init__(self, *, left_out: LeftOut | None = None, with_checksums: bool = False) -> None:
        """Sets what to list.

        Args:
            left_out: files that are not listed.
            with_checksums: whether to find checksums, too, where they come with the listing.
        """
        self._left_out = left_out or LeftOut()
        self._with_checksums = with_checksums

    def find(
        self, part: NameRange, limit: int = 0
    ) -> Iterator[tuple[str, JoinSide] | Rejection | Count | NameRange]:
        """Lists one glob: yields every file with its key, and their number at the end.

        Args:
            part: the glob, or a range of its names.
            limit: after this many names, the rest may follow as ranges; 0 for no limit.
        """
        found = 0
        describe = self._describer(part)
        left_out, left_out_folders = self._left_out
        listed = part._replace(glob=any_case(part.glob))
        storage = storage_of(part.glob)
        for file in storage.list_range(listed, limit, with_checksums=self._with_checksums):
            if isinstance(file, NameRange):
                yield file._replace(glob=part.glob, partner=part.partner)
            elif not (file.uri in left_out or file.uri.startswith(left_out_folders)):
                found += 1
                yield describe(file)
        yield Count(self.counts, found)

    @abc.abstractmethod
    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        """A function that gives a file of a glob its key, or rejects it."""
