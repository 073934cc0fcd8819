"""PlanShards: assigns every labelled image to a shard and a position. Moves names only."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.add_totals import AddTotals, Part, part
from transforms.core.arguments import whole_number
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.labels.label_kinds import LabelCells
from transforms.core.labels.label_rules import ANY_LABELS, LabelRules
from transforms.core.planning.row_cells import with_ids
from transforms.core.planning.shards import MAX_SHARDS, ShardPlan, shard_index
from transforms.core.records import NO_IMAGE, LabelledImage, ShardImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.metrics import PROGRESS
from transforms.pack_names import NameBatch, PackImages, pack, unpack
from transforms.runners import runs_in_process

beam.coders.registry.register_coder(ShardImage, beam.coders.RowCoder)


Nothing = TypeVar("Nothing")

# Classes whose ids a worker keeps at hand.
_CLASSES = 4096


class PlannedShards(NamedTuple):
    """The outputs of `PlanShards`: a shard is its file name and its images, unordered.

    They include shards without images, see `planned`.
    """

    shards: beam.PCollection[tuple[str, Iterable[ShardImage | ShardRow]]]
    rejections: beam.PCollection[Rejection]


class _TotalFn(beam.DoFn):
    """Adds up the images of a bundle, so that no name crosses a shuffle to be counted."""

    def start_bundle(self) -> None:
        self._totals = PlanTotals()

    def process(self, image: LabelledImage) -> None:
        self._totals.add(image)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield GlobalWindows.windowed_value(part(self._totals))


class TotalLabels(beam.PTransform):
    """Computes the totals of images, and decides the kind of their labels.

    Input: `LabelledImage`. Output: one `PlanTotals`.

    Raises in the job:
        LabelsError: see `AddTotals`.
    """

    def __init__(
        self, labels: beam.PCollection[LabelCells] | None, rules: LabelRules = ANY_LABELS
    ) -> None:
        """Takes the counts of the labels as they were read, if there are any."""
        super().__init__()
        self._labels = labels
        self._rules = rules

    def expand(self, images: beam.PCollection[LabelledImage]) -> beam.PCollection[PlanTotals]:
        totals = images | "Total images" >> beam.ParDo(_TotalFn()).with_output_types(Part)
        if self._labels is None:
            return (totals,) | "Add totals" >> AddTotals()
        cells = self._labels | "Total labels" >> beam.Map(_of_cells).with_output_types(Part)
        return (totals, cells) | "Add totals" >> AddTotals(self._rules)


def _of_cells(cells: LabelCells) -> Part:
    # In another process than the one that built the graph, Beam decodes rows to a generated class.
    return part(PlanTotals(cells=LabelCells(*cells)))


class _Assigner:
    REJECTIONS = "rejections"

    def __init__(self, plan: ShardPlan, rules: LabelRules) -> None:
        self._plan = plan
        self._rules = rules
        self._totals: PlanTotals | None = None

    def _shard(self, image: LabelledImage) -> str:
        files = self._files[image.split]
        return files[shard_index(image.order, len(files), self._starts.get(image.split, ()))]

    def _rejected(
        self, image: LabelledImage, error: RejectedImageError
    ) -> beam.pvalue.TaggedOutput:
        # Planned but rejected: count it as done, so that the stage reaches its total.
        PROGRESS.advance(1, 1)
        reason = error.reason.value
        rejection = Rejection("image", reason, error.detail, image.path, image.key)
        return beam.pvalue.TaggedOutput(self.REJECTIONS, rejection)

    def _planned(self, image: LabelledImage) -> ShardImage:
        label_id, text = self._class_of(image.label) if image.label else (0, "")
        if label_id is None:
            detail = f"the label {image.label!r} {self._rules.unknown}"
            raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
        cells = image.cells
        if cells:
            vocabulary, unknown = self._vocabulary, self._rules.unknown
            cells = with_ids(cells, vocabulary.id_of, vocabulary.text_of, unknown)
        return ShardImage(
            image.order,
            image.key,
            image.path,
            image.size,
            image.version,
            text,
            label_id,
            cells,
            image.stored,
            image.partners,
        )

    def _look_up(self, label: str) -> tuple[int | None, str]:
        return self._vocabulary.id_of(label), self._vocabulary.text_of(label)

    def _prepare(self, totals: PlanTotals) -> None:
        if totals is self._totals:
            return
        self._totals = totals
        PROGRESS.plan(sum(totals.images.values()))
        self._vocabulary = self._rules.vocabulary(totals.labels, totals.label_kind)
        # Most images have one of few classes.
        self._class_of = functools.lru_cache(_CLASSES)(self._look_up)
        self._files = self._plan.files(totals.bytes, totals.images)
        self._starts = totals.shard_starts


class _AssignShardFn(_Assigner, beam.DoFn):
    def process(
        self, image: LabelledImage, totals: PlanTotals
    ) -> Iterable[tuple[str, ShardImage] | beam.pvalue.TaggedOutput]:
        self._prepare(totals)
        try:
            yield self._shard(image), self._planned(image)
        except RejectedImageError as error:
            yield self._rejected(image, error)


class _AssignPackedFn(_Assigner, beam.DoFn):
    """Assigns the images of a batch, and packs them by shard."""

    def process(
        self, batch: NameBatch, totals: PlanTotals
    ) -> Iterable[tuple[str, NameBatch] | beam.pvalue.TaggedOutput]:
        self._prepare(totals)
        shards: defaultdict[str, list[ShardImage]] = defaultdict(list)
        for image in unpack(batch, LabelledImage):
            try:
                shards[self._shard(image)].append(self._planned(image))
            except RejectedImageError as error:
                yield self._rejected(image, error)
        for name, images in shards.items():
            yield name, pack(images)


class _UnpackImagesFn(beam.DoFn):
    def process(
        self, shard: tuple[str, Iterable[NameBatch]]
    ) -> Iterable[tuple[str, list[ShardImage]]]:
        name, batches = shard
        yield name, [image for batch in batches for image in unpack(batch, ShardImage)]


def every_shard(
    totals: PlanTotals, plan: ShardPlan, nothing: Nothing
) -> Iterator[tuple[str, Nothing]]:
    """The names of all planned shards, each with an element that stands for none.

    Without it, a shard that gets no element would not be grouped, and not be written.
    """
    for names in plan.files(totals.bytes, totals.images).values():
        for name in names:
            yield name, nothing


def _every_bounded_shard(
    totals: PlanTotals, plan: ShardPlan, nothing: Nothing
) -> Iterator[tuple[str, Nothing]]:
    plan.check_sizes(totals)
    return every_shard(totals, plan, nothing)


class PlanShards(beam.PTransform):
    """Groups labelled images by shard.

    Input: `LabelledImage`. Output: `PlannedShards`. Only names cross the shuffle.

    Raises in the job:
        LabelsError: on several machines, a shard has more than `MAX_SHARD_NAMES` images.
    """

    def __init__(
        self,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        *,
        rules: LabelRules = ANY_LABELS,
    ) -> None:
        super().__init__()
        whole_number("shard_size", plan.shard_size, 1)
        if plan.num_shards is not None:
            whole_number("num_shards", plan.num_shards, 1, MAX_SHARDS)
        self._plan = plan
        self._totals = totals
        self._rules = rules

    def expand(self, images: beam.PCollection[LabelledImage]) -> PlannedShards:
        if runs_in_process(images.pipeline):
            batches = images | "Pack images" >> PackImages()
            packed = self._grouped(batches, _AssignPackedFn, NameBatch, every_shard, pack(()))
            unpack_images = beam.ParDo(_UnpackImagesFn())
            kind = tuple[str, Iterable[ShardImage]]
            shards = packed.shards | "Unpack images" >> unpack_images.with_output_types(kind)
            return packed._replace(shards=shards)
        return self._grouped(images, _AssignShardFn, ShardImage, _every_bounded_shard, NO_IMAGE)

    def _grouped(
        self,
        images: beam.PCollection[Any],
        assign: type[_Assigner],
        kind: type,
        name_shards: Callable[..., Iterator[tuple[str, Any]]],
        nothing: object,
    ) -> PlannedShards:
        """Images, or batches of them, by shard.

        Args:
            images: of `assign`.
            assign: names their shards.
            kind: of its outputs.
            name_shards: names every shard.
            nothing: stands for a shard without images.
        """
        named = tuple[str, kind]  # type: ignore[valid-type]
        assigned = images | "Assign shards" >> beam.ParDo(
            assign(self._plan, self._rules), beam.pvalue.AsSingleton(self._totals)
        ).with_output_types(named, **{assign.REJECTIONS: Rejection}).with_outputs(
            assign.REJECTIONS, main="images"
        )
        every = self._totals | "Name every shard" >> beam.FlatMap(
            name_shards, self._plan, nothing
        ).with_output_types(named)
        shards = (
            (assigned.images, every)
            | "Images and shards" >> beam.Flatten()
            | "Group names by shard" >> beam.GroupByKey()
        )
        return PlannedShards(shards, assigned.rejections)
