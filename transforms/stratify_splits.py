"""StratifySplits and BalanceShards: shares of classes in splits, and of records in shards."""

from __future__ import annotations

import dataclasses
import functools
import json
import marshal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.records import NO_LABELLED, LabelledImage
from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import LabelRules
from transforms.labels.shards import ShardPlan
from transforms.labels.vocabulary import LabelCells
from transforms.packing import AddUp, NameBatch, PackRecords, unpack
from transforms.plan_shards import PlacedRow, TotalLabels
from transforms.selection.hash_cuts import (
    Bins,
    Classes,
    ClassLines,
    CutBins,
    Cuts,
    Draw,
    Place,
    Ranks,
    ShardLines,
    bin_of,
    find_bins,
    find_cuts,
    image_labels,
    shard_starts,
)

# FindCuts: divides lines of records, in the order of their hashes, at given ranks.

# Counts or hashes that a bundle holds before they are sent.
_HELD = 100_000

# Bins whose counts cross the shuffle together.
_TOGETHER = 4096

# Where numbers belong: a line, and the number of one of its bins or of some of them. Or the name of
# what records add, and `~part`.
_Place: TypeAlias = tuple[str, int]

# What is found: the cuts of a line, or what records add to each part, by its name.
_CUTS, _ADDED = 0, 1

# What `_dumps` made.
_Packed: TypeAlias = tuple[_Place, bytes]
_OfLine: TypeAlias = tuple[str, bytes]


class Lines(Protocol):
    """The lines that records are in; picklable. `prepare` is called before the others."""

    def prepare(self, known: Any, *before: Cuts) -> None:
        """Takes what is known of all records, and for `rule` the cuts that were found before."""

    def bins(self, line: str) -> int:
        """The bins of a line, see `bin_count`."""

    def rule(self, line: str) -> Any:
        """What `ranks` needs for a line: numbers."""

    def ranks(self, line: str, rule: Any, records: int) -> Ranks:
        """Where a line with so many records is divided. It is called without `prepare`."""


# The draws of an element, a group or a batch, from prepared lines.
Draws: TypeAlias = Callable[[Any, Any], Iterable[Draw]]


class FindCuts(beam.PTransform):
    """Finds the cuts of all lines, in two passes: counts in bins, then hashes of bins with cuts.

    Input: what `draws` reads. Output: one `Cuts`. About twice the root of records times cuts
    crosses the shuffle for each line, as numbers; no worker needs a whole line.

    What a step needs of a line comes with its elements, not as a side input: each side input is
    another path from here to the inputs, and Flink's optimizer walks along all of them.
    """

    def __init__(
        self,
        lines: Lines,
        draws: Draws,
        known: beam.PCollection[Any],
        before: Sequence[AsSingleton] = (),
    ) -> None:
        """Takes the lines.

        Args:
            lines: they say which records are where.
            draws: the draws of an element in these lines.
            known: one element, which `Lines.prepare` takes.
            before: the cuts that were found before, which it takes, too.
        """
        super().__init__()
        self._lines = lines
        self._draws = draws
        self._known = AsSingleton(known)
        self._before = before

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Cuts]:
        lines, known = self._lines, self._known
        count, pick = (fn(lines, self._draws) for fn in (_CountBinsFn, _PickFn))
        bins = (
            elements
            | "Count bins" >> beam.ParDo(count, known, *self._before).with_output_types(_Packed)
            | "Group counts" >> beam.GroupByKey()
            | "Add up bins"
            >> beam.MapTuple(
                lambda place, packed: (place[0], _sum_of_bins(packed))
            ).with_output_types(_OfLine)
            | "Group bins by line" >> beam.GroupByKey()
            | "Find bins with cuts" >> beam.Map(_bins_of, lines).with_output_types(_Packed)
            | "Merge bins" >> beam.combiners.ToDict()
            | "Name bins" >> beam.Map(_cut_bins).with_output_types(CutBins)
        )
        return (
            elements
            | "Pick hashes" >> beam.ParDo(pick, known, AsSingleton(bins)).with_output_types(_Packed)
            | "Group hashes by place" >> beam.GroupByKey()
            | "Cut bins" >> beam.FlatMap(_cut).with_output_types(_Packed)
            | "Group cuts by line" >> beam.GroupByKey()
            | "Add up cuts" >> beam.Map(_add_up).with_output_types(_Packed)
            | "Merge cuts" >> beam.combiners.ToDict()
            | "Name cuts" >> beam.Map(_cuts).with_output_types(Cuts)
        )


def _dumps(value: Any) -> bytes:
    # Beam would encode each number by itself.
    return marshal.dumps(value)


class _AddFn(beam.DoFn):
    """Adds up numbers that the elements of a bundle bring to places of lines, and sends them."""

    def __init__(self, lines: Lines, draws: Draws) -> None:
        self._lines = lines
        self._draws = functools.partial(draws, lines)

    def start_bundle(self) -> None:
        self._places: defaultdict[_Place, Counter[Any]] = defaultdict(Counter)
        self._added = 0

    def _add(self, place: _Place, what: Any, number: int) -> None:
        self._places[place][what] += number
        self._added += 1

    def _sent(self) -> Iterable[_Packed]:
        """All numbers, if there are many."""
        return self._packed() if self._added >= _HELD else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._packed())

    def _packed(self) -> Iterator[_Packed]:
        places = self._places
        self.start_bundle()
        for place, numbers in places.items():
            yield place, _dumps((*self._place(*place), dict(numbers)))

    def _place(self, line: str, number: int) -> tuple[Any, ...]:
        """What goes along with the numbers of a place."""
        raise NotImplementedError


class _CountBinsFn(_AddFn):
    """Counts the records in each bin, in a bundle first."""

    def process(self, element: Any, *known: Any) -> Iterable[_Packed]:
        self._lines.prepare(*known)
        for line, hash_, records, _ in self._draws(element):
            number = bin_of(hash_, self._lines.bins(line))
            self._add((line, number // _TOGETHER), number, records)
        return self._sent()

    def _place(self, line: str, _: int) -> tuple[Any, ...]:
        return self._lines.bins(line), self._lines.rule(line)


def _sum_of_bins(packed: Iterable[bytes]) -> bytes:
    added: Counter[int] = Counter()
    for each in packed:
        bins, rule, counts = marshal.loads(each)
        added.update(counts)
    return _dumps((bins, rule, dict(added)))


def _bins_of(group: tuple[str, Iterable[bytes]], lines: Lines) -> _Packed:
    line = group[0]
    bins, rule, counts = marshal.loads(_sum_of_bins(group[1]))
    ranks = lines.ranks(line, rule, sum(counts.values()))
    return (line, _CUTS), _dumps(tuple(find_bins(counts, ranks, bins)))


def _cut_bins(found: dict[_Place, bytes]) -> CutBins:
    return CutBins({line: Bins(*marshal.loads(bins)) for (line, _), bins in found.items()})


class _PickFn(_AddFn):
    """Picks the hashes in bins with cuts, and adds up what all records add to parts."""

    def process(self, element: Any, known: Any, bins: CutBins) -> Iterable[_Packed]:
        self._lines.prepare(known)
        self._bins = bins
        for line, hash_, records, added in self._draws(element):
            number = bins.lines[line].number(hash_)
            if number >= 0:
                self._add((line, number), (hash_, None), records)
                for name, images in added:
                    self._add((line, number), (hash_, name), images)
            else:
                for name, images in added:
                    self._add((name, number), (0, name), images)
        return self._sent()

    def _place(self, line: str, number: int) -> tuple[Any, ...]:
        place = self._bins.lines[line].place(number) if number >= 0 else Place(~number)
        return (tuple(place),)


def _cut(group: tuple[_Place, Iterable[bytes]]) -> Iterator[_Packed]:
    hashes: Counter[int] = Counter()
    added: Counter[tuple[int, str]] = Counter()
    for each in group[1]:
        place, held = marshal.loads(each)
        for (hash_, name), number in held.items():
            if name is None:
                hashes[hash_] += number
            else:
                added[hash_, name] += number
    cuts, names = find_cuts(Place(*place), hashes, added)
    if cuts:
        yield (group[0][0], _CUTS), _dumps(dict(Counter(cuts)))
    for name, parts in names.items():
        yield (name, _ADDED), _dumps(dict(parts))


def _add_up(group: tuple[_Place, Iterable[bytes]]) -> _Packed:
    numbers: Counter[int] = Counter()
    for each in group[1]:
        numbers.update(marshal.loads(each))
    return group[0], _dumps(dict(numbers))


def _cuts(found: dict[_Place, bytes]) -> Cuts:
    cuts, added = {}, {}
    for (name, kind), numbers in found.items():
        if kind == _ADDED:
            added[name] = marshal.loads(numbers)
        else:
            cuts[name] = Counter(marshal.loads(numbers)).elements()
    return Cuts.of(cuts, added)


# StratifySplits: gives each class its share of each split; groups stay whole.

# A split by its group, or an image without one.
_InGroup = tuple[str, tuple[str, LabelledImage]]


@dataclasses.dataclass(eq=False, repr=False)
class StratifySplits(beam.PTransform):
    """Assigns images to splits so that each class has its share of each, see `ClassLines`.

    Input: `LabelledImage`. Output: the same images, each with its split. Only names, and counts of
    hashes, cross the shuffle.

    Raises in the job:
        LabelsError: there are too many classes, or see `TotalLabels`.

    Attributes:
        lines: the classes and the splits.
        labels: the counts of the labels as they were read, if there are any.
        rules: how labels become classes.
    """

    lines: ClassLines
    labels: beam.PCollection[LabelCells] | None
    rules: LabelRules

    def expand(self, images: beam.PCollection[LabelledImage]) -> beam.PCollection[LabelledImage]:
        lines = self.lines
        totals = images | "Count classes" >> TotalLabels(self.labels, self.rules)
        name = beam.Map(Classes.of, self.rules, lines.splits)
        classes = totals | "Name classes" >> name.with_output_types(Classes)
        if lines.by_group:
            return self._by_group(images, lines, classes)
        names = images | "Pack images" >> PackRecords()
        place = beam.FlatMap(_place_images, lines, *_known(names, lines, _image_items, classes))
        return names | "Place images" >> place.with_output_types(LabelledImage)

    def _by_group(
        self,
        images: beam.PCollection[LabelledImage],
        lines: ClassLines,
        classes: beam.PCollection[Classes],
    ) -> beam.PCollection[LabelledImage]:
        groups = (
            images
            | "Name groups" >> beam.Map(_labels_of_group).with_output_types(tuple[str, str])
            | "Add up groups" >> beam.CombinePerKey(AddUp(Counter, _add_labels, Counter.update))
        )
        place = beam.Map(_place_group, lines, *_known(groups, lines, _group_items, classes))
        splits = groups | "Place groups" >> place.with_output_types(_InGroup)
        named = images | "Name images" >> beam.Map(_in_group).with_output_types(_InGroup)
        return (
            (named, splits)
            | "Images and splits" >> beam.Flatten()
            | "Group images" >> beam.GroupByKey()
            | "Place images" >> beam.FlatMap(_placed).with_output_types(LabelledImage)
        )


def _known(
    elements: beam.PCollection[Any],
    lines: ClassLines,
    items: Callable[[Any], Iterable[_Item]],
    classes: beam.PCollection[Classes],
) -> list[AsSingleton]:
    """The classes, and the cuts of each round of what `items` reads."""
    cuts: list[AsSingleton] = []
    for number in range(lines.rounds):
        draws = functools.partial(_draws_of_round, number, items)
        find = FindCuts(lines, draws, classes, tuple(cuts))
        cuts.append(AsSingleton(elements | f"Find cuts {number}" >> find))
    return [AsSingleton(classes), *cuts]


class _Item(NamedTuple):
    """An image, or a group: what a split gets whole.

    Attributes:
        key: of the image, or the name of the group.
        labels: how many images have each label.
        images: how many there are.
    """

    key: str
    labels: Mapping[str, int]
    images: int = 1


def _draws_of_round(
    number: int, items: Callable[[Any], Iterable[_Item]], lines: ClassLines, element: Any
) -> Iterator[Draw]:
    """The draw of each image or group of an element that is in a round."""
    for item in items(element):
        if lines.round(item.labels) == number:
            yield lines.draw(item.labels, item.key, item.images)


def _split(item: _Item, lines: ClassLines, cuts: Sequence[Cuts]) -> str:
    """The split of an image or a group, from the cuts of all rounds."""
    draw = lines.draw(item.labels, item.key, item.images)
    return lines.split(draw, cuts[lines.round(item.labels)])


def _image_items(batch: NameBatch) -> Iterator[_Item]:
    return map(_item, unpack(batch, LabelledImage))


def _item(image: LabelledImage) -> _Item:
    return _Item(image.key, dict.fromkeys(image_labels(image), 1))


def _place_images(
    batch: NameBatch, lines: ClassLines, classes: Classes, *cuts: Cuts
) -> Iterator[LabelledImage]:
    lines.prepare(classes)
    for image in unpack(batch, LabelledImage):
        yield image._replace(split=_split(_item(image), lines, cuts))


def _labels_of_group(image: LabelledImage) -> tuple[str, str]:
    return image.group, json.dumps(sorted(image_labels(image)))


def _add_labels(added: Counter[str | None], labels: str) -> None:
    """Adds an image of a group, under None, and its labels."""
    added.update([None, *json.loads(labels)])


def _group_items(group: tuple[str, Mapping[str | None, int]]) -> list[_Item]:
    labels = {label: images for label, images in group[1].items() if label is not None}
    return [_Item(group[0], labels, group[1][None])]


def _place_group(
    group: tuple[str, Mapping[str | None, int]], lines: ClassLines, classes: Classes, *cuts: Cuts
) -> _InGroup:
    lines.prepare(classes)
    [item] = _group_items(group)
    return item.key, (_split(item, lines, cuts), NO_LABELLED)


def _in_group(image: LabelledImage) -> _InGroup:
    return image.group, ("", image._replace(group=""))


def _placed(
    group: tuple[str, Iterable[tuple[str, LabelledImage]]],
) -> Iterator[LabelledImage]:
    """The images of a group with its split, which may come last: its values are read twice."""
    [split] = (split for split, _ in group[1] if split)
    for said, image in group[1]:
        if not said:
            yield image._replace(split=split)


# BalanceShards: finds where shards begin that have equal numbers of records.


class BalanceShards(beam.PTransform):
    """Adds to the totals where the shards of each split begin, see `PlanTotals.shard_starts`.

    Input: `LabelledImage`, or `of_rows` batches of `PlacedRow`. Output: one `PlanTotals`.
    """

    def __init__(
        self,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        *,
        of_rows: bool = False,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._totals = totals
        self._of_rows = of_rows

    def expand(
        self, images: beam.PCollection[LabelledImage] | beam.PCollection[NameBatch]
    ) -> beam.PCollection[PlanTotals]:
        batches = images if self._of_rows else images | "Pack images" >> PackRecords()
        draws = functools.partial(_draws_of_orders, PlacedRow if self._of_rows else LabelledImage)
        find = FindCuts(ShardLines(self._plan), draws, self._totals)
        cuts = batches | "Find cuts" >> find
        return self._totals | "Add starts" >> beam.Map(
            lambda totals, cuts: dataclasses.replace(totals, shard_starts=shard_starts(cuts)),
            AsSingleton(cuts),
        ).with_output_types(PlanTotals)


def _draws_of_orders(
    kind: type[LabelledImage | PlacedRow], lines: ShardLines, batch: NameBatch
) -> Iterator[Draw]:
    return (lines.draw(each.split, each.order) for each in unpack(batch, kind))
