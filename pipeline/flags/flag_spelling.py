"""Names of flags with dashes: `--num-shards` is `--num_shards`, also for Beam's flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAME = re.compile(r"--\w[\w-]*")


def flag_name(word: str) -> str:
    """The name of a flag with underscores; other words as they are.

    >>> flag_name("--num-shards=8"), flag_name("photos-a"), flag_name("--")
    ('--num_shards', 'photos-a', '--')
    """
    name = word.partition("=")[0]
    return f"--{name[2:].replace('-', '_')}" if _NAME.fullmatch(name) else word


def underscored(words: Iterable[str]) -> list[str]:
    """A command line in which the names of flags have underscores.

    Values, and all words after `--`, stay as they are.

    >>> underscored(["--label-key=image-id", "--seed", "1", "--", "--my-folder"])
    ['--label_key=image-id', '--seed', '1', '--', '--my-folder']
    """
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        made.append(_underscored(word))
        if word == "--":
            made += rest
    return made


def as_typed(word: str, words: Sequence[str]) -> str:
    """A word of `underscored(words)` as it is in `words`, for messages."""
    return next((each for each in words if _underscored(each) == word), word)


def _underscored(word: str) -> str:
    name = word.partition("=")[0]
    return flag_name(word) + word[len(name) :] if _NAME.fullmatch(name) else word
