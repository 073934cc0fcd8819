"""Tables of the report, each of bounded size: classes, shards, rejected files, duplicates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from transforms.core.labels.label_kinds import class_order
from transforms.core.rejections import Reason, Rejection, help_for
from transforms.core.report.charts import percent
from transforms.core.shown_text import printable, redacted

Row = TypeVar("Row")

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


class ClassRow(NamedTuple):
    """One class: its records in each split, and its bar.

    Attributes:
        name: of the class.
        counts: records in each split.
        total: records in all of them.
        ends: where the segments of the first splits end, in percent of the longest bar.
    """

    name: str
    counts: tuple[int, ...]
    total: int
    ends: tuple[float, ...]


class Table(NamedTuple):
    """The rows that fit into the page, and the total number."""

    rows: Sequence[Any]
    total: int


def class_table(splits: Mapping[str, Any], share: float) -> Table:
    """Records of each class in each split, by name; the largest classes, if not all fit.

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
        lambda row: len(row.name.encode()) + 12 * len(row.counts) + 20,
    )
    return Table(sorted(kept, key=lambda row: class_order(row.name)), len(rows))


def _class_row(name: str, counts: tuple[int, ...], highest: int) -> ClassRow:
    heads = [sum(counts[: end + 1]) for end in range(min(len(counts), _COLORS))]
    if len(counts) > _COLORS:
        heads[-1] = sum(counts)
    ends = tuple(round(percent(head, highest), 1) for head in heads)
    return ClassRow(shown(name), counts, sum(counts), ends)


def _fitting(rows: Iterable[Row], characters: float, size: Callable[[Row], int]) -> list[Row]:
    kept = []
    for row in rows:
        characters -= _OF_ROW + size(row)
        if characters < 0:
            break
        kept.append(row)
    return kept


class ShardEntry(NamedTuple):
    """One shard as the manifest lists it, and its size in percent of the largest."""

    file: str
    split: str
    records: int
    bytes: int
    crc32c: str
    percent: float
    is_missing: bool


def shard_table(splits: Mapping[str, Any], missing: Iterable[str], share: float) -> Table:
    """The shards, split by split.

    Args:
        splits: as the manifest has them.
        missing: names of shards that do not exist.
        share: of the room for all of it.
    """
    gone = set(missing)
    listed = [(name, shard) for name, split in splits.items() for shard in split["shards"]]
    largest = max((shard["bytes"] for _, shard in listed), default=0)
    rows = (
        ShardEntry(
            shown(shard["file"]),
            name,
            shard["records"],
            shard["bytes"],
            shard["crc32c"],
            percent(shard["bytes"], largest),
            shard["file"] in gone,
        )
        for name, shard in listed
    )
    kept = _fitting(
        rows, _SHARD_CHARACTERS * share, lambda row: len(row.file) + len(row.split) + 60
    )
    return Table(kept, len(listed))


class Rejected(NamedTuple):
    """One rejected file or row: its path, the detail, and a thumbnail or an empty text."""

    path: str
    detail: str
    picture: str


@dataclasses.dataclass(frozen=True)
class ReasonCard:
    """One reason with its meaning, what to do, and the rejections.

    Attributes:
        code: the reason.
        count: how often it occurs.
        meaning: the problem of the file.
        fix: what to do.
        listed: the first of them.
    """

    code: str
    count: int
    meaning: str
    fix: str
    listed: tuple[Rejected, ...]


def reason_cards(
    counts: Mapping[str, int],
    rejections: Sequence[Rejection],
    pictures: Mapping[str, str],
    share: float,
    options: Mapping[str, Any],
) -> list[ReasonCard]:
    """The rejections by reason, the most frequent first.

    Args:
        counts: rejections of each reason, as the manifest has them.
        rejections: those that may be listed.
        pictures: thumbnails by path.
        share: of the room for all of it.
        options: those of the dataset, on which advice depends.
    """
    listed: dict[str, list[Rejected]] = {}
    room = _REJECTED_CHARACTERS * share / max(len(counts), 1)
    for reason in counts:
        rows = (
            Rejected(shown(r.path), shown(r.detail), pictures.get(r.path, ""))
            for r in rejections
            if r.reason == reason
        )
        listed[reason] = _fitting(rows, room, _rejected_size)
    return [
        ReasonCard(shown(reason), count, *advice(reason, options), tuple(listed[reason]))
        for reason, count in counts.items()
    ]


def _rejected_size(row: Rejected) -> int:
    return len(row.path.encode()) + len(row.detail.encode())


def advice(reason: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """The meaning of a reason and what to do, as two sentences; empty for an unknown reason.

    >>> advice("empty_file", {})
    ('The file has no bytes.', 'Fetch it again.')
    """
    if reason not in set(Reason):
        return "", ""
    meaning, _, fix = help_for(reason, options).partition("; ")
    return _sentence(meaning), _sentence(fix)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


class Twin(NamedTuple):
    """One image of a group of duplicates."""

    name: str
    label: str
    split: str
    picture: str


class DuplicateGroup(NamedTuple):
    """A group of duplicates.

    Attributes:
        images: the first images of the group.
        more: images beyond those.
        splits: names of the splits they are in.
        is_conflict: whether they have different labels.
        distance: bits in which their perceptual hashes differ; 0 when their pixels are the same.
    """

    images: tuple[Twin, ...]
    more: int
    splits: tuple[str, ...]
    is_conflict: bool
    distance: int


def duplicate_groups(
    listed: Iterable[Mapping[str, Any]], pictures: Mapping[Place, str]
) -> Iterator[DuplicateGroup]:
    """Groups or pairs of `statistics.json`, with their thumbnails.

    Args:
        listed: the groups.
        pictures: thumbnails by place of the record.
    """
    for group in listed:
        images = group["images"]
        splits = {_split_of(image) for image in images}
        classes = {image["class"] for image in images if "dataset" not in image}
        yield DuplicateGroup(
            tuple(
                Twin(
                    shown(image["path"] or image["key"]),
                    shown(image["class"]),
                    shown(_split_of(image)) if _is_somewhere(image) else "left out",
                    pictures.get(place_of(image), ""),
                )
                for image in images[:SHOWN_TWINS]
            ),
            max(0, len(images) - SHOWN_TWINS),
            tuple(sorted(map(shown, splits))),
            len(classes) > 1,
            int(group.get("distance", 0)),
        )


def _is_somewhere(image: Mapping[str, Any]) -> bool:
    """Whether an image is in a dataset: in this one, or in one of `--holdout`."""
    return bool(image["file"]) or "dataset" in image


def _split_of(image: Mapping[str, Any]) -> str:
    """The split of an image, also in a dataset of `--holdout`."""
    if "dataset" in image:
        return f"{image['split']} of {image['dataset']}"
    return str(image["split"])


def place_of(image: Mapping[str, Any]) -> Place:
    """The place of the record of an image in `statistics.json`."""
    return image["file"] or "", image["offset"] or 0
