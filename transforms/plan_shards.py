"""PlanShards: assigns every labelled image to a shard and a position. Moves names only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.add_totals import AddTotals, Part, part
from transforms.core.arguments import whole_number
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.labels.label_kinds import LabelCells
from transforms.core.labels.vocabulary import ANY_LABELS, LabelRules
from transforms.core.planning.row_cells import with_ids
from transforms.core.planning.shards import MAX_SHARDS, ShardPlan, shard_index
from transforms.core.records import NO_IMAGE, LabelledImage, ShardImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.metrics import PROGRESS
from transforms.runners import runs_in_process

beam.coders.registry.register_coder(ShardImage, beam.coders.RowCoder)


Nothing = TypeVar("Nothing")


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


class _AssignShardFn(beam.DoFn):
    REJECTIONS = "rejections"

    def __init__(self, plan: ShardPlan, rules: LabelRules) -> None:
        self._plan = plan
        self._rules = rules
        self._totals: PlanTotals | None = None

    def process(
        self, image: LabelledImage, totals: PlanTotals
    ) -> Iterable[tuple[str, ShardImage] | beam.pvalue.TaggedOutput]:
        if totals is not self._totals:
            self._prepare(totals)
        try:
            planned = self._planned(image)
        except RejectedImageError as error:
            reason = error.reason.value
            rejection = Rejection("image", reason, error.detail, image.path, image.key)
            # Planned but rejected: count it as done, so that the stage reaches its total.
            PROGRESS.advance(1, 1)
            yield beam.pvalue.TaggedOutput(self.REJECTIONS, rejection)
            return
        files = self._files[image.split]
        yield files[shard_index(image.order, len(files))], planned

    def _planned(self, image: LabelledImage) -> ShardImage:
        vocabulary = self._vocabulary
        label_id = vocabulary.id_of(image.label) if image.label else 0
        if label_id is None:
            detail = f"the label {image.label!r} {self._rules.unknown}"
            raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
        text = vocabulary.text_of(image.label) if image.label else ""
        cells = image.cells
        if cells:
            unknown = self._rules.unknown
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
        )

    def _prepare(self, totals: PlanTotals) -> None:
        self._totals = totals
        PROGRESS.plan(sum(totals.images.values()))
        self._vocabulary = self._rules.vocabulary(totals.labels, totals.label_kind)
        self._files = self._plan.files(totals.bytes, totals.images)


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
        assigned = images | "Assign shards" >> beam.ParDo(
            _AssignShardFn(self._plan, self._rules), beam.pvalue.AsSingleton(self._totals)
        ).with_output_types(
            tuple[str, ShardImage], **{_AssignShardFn.REJECTIONS: Rejection}
        ).with_outputs(_AssignShardFn.REJECTIONS, main="images")
        name_shards = every_shard if runs_in_process(images.pipeline) else _every_bounded_shard
        every = self._totals | "Name every shard" >> beam.FlatMap(
            name_shards, self._plan, NO_IMAGE
        ).with_output_types(tuple[str, ShardImage])
        shards = (
            (assigned.images, every)
            | "Images and shards" >> beam.Flatten()
            | "Group names by shard" >> beam.GroupByKey()
        )
        return PlannedShards(shards, assigned.rejections)
