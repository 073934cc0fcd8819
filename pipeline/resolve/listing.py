"""What flags alone have wrong, and how globs are listed."""

from __future__ import annotations

import argparse
import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from pipeline.options.option_table import OPTIONS
from pipeline.options.parser import is_given
from pipeline.resolve.path_flags import check_paths
from transforms.core.option import check_combinations
from transforms.labels.keys import (
    IMAGE_EXTENSIONS,
    any_case,
    archive_path,
    archive_problem,
    expand_braces,
    fixed_root,
)
from transforms.storage.files import join, storage_of

# The first mistakes of a command line.


def check_alone(flags: argparse.Namespace) -> None:
    """Refuses flags that are wrong whatever the inputs are, before any of these is listed.

    Args:
        flags: the result of `parse_flags`.

    Raises:
        UsageError: a path cannot be used, an option conflicts with another, or needs one that is
            missing.
    """
    check_paths(flags)
    with refusing(ValueError):
        check_combinations(OPTIONS, vars(flags))
    if flags.label_regex is not None and flags.labels is not None and flags.images:
        raise UsageError(
            "--label_regex cannot be used with --labels and --images: give one of them"
        )
    if flags.images and flags.label_from not in (None, "csv"):
        for name in ("labels", "label_key"):
            if is_given(flags, name):
                raise UsageError(f"--{name} cannot be used with --label_from {flags.label_from}")


# Lists the globs of flags.


def plain_globs(patterns: Iterable[str], flag: str) -> list[str]:
    """Expands the alternatives in braces of a flag's patterns.

    Raises:
        UsageError: there are too many.
    """
    with refusing(ValueError, because=f"{flag} "):
        return [glob for pattern in patterns for glob in expand_braces(pattern)]


def image_globs(patterns: Iterable[str], title: str) -> list[str]:
    """The globs of images or masks, as `plain_globs` gives them.

    Raises:
        UsageError: there are too many, or one names an archive in the wrong way.
    """
    globs = plain_globs(patterns, title)
    for each in globs:
        if problem := archive_problem(each):
            raise UsageError(f"{title} {each!r} {problem}")
    return globs


def list_inputs(pattern: str, flag: str, *, listed: str | None = None) -> Iterator[Any]:
    """The files that the glob of a flag matches.

    Args:
        pattern: the glob, for messages.
        flag: its flag, for messages.
        listed: the glob to list; None for the pattern.

    Raises:
        UsageError: it cannot be listed.
        DatasetError: it could not be listed this time.
    """
    storage = storage_of(pattern)
    with trying(f"list {flag} {pattern!r}"):
        try:
            yield from storage.list_files(listed or pattern)
        except PermissionError as error:
            if not storage.has_folders:
                raise
            raise UsageError(
                f"no permission to read the folder {error.filename!r}, "
                f"which {flag} {pattern!r} needs"
            ) from error


def lists_any(pattern: str, title: str) -> bool:
    """Whether a glob of images or masks matches a file; raises as `list_inputs` does."""
    return next(list_inputs(pattern, title, listed=any_case(pattern)), None) is not None


# Suggestions for a flag that was given a folder, based on the files in it.

# Before others: a JSON file may hold anything.
_CSVS = frozenset({"csv", "tsv"})
_LABELS = _CSVS | {"json", "jsonl", "parquet", "xml"}

_IMAGES = (IMAGE_EXTENSIONS, "images")

# Matches of a glob that are searched for folders.
_MATCHES = 20_000

# Files to list in a folder to find out what it contains.
_FILES = 2_000


def why_empty(pattern: str, *, of_labels: bool = False) -> str:
    """The likely reason why a glob does not match.

    Args:
        pattern: the glob, of images unless `of_labels`.
        of_labels: whether it is that of `--labels`.
    """
    if hint := files_in_archive(pattern):
        return hint
    storage = storage_of(pattern)
    if storage.is_folder(pattern):
        try:
            return _glob_hint(pattern, *((_LABELS, "*.csv") if of_labels else _IMAGES))
        except PermissionError as error:
            return f"no permission to read the folder {error.filename or pattern!r}"
    if not storage.has_folders:
        return "check the bucket and the path"
    folder = fixed_root([pattern]) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no permission to read the folder {folder!r}"
    if os.path.lexists(pattern):
        return "it is not a regular file"
    if not glob.has_magic(pattern):
        return f"there is no such file in {folder!r}"
    if any(os.path.isdir(each) for each in itertools.islice(glob.iglob(pattern), _MATCHES)):
        return f"it matches folders: try {os.path.join(pattern, '**', '*')!r}"
    if "\\" in pattern:
        return "write / instead of \\"
    return "check the pattern; quote it so that the shell leaves it alone"


def files_in_archive(pattern: str) -> str:
    """Why a glob of files in archives does not match; empty for another glob."""
    parts = archive_path(pattern)
    if parts is None:
        return ""
    first = next(storage_of(pattern).list_files(f"{parts.archive}!/**"), None)
    if first is None:
        return f"there is no archive {parts.archive!r}, or no file in it"
    return f"a file in an archive is {first.uri!r}"


def _glob_hint(folder: str, extensions: frozenset[str], what: str) -> str:
    """What to pass to a flag instead of a folder: a file, or a glob that matches some."""
    below = storage_of(folder).list_files(join(folder, "**"))
    uris = [file.uri for file in itertools.islice(below, _FILES)]
    found = Counter(
        extension for uri in uris if (extension := uri.rpartition(".")[2]).lower() in extensions
    )
    if not found:
        return f"it is a folder: give a file; it holds no {what}"
    extension = max(found, key=lambda each: (each in _CSVS, found[each]))
    count = found[extension]
    only = next(uri for uri in uris if uri.endswith(f".{extension}"))
    if count == 1 and what != "images":
        return f"it is a folder: try {only!r}"
    folder = folder.rstrip("/")
    is_flat = what != "images" and all(
        "/" not in uri.removeprefix(f"{folder}/") for uri in uris if uri.endswith(f".{extension}")
    )
    pattern = join(folder, *([] if is_flat else ["**"]), f"*.{extension}")
    return f"it is a folder: try {pattern!r}"
