"""StratifySplits and BalanceShards: shares of classes in splits, and of records in shards."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from transforms.core.records import NO_LABELLED, LabelledImage
from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import LabelRules
from transforms.labels.shards import ShardPlan
from transforms.labels.vocabulary import LabelCells
from transforms.packing import AddTogether, AddUp, NameBatch, PackRecords, pack, pack_held, unpack
from transforms.plan_shards import PlacedRow, TotalLabels
from transforms.selection.hash_cuts import (
    Classes,
    ClassLines,
    Cuts,
    Draw,
    Place,
    Ranks,
    ShardLines,
    bin_of,
    find_cuts,
    find_places,
    image_labels,
    shard_starts,
)

# FindCuts: divides lines of records, in the order of their hashes, at given ranks.

# Draws that a bundle holds before they are sent.
_HELD = 100_000

# A line, and the number of one of its bins.
_Bin: TypeAlias = tuple[str, int]


class Lines(Protocol):
    """The lines that records are in; picklable. `prepare` is called before the others."""

    def prepare(self, known: Any, *before: Cuts) -> None:
        """Takes what is known of all records, and for `ranks` the cuts that were found before."""

    def bins(self, line: str) -> int:
        """The bins of a line, see `bin_count`."""

    def ranks(self, line: str, records: int) -> Ranks:
        """Where a line with so many records is divided."""


# The draws of an element, a group or a batch, from prepared lines.
Draws: TypeAlias = Callable[[Any, Any], Iterable[Draw]]


@dataclasses.dataclass(eq=False, repr=False)
class FindCuts(beam.PTransform):
    """Finds the cuts of all lines: their hashes are divided into bins, and compared in each.

    Input: what `draws` reads. Output: one `Cuts`. A hash for each image or group crosses the
    shuffle, 12 bytes or less; no worker needs a whole line.

    Attributes:
        lines: they say which records are where.
        draws: the draws of an element in these lines.
        known: one element, which `Lines.prepare` takes.
        before: the cuts that were found before, which it takes, too.
    """

    lines: Lines
    draws: Draws
    known: beam.PCollection[Any]
    before: Sequence[AsSingleton] = ()

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Cuts]:
        lines, known = self.lines, AsSingleton(self.known)
        draws = (
            elements
            | "Draw hashes" >> beam.FlatMap(_drawn, lines, self.draws, known)
            | "Pack hashes"
            >> pack_held(_HELD, _packed, tuple[_Bin, NameBatch], place=operator.itemgetter(0))
        )
        place = beam.FlatMap(_places, lines, known, *self.before)
        places = (
            draws
            | "Count records" >> beam.Map(_counted).with_output_types(tuple[str, tuple[int, int]])
            | "Group counts by line" >> beam.GroupByKey()
            | "Place bins" >> place.with_output_types(tuple[_Bin, Place])
            | "Merge places" >> beam.combiners.ToDict()
            # A class, so that it is one text in a side input: docs/development/beam_side_inputs.md.
            | "Name places" >> beam.Map(_Places).with_output_types(_Places)
        )
        cut = beam.Map(_cut, AsSingleton(places)).with_output_types(Cuts)
        cuts = draws | "Group hashes by bin" >> beam.GroupByKey() | "Cut bins" >> cut
        return {"cuts": cuts} | "Merge cuts" >> AddTogether(AddUp(Cuts, Cuts.merge, Cuts.merge))


@dataclasses.dataclass(frozen=True)
class _Places:
    bins: Mapping[_Bin, Place]


def _drawn(element: Any, lines: Lines, draws: Draws, known: Any) -> Iterator[tuple[_Bin, Draw]]:
    lines.prepare(known)
    for draw in draws(lines, element):
        yield (draw.line, bin_of(draw.hash, lines.bins(draw.line))), draw


def _packed(place: _Bin, drawn: Iterable[tuple[_Bin, Draw]]) -> tuple[_Bin, NameBatch]:
    return place, pack([draw for _, draw in drawn])


def _counted(packed: tuple[_Bin, NameBatch]) -> tuple[str, tuple[int, int]]:
    (line, number), batch = packed
    return line, (number, sum(draw.records for draw in unpack(batch, Draw)))


def _places(
    counted: tuple[str, Iterable[tuple[int, int]]], lines: Lines, *known: Any
) -> Iterator[tuple[_Bin, Place]]:
    line, counts = counted[0], Counter[int]()
    for number, records in counted[1]:
        counts[number] += records
    lines.prepare(*known)
    for number, place in find_places(counts, lines.ranks(line, counts.total())).items():
        yield (line, number), place


def _cut(drawn: tuple[_Bin, Iterable[NameBatch]], places: _Places) -> Cuts:
    place, batches = drawn
    draws = (draw for batch in batches for draw in unpack(batch, Draw))
    return find_cuts(places.bins[place], draws)


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
