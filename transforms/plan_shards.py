"""TotalLabels, StratifySplits and PlanShards: which record is in which split and shard."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.utils.shared import Shared

from transforms.core.records import NO_IMAGE, PlannedImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.ledger import MAX_TAGS, PlanTotals
from transforms.labels.joins import image_labels, with_ids
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import ShardPlan, shard_index
from transforms.labels.vocabulary import LabelCells, with_images
from transforms.packing import (
    AddTogether,
    AddUp,
    NameBatch,
    by_type,
    pack,
    pack_held,
    packing_records,
    rules_of,
    unpack,
)
from transforms.records.existing_shards import Planned
from transforms.selection.hash_cuts import (
    Classes,
    ClassLines,
    Cuts,
    Draw,
    Place,
    ShardLines,
    bin_of,
    find_cuts,
    find_places,
    shard_starts,
)
from transforms.storage.metrics import PROGRESS

# TotalLabels: the totals of images, and the kind of their labels.


def _count(totals: PlanTotals, counted: PlannedImage | LabelCells) -> None:
    if isinstance(counted, LabelCells):
        totals.merge(PlanTotals(cells=counted))
    else:
        totals.add(counted)


def _decided(totals: PlanTotals, rules: LabelRules) -> PlanTotals:
    # Not before all are counted: the labels of a part may be of the images of others.
    totals.check_classes(max(totals.images.total(), MAX_TAGS))
    rules.check(totals.labels)
    cells = with_images(totals.cells, totals.labels)
    return dataclasses.replace(totals, cells=cells, label_kind=rules.decide(cells))


@dataclasses.dataclass(eq=False, repr=False)
class TotalLabels(beam.PTransform):
    """Computes the totals of images, and decides the kind of their labels.

    Input: `PlannedImage`. Output: one `PlanTotals`.

    Raises in the job:
        LabelsError: labels contradict each other, see `decide_kind`, or are new classes that
            `--new_classes` refuses.

    Attributes:
        labels: the counts of the labels as they were read, if there are any.
        rules: how they become classes.
    """

    labels: beam.PCollection[LabelCells] | None
    rules: LabelRules = ANY_LABELS

    def expand(self, images: beam.PCollection[PlannedImage]) -> beam.PCollection[PlanTotals]:
        counted = {"images": images}
        if self.labels is not None:
            counted["labels"] = self.labels
        totals = counted | "Add totals" >> AddTogether(AddUp(PlanTotals, _count, PlanTotals.merge))
        if self.labels is None:
            return totals
        decide = beam.Map(_decided, self.rules)
        return totals | "Decide kind" >> decide.with_output_types(PlanTotals)


# FindCuts: divides lines of records, in the order of their hashes, at given ranks.

# Draws that a bundle holds before they are sent.
_HELD = 100_000

# A line, and the number of one of its bins.
_Bin: TypeAlias = tuple[str, int]


# The lines that records are in; `prepare` is called before their other methods.
Lines: TypeAlias = ClassLines | ShardLines

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
_InGroup = tuple[str, tuple[str, PlannedImage]]


@dataclasses.dataclass(eq=False, repr=False)
class StratifySplits(beam.PTransform):
    """Assigns images to splits so that each class has its share of each, see `ClassLines`.

    Input: `PlannedImage`. Output: the same images, each with its split. Only names and hashes
    cross the shuffle.

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

    def expand(self, images: beam.PCollection[PlannedImage]) -> beam.PCollection[PlannedImage]:
        lines = self.lines
        totals = images | "Count classes" >> TotalLabels(self.labels, self.rules)
        name = beam.Map(Classes.of, self.rules, lines.splits)
        classes = totals | "Name classes" >> name.with_output_types(Classes)
        if not lines.by_group:
            names = images | "Pack images" >> packing_records()
            place = beam.FlatMap(_place_images, lines, *_known(names, lines, _image_items, classes))
            return names | "Place images" >> place.with_output_types(PlannedImage)
        name_groups = beam.Map(lambda image: (image.group, json.dumps(sorted(image_labels(image)))))
        groups = (
            images
            | "Name groups" >> name_groups.with_output_types(tuple[str, str])
            | "Add up groups" >> beam.CombinePerKey(AddUp(Counter, _add_labels, Counter.update))
        )
        place = beam.Map(_place_group, lines, *_known(groups, lines, _group_items, classes))
        splits = groups | "Place groups" >> place.with_output_types(_InGroup)
        name_images = beam.Map(lambda image: (image.group, ("", image._replace(group=""))))
        named = images | "Name images" >> name_images.with_output_types(_InGroup)
        return (
            (named, splits)
            | "Images and splits" >> beam.Flatten()
            | "Group images" >> beam.GroupByKey()
            | "Place images" >> beam.FlatMap(_placed).with_output_types(PlannedImage)
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
    return map(_item, unpack(batch, PlannedImage))


def _item(image: PlannedImage) -> _Item:
    return _Item(image.key, dict.fromkeys(image_labels(image), 1))


def _place_images(
    batch: NameBatch, lines: ClassLines, classes: Classes, *cuts: Cuts
) -> Iterator[PlannedImage]:
    lines.prepare(classes)
    for image in unpack(batch, PlannedImage):
        yield image._replace(split=_split(_item(image), lines, cuts))


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
    return item.key, (_split(item, lines, cuts), NO_IMAGE)


def _placed(
    group: tuple[str, Iterable[tuple[str, PlannedImage]]],
) -> Iterator[PlannedImage]:
    """The images of a group with its split, which may come last: its values are read twice."""
    [split] = (split for split, _ in group[1] if split)
    for said, image in group[1]:
        if not said:
            yield image._replace(split=split)


# Finds where shards begin that have equal numbers of records.


def with_starts(
    batches: beam.PCollection[NameBatch],
    plan: ShardPlan,
    totals: beam.PCollection[PlanTotals],
    kind: type[Planned],
) -> beam.PCollection[PlanTotals]:
    """The totals with the starts of the shards of each split, see `PlanTotals.shard_starts`.

    Args:
        batches: of `PlannedImage` or `ShardRow`.
        plan: how many shards there are.
        totals: of the records, one element.
        kind: the class of the records.
    """
    draws = functools.partial(_draws_of_orders, kind)
    cuts = batches | "Balance shards" >> FindCuts(ShardLines(plan), draws, totals)
    return totals | "Add starts" >> beam.Map(
        lambda totals, cuts: dataclasses.replace(totals, shard_starts=shard_starts(cuts)),
        AsSingleton(cuts),
    ).with_output_types(PlanTotals)


def _draws_of_orders(kind: type[Planned], lines: ShardLines, batch: NameBatch) -> Iterator[Draw]:
    return (lines.draw(each.split, each.order) for each in unpack(batch, kind))


# PlanShards: assigns every labelled image to a shard and a position. Moves names only.

# Classes whose ids a worker keeps at hand.
_CLASSES = 4096


class PlannedShards(NamedTuple):
    """The outputs of `PlanShards`: a shard is its file name and its images, unordered.

    They include shards without images. The totals say where shards begin that are balanced.
    """

    shards: beam.PCollection[tuple[str, Iterable[Planned]]]
    rejections: beam.PCollection[Rejection]
    totals: beam.PCollection[PlanTotals]


@dataclasses.dataclass
class _Assigner:
    """Assigns the images or rows of a batch to their shards, and packs them by shard."""

    plan: ShardPlan
    rules: LabelRules
    kind: type[Planned]
    _totals: PlanTotals | None = None
    _shared: Shared = dataclasses.field(default_factory=Shared)

    def __call__(
        self, batch: NameBatch, totals: PlanTotals
    ) -> Iterator[tuple[str, NameBatch] | Rejection]:
        self._prepare(totals)
        shards: defaultdict[str, list[Planned]] = defaultdict(list)
        for each in unpack(batch, self.kind):
            try:
                planned = each if isinstance(each, ShardRow) else self._planned(each)
            except RejectedImageError as error:
                # Planned but rejected: count it as done, so that the stage reaches its total.
                PROGRESS.count("converting", 1, 1)
                reason = error.reason.code
                yield Rejection("image", reason, error.detail, each.path, each.key)
                continue
            files, starts = self._files[each.split], self._starts.get(each.split, ())
            shards[files[shard_index(each.order, len(files), starts)]].append(planned)
        for name, records in shards.items():
            yield name, pack(records)

    def _planned(self, image: PlannedImage) -> PlannedImage:
        order, key, path, size, version, label, _, cells, stored, partners, record, *_ = image
        label_id, text = self._class_of(label) if label else (0, "")
        if label_id is None:
            detail = f"the label {label!r} {self.rules.unknown}"
            raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
        if cells:
            vocabulary, unknown = self._vocabulary, self.rules.unknown
            cells = with_ids(cells, vocabulary.id_of, vocabulary.text_of, unknown)
        file = (order, key, path, size, version)
        return PlannedImage(*file, text, label_id, cells, stored, partners, record)

    def _look_up(self, label: str) -> tuple[int | None, str]:
        return self._vocabulary.id_of(label), self._vocabulary.text_of(label)

    def _prepare(self, totals: PlanTotals) -> None:
        if totals is self._totals:
            return
        self._totals = totals
        PROGRESS.plan(sum(totals.images.values()))
        # Once a process, which has an instance for each of its threads.
        self._vocabulary = self._shared.acquire(
            lambda: self.rules.vocabulary(totals.labels, totals.label_kind),
            tag=(totals.label_kind, hash(frozenset(totals.labels))),
        )
        # Most images have one of few classes.
        self._class_of = functools.lru_cache(_CLASSES)(self._look_up)
        self._files = self.plan.files(totals.bytes, totals.images)
        self._starts = totals.shard_starts


def _unpacked(
    shard: tuple[str, Iterable[NameBatch]], kind: type[Planned]
) -> tuple[str, list[Planned]]:
    name, batches = shard
    return name, [each for batch in batches for each in unpack(batch, kind)]


def _every_shard(
    totals: PlanTotals, plan: ShardPlan, *, is_bounded: bool
) -> Iterator[tuple[str, NameBatch]]:
    """The names of all planned shards, each with an empty batch.

    Without it, a shard that gets no element would not be grouped, and not be written.

    Raises:
        LabelsError: `is_bounded`, and a shard has more than `MAX_SHARD_NAMES` images.
    """
    if is_bounded:
        plan.check_sizes(totals.bytes, totals.images)
    for names in plan.files(totals.bytes, totals.images).values():
        for name in names:
            yield name, pack(())


@dataclasses.dataclass(eq=False, repr=False)
class PlanShards(beam.PTransform):
    """Groups labelled images by shard.

    Input: `PlannedImage`, or `of_rows` batches of `ShardRow`. Output: `PlannedShards`. Only
    names, and the cells that the layout needs, cross the shuffle.

    Raises in the job:
        LabelsError: on several machines, a shard has more than `MAX_SHARD_NAMES` images.
    """

    plan: ShardPlan
    totals: beam.PCollection[PlanTotals]
    _: dataclasses.KW_ONLY
    rules: LabelRules = ANY_LABELS
    of_rows: bool = False

    def expand(
        self, images: beam.PCollection[PlannedImage] | beam.PCollection[NameBatch]
    ) -> PlannedShards:
        kind: Any = ShardRow if self.of_rows else PlannedImage
        batches = images if self.of_rows else images | "Pack images" >> packing_records()
        totals = self.totals
        if self.plan.by_records:
            totals = with_starts(batches, self.plan, totals, kind)
        assign = _Assigner(self.plan, self.rules, kind)
        assigned = batches | "Assign shards" >> by_type(
            assign, "names", tuple[str, NameBatch], AsSingleton(totals), rejections=Rejection
        )
        is_bounded = rules_of(images.pipeline).max_element and not self.of_rows
        name_shards = beam.FlatMap(_every_shard, self.plan, is_bounded=is_bounded)
        every = totals | "Name every shard" >> name_shards.with_output_types(tuple[str, NameBatch])
        unpack_names = beam.Map(_unpacked, kind)
        shards = (
            (assigned.names, every)
            | "Images and shards" >> beam.Flatten()
            | "Group names by shard" >> beam.GroupByKey()
            | "Unpack images" >> unpack_names.with_output_types(tuple[str, Iterable[kind]])
        )
        return PlannedShards(shards, assigned.rejections, totals)
