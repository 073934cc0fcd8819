"""StratifySplits: gives each class its share of each split; groups stay whole."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.balance.class_lines import Classes, ClassLines, image_labels, least_of_set
from transforms.core.balance.hash_cuts import Cuts, Draw
from transforms.core.labels.label_kinds import LabelCells
from transforms.core.labels.label_rules import ANY_LABELS, LabelRules
from transforms.core.planning.splits import Splits
from transforms.core.records import NO_LABELLED, LabelledImage
from transforms.find_cuts import FindCuts
from transforms.pack_names import PackImages, unpack
from transforms.plan_shards import TotalLabels
from transforms.runners import runs_in_process

# Sets of classes that a bundle holds before they are sent.
_HELD = 100_000

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
        lines = ClassLines(self._how.splits, seed=self._how.seed)
        totals = images | "Count classes" >> TotalLabels(self._labels, self._rules)
        name = beam.Map(Classes.of, self._rules, self._how.splits)
        classes = totals | "Name classes" >> name.with_output_types(Classes)
        if self._how.by_group:
            return self._by_group(images, _GroupLines(lines), classes)
        of_images = _ImageLines(lines, are_packed=runs_in_process(images.pipeline))
        names = images | "Pack images" >> PackImages() if of_images.are_packed else images
        place = beam.ParDo(_PlaceImageFn(of_images), *self._known(names, of_images, classes))
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
        place = beam.ParDo(_PlaceGroupFn(lines), *self._known(groups, lines, classes))
        splits = groups | "Place groups" >> place.with_output_types(_InGroup)
        named = images | "Name images" >> beam.Map(_in_group).with_output_types(_InGroup)
        return (
            (named, splits)
            | "Images and splits" >> beam.Flatten()
            | "Group images" >> beam.GroupByKey()
            | "Place images" >> beam.FlatMap(_placed).with_output_types(LabelledImage)
        )

    def _known(
        self, elements: beam.PCollection[Any], lines: _Lines, classes: beam.PCollection[Classes]
    ) -> list[AsSingleton]:
        """The classes, and the cuts of their lines."""
        if self._how.by_group or self._how.many_labels:
            count = beam.ParDo(_CountSetsFn(lines), AsSingleton(classes))
            sets = (
                elements
                | "Count sets" >> count.with_output_types(tuple[str, int])
                | "Add up sets" >> beam.CombinePerKey(sum)
                | "Pick sets" >> beam.Filter(_is_line, AsSingleton(classes), self._how.splits)
                | "Merge sets" >> beam.CombineGlobally(MergeSets())
            )
            add = beam.Map(_with_sets, AsSingleton(sets))
            classes = classes | "Add sets" >> add.with_output_types(Classes)
        cuts = elements | "Find cuts" >> FindCuts(lines, classes)
        return [AsSingleton(classes), AsSingleton(cuts)]


class _Lines:
    """The lines of images or groups, as `FindCuts` takes them."""

    def __init__(self, lines: ClassLines) -> None:
        self._lines = lines
        self.prepare, self.bins, self.ranks = lines.prepare, lines.bins, lines.ranks

    def labels(self, element: Any) -> Iterable[tuple[Iterable[str], int]]:
        """The labels of each image or group of an element, and its number of images."""
        raise NotImplementedError

    def draws(self, element: Any) -> Iterable[Draw]:
        """The draw of each image or group of an element."""
        raise NotImplementedError


class _ImageLines(_Lines):
    """The lines of images, or of batches of them."""

    def __init__(self, lines: ClassLines, *, are_packed: bool) -> None:
        super().__init__(lines)
        self.are_packed = are_packed

    def images(self, element: Any) -> Iterable[LabelledImage]:
        """The images of an element."""
        # In another process, Beam decodes rows to a generated class.
        return unpack(element, LabelledImage) if self.are_packed else [LabelledImage(*element)]

    def labels(self, element: Any) -> Iterator[tuple[Iterable[str], int]]:
        return ((image_labels(image), 1) for image in self.images(element))

    def draws(self, element: Any) -> Iterator[Draw]:
        return map(self._draw, self.images(element))

    def _draw(self, image: LabelledImage) -> Draw:
        return self._lines.draw(image_labels(image), image.key, 1)

    def placed(self, image: LabelledImage, cuts: Cuts) -> LabelledImage:
        """The image with its split."""
        return image._replace(split=self._lines.split(self._draw(image), cuts))


class _GroupLines(_Lines):
    """The lines of groups: the name of each, and the result of `AddLabels`."""

    def labels(self, element: tuple[str, str]) -> Iterator[tuple[Iterable[str], int]]:
        images, labels = json.loads(element[1])
        yield labels, images

    def draws(self, element: tuple[str, str]) -> Iterator[Draw]:
        for labels, images in self.labels(element):
            yield self._lines.draw(labels, element[0], images)

    def split(self, group: tuple[str, str], cuts: Cuts) -> str:
        """The split of a group."""
        [draw] = self.draws(group)
        return self._lines.split(draw, cuts)


class _CountSetsFn(beam.DoFn):
    """Counts the images with each set of several classes, in a bundle first."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines

    def start_bundle(self) -> None:
        self._sets: Counter[str] = Counter()

    def process(self, element: Any, classes: Classes) -> Iterable[tuple[str, int]]:
        for labels, images in self._lines.labels(element):
            if line := classes.set_line(labels):
                self._sets[line] += images
        return () if len(self._sets) < _HELD else self._counted()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._counted())

    def _counted(self) -> Iterable[tuple[str, int]]:
        sets = self._sets
        self.start_bundle()
        return sets.items()


def _is_line(counted: tuple[str, int], classes: Classes, splits: Splits) -> bool:
    return counted[1] >= least_of_set(splits, classes.images)


@dataclasses.dataclass(frozen=True)
class FrequentSets:
    """The images of each set of classes that is a line."""

    sets: dict[str, int]


class MergeSets(beam.CombineFn):
    """Merges the sets of classes that are lines."""

    def create_accumulator(self) -> dict[str, int]:
        return {}

    def add_input(self, accumulator: dict[str, int], counted: tuple[str, int]) -> dict[str, int]:
        line, images = counted
        accumulator[line] = images
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[str, int]]) -> dict[str, int]:
        return {line: images for each in accumulators for line, images in each.items()}

    def extract_output(self, accumulator: dict[str, int]) -> FrequentSets:
        return FrequentSets(accumulator)


def _with_sets(classes: Classes, frequent: FrequentSets) -> Classes:
    return dataclasses.replace(classes, sets=frequent.sets)


class _PlaceImageFn(beam.DoFn):
    def __init__(self, lines: _ImageLines) -> None:
        self._lines = lines

    def process(self, element: Any, classes: Classes, cuts: Cuts) -> Iterator[LabelledImage]:
        self._lines.prepare(classes)
        for image in self._lines.images(element):
            yield self._lines.placed(image, cuts)


def _labels_of_group(image: LabelledImage) -> tuple[str, str]:
    image = LabelledImage(*image)
    return image.group, json.dumps([1, sorted(image_labels(image))])


class AddLabels(beam.CombineFn):
    """Adds up the images of a group and their labels: `[images, labels]` as JSON."""

    def create_accumulator(self) -> tuple[int, frozenset[str]]:
        return 0, frozenset()

    def add_input(
        self, accumulator: tuple[int, frozenset[str]], image: str
    ) -> tuple[int, frozenset[str]]:
        images, labels = json.loads(image)
        return accumulator[0] + images, accumulator[1].union(labels)

    def merge_accumulators(
        self, accumulators: Iterable[tuple[int, frozenset[str]]]
    ) -> tuple[int, frozenset[str]]:
        parts = list(accumulators)
        return sum(images for images, _ in parts), frozenset().union(*(each for _, each in parts))

    def extract_output(self, accumulator: tuple[int, frozenset[str]]) -> str:
        return json.dumps([accumulator[0], sorted(accumulator[1])])


class _PlaceGroupFn(beam.DoFn):
    def __init__(self, lines: _GroupLines) -> None:
        self._lines = lines

    def process(
        self, group: tuple[str, str], classes: Classes, cuts: Cuts
    ) -> Iterator[tuple[str, tuple[str, LabelledImage]]]:
        self._lines.prepare(classes)
        yield group[0], (self._lines.split(group, cuts), NO_LABELLED)


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
