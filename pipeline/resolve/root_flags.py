"""The flag `--root`: the folder below which paths and keys begin."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config import ConvertConfig
from pipeline.errors import UsageError
from transforms.core.index.source_records import RECORDS
from transforms.core.planning.keys import fixed_root, is_below, tidy_root
from transforms.storage.files import storage_of


def root_of(flags: argparse.Namespace, flag: str, globs: Sequence[str]) -> str:
    """The folder of `--root`, spelled as in the globs; without it their common folder.

    Args:
        flags: the result of `parse_flags`.
        flag: the flag that has the globs, for messages.
        globs: all files that they match must be below the folder.

    Raises:
        UsageError: a glob can match files outside of it.
    """
    if flags.root is None:
        return fixed_root(globs)
    for root in _spellings(flags.root):
        if all(is_below(glob, root) for glob in globs):
            return root
    outside = next(glob for glob in globs if not is_below(glob, tidy_root(flags.root)))
    raise UsageError(
        f"--root {flags.root} does not contain all files of {flag} {outside!r}: give a folder "
        f"above them, such as {fixed_root(globs) or '.'!r}"
    )


def _spellings(root: str) -> list[str]:
    """The folder as given, absolute, and relative to the working directory."""
    return [tidy_root(spelled) for spelled in storage_of(root).spellings(root)]


def check_same_root(
    flags: argparse.Namespace, config: ConvertConfig, former: Mapping[str, Any]
) -> None:
    """Refuses to replace a dataset by one with another root, unless a flag requests it.

    A root that was moved with all of its images keeps their keys.

    Raises:
        UsageError: the keys, and so the splits, of unchanged images would change.
    """
    keys_move = config.key in ("path", "row") or config.split_from == "directory"
    was, now = (storage_of(root).absolute(root) for root in (former["root"], config.root))
    is_nested = was != now and (_contains(was, now) or _contains(now, was))
    has_none = RECORDS in (former["root"], config.root)
    if flags.root is not None or not keys_move or not is_nested or has_none:
        return
    globs = config.images or (flags.labels,)
    keep = any(
        all(is_below(glob, root) for glob in globs) for root in _spellings(former["root"] or ".")
    )
    advice = f"--root {former['root'] or '.'} keeps the keys; " if keep else ""
    raise UsageError(
        f"--output {config.output} holds a dataset with the root {former['root'] or '.'!r}, but "
        f"the root is now {config.root or '.'!r}: this changes every key, and moves images to "
        f"other splits. {advice}--root {config.root or '.'} accepts the change"
    )


def _contains(folder: str, other: str) -> bool:
    return other.startswith(folder.removesuffix("/") + "/")
