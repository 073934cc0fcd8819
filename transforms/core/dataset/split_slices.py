"""Reads splits and slices of splits as TensorFlow Datasets writes them: `train[:10%]+test`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Shards = Sequence[tuple[str, int]]
"""The files of a split with their numbers of records, in order."""

ALL = "all"
"""All splits, unless one of them has this name."""

_EXAMPLES = "write it like train, train[:10%], train[100:200] or train+validation"

_PART = re.compile(r"(?P<split>[^\[\]]+?)(?:\[(?P<slice>[^\[\]]*)\])?")
_BOUND = re.compile(r"(?P<value>-?\d+(?:\.\d+)?)(?P<unit>%|shard)?", re.ASCII)


class ShardRange(NamedTuple):
    """Consecutive records of one file.

    Attributes:
        file: its name.
        skip: records before the first one to read.
        take: records to read.
        records: records in the file.
    """

    file: str
    skip: int
    take: int
    records: int


class _Bound(NamedTuple):
    """One end of a slice; `value` is None if it is open."""

    value: float | None
    unit: str


def shard_ranges(text: str, splits: Mapping[str, Shards]) -> list[ShardRange]:
    """The records that a text such as `train[:10%]+test` names, in the order of the files.

    Slices count records as TensorFlow Datasets does: percentages are rounded to the closest
    record (halves to the even one), negative ends count from the end, and `shard` counts files.

    Args:
        text: splits or slices, with `+` between them.
        splits: the files of each split.

    Returns:
        ranges with records, and of a whole split also those without.

    Raises:
        ValueError: it is not such a text, or names an unknown split or records that are not there.

    >>> [(r.skip, r.take) for r in shard_ranges("train[2:-1]", {"train": [("a", 4), ("b", 4)]})]
    [(2, 2), (0, 3)]
    """
    return [each for part in text.split("+") for each in _part_ranges(part.strip(), splits)]


def _part_ranges(part: str, splits: Mapping[str, Shards]) -> list[ShardRange]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not a split: {_EXAMPLES}")
    name, slice_text = match["split"].strip(), match["slice"]
    if name not in splits:
        if name == ALL and slice_text is None:
            return [each for split in splits for each in _part_ranges(split, splits)]
        raise ValueError(f"there is no split {name!r}, only {', '.join(splits)}")
    shards = splits[name]
    if slice_text is None:
        return [ShardRange(file, 0, records, records) for file, records in shards]
    first, last = _records(part, slice_text, [records for _, records in shards])
    ranges: list[ShardRange] = []
    before = 0
    for file, records in shards:
        skip = min(max(first - before, 0), records)
        take = min(last - before, records) - skip
        if take > 0:
            ranges.append(ShardRange(file, skip, take, records))
        before += records
    return ranges


def _records(part: str, text: str, shards: Sequence[int]) -> tuple[int, int]:
    """The first record of a slice, and the record after its last one."""
    ends = [_bound(part, end.strip()) for end in text.split(":")]
    if len(ends) == 1 and ends[0].unit == "shard" and ends[0].value is not None:
        start = ends[0].value
        # The shard after the last one is its open end.
        ends.append(_Bound(None if start == -1 else start + 1, "shard"))
    units = {end.unit for end in ends if end.value is not None}
    if len(ends) != 2 or len(units) != 1:
        raise ValueError(f"{part!r} has no valid slice: {_EXAMPLES}")
    [unit], total = units, sum(shards)
    limit = {"%": 100, "shard": len(shards), "": total}[unit]
    places: list[int] = []
    for end, default in zip(ends, (0, limit), strict=True):
        value = default if end.value is None else end.value
        if abs(value) > limit:
            kind = {"%": "percent", "shard": "shards", "": "records"}[unit]
            raise ValueError(f"{part!r} goes beyond the {limit} {kind} of the split")
        place = limit + value if value < 0 else value
        if unit == "%":
            places.append(_closest(value, total))
        else:
            places.append(sum(shards[: int(place)]) if unit == "shard" else int(place))
    first, last = places
    if last <= first:
        raise ValueError(f"{part!r} has no records: the split has {total}")
    return first, last


def _closest(percent: float, total: int) -> int:
    """A record, from the beginning; rounded before a negative percentage counts from the end."""
    place = round(percent * total / 100.0)
    return total + place if percent < 0 else place


def _bound(part: str, text: str) -> _Bound:
    if not text:
        return _Bound(None, "")
    match = _BOUND.fullmatch(text)
    if match is None or (match["unit"] != "%" and "." in match["value"]):
        raise ValueError(f"{part!r} has no valid slice: {_EXAMPLES}")
    return _Bound(float(match["value"]), match["unit"] or "")
