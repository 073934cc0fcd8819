"""Globs for names that no file system expands, such as objects in a bucket."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

WILDCARD = re.compile(r"[*?\[]")
"""The characters that make a path a glob."""

_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def literal_prefix(pattern: str) -> str:
    """The common beginning of all names that a glob matches.

    >>> literal_prefix("photos/2024-*/x.jpg")
    'photos/2024-'
    """
    return WILDCARD.split(pattern, maxsplit=1)[0]


def glob_tokens(pattern: str) -> list[str]:
    """The characters and the wildcards of a glob.

    >>> glob_tokens("a*[0-9].png")
    ['a', '*', '[0-9]', '.', 'p', 'n', 'g']
    """
    return _TOKEN.findall(pattern)


def literal_ending(tokens: Sequence[str]) -> str:
    """The common ending of all texts that tokens match: what follows the last wildcard.

    >>> literal_ending(glob_tokens("*_[ab]_mask")), literal_ending(glob_tokens("mask"))
    ('_mask', 'mask')
    """
    literal = itertools.takewhile(lambda each: len(each) == 1 and each not in "*?", tokens[::-1])
    return "".join(literal)[::-1]


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression for `fullmatch` that matches like a glob of local files.

    `*`, `?` and `[a-z]` stay within a folder, `**` crosses folders, and names with a leading dot
    need one in the pattern.

    >>> bool(glob_regex("photos/**/*.jpg").fullmatch("photos/a/b/1.jpg"))
    True
    """
    *folders, name = pattern.split("/")
    parts = [_folders_regex() if part == "**" else _part_regex(part) + "/" for part in folders]
    parts.append(_folders_regex() + _part_regex("*") if name == "**" else _part_regex(name))
    return re.compile("".join(parts), re.DOTALL)


def _folders_regex() -> str:
    return r"(?:(?!\.)[^/]+/)*"


def _part_regex(part: str) -> str:
    if not WILDCARD.search(part):
        return re.escape(part)
    hidden = "" if part[0] == "." else r"(?!\.)"
    return hidden + r"(?=[^/])" + "".join(_token_regex(token) for token in glob_tokens(part))


def _token_regex(token: str) -> str:
    if token[0] == "*":
        return "[^/]*"
    if token == "?":
        return "[^/]"
    if len(token) > 2 and token[0] == "[":
        return _class_regex(token[1:-1])
    return re.escape(token)


def _class_regex(body: str) -> str:
    """A character class, as `fnmatch` reads it."""
    negated = body[0] == "!"
    # `fnmatch` supports ranges; everything else in the brackets is literal.
    members = re.sub(r"([\\^\]\[&~|])", r"\\\1", body[1:] if negated else body)
    return f"(?!/)[{'^' if negated else ''}{members}]"
