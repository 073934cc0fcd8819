"""Labels and splits from image paths: the class by folder or regular expression."""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

from transforms.core.planning.keys import nfc
from transforms.core.planning.splits import split_text
from transforms.core.tables.csv_rows import label_text

NO_FOLDER = "."
"""The result of `split_folder` for an image without a folder; not a valid split name."""


class PathRules(NamedTuple):
    """What to read from a path below the images' common folder; by default, nothing.

    Attributes:
        label_from: `directory`, `regex`, or any other source, which does not use the path.
        label_regex: valid for `parse_label_regex`; for `regex`.
        has_splits: whether the first folder names the split.
    """

    label_from: str = "none"
    label_regex: str = ""
    has_splits: bool = False

    def label(self, path: str, *, folder: str = "") -> str:
        """The class of an image; empty if its path has none.

        Args:
            path: below the images' common folder.
            folder: the class that the glob itself names, for an image without a folder.

        >>> PathRules("directory").label("flowers/roses/1.jpg")
        'roses'
        >>> PathRules("directory", has_splits=True).label("train/1.jpg")
        ''
        >>> PathRules("regex", r"([a-z]+)_[0-9]+").label("2024/cat_07.jpg")
        'cat'
        """
        if self.label_from == "regex":
            found = parse_label_regex(self.label_regex).search(nfc(path))
            return label_text(found[_label_group(found.re)] or "") if found else ""
        if self.label_from != "directory":
            return ""
        if self.has_splits:
            return label_text(os.path.basename(os.path.dirname(path.partition("/")[2])))
        return label_text(os.path.basename(os.path.dirname(path))) or folder

    def split(self, path: str) -> str:
        """The split in the path; empty if paths do not decide the split.

        >>> PathRules(has_splits=True).split("TRAIN/cat/1.jpg")
        'train'
        """
        return split_folder(path) if self.has_splits else ""


NOTHING = PathRules()
"""Rules that use nothing from a path."""


def split_folder(path: str) -> str:
    """The split that the first folder of a path names, `NO_FOLDER` without one.

    >>> split_folder("test/1.jpg"), split_folder("1.jpg")
    ('test', '.')
    """
    folder, slash, _ = path.partition("/")
    return split_text(folder) if slash else NO_FOLDER


@functools.lru_cache(maxsize=16)
def parse_label_regex(text: str) -> re.Pattern[str]:
    """The expression of `--label_regex`: it has a group called `label`, or only one group.

    Raises:
        ValueError: it is not such an expression.
    """
    try:
        pattern = re.compile(nfc(text))
    except re.error as error:
        raise ValueError(f"{text!r} is not a valid regular expression: {error}") from error
    if "label" not in pattern.groupindex and pattern.groups != 1:
        problem = "has no group" if pattern.groups == 0 else f"has {pattern.groups} groups"
        raise ValueError(
            f"{text!r} {problem}: put the label in one group, such as '(?P<label>[a-z]+)_'"
        )
    return pattern


def _label_group(pattern: re.Pattern[str]) -> str | int:
    return "label" if "label" in pattern.groupindex else 1
