"""The page of the report: its charts, its tables and its text."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from transforms.core.messages import format_bytes, from_manifest, printable, redacted
from transforms.core.rejections import Reason, Rejection, help_for
from transforms.dataset.image_statistics import warnings_from_json as warnings_in
from transforms.labels.vocabulary import class_order
from transforms.selection.duplicates import MAX_DISTANCE, PICTURED_GROUPS, SHOWN_TWINS

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


_Part = tuple[str, int, str]  # of a flow: name, count and kind
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
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_LINES]
    return [
        {"label": name, "count": count, "percent": percent(count, total)} for name, count in ordered
    ]


def flow(label: str, parts: Sequence[_Part]) -> Shown | None:
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

# Splits with a color and a segment of a class's bar.
_COLORS = 4


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
    totals: Counter[str] = Counter()
    for each in counts:
        totals.update(each)
    del totals[""]
    names = sorted(totals, key=lambda name: (-totals[name], class_order(name)))
    highest = totals[names[0]] if names else 0
    kept = _fitting(
        (_class_row(name, [each.get(name, 0) for each in counts], highest) for name in names),
        _CLASS_CHARACTERS * share,
        lambda row: len(row["name"].encode()) + 12 * len(row["counts"]) + 20,
    )
    kept.sort(key=lambda row: _by_name(row["name"]))
    return {"rows": kept, "total": len(names)}


def _by_name(name: str) -> tuple[tuple[int, int, str], str]:
    """The order of classes on the page: numbers first, and without regard to case."""
    return class_order(name.casefold()), name


def _class_row(name: str, counts: Sequence[int], highest: int) -> Shown:
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


def reason_cards(sources: Sources, share: float) -> list[Shown]:
    """The reasons with their first rejections and what to do, the most frequent first.

    Args:
        sources: of the report.
        share: of the room for all of it.
    """
    counts, options = sources.manifest["rejected"], sources.manifest["options"]
    cards, pictures = [], sources.rejected_pictures
    room = _REJECTED_CHARACTERS * share / max(len(counts), 1)
    for reason, count in counts.items():
        rows = (
            {"path": shown(r.path), "detail": shown(r.detail), "picture": pictures.get(r.path, "")}
            for r in sources.rejections
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
    listed: Iterable[Mapping[str, Any]], pictures: Mapping[Place, Shown]
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
        is_conflict = len(classes) > 1
        found = [pictures.get(place_of(image)) for image in images[:SHOWN_TWINS]]
        # Equal files have one picture, which stands next to each of their labels.
        same = next(filter(None, found), None) if is_conflict and "distance" not in group else None
        yield {
            "images": [
                {
                    "name": shown(image["path"] or image["key"]),
                    "label": shown(image["class"]),
                    # In a dataset: in this one, or in one that is held out.
                    "split": shown(_split_of(image))
                    if image["file"] or "dataset" in image
                    else "left out",
                    "picture": pictured(image, picture or same),
                }
                for image, picture in zip(images, found, strict=False)
            ],
            "more": max(0, len(images) - SHOWN_TWINS),
            "splits": sorted(map(shown, {_split_of(image) for image in images})),
            "is_conflict": is_conflict,
            "distance": int(group.get("distance", 0)),
        }


def pictured(image: Mapping[str, Any], picture: Shown | None) -> Shown:
    """An image of `statistics.json` with its thumbnail; nothing without one."""
    return {**image, **picture, "split": _split_of(image)} if picture else {}


def _split_of(image: Mapping[str, Any]) -> str:
    """The split of an image, also in a dataset that is held out."""
    return f"{image['split']} of {image['dataset']}" if "dataset" in image else str(image["split"])


def place_of(image: Mapping[str, Any]) -> Place:
    """The place of the record of an image in `statistics.json`."""
    return image["file"] or "", image["offset"] or 0


# Text of the page: where a line may break, and numbers with units and thousands separators.

# A word of more characters gets places where a line may break; shorter ones fit any column.
_LONG_WORD = re.compile(r"(\S{17,})")

# Where a line may break in one: after separators, and before a suffix such as `.tfrecord`.
_BREAK = re.compile(r"(?<=[/\\_,:;&?+|-])(?=[^/\\_,:;&?+|-])|(?<=\w)(?=\.[A-Za-z])")

# Characters of a name without separators after which it may break, too.
_LONGEST = 24

# A flag of the command line, in a sentence.
_FLAG = re.compile(r"(?<![^\s(])(--[a-z][a-z_]*)")

# Options whose value is a number of bytes, and those whose digits a user copies.
_BYTES = {"max_bytes", "shard_size"}
_COPIED = {"seed"}

# Maximum number of values that are shown of a list or a mapping, and of lines of a table that has a
# few in any dataset that was not edited.
_MAX_VALUES = 20
_MAX_LINES = 200


def pieces(word: str) -> list[str]:
    """The parts of a word between which a line may break.

    >>> pieces("train-00000-of-00001.tfrecord")
    ['train-', '00000-', 'of-', '00001', '.tfrecord']
    """
    parts = _BREAK.split(word)
    if len(parts) > 1 and not re.search(r"\w", parts[0]):
        # The dashes of a flag.
        parts[:2] = [parts[0] + parts[1]]
    return [part[at : at + _LONGEST] for part in parts for at in range(0, len(part), _LONGEST)]


def wrapped(text: object) -> Markup:
    """Text in which lines break at separators instead of inside names.

    >>> wrapped("photos/cat & dog.jpg"), wrapped("gs://bucket/photos")
    (Markup('photos/cat &amp; dog.jpg'), Markup('gs://<wbr>bucket/<wbr>photos'))
    """
    parts = _LONG_WORD.split(str(text))
    words = (
        Markup("<wbr>").join(pieces(part)) if at % 2 else part for at, part in enumerate(parts)
    )
    return Markup("").join(words)


def prose(text: object) -> Markup:
    """A sentence whose flags are shown as code.

    >>> prose("Raise --max_bytes.")
    Markup('Raise <code class="flag">--max_bytes</code>.')
    """
    parts = _FLAG.split(str(text))
    code = Markup('<code class="flag">{}</code>')
    return Markup("").join(
        code.format(part) if at % 2 else wrapped(part) for at, part in enumerate(parts)
    )


def number(value: int) -> str:
    """A count with thousands separators.

    >>> number(178956970)
    '178,956,970'
    """
    return f"{value:,}"


def byte_size(count: float) -> str:
    """A number of bytes with its unit, without a decimal that says nothing.

    >>> byte_size(256_000_000), byte_size(1_234_567)
    ('256 MB', '1.2 MB')
    """
    return format_bytes(count).replace(".0 ", " ")


def settings(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values as text.

    >>> settings({"max_bytes": 256000000, "max_pixels": 1000, "seed": 1000, "dense_labels": False})
    [('max_bytes', '256 MB'), ('max_pixels', '1,000'), ('seed', '1000'), ('dense_labels', 'no')]
    """
    return [(shown(n), _setting(n, value)) for n, value in [*mapping.items()][:_MAX_LINES]]


def _setting(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name not in _COPIED:
        return byte_size(value) if name in _BYTES else number(value)
    if isinstance(value, Mapping):
        value = [f"{each}={share}" for each, share in [*value.items()][: _MAX_VALUES + 1]]
    if isinstance(value, list | tuple):
        listed = ", ".join(map(shown, value[:_MAX_VALUES]))
        return f"{listed} …" if len(value) > _MAX_VALUES else listed
    return shown(value)


# The report of a dataset as one HTML page, a pure function of the files in its folder.

Place = tuple[str, int]
"""Where a record is: its file and its offset in it."""

_PAGE = Path(__file__).parent / "report_page"

# Bytes of the page.
_MAX_PAGE = 4_900_000

# Names can be long, and escapes take six characters: lists are halved at most this often.
_MIN_SHARE = 1 / 64

# Maximum number of splits that a flow shows separately.
_MAX_TARGETS = 8

# Codes of warnings about classes and about splits, which the checks at the top tell.
_OF_CLASSES = ("class_lost", "class_missing")
_OF_SPLITS = ("empty_split", "tiny_split", "share_differs")

_ROTATED = {str(orientation) for orientation in range(2, 9)}


class Sources(NamedTuple):
    """The sources of a report.

    Attributes:
        name: of the dataset: the folder that it is in.
        manifest: of the dataset.
        statistics: the content of `statistics.json`, or an empty mapping.
        rejections: the lines of `rejected.jsonl` that may be listed.
        pictures: thumbnails of records, see `thumbnail`, by their places.
        rejected_pictures: thumbnails of rejected files by path.
        missing: shards that do not exist.
        notes: a sentence about each file that could not be read.
        unusual: the smallest, largest and odd images.
    """

    name: str
    manifest: Mapping[str, Any]
    statistics: Mapping[str, Any]
    rejections: Sequence[Rejection]
    pictures: Mapping[Place, Shown]
    rejected_pictures: Mapping[str, str]
    missing: Sequence[str]
    notes: Sequence[str]
    unusual: Mapping[str, Any] = MappingProxyType({})


def render(sources: Sources) -> str:
    """Renders the self-contained page; long lists are cut until it is small enough.

    Raises:
        ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError: the
            statistics do not have the expected structure.
    """
    share, page = 1.0, _render(sources, 1.0)
    while len(page.encode()) > _MAX_PAGE and share > _MIN_SHARE:
        share /= 2
        page = _render(sources, share)
    return page


def _render(sources: Sources, share: float) -> str:
    script = (_PAGE / "script.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page_template().render(
        **view(sources, share),
        style=(_PAGE / "style.css").read_text("utf-8"),
        script=script,
        script_digest=digest,
    )


@functools.cache
def page_template() -> jinja2.Template:
    """The template of the page, compiled once: that takes longer than rendering.

    Parts that most pages do not have are templates of their own, compiled when they are needed.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Hardly a constant can be folded, which takes a quarter of the time of compiling.
        optimized=False,
    )
    environment.filters |= {"number": number, "bytes": byte_size, "shown": shown}
    environment.filters |= {"wrapped": wrapped, "prose": prose}
    return environment.get_template("page.html")


def view(sources: Sources, share: float) -> dict[str, Any]:
    """The values for the template, by name.

    Args:
        sources: the sources of the report.
        share: of the room that long lists have at most.

    Raises:
        KeyError, TypeError, ValueError: as `render`.
    """
    manifest, statistics = sources.manifest, sources.statistics
    splits = manifest["splits"]
    return {
        "name": shown(sources.name),
        "manifest": manifest,
        "splits": [shown(name) for name in splits],
        "inputs": settings({name: value for name, value in manifest["inputs"].items() if value}),
        "options": settings({k: v for k, v in manifest["options"].items() if v is not None}),
        "versions": settings(manifest["versions"]),
        "decided": [[*map(shown, each)] for each in from_manifest(manifest)[:_MAX_LINES]],
        "flows": _flows(sources),
        "classes": class_table(splits, share),
        "sheets": _sheets(sources, share),
        "histograms": _histograms(sources),
        "odd": _odd(sources),
        "measured": sources.unusual.get("records", 0),
        "looked": sources.unusual.get("looked", 0),
        "channels": _channels(sources),
        "formats": shares(statistics.get("formats", {})),
        "rotated": _rotated(statistics),
        "reasons": reason_cards(sources, share),
        "max_distance": MAX_DISTANCE,
        "duplicates": _duplicates(statistics.get("duplicates"), sources.pictures, share),
        "unit": "file" if manifest["options"].get("files") == "per_image" else "shard",
        "shards": shard_table(splits, sources.missing, share),
        "missing": [shown(name) for name in sources.missing],
        "notes": sources.notes,
        "checks": verdict(sources),
        "warnings": [
            warning.text
            for warning in warnings_in(manifest)[:_MAX_LINES]
            if warning.code not in (*_OF_CLASSES, *_OF_SPLITS)
        ],
    }


def verdict(sources: Sources) -> dict[str, tuple[int | str, str]]:
    """The checks at the top: what is well, what is not, and what nobody looked at.

    Of each, what is not well, a number or sentences, and why it was not checked; the page has the
    words for it.
    """
    manifest, statistics = sources.manifest, sources.statistics
    options, splits = manifest["options"], manifest["splits"]
    duplicates = statistics.get("duplicates") or {}
    exact, near = (duplicates.get(kind) or {} for kind in ("exact", "near"))
    # What was dropped or rejected is in no split.
    is_dropped = exact.get("dropped") or Reason.CONFLICTING_LABELS.code in manifest["rejected"]
    equal = {} if is_dropped else exact
    leaks = sum(each.get(name, 0) for each in (equal, near) for name in ("across_splits", "held"))
    lost, uneven = (
        "; ".join(each.text for each in warnings_in(manifest)[:_MAX_LINES] if each.code in codes)
        for codes in (_OF_CLASSES, _OF_SPLITS)
    )
    unread = "" if statistics else "there are no statistics"
    uncompared = unread or ("" if duplicates else "no images were compared")
    single = "" if len(splits) > 1 else "all records are in one split"
    found: dict[str, tuple[int | str, str]] = {
        "rejected": (sum(manifest["rejected"].values()), ""),
        "splits": (uneven, single),
    }
    if manifest["ledger"].get("images_matched"):
        is_unseen = options.get("check") == "header"
        is_turned = options.get("exif_orientation") == "apply"
        found["decodes"] = len(sources.missing), "only headers were read" if is_unseen else ""
        found["leakage"] = leaks, uncompared or single
        found["gps"] = statistics.get("gps", 0), unread
        odd = {kind: each["count"] for kind, each in sources.unusual.get("odd", {}).items()}
        sizes = sum(odd.pop(kind, 0) for kind in ("aspect", "size"))
        found["odd"] = sizes, "" if sources.unusual else "no image was measured"
        is_seen = sources.unusual.get("looked")
        found["looks"] = sum(odd.values()), "" if is_seen else "no pixels were compared"
        found["upright"] = 0 if is_turned else _rotated(statistics), unread
    if any(split["classes"].keys() - {""} for split in splits.values()):
        found["classes"] = lost, ""
        if "decodes" in found:
            found["conflicts"] = equal.get("conflicts", 0), uncompared
    return found


def _rotated(statistics: Mapping[str, Any]) -> int:
    found: Mapping[str, int] = statistics.get("orientations", {})
    return sum(count for tag, count in found.items() if tag in _ROTATED)


def _flows(sources: Sources) -> list[Shown]:
    """The flows of images, and of rows if any were read."""
    ledger, splits = sources.manifest["ledger"], sources.manifest["splits"]
    written = [(shown(name), split["records"], "kept") for name, split in splits.items()]
    images = [
        *_first(written, "{} more splits"),
        *_rejected(sources, "image", ledger.get("images_rejected", 0)),
        ("not in --keys", ledger.get("images_left_out", 0), "left_out"),
    ]
    rows = [
        (name, ledger.get(f"rows_{key}", 0), kind)
        for key, name, kind in (
            ("written", "written", "kept"),
            ("used", "used", "kept"),
            ("repeated", "repeated", "kept"),
            ("unmatched", "without an image", "left_out"),
            ("left_out", "not in --keys", "left_out"),
        )
    ]
    rows += _rejected(sources, "row", ledger.get("rows_rejected", 0))
    flows = [
        flow("images matched", images) if ledger.get("images_matched") else None,
        flow("rows read", rows) if ledger.get("rows_read") else None,
    ]
    return [each for each in flows if each is not None]


def _rejected(sources: Sources, subject: str, count: int) -> list[_Part]:
    """The rejected images or rows by reason, if the listed ones tell which reasons are theirs."""
    counts = sources.manifest["rejected"]
    reasons = {each.reason for each in sources.rejections if each.subject == subject}
    parts = [(shown(each), counts[each], "left_out") for each in counts if each in reasons]
    if sum(number for _, number, _ in parts) != count:
        parts = [("rejected", count, "left_out")]
    return _first(parts, "rejected for other reasons")


def _first(parts: list[_Part], others: str) -> list[_Part]:
    """The first parts of a flow, and all others as one of this name."""
    if len(parts) <= _MAX_TARGETS:
        return parts
    more = parts[_MAX_TARGETS - 1 :]
    name, count = others.format(len(more)), sum(count for _, count, _ in more)
    return [*parts[: _MAX_TARGETS - 1], (name, count, more[0][2])]


def _histograms(sources: Sources) -> list[Shown]:
    statistics, ends = sources.statistics, sources.unusual.get("ends", {})
    images = statistics.get("images", 0)
    charts = (
        ("height", "Height", lambda value: f"{value:,.0f} px"),
        ("width", "Width", lambda value: f"{value:,.0f} px"),
        ("aspect", "Width ÷ height", lambda value: f"{value:,.2f}"),
        ("bytes", "File size", byte_size),
    )
    return [
        {
            **histogram(title, statistics[name], images, format_),
            "ends": list(_pictured(ends.get(name, ()), sources)),
        }
        for name, title, format_ in charts
        if statistics.get(name, {}).get("bins")
    ]


def _pictured(images: Iterable[Mapping[str, Any]], sources: Sources) -> Iterator[Shown]:
    found = (pictured(image, sources.pictures.get(place_of(image))) for image in images)
    return filter(None, found)


def _odd(sources: Sources) -> list[Shown]:
    """Kinds of odd images with pictures."""
    return [
        {"kind": kind, "count": each["count"], "images": list(_pictured(each["images"], sources))}
        for kind, each in sources.unusual.get("odd", {}).items()
        if each["count"]
    ]


def _channels(sources: Sources) -> tuple[int, list[str]]:
    """Of how many samples, the mean and the deviation of red, green and blue, to normalize with."""
    samples = _pictured(sources.statistics.get("samples", ()), sources)
    found = [(each["mean"], each["square"]) for each in samples if "mean" in each]
    if not found:
        return 0, []
    mean, square = np.mean(found, axis=0)
    parts = mean, np.sqrt(np.maximum(0, square - mean**2))
    return len(found), [", ".join(f"{each:.3f}" for each in part) for part in parts]


def _sheets(sources: Sources, share: float) -> list[tuple[str, list[Shown]]]:
    """Classes with their images; records that could not be read are left out."""
    sheets: dict[str, list[Shown]] = {}
    for sample in _pictured(sources.statistics.get("samples", ())[:: round(1 / share)], sources):
        sheets.setdefault(shown(sample["class"]), []).append(sample)
    return sorted(sheets.items(), key=lambda sheet: _by_name(sheet[0]))


def _duplicates(
    found: Mapping[str, Any] | None, pictures: Mapping[Place, Shown], share: float
) -> dict[str, Any] | None:
    if not found:
        return None
    sections = {}
    for kind in ("exact", "near"):
        if counted := found.get(kind):
            first = counted["listed"][:_MAX_LINES]
            groups = list(duplicate_groups(first[: round(len(first) * share)], pictures))
            sections[kind] = {**counted, "listed": groups, "pictured": PICTURED_GROUPS}
    return sections
