"""Expands globs on local disk, folder by folder; an unreadable folder is an error."""

from __future__ import annotations

import errno
import fnmatch
import glob
import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from transforms.core.records import NameRange
from transforms.storage.interface import MAX_RANGES

# Limit for paths through links to one folder; a dozen folders linked in a circle have millions.
_MAX_WAYS = 1000

# The fields of a place that say where it is; the others follow from the folder.
_OF_RANGE = 3


class Place(NamedTuple):
    """A folder in which a part of a glob is matched.

    Attributes:
        folder: `""`, or a path that ends in a slash.
        at: the number of the part.
        top: the length of the path of the folder in which `**` began; -1 outside of `**`.
        real: within `**`, the folder's path without links; empty if it is not known yet.
        above: the same for the folders between, from the top.
        is_linked: whether a link leads there from the top.
    """

    folder: str
    at: int
    top: int = -1
    real: str = ""
    above: frozenset[str] = frozenset()
    is_linked: bool = False


def expand_range(part: NameRange, limit: int) -> Iterator[str | NameRange]:
    """Like `glob.iglob(pattern, recursive=True)` without folders; an unreadable one is an error.

    Args:
        part: a glob, or some of its folders.
        limit: the number of paths after which the folders that are left become ranges; 0 for none.

    Raises:
        OSError: a folder cannot be read, or there are too many ways through links to one.
    """
    parts = part.glob.split("/")
    if parts[-1] == "**":
        parts.append("*")
    is_absolute = parts[0] == "" and len(parts) > 1
    begins = [Place("/", 1) if is_absolute else Place("", 0)]
    if part.start:
        begins = [Place(*begin) for begin in json.loads(part.start)]
    found, left = 0, list[Place]()
    ways: Counter[tuple[str, str]] = Counter()
    # Folders in each other: the last one is expanded.
    opened: list[Iterator[str | Place]] = [iter(begins)]
    while opened:
        for each in opened[-1]:
            if isinstance(each, str):
                found += 1
                yield each
            elif limit and found >= limit:
                left.append(each)
            else:
                opened.append(_expand(parts, each, ways))
                break
        else:
            opened.pop()
    for number in range(min(len(left), MAX_RANGES)):
        # As JSON, names that are not UTF-8 cross a shuffle, too.
        start = json.dumps([place[:_OF_RANGE] for place in left[number::MAX_RANGES]])
        yield NameRange(part.glob, start)


def _expand(
    parts: list[str], place: Place, ways: Counter[tuple[str, str]]
) -> Iterator[str | Place]:
    """The paths in a folder, and places below it."""
    folder, at = place.folder, place.at
    while at < len(parts) - 1 and not glob.has_magic(parts[at]):
        folder += f"{parts[at]}/"
        at += 1
    part = parts[at]
    if part == "**":
        yield from _expand_tree(parts, _in_tree(place._replace(folder=folder, at=at)), ways)
    elif not glob.has_magic(part):
        if part and os.path.lexists(folder + part):
            yield folder + part
    else:
        inner = Place(folder, at + 1)
        for entry in _entries(folder):
            if _fits(entry.name, part):
                yield from _match_entry(parts, inner, entry)


def _fits(name: str, part: str) -> bool:
    return fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != ".")


def _match_entry(parts: list[str], place: Place, entry: os.DirEntry[str]) -> Iterator[str | Place]:
    """The place below something in a folder, where the rest of a glob is matched, or itself."""
    if place.at == len(parts):
        if not entry.is_dir(follow_symlinks=False):
            yield place.folder + entry.name
    elif _is_folder(entry):
        yield Place(f"{place.folder}{entry.name}/", place.at)


def _in_tree(place: Place) -> Place:
    """A place within `**`, with what links need."""
    if place.real:
        return place
    folder = place.folder
    top = len(folder) if place.top < 0 else place.top
    ends = [at + 1 for at in range(top, len(folder)) if folder[at] == "/"]
    above = [os.path.realpath(folder[:end]) for end in (top, *ends)]
    real = above.pop()
    is_linked = bool(above) and real != os.path.join(above[0], folder[top:-1])
    return Place(folder, place.at, top, real, frozenset(above), is_linked)


def _expand_tree(
    parts: list[str], place: Place, ways: Counter[tuple[str, str]]
) -> Iterator[str | Place]:
    """Expands `**`: matches the rest in a folder, and in every one below that is not hidden.

    Links to folders are followed, unless they lead back to a folder above.
    """
    folder, at, top, real, above, is_linked = place
    if real in above:
        return
    if is_linked:
        ways[folder[:top], real] += 1
        if ways[folder[:top], real] > _MAX_WAYS:
            raise OSError(errno.ELOOP, f"more than {_MAX_WAYS} paths with links lead to it", folder)
    # Each folder is listed once, for its files and for the folders in it.
    is_listed = glob.has_magic(parts[at + 1]) and parts[at + 1] != "**"
    if not is_listed:
        yield Place(folder, at + 1)
    below, inner = [], Place(folder, at + 2)
    # One set for all of them: there may be a million.
    path = above | {real}
    for entry in _entries(folder):
        name = entry.name
        if is_listed and _fits(name, parts[at + 1]):
            yield from _match_entry(parts, inner, entry)
        if name[0] != "." and _is_folder(entry):
            is_link = entry.is_symlink()
            target = os.path.join(real, name)
            if is_link:
                target = os.path.realpath(target)
            below.append(Place(f"{folder}{name}/", at, top, target, path, is_linked or is_link))
    # No folder stays open meanwhile: folders may be thousands deep.
    yield from below


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder, as it is read; nothing if the folder is gone.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        listing = os.scandir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        raise closed_folder(folder, error) from error
    with listing:
        yield from listing


def closed_folder(path: str, error: PermissionError) -> PermissionError:
    """The error that names the folder whose permissions keep a path from being read."""
    above = os.path.dirname(path.rstrip("/"))
    try:
        os.stat(os.path.join(above, "."))
    except PermissionError:
        path = above
    return PermissionError(error.errno, error.strerror, path.rstrip("/"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether something is a folder, or a link to one; a call to the system only for a link.

    Raises:
        OSError: that is unknown; images would be missed.
    """
    try:
        return entry.is_dir()
    except PermissionError as error:
        raise PermissionError(error.errno, error.strerror, os.path.dirname(entry.path)) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return False
        raise
