"""Suggestions for a flag that was given a folder, based on the files in it."""

from __future__ import annotations

import itertools
from collections import Counter

from transforms.core.planning.archives import archive_path
from transforms.core.planning.keys import IMAGE_EXTENSIONS
from transforms.storage.files import join, storage_of

# Before others: a JSON file may hold anything.
_CSVS = frozenset({"csv", "tsv"})
_LABELS = _CSVS | {"json", "jsonl", "parquet", "xml"}

# Files to list in a folder to find out what it contains.
_FILES = 2_000


def images_in_folder(folder: str) -> str:
    """What to pass to `--images` instead of a folder: a glob that matches files."""
    return _glob_hint(folder, IMAGE_EXTENSIONS, "images")


def csvs_in_folder(folder: str) -> str:
    """What to pass to `--labels` instead of a folder: its CSV, or a glob of several."""
    return _glob_hint(folder, _LABELS, "*.csv")


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
