"""Expands globs on local disk, folder by folder; an unreadable folder is an error."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
from collections import Counter
from collections.abc import Iterator

# Limit for paths through links to one folder; a dozen folders linked in a circle have millions.
_MAX_WAYS = 1000


def expand_glob(pattern: str) -> Iterator[str]:
    """Like `glob.iglob(pattern, recursive=True)` without folders; an unreadable one is an error."""
    first, *parts = pattern.split("/")
    if first == "" and parts:
        yield from _match_parts("/", parts)
    else:
        yield from _match_parts("", [first, *parts])


def _match_parts(folder: str, parts: list[str]) -> Iterator[str]:
    """The paths in `folder` (`""` or ending in a slash) that the rest of a glob matches."""
    at = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    folder += "".join(f"{name}/" for name in parts[:at])
    part, rest = parts[at], parts[at + 1 :]
    if part == "**":
        yield from _match_below(folder, rest or ["*"])
    elif not glob.has_magic(part):
        if part and os.path.lexists(folder + part):
            yield folder + part
    else:
        for entry in _entries(folder):
            if _fits(entry.name, part):
                yield from _match_entry(folder, entry, rest)


def _fits(name: str, part: str) -> bool:
    return fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != ".")


def _match_entry(folder: str, entry: os.DirEntry[str], rest: list[str]) -> Iterator[str]:
    """The paths that the rest of a glob matches below something in `folder`, or itself."""
    if not rest:
        if not entry.is_dir(follow_symlinks=False):
            yield folder + entry.name
    elif _is_folder(entry):
        yield from _match_parts(f"{folder}{entry.name}/", rest)


def _match_below(top: str, rest: list[str]) -> Iterator[str]:
    """Expands `**`: matches the rest in `top` and in every folder below it that is not hidden.

    Links to folders are followed, unless they lead back to a folder above.

    Raises:
        OSError: there are too many ways through links to one folder.
    """
    part, *deeper = rest
    # Each folder is listed once, for its files and for the folders in it.
    is_listed = glob.has_magic(part) and part != "**"
    ways: Counter[str] = Counter()
    # A folder, its path without links, and all folders above it.
    todo: list[tuple[str, str, frozenset[str]]] = [(top, os.path.realpath(top), frozenset())]
    while todo:
        folder, real, above = todo.pop()
        if real in above:
            continue
        ways[real] += 1
        if ways[real] > _MAX_WAYS:
            raise OSError(errno.ELOOP, f"more than {_MAX_WAYS} paths with links lead to it", folder)
        if not is_listed:
            yield from _match_parts(folder, rest)
        below = above | {real}
        for entry in _entries(folder):
            name = entry.name
            if is_listed and _fits(name, part):
                yield from _match_entry(folder, entry, deeper)
            if name[0] != "." and _is_folder(entry):
                target = os.path.join(real, name)
                if entry.is_symlink():
                    target = os.path.realpath(target)
                todo.append((f"{folder}{name}/", target, below))


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
