"""Warnings: problems that make a dataset bad for training but are not errors.

`plan` and `convert` print them, the manifest lists them under `warnings`, and the report shows
them. With `--strict` they end the run before anything is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.labels.label_kinds import class_order

TINY_SPLIT = 10
"""A split of fewer records than this is too small to measure anything."""

MAX_CHANCE = 1e-6
"""If chance alone explains a split's share with less than this probability, warn."""

# Classes and problems named one by one in a message.
_MAX_NAMED = 3


class DatasetWarning(NamedTuple):
    """One warning.

    Attributes:
        code: its kind, for programs; stable between versions.
        text: for users: what, where, and what to do.
    """

    code: str
    text: str


def warning_lines(warnings: Iterable[DatasetWarning]) -> list[str]:
    """A line of text for each warning."""
    return [f"warning  {warning.text}" for warning in warnings]


def strict_message(warnings: Sequence[DatasetWarning]) -> str:
    """The message with which `--strict` ends a run that has warnings.

    >>> strict_message([DatasetWarning("a", "x is empty"), DatasetWarning("b", "y")])
    '--strict: x is empty (and 1 more warning); nothing published'
    """
    more = len(warnings) - 1
    rest = f" (and {more} more warning{'' if more == 1 else 's'})" if more else ""
    return f"--strict: {warnings[0].text}{rest}; nothing published"


def to_manifest(warnings: Iterable[DatasetWarning]) -> list[dict[str, str]]:
    """The entry `warnings` of the manifest."""
    return [warning._asdict() for warning in warnings]


def from_manifest(manifest: Mapping[str, Any]) -> list[DatasetWarning]:
    """The warnings that a manifest lists; none if it has no such entry."""
    return [
        DatasetWarning(str(entry.get("code", "")), str(entry.get("text", "")))
        for entry in manifest.get("warnings", ())
    ]


def split_warnings(
    records: Mapping[str, int],
    classes: Mapping[str, Mapping[str, int]],
    *,
    planned: Mapping[str, int],
    options: Mapping[str, Any],
    what: str = "image",
) -> list[DatasetWarning]:
    """Warnings about the sizes and the classes of the splits.

    Args:
        records: of each split, in order, including requested splits that are empty.
        classes: records of each class in each split; the class without a name is ignored.
        planned: images assigned to each split, before images were checked.
        options: those of the dataset: `splits`, `split_from` and `group_by` are read.
        what: a record's source, for messages: image or row.
    """
    total = sum(records.values())
    if len(records) < 2 or not total:
        return []
    group = options.get("group_by")
    warnings = list(_sizes(records, group, what))
    if options.get("split_from", "hash") == "hash":
        warnings += _shares(planned, options.get("splits") or {}, group, what)
    return [*warnings, *_classes(records, classes, what)]


def _sizes(records: Mapping[str, int], group: str | None, what: str) -> Iterable[DatasetWarning]:
    total = sum(records.values())
    of_groups = f"; --group_by {group} keeps groups whole" if group else ""
    # Empty ones first.
    for split, count in sorted(records.items(), key=lambda item: item[1] > 0):
        if not count:
            yield DatasetWarning(
                "empty_split",
                f"the split {split!r} is empty, of {total} {what}s{of_groups}: change --splits "
                "or --seed, or add data",
            )
        elif count < TINY_SPLIT:
            yield DatasetWarning(
                "tiny_split",
                f"the split {split!r} has only {count} of {total} {what}s{of_groups}: fewer than "
                f"{TINY_SPLIT} are too few to measure anything",
            )


def _shares(
    planned: Mapping[str, int], asked: Mapping[str, float], group: str | None, what: str
) -> Iterable[DatasetWarning]:
    total = sum(planned.values())
    for split, share in asked.items():
        count = planned.get(split, 0)
        chance = min(1.0, len(asked) * tail_bound(count, total, share))
        if count and chance < MAX_CHANCE:
            why = f": --group_by {group} may have few or large groups" if group else ""
            yield DatasetWarning(
                "share_differs",
                f"the split {split!r} has {count} of {total} {what}s, {count / total:.1%} instead "
                f"of {share:.1%}; a random assignment would deviate this much less than once in "
                f"{1 / MAX_CHANCE:,.0f} runs{why}",
            )


def tail_bound(count: int, total: int, share: float) -> float:
    """An upper bound on the probability that a binomial count is as far off as `count`.

    This is Chernoff's bound, 2 exp(-n D), with the divergence D of the actual share from the
    requested one; the exact probability is lower.

    >>> tail_bound(60, 100, 0.6), tail_bound(0, 20, 0.6) < 1e-6
    (1.0, True)
    """
    if not total or not 0 < share < 1:
        return 1.0
    found = count / total
    divergence = sum(
        part * math.log(part / expected)
        for part, expected in ((found, share), (1 - found, 1 - share))
        if part > 0
    )
    return min(1.0, 2 * math.exp(-total * max(0.0, divergence)))


def _classes(
    records: Mapping[str, int], classes: Mapping[str, Mapping[str, int]], what: str
) -> Iterable[DatasetWarning]:
    found = {name for counts in classes.values() for name in counts} - {""}
    names = sorted(found, key=class_order)
    for split, count in records.items():
        lacking = [name for name in names if not classes.get(split, {}).get(name)]
        if count and lacking:
            shown = ", ".join(repr(name[:40]) for name in lacking[:_MAX_NAMED])
            more = ", ..." if len(lacking) > _MAX_NAMED else ""
            yield DatasetWarning(
                "class_missing",
                f"the split {split!r} has no {what} of {len(lacking)} of {len(names)} classes "
                f"({shown}{more})",
            )
