"""Cuts of the hash order that give classes and shards their shares."""

from __future__ import annotations

import dataclasses
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from transforms.core.messages import Decision, LabelsError, quantity
from transforms.dataset.ledger import PlanTotals
from transforms.labels.keys import key_hashes
from transforms.labels.label_rows import quote_names
from transforms.labels.label_rules import LabelRules
from transforms.labels.shards import HASH_SPACE, ShardPlan, Splits
from transforms.labels.vocabulary import Vocabulary, class_order

# Cuts: the hashes at which records, in the order of their hashes, are divided at given ranks.
#
# No worker needs all hashes for that. They are put into bins, which are equal ranges of hashes. The
# numbers of records say in which bin each cut is, and there its hashes are compared. The result is
# exact and the same for any order of the records.
#
# Records are divided line by line: a line is all records of a class, or of a split. Several
# records may share a hash, such as those of a group: they stay together. If a cut would divide
# them, they are before it if a large enough part of them is, by a number of the line: for many
# lines together, the parts are then right, also if each line is a single group. Always taking the
# nearer end would give each of these lines to the largest part.

BIN_RECORDS = 2**16
"""Records of a bin, about: a worker sorts their hashes in 20 MB."""

Added = tuple[tuple[str, int], ...]
"""What records add to the part that they are in: names with numbers, such as classes."""


class Draw(NamedTuple):
    """Records that are divided as one.

    Attributes:
        line: the name of their line.
        hash: their hash, in 0..2**64-1.
        records: how many there are.
        added: what they add to their part.
    """

    line: str
    hash: int
    records: int
    added: Added = ()


class Ranks(NamedTuple):
    """Where a line is divided.

    Attributes:
        before: the records before each cut, in 2**64ths of a record, ascending.
        rounding: in 0..2**64-1. Records that share a hash, and that a cut would divide, are before
            it if this and their part before it, in 2**64ths, add up to 2**64. So 0 rounds down.
    """

    before: Sequence[int]
    rounding: int = 0


class Place(NamedTuple):
    """The place of a bin in its line.

    Attributes:
        before: the cuts of the line that are before it.
        ranks: the records in it before each of its own cuts, in 2**64ths, ascending.
        rounding: see `Ranks`.
    """

    before: int
    ranks: Sequence[int] = ()
    rounding: int = 0


@dataclasses.dataclass
class Cuts:
    """The cuts of lines; those of several bins are merged in any order.

    Attributes:
        lines: of every line that has some, the first hash after each cut, in order.
        added: by name and part, what the records of all lines add, see `Draw`.
    """

    lines: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    added: dict[str, Counter[int]] = dataclasses.field(default_factory=dict)

    def merge(self, other: Cuts) -> None:
        """Adds the cuts of other bins."""
        for line, cuts in other.lines.items():
            self.lines[line] = sorted([*self.lines.get(line, ()), *cuts])
        for name, parts in other.added.items():
            self.added.setdefault(name, Counter()).update(parts)

    def part(self, line: str, hash_: int) -> int:
        """The part of its line that a hash is in, from 0.

        >>> Cuts({"cat": [5, 9]}).part("cat", 4), Cuts({"cat": [5, 9]}).part("cat", 9)
        (0, 2)
        """
        return bisect_right(self.lines.get(line, ()), hash_)


def bin_count(records: int) -> int:
    """The bins of a line.

    >>> bin_count(100_000_000), bin_count(3)
    (1526, 1)
    """
    return 1 + records // BIN_RECORDS


def bin_of(hash_: int, count: int) -> int:
    """The bin of a hash.

    >>> bin_of(0, 10), bin_of(2**64 - 1, 10)
    (0, 9)
    """
    return (hash_ * count) >> 64


def find_places(counts: Mapping[int, int], ranks: Ranks) -> dict[int, Place]:
    """The places of the bins of a line.

    Args:
        counts: records in each bin that has some; one at least has.
        ranks: where the line is divided.

    >>> find_places({0: 2, 3: 1}, Ranks([2 << 64]))
    {0: Place(before=0, ranks=[], rounding=0), 3: Place(before=0, ranks=[0], rounding=0)}
    """
    numbers = sorted(counts)
    ends = list(accumulate(counts[number] for number in numbers))
    own: list[list[int]] = [[] for _ in numbers]
    for rank in ranks.before:
        # A cut after all hashes is at the end of the last bin.
        at = min(bisect_right(ends, rank // HASH_SPACE), len(ends) - 1)
        own[at].append(rank - (ends[at] - counts[numbers[at]]) * HASH_SPACE)
    before = accumulate(map(len, own), initial=0)
    return {
        number: Place(cuts, its_own, ranks.rounding)
        for number, cuts, its_own in zip(numbers, before, own, strict=False)
    }


def find_cuts(place: Place, draws: Iterable[Draw]) -> Cuts:
    """The cuts in a bin, and what its records add to each part of the line.

    Args:
        place: of the bin.
        draws: all of it.

    >>> half, cat = 2**63, [("cat", 4)]
    >>> draws = [Draw("a", 3, 1), Draw("a", 5, 4, cat), Draw("a", 9, 1, cat)]
    >>> find_cuts(Place(0, [2 * half, 3 * half]), draws)
    Cuts(lines={'a': [5, 5]}, added={'cat': Counter({2: 8})})
    >>> find_cuts(Place(1, [5 * half, 6 * half], half), draws)
    Cuts(lines={'a': [5, 9]}, added={'cat': Counter({2: 4, 3: 4})})
    """
    draws = sorted(draws, key=operator.attrgetter("hash"))
    hashes: Counter[int] = Counter()
    for draw in draws:
        hashes[draw.hash] += draw.records
    ends = zip(accumulate(hashes.values()), hashes.values(), strict=True)
    # A hash is before a cut if at least so many records are.
    most = [end * HASH_SPACE - place.rounding * records for end, records in ends]
    in_order = [*hashes, draws[-1].hash + 1]
    cuts = [in_order[bisect_right(most, rank)] for rank in place.ranks]
    found = Cuts({draws[0].line: cuts} if cuts else {})
    for draw in draws:
        part = place.before + bisect_right(cuts, draw.hash)
        for name, number in draw.added:
            found.added.setdefault(name, Counter())[part] += number
    return found


# How far the classes of a dataset are from their shares of the splits.

# One image, and a little: a share such as 0.8 is no sum of powers of two.
_ONE = 1 + 1e-6


def class_shares(
    counts: Mapping[str, Mapping[str, int]], splits: Splits
) -> dict[str, tuple[float, str]]:
    """By how many images each class is off its share of a split, and in which one most.

    Args:
        counts: images of each class, by split; the class without a name is ignored.
        splits: the splits with their shares.

    >>> halves = Splits([("train", 0.5), ("test", 0.5)])
    >>> class_shares({"train": {"cat": 9, "dog": 2}, "test": {"cat": 4, "dog": 1}}, halves)
    {'cat': (2.5, 'train'), 'dog': (0.5, 'train')}
    """
    sizes: Counter[str] = Counter()
    for found in counts.values():
        sizes.update(found)
    del sizes[""]
    shares, furthest = dict(zip(splits.names, splits.shares, strict=True)), {}
    for name in sorted(sizes, key=class_order):
        # In 2**64ths of an image, like the cuts themselves.
        distances = {
            split: abs(counts.get(split, {}).get(name, 0) * HASH_SPACE - share * sizes[name])
            for split, share in shares.items()
        }
        split = max(distances, key=distances.__getitem__)
        furthest[name] = distances[split] / HASH_SPACE, split
    return furthest


# Stratified splits: each class gets its share of each split, within one image.
#
# A class is a line of images in the order of their split hashes, and the splits are parts of it.
# An image with several classes is in the line of its rarest class. As in iterative stratification
# (Sechidis et al., 2011), what it gives to its other classes is made up for by those that come
# later: images with most classes are divided first, in `ROUNDS` rounds, and those with one class
# last. A group has the classes of all of its images. Where a split would end within an image, or a
# group, a hash of the class decides which way it is rounded, so that small classes together have
# the right shares, too.

MAX_CLASSES = 200_000
"""Classes of a stratified dataset: their cuts are one element, 50 bytes each with three splits."""

MAX_ENDS = 1_000_000
"""Ends of splits of all classes, but for the last split: one worker merges them, 400 bytes each."""

ROUNDS = 4
"""Images or groups with this many classes or more are divided first, those with one last."""

# Precedes the name of a class where its hash must not be that of a key.
_CLASS = "\0class\0"


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes of all images, which lines are made of.

    Attributes:
        names: the class of each label.
        sizes: images of each class.
    """

    names: Mapping[str, str]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, totals: PlanTotals, rules: LabelRules, splits: Splits) -> Classes:
        """The classes of the images with these totals.

        Raises:
            LabelsError: there are too many.
        """
        vocabulary = rules.vocabulary(totals.labels, totals.label_kind)
        names = {label: vocabulary.text_of(label) for label in totals.labels}
        sizes: Counter[str] = Counter()
        for label, name in names.items():
            sizes[name] += totals.labels[label]
        most = min(MAX_CLASSES, max(1, MAX_ENDS // max(1, len(splits.names) - 1)))
        if len(sizes) > most:
            raise LabelsError(
                f"--stratify label: {len(sizes)} classes are more than {most}, since each worker "
                f"keeps where their {len(splits.names)} splits begin; leave out --stratify"
            )
        return cls(names, sizes)

    def of_labels(self, labels: Iterable[str]) -> set[str]:
        """The classes of these labels."""
        return {self.names[label] for label in labels}

    def line(self, classes: Iterable[str]) -> str:
        """The line of an image with these classes: the rarest one."""
        return min(classes, key=lambda name: (self.sizes[name], name), default="")


class ClassLines:
    """The lines of classes, and how splits divide them. Picklable.

    `prepare` is called first, with the classes of all images.

    Attributes:
        splits: the splits with their shares.
        by_group: whether the images of a group stay together.
        rounds: how many there are: one, if no image has several classes.
    """

    def __init__(
        self, splits: Splits, seed: int, *, by_group: bool = False, many_labels: bool = False
    ) -> None:
        """Sets the rules.

        Args:
            splits: the splits with their shares.
            seed: of the hashes.
            by_group: whether the images of a group stay together.
            many_labels: whether an image may have several labels.
        """
        self.splits = splits
        self._seed = seed
        self.by_group = by_group
        self.rounds = ROUNDS if by_group or many_labels else 1
        self._known: tuple[object, ...] = ()

    def prepare(self, classes: Classes, *before: Cuts) -> None:
        """Takes the classes of all images, and for `ranks` the cuts of the rounds before."""
        known = (classes, *before)
        # Their contents are too large to be compared for each image.
        if [*map(id, known)] != [*map(id, self._known)]:
            self._known = known
            self._classes = classes
            self._given: dict[str, Counter[int]] = {}
            for name, parts in (each for cuts in before for each in cuts.added.items()):
                self._given.setdefault(name, Counter()).update(parts)

    def round(self, labels: Iterable[str]) -> int:
        """The round, from 0, in which an image or a group with these labels gets its split."""
        return max(0, self.rounds - max(1, len(self._classes.of_labels(labels))))

    def draw(self, labels: Mapping[str, int], key: str, records: int) -> Draw:
        """The draw of an image, or of a group. Before the last round, it adds to its classes.

        Args:
            labels: how many of its images have each label.
            key: of the image, or the name of the group: its hash decides.
            records: how many images there are.
        """
        classes = self._classes.of_labels(labels)
        hash_, _ = key_hashes(key, seed=self._seed)
        is_last = self.rounds == 1 or len(classes) < 2
        added = () if is_last else self._added(labels, records)
        return Draw(self._classes.line(classes), hash_, records, added)

    def _added(self, labels: Mapping[str, int], records: int) -> Added:
        images: Counter[str] = Counter()
        for label, number in labels.items():
            images[self._classes.names[label]] += number
        # Two spellings of an integer are one class.
        return tuple((name, min(number, records)) for name, number in images.items())

    def bins(self, line: str) -> int:
        """The bins of a line."""
        return bin_count(self._classes.sizes.get(line, 0))

    def ranks(self, line: str, records: int) -> Ranks:
        """The images of a line before the end of each split but the last.

        Each split gets a part of them in proportion to what it lacks of its share of the class.

        Args:
            line: its class.
            records: its images.
        """
        size, given = self._classes.sizes.get(line, 0), self._given.get(line, Counter())
        shares = enumerate(self.splits.shares)
        lacks = accumulate(max(0, share * size - given[at] * HASH_SPACE) for at, share in shares)
        *ends, whole = lacks
        rounding, _ = key_hashes(f"{_CLASS}{line}", seed=self._seed)
        return Ranks([end * records * HASH_SPACE // whole for end in ends], rounding)

    def split(self, draw: Draw, cuts: Cuts) -> str:
        """The split of an image, or of a group."""
        return self.splits.names[cuts.part(draw.line, draw.hash)]


# What stratified splits hold, how stable and how exact they are, for the block "Decided".

# Classes that a line names.
_MAX_SHOWN = 3


def stratified_decisions(
    options: Mapping[str, Any],
    totals: PlanTotals,
    vocabulary: Vocabulary,
    counts: Mapping[str, Mapping[str, int]],
) -> list[Decision]:
    """The lines about stratified splits; none if a hash alone decides the split.

    Args:
        options: those of the dataset, by flag name.
        totals: of the plan.
        vocabulary: its classes.
        counts: records of each class, by split.
    """
    if not options.get("stratify"):
        return []
    sizes = totals.classes(vocabulary)
    splits = len(options["splits"])
    value = quantity(len(sizes), "class", "classes")
    # Images with several labels count as images with an empty label, too, like those without any.
    may_have_several = len(sizes) > 1 and totals.labels[""] > 0
    has_several = may_have_several or sizes.total() > totals.images.total()
    found = [Decision("stratified", value, _bound(options, splits, has_several), "--stratify")]
    small = sorted((name for name, images in sizes.items() if images < splits), key=class_order)
    if small:
        value = quantity(len(small), "class", "classes")
        shown = quote_names(small, _MAX_SHOWN, 40)
        because = f"{shown}: fewer images than the {splits} splits, so some have none"
        found.append(Decision("small classes", value, because, "--stratify"))
    return [*found, *_off(options, counts)]


def _off(options: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> list[Decision]:
    """How far classes are from their shares, if it is more than one image."""
    shares = class_shares(counts, Splits([*options["splits"].items()]))
    off = {name: each for name, each in shares.items() if each[0] > _ONE}
    if not off:
        return []
    name = max(off, key=lambda each: off[each][0])
    images, split = off[name]
    value = f"{len(off)} of {quantity(len(shares), 'class', 'classes')}"
    # "more than one image, by 1" would contradict itself.
    by = f"{max(1.1, images):,.1f}".removesuffix(".0")
    furthest = f"{name[:40]!r} by {by} ({split})"
    because = (
        f"is off its share by more than one image: {furthest}"
        if len(off) == 1
        else f"are off their share by more than one image, the furthest {furthest}"
    )
    return [Decision("class shares", value, because, "--stratify")]


def _bound(options: Mapping[str, Any], splits: int, has_several: bool) -> str:
    """How near each class is to its shares, and what a further image moves."""
    if options.get("group_by"):
        return "by the classes of each group; groups stay whole"
    if has_several:
        return "by the rarest class of each image; those with one class make up for the others"
    others = "1 other" if splits == 2 else f"{splits - 1} others"
    return f"each within one image of its shares; a further image moves at most {others}"


# Shards with equal numbers of records: a split is a line of its records in their order.

# The order is a signed number.
_LOWEST = 2**63


class ShardLines:
    """The lines of splits, and how their shards divide them. Picklable.

    `prepare` is called first, with the totals of all images or rows.
    """

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._totals: PlanTotals | None = None

    def prepare(self, totals: PlanTotals, *_: Cuts) -> None:
        """Takes the images and bytes of each split, which decide the number of its shards."""
        if totals is not self._totals:
            self._totals = totals
            files = self._plan.files(totals.bytes, totals.images)
            self._shards = {split: len(names) for split, names in files.items()}
            self._records = totals.images

    def draw(self, split: str, order: int) -> Draw:
        """The draw of an image or a row.

        Args:
            split: its split.
            order: its place in the order, a signed 64-bit number.
        """
        return Draw(split, order + _LOWEST, 1)

    def bins(self, line: str) -> int:
        """The bins of a split."""
        return bin_count(self._records[line])

    def ranks(self, line: str, records: int) -> Ranks:
        """The records of a split before each shard but the first."""
        shards = self._shards[line]
        ranks = (records * number // shards for number in range(1, shards))
        return Ranks([rank * HASH_SPACE for rank in ranks])


def shard_starts(cuts: Cuts) -> dict[str, tuple[int, ...]]:
    """The order at which each shard of a split begins, without its first shard."""
    return {split: tuple(cut - _LOWEST for cut in own) for split, own in cuts.lines.items()}
