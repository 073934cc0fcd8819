"""Selects the listed files that are images of the dataset, with their keys. Opens no image."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Callable

from transforms.core.labels.path_labels import PathRules
from transforms.core.planning.keys import image_key, relative_path
from transforms.core.records import JoinSide, NameRange
from transforms.core.rejections import Reason, Rejection
from transforms.core.tables.csv_rows import label_text
from transforms.find_files import FileFinder, LeftOut
from transforms.storage.file_metadata import FoundFile


class ImageFinder(FileFinder):
    """Finds the images of one dataset.

    Attributes:
        root: the folder below which paths and keys begin.
        key: kind of the join key.
        rules: how an image's path gives its label and its split.
        left_out: files that are not images.
        with_checksums: whether to find checksums, too, where they come with the listing.
    """

    counts = "images_found"

    def __init__(
        self,
        *,
        root: str,
        key: str,
        rules: PathRules,
        left_out: LeftOut | None = None,
        with_checksums: bool = False,
    ) -> None:
        super().__init__(left_out=left_out, with_checksums=with_checksums)
        self._root = root
        self._key = key
        self._rules = rules
        self._reads_neighbours = rules.label_from == "webdataset"
        self._reads_paths = rules.has_splits or rules.label_from in ("directory", "regex")

    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        return functools.partial(self._describe, named_folder(part.glob))

    def _describe(self, folder: str, file: FoundFile) -> tuple[str, JoinSide] | Rejection:
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
