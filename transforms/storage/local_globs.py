"""Expands globs on local disk, folder by folder; an unreadable folder is an error."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import stat
from collections import Counter
from collections.abc import Iterator

# Limit for paths through links to one folder; a dozen folders linked in a circle have millions.
_MAX_WAYS = 1000


def expand_glob(pattern: str) -> Iterator[str]:
    """Like `glob.iglob(pattern, recursive=True)`, but an unreadable folder is an error."""
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
        for name in _names(folder):
            if fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != "."):
                if not rest:
                    yield folder + name
                elif _is_folder(folder + name):
                    yield from _match_parts(folder + name + "/", rest)


def _match_below(top: str, rest: list[str]) -> Iterator[str]:
    """Expands `**`: matches the rest in `top` and in every folder below it that is not hidden.

    Links to folders are followed, unless they lead back to a folder above.

    Raises:
        OSError: there are too many ways through links to one folder.
    """
    ways: Counter[str] = Counter()
    # A folder, its path without links, and all folders above it.
    todo: list[tuple[str, str, frozenset[str]]] = [(top, os.path.realpath(top), frozenset())]
    while todo:
        folder, real, above = todo.pop()
        if real in above:
            continue
        ways[real] += 1
        if ways[real] > _MAX_WAYS:
            raise OSError(errno.ELOOP, f"links lead to it in more than {_MAX_WAYS} ways", folder)
        yield from _match_parts(folder, rest)
        below = above | {real}
        for name in _names(folder):
            path = folder + name
            if name[0] != "." and _is_folder(path):
                target = os.path.join(real, name)
                if os.path.islink(path):
                    target = os.path.realpath(target)
                todo.append((path + "/", target, below))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_folder(path: str) -> bool:
    """Whether `path` is a folder, or a link to one.

    Raises:
        OSError: that is unknown, for example in a folder that may be listed but not entered, or for
            a path that is too long; `os.path.isdir` gives False, and images would be missed.
    """
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise PermissionError(error.errno, error.strerror, os.path.dirname(path)) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
