"""StratifySplits: gives each class its share of each split; groups stay whole."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from transforms.core.balance.class_lines import ROUNDS, Classes, ClassLines, image_labels
from transforms.core.balance.hash_cuts import Cuts, Draw
from transforms.core.labels.label_kinds import LabelCells
from transforms.core.labels.label_rules import ANY_LABELS, LabelRules
from transforms.core.planning.splits import Splits
from transforms.core.records import NO_LABELLED, LabelledImage
from transforms.find_cuts import FindCuts
from transforms.pack_names import PackImages, unpack
from transforms.plan_shards import TotalLabels
from transforms.runners import runs_in_process

# A split by its group, or an image without one.
_InGroup = tuple[str, tuple[str, LabelledImage]]


class Stratification(NamedTuple):
    """How splits are stratified.

    Attributes:
        splits: the splits with their shares.
        seed: of the hashes.
        by_group: whether the images of a group stay together.
        many_labels: whether an image may have several labels.
    """

    splits: Splits
    seed: int
    by_group: bool = False
    many_labels: bool = False

    def step(
        self, labels: beam.PCollection[LabelCells] | None, rules: LabelRules = ANY_LABELS
    ) -> StratifySplits:
        """The step that assigns images to these splits; for its arguments, see there."""
        return StratifySplits(self, labels, rules)


class StratifySplits(beam.PTransform):
    """Assigns images to splits so that each class has its share of each, see `ClassLines`.

    Input: `LabelledImage`. Output: the same images, each with its split. Only names, and counts of
    hashes, cross the shuffle.

    Raises in the job:
        LabelsError: there are too many classes, or see `TotalLabels`.
    """

    def __init__(
        self,
        how: Stratification,
        labels: beam.PCollection[LabelCells] | None,
        rules: LabelRules,
    ) -> None:
        """Takes the rules.

        Args:
            how: the splits.
            labels: the counts of the labels as they were read, if there are any.
            rules: how labels become classes.
        """
        super().__init__()
        self._how = how
        self._labels = labels
        self._rules = rules

    def expand(self, images: beam.PCollection[LabelledImage]) -> beam.PCollection[LabelledImage]:
        how = self._how
        rounds = ROUNDS if how.by_group or how.many_labels else 1
        lines = ClassLines(how.splits, seed=how.seed, rounds=rounds)
        totals = images | "Count classes" >> TotalLabels(self._labels, self._rules)
        name = beam.Map(Classes.of, self._rules, how.splits)
        classes = totals | "Name classes" >> name.with_output_types(Classes)
        if how.by_group:
            return self._by_group(images, _GroupLines(lines), classes)
        of_images = _ImageLines(lines, are_packed=runs_in_process(images.pipeline))
        names = images | "Pack images" >> PackImages() if of_images.are_packed else images
        place = beam.ParDo(_PlaceImageFn(of_images), *_known(names, of_images, classes))
        return names | "Place images" >> place.with_output_types(LabelledImage)

    def _by_group(
        self,
        images: beam.PCollection[LabelledImage],
        lines: _GroupLines,
        classes: beam.PCollection[Classes],
    ) -> beam.PCollection[LabelledImage]:
        groups = (
            images
            | "Name groups" >> beam.Map(_labels_of_group).with_output_types(tuple[str, str])
            | "Add up groups" >> beam.CombinePerKey(AddLabels())
        )
        place = beam.ParDo(_PlaceGroupFn(lines), *_known(groups, lines, classes))
        splits = groups | "Place groups" >> place.with_output_types(_InGroup)
        named = images | "Name images" >> beam.Map(_in_group).with_output_types(_InGroup)
        return (
            (named, splits)
            | "Images and splits" >> beam.Flatten()
            | "Group images" >> beam.GroupByKey()
            | "Place images" >> beam.FlatMap(_placed).with_output_types(LabelledImage)
        )


def _known(
    elements: beam.PCollection[Any], lines: _Lines, classes: beam.PCollection[Classes]
) -> list[AsSingleton]:
    """The classes, and the cuts of each round."""
    cuts: list[AsSingleton] = []
    for number in range(lines.rounds):
        find = FindCuts(lines.of_round(number), classes, tuple(cuts))
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


class _Lines:
    """The lines of images or groups, as `FindCuts` takes them: in one round, or in all."""

    def __init__(self, lines: ClassLines, number: int | None = None) -> None:
        self._lines = lines
        self._number = number
        self.rounds = lines.rounds
        self.prepare, self.bins = lines.prepare, lines.bins
        self.rule, self.ranks = lines.rule, lines.ranks

    def items(self, element: Any) -> Iterable[_Item]:
        """The images or groups of an element."""
        raise NotImplementedError

    def of_round(self, number: int) -> Self:
        """The lines of a round."""
        lines = copy.copy(self)
        lines._number = number
        return lines

    def draws(self, element: Any) -> Iterator[Draw]:
        """The draw of each image or group of an element that is in this round."""
        for item in self.items(element):
            if self._lines.round(item.labels) == self._number:
                yield self._draw(item)

    def split(self, item: _Item, cuts: Sequence[Cuts]) -> str:
        """The split of an image or a group, from the cuts of all rounds."""
        return self._lines.split(self._draw(item), cuts[self._lines.round(item.labels)])

    def _draw(self, item: _Item) -> Draw:
        return self._lines.draw(item.labels, item.key, item.images)


class _ImageLines(_Lines):
    """The lines of images, or of batches of them."""

    def __init__(self, lines: ClassLines, *, are_packed: bool) -> None:
        super().__init__(lines)
        self.are_packed = are_packed

    def images(self, element: Any) -> Iterable[LabelledImage]:
        """The images of an element."""
        # In another process, Beam decodes rows to a generated class.
        return unpack(element, LabelledImage) if self.are_packed else [LabelledImage(*element)]

    def items(self, element: Any) -> Iterator[_Item]:
        return map(_item, self.images(element))

    def placed(self, image: LabelledImage, cuts: Sequence[Cuts]) -> LabelledImage:
        """The image with its split."""
        return image._replace(split=self.split(_item(image), cuts))


def _item(image: LabelledImage) -> _Item:
    return _Item(image.key, dict.fromkeys(image_labels(image), 1))


class _GroupLines(_Lines):
    """The lines of groups: the name of each, and the result of `AddLabels`."""

    def items(self, element: tuple[str, str]) -> Iterator[_Item]:
        images, labels = json.loads(element[1])
        yield _Item(element[0], labels, images)


class _PlaceImageFn(beam.DoFn):
    def __init__(self, lines: _ImageLines) -> None:
        self._lines = lines

    def process(self, element: Any, classes: Classes, *cuts: Cuts) -> Iterator[LabelledImage]:
        self._lines.prepare(classes)
        for image in self._lines.images(element):
            yield self._lines.placed(image, cuts)


def _labels_of_group(image: LabelledImage) -> tuple[str, str]:
    image = LabelledImage(*image)
    return image.group, json.dumps([1, dict.fromkeys(sorted(image_labels(image)), 1)])


class AddLabels(beam.CombineFn):
    """Adds up the images of a group and its images with each label: `[images, labels]` as JSON."""

    def create_accumulator(self) -> tuple[int, Counter[str]]:
        return 0, Counter()

    def add_input(
        self, accumulator: tuple[int, Counter[str]], image: str
    ) -> tuple[int, Counter[str]]:
        images, labels = json.loads(image)
        accumulator[1].update(labels)
        return accumulator[0] + images, accumulator[1]

    def merge_accumulators(
        self, accumulators: Iterable[tuple[int, Counter[str]]]
    ) -> tuple[int, Counter[str]]:
        merged, added = 0, Counter[str]()
        for images, labels in accumulators:
            merged += images
            added.update(labels)
        return merged, added

    def extract_output(self, accumulator: tuple[int, Counter[str]]) -> str:
        return json.dumps([accumulator[0], accumulator[1]], sort_keys=True)


class _PlaceGroupFn(beam.DoFn):
    def __init__(self, lines: _GroupLines) -> None:
        self._lines = lines

    def process(
        self, group: tuple[str, str], classes: Classes, *cuts: Cuts
    ) -> Iterator[tuple[str, tuple[str, LabelledImage]]]:
        self._lines.prepare(classes)
        for item in self._lines.items(group):
            yield item.key, (self._lines.split(item, cuts), NO_LABELLED)


def _in_group(image: LabelledImage) -> tuple[str, tuple[str, LabelledImage]]:
    image = LabelledImage(*image)
    return image.group, ("", image._replace(group=""))


def _placed(
    group: tuple[str, Iterable[tuple[str, LabelledImage]]],
) -> Iterator[LabelledImage]:
    """The images of a group with its split, which may come last: its values are read twice."""
    [split] = (split for split, _ in group[1] if split)
    for said, image in group[1]:
        if not said:
            yield LabelledImage(*image)._replace(split=split)
