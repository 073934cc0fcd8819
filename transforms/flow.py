"""The whole flow: names are joined, planned and grouped; pixels stay in their shard.

find images ─┐
             ├─ join labels ─ plan shards ─ convert and write each shard ─ publish ─ report
read labels ─┘        └────────── rejections and counts ───────────────────┘

These steps take resolved, valid options. The commands resolve their flags (`pipeline.graph`),
and `transforms.write_dataset` resolves the arguments of a caller's pipeline.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import apache_beam as beam

from transforms.core.records import BucketDuplicates, Count, TablePart
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import PlanTotals
from transforms.dataset_files import DatasetTarget
from transforms.drop_duplicates import DropDuplicates, FindEqualImages
from transforms.input_readers import divide_labels
from transforms.join_labels import (
    JoinedImages,
    TableReader,
    read_table_rows,
)
from transforms.labels.label_rules import LabelRules
from transforms.labels.shards import ShardPlan
from transforms.list_rejections import CopyRejected
from transforms.packing import (
    AddTogether,
    AddUp,
    NameBatch,
    SpreadElements,
    by_type,
    named,
    rules_of,
)
from transforms.plan_shards import PlanShards, StratifySplits, TotalLabels
from transforms.publish_dataset import PublishDataset
from transforms.records.existing_shards import Planned
from transforms.records.image_origins import originals_root
from transforms.write_report import report_written
from transforms.write_shards import WriteShards

if TYPE_CHECKING:
    from transforms.selection.hash_cuts import ClassLines


class Plan(NamedTuple):
    """Everything known before an image is opened; `equal` if duplicates are dropped."""

    shards: beam.PCollection[tuple[str, Iterable[Planned]]]
    totals: beam.PCollection[PlanTotals]
    rejections: dict[str, beam.PCollection[Rejection]]
    counts: dict[str, beam.PCollection[Count]]
    equal: beam.PCollection[BucketDuplicates] | None = None


@dataclasses.dataclass(eq=False, repr=False)
class PlanImages(beam.PTransform):
    """Assigns images to shards; `drop` first removes exact duplicates.

    With `stratify`, the images that are left get other splits.

    Input: `JoinedImages`. Output: `Plan`.
    """

    plan: ShardPlan
    rules: LabelRules
    drop: DropDuplicates | None
    stratify: ClassLines | None = None

    def expand(self, joined: JoinedImages) -> Plan:
        images, labels, equal = joined.images, joined.labels, None
        rejections, counts = named("found", joined.rejections), named("found", joined.counts)
        if self.drop is not None:
            images, rejected, counted, equal = images | "Drop duplicates" >> self.drop
            rejections["of duplicates"] = rejected
            counts["of duplicates"] = counted
        if self.stratify is not None:
            step = StratifySplits(self.stratify, labels, self.rules)
            images = images | "Stratify splits" >> step
        totals = images | "Totals" >> TotalLabels(labels, self.rules)
        planned = images | "Plan shards" >> PlanShards(self.plan, totals, rules=self.rules)
        rejections["of the plan"] = planned.rejections
        return Plan(planned.shards, planned.totals, rejections, counts, equal)


@dataclasses.dataclass(eq=False, repr=False)
class PlanTable(beam.PTransform):
    """Plans rows that are records themselves; their cells cross the shuffle.

    Input: the pipeline's begin. Output: `Plan`.
    """

    csv_paths: Sequence[str]
    reader: TableReader
    plan: ShardPlan

    def expand(self, begin: beam.pvalue.PBegin) -> Plan:
        read = functools.partial(read_table_rows, reader=self.reader)
        types = {"totals": PlanTotals, "rejections": Rejection, "counts": Count}
        parts = begin | "Name the files" >> beam.Create(map(TablePart, self.csv_paths))
        if rules_of(begin.pipeline).shares_inputs:
            divide = functools.partial(
                divide_labels, columns=self.reader.columns, encoding=self.reader.encoding
            )
            divided = beam.FlatMap(divide).with_output_types(TablePart)
            parts = parts | "Divide the files" >> divided | "Spread parts" >> SpreadElements()
        rows = parts | "Read rows" >> by_type(read, "batches", NameBatch, **types)
        adder = AddUp(PlanTotals, PlanTotals.merge, PlanTotals.merge)
        totals = {"rows": rows.totals} | "Total rows" >> AddTogether(adder)
        planned = rows.batches | "Plan shards" >> PlanShards(self.plan, totals, of_rows=True)
        rejections, counts = {"of rows": rows.rejections}, {"of rows": rows.counts}
        return Plan(planned.shards, planned.totals, rejections, counts)


@dataclasses.dataclass(eq=False, repr=False)
class WritePlan(beam.PTransform):
    """Converts and writes every shard, publishes the dataset, the manifest last, and reports.

    Input: the shards of `plan`. Output: `published`, or `up_to_date` for a dataset of the same
    inputs and options.

    Raises in the job: see `PublishDataset`.
    """

    plan: Plan
    target: DatasetTarget

    def expand(
        self, shards: beam.PCollection[tuple[str, Iterable[Planned]]]
    ) -> beam.PCollection[str]:
        plan, target = self.plan, self.target
        output, quarantine = target.folder.output, target.checks.quarantine
        written = shards | "WriteToTFRecord" >> WriteShards(target)
        counts, duplicates = plan.counts, None
        if target.converter.fingerprints:
            find = FindEqualImages(written.shards, target.held_out)
            duplicates = written.fingerprints | "Find duplicates" >> find
            if plan.equal is not None:
                duplicates = (duplicates, plan.equal) | "All duplicates" >> beam.Flatten()
        if quarantine is not None:
            root = originals_root(output, target.dataset.root)
            copied = written.shards | "Quarantine rejected images" >> CopyRejected(
                root, quarantine, rejections=plan.rejections
            )
            # A run that is not published also gets its copies.
            counts = {**counts, "of copies": copied}
        published = written.shards | "Publish dataset" >> PublishDataset(
            target,
            totals=plan.totals,
            rejections=plan.rejections,
            counts=counts,
            duplicates=duplicates,
        )
        report = beam.Map(report_written, output).with_output_types(str)
        return published | "Write report" >> report
