"""Charts and tables of the report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from transforms.core.messages import printable, redacted
from transforms.core.rejections import Reason, Rejection, help_for
from transforms.labels.vocabulary import class_order

# The charts of the report: bars of histograms, ribbons of flows.

# Bins of `statistics.json` per octave: bin b holds values from 2**(b/4) up to 2**((b+1)/4).
_BINS_OF_OCTAVE = 4

_MAX_BARS = 24

# Steps of the axis of counts.
_MAX_STEPS = 3

# Heights of a flow in pixels: of the input, the minimum of a target, and the gap between targets.
_FLOW = 110
_SLOT = 34
_GAP = 8


Shown = dict[str, Any]
"""A chart, a table, a row or a bar, by the names that the templates of the page have for them."""


def histogram(
    title: str, counted: Mapping[str, Any], images: int, shown: Callable[[float], str]
) -> Shown:
    """The histogram of one number, with the smallest value, the mean and the largest one.

    Its bars are in the order of the values, without gaps; its ticks are round counts at equal
    distances on their axis, from the top down to 0.

    Args:
        title: what is measured.
        counted: `min`, `max`, `sum` and `bins`, as `statistics.json` has them.
        images: how many were counted.
        shown: formats a value.
    """
    bins = {int(bin_): int(count) for bin_, count in counted["bins"].items()}
    first, last = min(bins), max(bins)
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64) if last // s - first // s < _MAX_BARS)
    counts = [0] * (last // step - first // step + 1)
    for bin_, count in bins.items():
        counts[bin_ // step - first // step] += count
    low, high = float(counted["min"]), float(counted["max"])
    bars, ticks = [], count_ticks(max(counts))
    for at, count in enumerate(counts, first // step):
        left, right = (2 ** (end * step / _BINS_OF_OCTAVE) for end in (at, at + 1))
        label = f"{shown(max(left, low))} to {shown(min(right, high))}"
        bars.append({"label": label, "count": count, "percent": percent(count, ticks[0])})
    mean = shown(float(counted["sum"]) / images) if images else ""
    ends = {"low": shown(low), "mean": mean, "high": shown(high)}
    return {"title": title, **ends, "bars": bars, "ticks": ticks}


def count_ticks(highest: int) -> tuple[int, ...]:
    """Up to four round counts at equal distances, from at least `highest` down to 0.

    >>> count_ticks(1), count_ticks(37), count_ticks(2_900_000)
    ((1, 0), (40, 20, 0), (3000000, 2000000, 1000000, 0))
    """
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if _MAX_STEPS * step >= highest)
    return tuple(range(max(1, math.ceil(highest / step)) * step, -1, -step))


def percent(part: float, whole: float) -> float:
    """`part` of `whole` in percent, rounded; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0


def shares(counts: Mapping[str, int]) -> list[Shown]:
    """A bar for each count, the largest first; the percentage is that of the sum."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"label": name, "count": count, "percent": percent(count, total)} for name, count in ordered
    ]


def flow(label: str, parts: Sequence[tuple[str, int, str]]) -> Shown | None:
    """The flow to some parts, from the top down; None if they add up to 0.

    Heights are in pixels; the path of a target is the outline of its ribbon in an SVG that is 100
    units wide.

    Args:
        label: what went in.
        parts: name, count and kind of each; empty parts are left out.
    """
    parts = [part for part in parts if part[1] > 0]
    total = sum(count for _, count, _ in parts)
    if not total:
        return None
    thick = [max(2.0, _FLOW * count / total) for _, count, _ in parts]
    slots = [max(_SLOT, each) + _GAP for each in thick]
    height = sum(slots)
    targets = []
    source, top = (height - sum(thick)) / 2, 0.0
    for (name, count, kind), size, slot in zip(parts, thick, slots, strict=True):
        middle = top + slot / 2
        outline = {"height": round(slot, 1), "path": _ribbon(source, middle - size / 2, size)}
        part = percent(count, total)
        targets.append({"label": name, "count": count, "percent": part, "kind": kind, **outline})
        source, top = source + size, top + slot
    return {"label": label, "count": total, "height": round(height, 1), "targets": targets}


def _ribbon(left: float, right: float, size: float) -> str:
    """An S-shaped band of `size` pixels from y `left` to y `right`, 100 units wide."""
    return (
        f"M0 {left:.1f}C50 {left:.1f} 50 {right:.1f} 100 {right:.1f}V{right + size:.1f}"
        f"C50 {right + size:.1f} 50 {left + size:.1f} 0 {left + size:.1f}Z"
    )


# Tables of the report, each of bounded size: classes, shards, rejected files, duplicates.

# Maximum number of characters shown of a name.
_MAX_NAME = 160

# Approximate limit for the HTML of a table in characters, before lists are halved.
_CLASS_CHARACTERS = 1_500_000
_SHARD_CHARACTERS = 300_000
_REJECTED_CHARACTERS = 500_000

# Approximate characters of markup per row.
_OF_ROW = 60

# Splits with a colour and a segment of a class's bar.
_COLORS = 4

# Maximum images shown of a group of duplicates; they are nearly identical.
SHOWN_TWINS = 6

# Groups of exact duplicates with a picture, and pairs of near-duplicates with two: making one costs
# as much as converting an image. Conflicts and groups across splits come first.
PICTURED_GROUPS = 12

# Rejected files that are listed for one reason.
MAX_LISTED = 200

Place = tuple[str, int]
"""Where a record is: its file and its offset in it."""


def shown(text: object) -> str:
    """Text from the data, prepared for display: on one line, shortened, without secrets.

    >>> shown("a" * 200)[-6:]
    'aaaa …'
    """
    name = printable(redacted(str(text)))
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 2]} …"


def class_table(splits: Mapping[str, Any], share: float) -> Shown:
    """Records of each class in each split, by name; the largest classes, if not all fit.

    The ends of a row are those of the segments of the first splits, in percent of the longest bar.

    Args:
        splits: as the manifest has them.
        share: of the room for all of it.
    """
    counts = [split["classes"] for split in splits.values()]
    names = {name for each in counts for name in each} - {""}
    rows = [(name, tuple(each.get(name, 0) for each in counts)) for name in names]
    rows.sort(key=lambda row: (-sum(row[1]), class_order(row[0])))
    highest = sum(rows[0][1]) if rows else 0
    kept = _fitting(
        (_class_row(name, row, highest) for name, row in rows),
        _CLASS_CHARACTERS * share,
        lambda row: len(row["name"].encode()) + 12 * len(row["counts"]) + 20,
    )
    kept.sort(key=lambda row: class_order(row["name"]))
    return {"rows": kept, "total": len(rows)}


def _class_row(name: str, counts: tuple[int, ...], highest: int) -> Shown:
    heads = [sum(counts[: end + 1]) for end in range(min(len(counts), _COLORS))]
    if len(counts) > _COLORS:
        heads[-1] = sum(counts)
    ends = [round(percent(head, highest), 1) for head in heads]
    return {"name": shown(name), "counts": counts, "total": sum(counts), "ends": ends}


def _fitting(rows: Iterable[Shown], characters: float, size: Callable[[Shown], int]) -> list[Shown]:
    kept = []
    for row in rows:
        characters -= _OF_ROW + size(row)
        if characters < 0:
            break
        kept.append(row)
    return kept


def shard_table(splits: Mapping[str, Any], missing: Iterable[str], share: float) -> Shown:
    """The shards, split by split, with their sizes in percent of the largest.

    Args:
        splits: as the manifest has them.
        missing: names of shards that do not exist.
        share: of the room for all of it.
    """
    gone = set(missing)
    listed = [(name, shard) for name, split in splits.items() for shard in split["shards"]]
    largest = max((shard["bytes"] for _, shard in listed), default=0)
    rows = (
        {
            **{key: shard[key] for key in ("records", "bytes", "crc32c")},
            "file": shown(shard["file"]),
            "split": name,
            "percent": percent(shard["bytes"], largest),
            "is_missing": shard["file"] in gone,
        }
        for name, shard in listed
    )
    room = _SHARD_CHARACTERS * share
    kept = _fitting(rows, room, lambda row: len(row["file"]) + len(row["split"]) + 60)
    return {"rows": kept, "total": len(listed)}


def reason_cards(
    counts: Mapping[str, int],
    rejections: Sequence[Rejection],
    pictures: Mapping[str, str],
    share: float,
    options: Mapping[str, Any],
) -> list[Shown]:
    """The reasons with their first rejections and what to do, the most frequent first.

    Args:
        counts: rejections of each reason, as the manifest has them.
        rejections: those that may be listed.
        pictures: thumbnails by path.
        share: of the room for all of it.
        options: those of the dataset, on which advice depends.
    """
    cards = []
    room = _REJECTED_CHARACTERS * share / max(len(counts), 1)
    for reason, count in counts.items():
        rows = (
            {"path": shown(r.path), "detail": shown(r.detail), "picture": pictures.get(r.path, "")}
            for r in rejections
            if r.reason == reason
        )
        meaning, fix = advice(reason, options)
        listed = _fitting(rows, room, lambda row: len((row["path"] + row["detail"]).encode()))
        card = {"code": shown(reason), "count": count, "meaning": meaning, "fix": fix}
        cards.append({**card, "listed": listed})
    return cards


def advice(reason: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """The meaning of a reason and what to do, as two sentences; empty for an unknown reason.

    >>> advice("empty_file", {})
    ('The file has no bytes.', 'Fetch it again.')
    """
    if reason.upper() not in Reason.__members__:
        return "", ""
    meaning, _, fix = help_for(reason, options).partition("; ")
    return _sentence(meaning), _sentence(fix)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def duplicate_groups(
    listed: Iterable[Mapping[str, Any]], pictures: Mapping[Place, str]
) -> Iterator[Shown]:
    """Groups or pairs of `statistics.json`, with their thumbnails.

    `more` counts the images that are not shown, and `distance` the bits in which perceptual hashes
    differ.

    Args:
        listed: the groups.
        pictures: thumbnails by place of the record.
    """
    for group in listed:
        images = group["images"]
        classes = {image["class"] for image in images if "dataset" not in image}
        yield {
            "images": [
                {
                    "name": shown(image["path"] or image["key"]),
                    "label": shown(image["class"]),
                    # In a dataset: in this one, or in one that is held out.
                    "split": shown(_split_of(image))
                    if image["file"] or "dataset" in image
                    else "left out",
                    "picture": pictures.get(place_of(image), ""),
                }
                for image in images[:SHOWN_TWINS]
            ],
            "more": max(0, len(images) - SHOWN_TWINS),
            "splits": sorted(map(shown, {_split_of(image) for image in images})),
            "is_conflict": len(classes) > 1,
            "distance": int(group.get("distance", 0)),
        }


def _split_of(image: Mapping[str, Any]) -> str:
    """The split of an image, also in a dataset that is held out."""
    if "dataset" in image:
        return f"{image['split']} of {image['dataset']}"
    return str(image["split"])


def place_of(image: Mapping[str, Any]) -> Place:
    """The place of the record of an image in `statistics.json`."""
    return image["file"] or "", image["offset"] or 0
