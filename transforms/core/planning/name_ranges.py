"""Cuts a sorted list of unknown length into ranges of names, with few requests.

A bucket lists names in order, page after page, and cannot say how many there are. It can say which
name is the first at or after a text, so the tree of the names' beginnings is searched: the names
`a1`, `a2` and `b1` branch at `a` and `b`. How many names a range has is not known, so that a long
one is cut again by the worker that lists it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

FirstAt: TypeAlias = Callable[[str], str]
"""Gives the first name at or after a text, empty if there is none."""

LISTED_NAMES = (16_000, 16_000, 128_000)
"""The names that one worker lists before it cuts the rest into ranges, in each round.

The ranges of the last round are listed to their ends. 100 million names become 4,000 ranges in two
rounds; the third is for names that are unevenly spread.
"""

MAX_RANGES = 64
"""The ranges into which one list is cut, at most."""

# A list with as many branches is not searched deeper.
_ENOUGH = MAX_RANGES // 2

# A level of the tree has at least twice as many branches as the one above, unless names contain
# each other.
_MAX_LEVELS = 6

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)


class _Branch(NamedTuple):
    """The names that begin alike.

    Attributes:
        prefix: the beginning that they share.
        first: the first of them.
        is_name: whether it is only the name `prefix`, without the longer ones.
    """

    prefix: str
    first: str
    is_name: bool = False


def range_starts(
    first_at: FirstAt, start: str, *, each: Callable[..., Iterator[Any]] = map
) -> list[str]:
    """The texts at which the ranges of a list begin: `start`, then up to 63 more, sorted.

    Args:
        first_at: requests a name of the list.
        start: the text at or after which the list begins.
        each: like `map`; may call several at once.
    """
    first_at = functools.cache(first_at)
    branches = [_Branch("", first_at(start))]
    for _ in range(_MAX_LEVELS):
        if len(branches) >= _ENOUGH:
            break
        deeper = [
            found
            for below in each(functools.partial(_below, first_at), branches)
            for found in below
        ]
        if len(deeper) == len(branches):
            break
        branches = deeper
    inner = [branch.prefix for branch in branches[1:]]
    return [start, *inner][:: -(-len(branches) // MAX_RANGES)]


def _below(first_at: FirstAt, branch: _Branch) -> list[_Branch]:
    """The branches of a branch, in order; itself if it is one name."""
    prefix, name, is_name = branch
    if is_name or not name:
        return [branch]
    shared = _shared_length(first_at, branch)
    found: list[_Branch] = []
    while name and name.startswith(prefix) and len(found) < _ENOUGH:
        is_name = len(name) == shared
        found.append(_Branch(name[: shared + 1], name, is_name))
        # A name that the others contain comes before them.
        after = f"{name} " if is_name else _past(name[: shared + 1])
        name = first_at(after) if after else ""
    return found


def _shared_length(first_at: FirstAt, branch: _Branch) -> int:
    """How long the beginning is that all names of a branch share."""
    prefix, name, _ = branch

    def is_shared(length: int) -> bool:
        end = _past(name[:length])
        other = first_at(end) if end else ""
        return not (other and other.startswith(prefix))

    low, step = len(prefix), 1
    while low + step <= len(name) and is_shared(low + step):
        low += step
        step *= 2
    high = min(low + step - 1, len(name))
    while low < high:
        middle = (low + high + 1) // 2
        if is_shared(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _past(prefix: str) -> str:
    """The first text after all that begin with a prefix; empty if there is none.

    >>> _past("img_09"), _past("a\U0010ffff")
    ('img_0:', 'b')
    """
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= _LAST_CHARACTER:
            lowest, after = _SURROGATES
            return prefix[:-1] + chr(after if code == lowest else code)
        prefix = prefix[:-1]
    return ""
