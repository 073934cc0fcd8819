"""Compares two manifests: the options of the datasets, and the checksums of their shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.core.dataset.manifest import manifest_shards


class OptionChange(NamedTuple):
    """An option with another value.

    Attributes:
        name: of the option; `features` if a layout file of the same name has changed.
        old: its former value; None if it was not given.
        new: its value now.
    """

    name: str
    old: Any
    new: Any


def option_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[OptionChange]:
    """The options that differ, by name.

    Args:
        old: the manifest of a dataset.
        new: that of another one.

    >>> one = {"options": {"seed": 1, "key": "stem"}, "features": []}
    >>> option_changes(one, {"options": {"key": "stem", "color": "rgb"}, "features": []})
    [OptionChange(name='color', old=None, new='rgb'), OptionChange(name='seed', old=1, new=None)]
    """
    was, now = old["options"], new["options"]
    changed = [
        OptionChange(name, was.get(name), now.get(name))
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    if not changed and old["features"] != new["features"]:
        names = ([feature["name"] for feature in each["features"]] for each in (old, new))
        changed.append(OptionChange("features", *names))
    return changed


def other_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """The number of shards of either dataset that the other one does not have.

    Records may differ in what no index holds: boxes and the cells of columns.
    """
    one, other = (
        {(each["file"], each["crc32c"]) for each in manifest_shards(manifest)}
        for manifest in (old, new)
    )
    return max(len(one - other), len(other - one))
