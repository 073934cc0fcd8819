"""AddTotals and SummarizeShards: counts of all shards."""

from __future__ import annotations

import dataclasses
import operator
import random
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core.rejections import Rejection
from transforms.dataset.ledger import PlanTotals, ShardSummary, ShardTotals
from transforms.labels.label_rules import LabelRules
from transforms.labels.vocabulary import with_images
from transforms.packing import AddUp, runs_in_process

# AddTotals: the totals of a plan from their parts, through one shuffle with one key.

_ONE_KEY = 0

# Places in which several machines add up parts before one adds up the sums.
_FANOUT = 16

# The totals of some images or rows, as `AddTotals` takes them.
Part: TypeAlias = tuple[int, PlanTotals]


def part(totals: PlanTotals) -> Part:
    """The input of `AddTotals` for these totals."""
    return _ONE_KEY, totals


class AddTotals(beam.PTransform):
    """Adds up parts, and decides the kind of the labels if there are rules.

    Input: collections of `Part`. Output: one `PlanTotals`, which is there even if no part is.
    A `CombineGlobally` has seven steps more, which cost 0.1 s of every run in one process. On
    several machines it adds up parts where they are made, and what is left in `_FANOUT` places:
    5,000 bundles with 100,000 labels each are 9 GB. Beam's `with_fanout` would do the same, but
    has two paths through the graph, see `FindCuts`.

    Raises in the job:
        LabelsError: labels contradict each other, see `decide_kind`, or are new classes that
            `--new_classes` refuses.
    """

    def __init__(self, rules: LabelRules | None = None) -> None:
        super().__init__()
        self._rules = rules

    def expand(self, parts: tuple[beam.PCollection[Part], ...]) -> beam.PCollection[PlanTotals]:
        begin = parts[0].pipeline
        add_parts = AddUp(PlanTotals, PlanTotals.merge, PlanTotals.merge)
        if not runs_in_process(begin):
            return (
                parts
                | "All totals" >> beam.Flatten()
                | "Choose places" >> beam.Map(_in_any_place).with_output_types(Part)
                | "Combine in places" >> beam.CombinePerKey(add_parts)
                | "Totals alone" >> beam.Values()
                | "Combine totals" >> beam.CombineGlobally(add_parts)
                | "Decide kind" >> beam.Map(_decided, self._rules).with_output_types(PlanTotals)
            )
        nothing = (
            begin
            | "Begin" >> beam.Impulse()
            | "No totals" >> beam.Map(lambda _: part(PlanTotals())).with_output_types(Part)
        )
        return (
            (*parts, nothing)
            | "All totals" >> beam.Flatten()
            | "Group totals" >> beam.GroupByKey()
            | "Add up" >> beam.Map(_added, self._rules).with_output_types(PlanTotals)
        )


def _in_any_place(part: Part) -> Part:
    return random.randrange(_FANOUT), part[1]


def _added(group: tuple[int, Iterable[PlanTotals]], rules: LabelRules | None) -> PlanTotals:
    totals = PlanTotals()
    for each in group[1]:
        totals.merge(each)
    return _decided(totals, rules)


def _decided(totals: PlanTotals, rules: LabelRules | None) -> PlanTotals:
    if rules is None:
        return totals
    rules.check(totals.labels)
    cells = with_images(totals.cells, totals.labels)
    return dataclasses.replace(totals, cells=cells, label_kind=rules.decide(cells))


# SummarizeShards: what the publishing worker needs of each shard, and totals of the rest.

_SHARDS_FANOUT = 64
"""Places that add up totals before one does: 73,334 shards of 41 kB are 47 MB in each."""

_NOTHING: dict[str, Any] = {}


class SummarizedShards(NamedTuple):
    """The outputs of `SummarizeShards`.

    Attributes:
        shards: without labels, changes, statistics and rejections.
        totals: of labels, changes and statistics; one element.
        rejections: of all shards.
    """

    shards: beam.PCollection[ShardSummary]
    totals: beam.PCollection[ShardTotals]
    rejections: beam.PCollection[Rejection]


class SummarizeShards(beam.PTransform):
    """Adds up what does not need to be known of each shard, where the shards are written.

    Input: `ShardSummary`, 30 to 41 kB with 1,000 classes. Output: `SummarizedShards`, with less
    than 170 bytes a shard.
    """

    def expand(self, shards: beam.PCollection[ShardSummary]) -> SummarizedShards:
        short = shards | "Shorten summaries" >> beam.Map(_shortened).with_output_types(ShardSummary)
        totals = shards | "Combine labels and statistics" >> beam.CombineGlobally(
            AddUp(ShardTotals, ShardTotals.add, ShardTotals.merge)
        ).with_fanout(_SHARDS_FANOUT)
        rejections = shards | "Name rejections of shards" >> beam.FlatMap(
            operator.attrgetter("rejections")
        ).with_output_types(Rejection)
        return SummarizedShards(short, totals, rejections)


def _shortened(shard: ShardSummary) -> ShardSummary:
    # One object for all: those that are pickled together get one, too.
    return dataclasses.replace(
        shard, labels=_NOTHING, pixels=_NOTHING, statistics=_NOTHING, rejections=(), roots=""
    )
