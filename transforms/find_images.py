"""Selects the listed files that are images of the dataset, with their keys. Opens no image."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import NamedTuple

from transforms.core.labels.path_labels import PathRules
from transforms.core.planning.image_globs import any_case
from transforms.core.planning.keys import image_key, relative_path
from transforms.core.records import Count, JoinSide, NameRange
from transforms.core.rejections import Reason, Rejection
from transforms.core.tables.csv_rows import label_text
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


class ImageFinder:
    """Finds the images of one dataset.

    Attributes:
        root: the folder below which paths and keys begin.
        key: kind of the join key.
        rules: how an image's path gives its label and its split.
        left_out: files that are not images.
        with_checksums: whether to find checksums, too, where they come with the listing.
    """

    def __init__(
        self,
        *,
        root: str,
        key: str,
        rules: PathRules,
        left_out: LeftOut | None = None,
        with_checksums: bool = False,
    ) -> None:
        self._root = root
        self._key = key
        self._rules = rules
        self._left_out = left_out or LeftOut()
        self._with_checksums = with_checksums
        self._reads_neighbours = rules.label_from == "webdataset"
        self._reads_paths = rules.has_splits or rules.label_from in ("directory", "regex")

    def find(
        self, part: NameRange, limit: int = 0
    ) -> Iterator[tuple[str, JoinSide] | Rejection | Count | NameRange]:
        """Lists one glob: yields every image with its key, and their number at the end.

        Args:
            part: the glob, or a range of its names.
            limit: after this many names, the rest may follow as ranges; 0 for no limit.
        """
        found = 0
        folder = named_folder(part.glob)
        left_out, left_out_folders = self._left_out
        listed = part._replace(glob=any_case(part.glob))
        storage = storage_of(part.glob)
        for file in storage.list_range(listed, limit, with_checksums=self._with_checksums):
            if isinstance(file, NameRange):
                yield file._replace(glob=part.glob)
            elif not (file.uri in left_out or file.uri.startswith(left_out_folders)):
                found += 1
                yield self._describe(file, folder)
        yield Count("images_found", found)

    def _describe(self, file: FoundFile, folder: str) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, self._root)
        try:
            if not path.isascii():
                path.encode()
        except UnicodeEncodeError:
            shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name holds bytes that are not UTF-8: {shown}"
            return Rejection("image", Reason.NAME_NOT_UTF8.value, detail, shown, "")
        key = image_key(file.uri, kind=self._key, root=self._root)
        if file.problem:
            return Rejection("image", Reason.BAD_MEMBER.value, file.problem, path, key)
        label = split = ""
        if self._reads_paths:
            label, split = self._rules.label(path, folder=folder), self._rules.split(path)
        if self._reads_neighbours:
            label = file.label
        return key, JoinSide(
            path, file.size, file.version, label, "", split, "", "", True, file.checksum
        )


def named_folder(pattern: str) -> str:
    """The class that a glob itself names: the folder of `photos/cat/*.jpg`.

    An image directly in the root of `photos/*/*.jpg` or `photos/**` has no class.

    >>> named_folder("photos/cat/*.jpg"), named_folder("photos/**/*.jpg")
    ('cat', '')
    """
    folder = os.path.dirname(pattern)
    return "" if glob.has_magic(folder) else label_text(os.path.basename(folder))
