"""Statistics of a dataset, and what they warn of."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.records import Totals
from transforms.dataset.output_names import REJECTED
from transforms.images.checked_images import ImageInfo
from transforms.labels.vocabulary import class_order

# Statistics of images: accumulators that merge exactly, in any order.

# Limits for sample records: per class, and in total.
SAMPLES_OF_CLASS = 6
MAX_SAMPLES = 600

# Aspect ratios are added up in millionths: a sum of floats would depend on its order.
_MILLION = 1_000_000


@functools.lru_cache(maxsize=4096)
def quarter_octave(numerator: int, denominator: int = 1) -> int:
    """The bin `b` of a ratio: from `2**(b/4)` inclusive to `2**((b+1)/4)` exclusive.

    >>> quarter_octave(1), quarter_octave(1024), quarter_octave(3, 4)
    (0, 40, -2)
    """
    over, under = numerator**4, denominator**4
    exponent = over.bit_length() - under.bit_length()
    # Exact: `over / under` is compared with a power of two without a division.
    if over << max(0, -exponent) < under << max(0, exponent):
        exponent -= 1
    return exponent


@dataclasses.dataclass
class Histogram(Totals):
    """Counts of positive values in bins that grow by a quarter of an octave.

    Attributes:
        minimum: smallest value, None when there is none.
        maximum: largest value.
        total: sum of the values.
        bins: how many values each bin of `quarter_octave` holds.
    """

    minimum: int | None = None
    maximum: int | None = None
    total: int = 0
    bins: Counter[int] = dataclasses.field(default_factory=Counter)

    def add(self, values: Sequence[int], bins: Iterable[int]) -> None:
        """Counts values whose bins are known."""
        if values:
            self.merge(Histogram(min(values), max(values), sum(values), Counter(bins)))

    def merge(self, other: Histogram) -> None:
        """Adds the counts of `other`."""
        if other.minimum is None or other.maximum is None:
            return
        self.minimum = other.minimum if self.minimum is None else min(self.minimum, other.minimum)
        self.maximum = other.maximum if self.maximum is None else max(self.maximum, other.maximum)
        self.total += other.total
        self.bins.update(other.bins)

    def to_json(self, unit: int = 1) -> dict[str, Any]:
        """The numbers as JSON; values are divided by `unit`."""
        values = {"min": self.minimum, "max": self.maximum, "sum": self.total}
        shown: dict[str, Any] = dict(values)
        if unit != 1:
            shown = {name: v if v is None else v / unit for name, v in values.items()}
        return {**shown, "bins": {str(bin_): self.bins[bin_] for bin_ in sorted(self.bins)}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Histogram:
        """Reads the result of `to_json` without a unit."""
        bins = Counter({int(bin_): count for bin_, count in data["bins"].items()})
        return cls(data["min"], data["max"], data["sum"], bins)


class Sample(NamedTuple):
    """A sample record: its position in the dataset's order, its shard, its number there."""

    order: int
    file: str
    record: int


@dataclasses.dataclass
class Samples(Totals):
    """The first few records of each class; bounded, whatever the number of classes.

    Classes share `MAX_SAMPLES` evenly. A merge only adds classes, which leaves fewer
    records of each: a dropped record would not have been kept in the end.
    """

    classes: dict[str, list[Sample]] = dataclasses.field(default_factory=dict)

    def add(self, class_: str, sample: Sample) -> None:
        """Offers a record; one shard's records come in their order."""
        samples = self.classes.setdefault(class_, [])
        if len(samples) < SAMPLES_OF_CLASS:
            samples.append(sample)

    def merge(self, other: Samples) -> None:
        """Offers the records of `other`."""
        for class_, samples in other.classes.items():
            self.classes[class_] = sorted([*self.classes.get(class_, []), *samples])
        self.shrink()

    def shrink(self) -> None:
        """Drops records over the limits."""
        names = sorted(self.classes, key=class_order)[:MAX_SAMPLES]
        each = min(SAMPLES_OF_CLASS, MAX_SAMPLES // max(1, len(names)))
        self.classes = {name: self.classes[name][:each] for name in names}


_HISTOGRAMS = ("width", "height", "bytes", "aspect")


@dataclasses.dataclass
class Statistics(Totals):
    """Statistics of images, collected while they are written; sizes are of the stored images.

    Attributes:
        formats: images of each stored format.
        orientations: files with each EXIF orientation, those without a tag left out.
        gps: stored images with GPS coordinates.
        width: in pixels.
        height: in pixels.
        bytes: of the stored image.
        aspect: width over height, in millionths.
        samples: sample records.
    """

    formats: Counter[str] = dataclasses.field(default_factory=Counter)
    orientations: Counter[int] = dataclasses.field(default_factory=Counter)
    width: Histogram = dataclasses.field(default_factory=Histogram)
    height: Histogram = dataclasses.field(default_factory=Histogram)
    bytes: Histogram = dataclasses.field(default_factory=Histogram)
    aspect: Histogram = dataclasses.field(default_factory=Histogram)
    samples: Samples = dataclasses.field(default_factory=Samples)
    gps: int = 0

    def add(
        self, infos: Sequence[ImageInfo], sizes: Sequence[int], orientations: Iterable[int]
    ) -> None:
        """Counts images, with fewer calls than one after the other.

        Args:
            infos: of the stored images.
            sizes: bytes of each.
            orientations: of the EXIF tags of their files, 0 when there is none.
        """
        formats, heights, widths, _ = zip(*infos, strict=True) if infos else [()] * 4
        self.formats.update(formats)
        self.orientations.update(filter(None, orientations))
        self.width.add(widths, map(quarter_octave, widths))
        self.height.add(heights, map(quarter_octave, heights))
        self.bytes.add(sizes, map(quarter_octave, sizes))
        aspects = [(x * _MILLION + y // 2) // y for x, y in zip(widths, heights, strict=True)]
        self.aspect.add(aspects, map(quarter_octave, widths, heights))

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON, for the sidecar of a shard."""
        classes = self.samples.classes
        return {
            "formats": dict(sorted(self.formats.items())),
            "orientations": {str(tag): self.orientations[tag] for tag in sorted(self.orientations)},
            **{name: getattr(self, name).to_json() for name in _HISTOGRAMS},
            "samples": {name: [list(sample) for sample in classes[name]] for name in classes},
            **({"gps": self.gps} if self.gps else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Statistics:
        """Reads the result of `to_json`; an empty mapping means a shard without statistics."""
        if not data:
            return cls()
        samples = {
            name: [Sample(*sample) for sample in samples]
            for name, samples in data["samples"].items()
        }
        return cls(
            Counter(data["formats"]),
            Counter({int(tag): count for tag, count in data["orientations"].items()}),
            **{name: Histogram.from_json(data[name]) for name in _HISTOGRAMS},
            samples=Samples(samples),
            gps=data.get("gps", 0),
        )


# Without coordinates, there is no number of images that have them.
_DESCRIBED = ("formats", "orientations", "gps", "width", "height", "bytes")


def describe(
    statistics: Statistics,
    *,
    records: int,
    samples: Sequence[Mapping[str, Any]],
    duplicates: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The content of `statistics.json`.

    Args:
        statistics: of all shards.
        records: in all shards.
        samples: the sample records, with their positions.
        duplicates: the section of that name, or None when nothing was compared.
    """
    counted = statistics.to_json()
    return {
        "images": records,
        **{name: counted[name] for name in _DESCRIBED if name in counted},
        "aspect": statistics.aspect.to_json(_MILLION),
        "samples": list(samples),
        "duplicates": duplicates,
    }


# Warnings: problems that make a dataset bad for training but are not errors.
#
# `plan` and `convert` print them, the manifest lists them under `warnings`, and the report shows
# them. With `--strict` they end the run before anything is published.

TINY_SPLIT = 10
"""A split of fewer records than this is too small to measure anything."""

MANY_CLASSES = 20
"""Fewer classes than this may be ratings, or the photos of a try."""

MAX_CHANCE = 1e-6
"""If chance alone explains a split's share with less than this probability, warn."""

KEYS_UNMATCHED = "keys_unmatched"
"""The code of a warning about keys, which is also the likely reason of too many rejections."""

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


def warnings_from_json(manifest: Mapping[str, Any]) -> list[DatasetWarning]:
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
    labelled: Iterable[str] = (),
) -> list[DatasetWarning]:
    """Warnings about the sizes and the classes of the splits.

    Args:
        records: of each split, in order, including requested splits that are empty.
        classes: records of each class in each split; the class without a name is ignored.
        planned: images assigned to each split, before images were checked.
        options: those of the dataset: `splits`, `split_from` and `group_by` are read.
        what: a record's source, for messages: image or row.
        labelled: the classes of the planned images.
    """
    if not any(records.values()):
        return []
    warnings = [*_lost(classes, labelled), *_no_classes(classes, sum(records.values()), what)]
    if len(records) < 2:
        return warnings
    group = options.get("group_by")
    warnings += _sizes(records, group, what)
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


def _lost(
    classes: Mapping[str, Mapping[str, int]], labelled: Iterable[str]
) -> Iterable[DatasetWarning]:
    """Classes that had images and keep none; given names that no image has are not among them."""
    names = {*labelled}
    lost = sorted(names.difference(*classes.values()), key=class_order)
    if lost:
        keep = "keeps" if len(lost) == 1 else "keep"
        yield DatasetWarning(
            "class_lost",
            f"{len(lost)} of {len(names)} classes {keep} no image ({_named(lost)}): {REJECTED} "
            "says why each one was left out",
        )


def _no_classes(
    classes: Mapping[str, Mapping[str, int]], total: int, what: str
) -> Iterable[DatasetWarning]:
    """Labels that are rather numbers to predict, texts or keys."""
    names = sorted({*itertools.chain(*classes.values())} - {""}, key=class_order)
    are_numbers = all(re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", name, re.I) for name in names)
    if len(names) >= MANY_CLASSES and (are_numbers or 2 * len(names) > total):
        yield DatasetWarning(
            "no_classes",
            f"{total} {what}s have {len(names)} classes ({_named(names)}), which may be none: to "
            "keep a column as numbers or texts, name it in a --layout file (docs/layouts.md)",
        )


def _classes(
    records: Mapping[str, int], classes: Mapping[str, Mapping[str, int]], what: str
) -> Iterable[DatasetWarning]:
    found = {name for counts in classes.values() for name in counts} - {""}
    names = sorted(found, key=class_order)
    for split, count in records.items():
        lacking = [name for name in names if not classes.get(split, {}).get(name)]
        if count and lacking:
            yield DatasetWarning(
                "class_missing",
                f"the split {split!r} has no {what} of {len(lacking)} of {len(names)} classes "
                f"({_named(lacking)})",
            )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:_MAX_NAMED])
    return shown + (", ..." if len(names) > _MAX_NAMED else "")
