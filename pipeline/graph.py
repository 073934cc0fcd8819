"""The whole flow on one page: names are joined, planned and grouped; pixels stay in their shard.

find images ─┐
             ├─ join labels ─ plan shards ─ convert and write each shard ─ publish ─ report
read labels ─┘        └────────── rejections and counts ───────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import apache_beam as beam

from pipeline.config import ConvertConfig
from transforms.convert import ImageConverter
from transforms.core.records import Count, LabelledImage
from transforms.core.rejections import Rejection
from transforms.core.stats import PlanTotals
from transforms.join import JoinLabels, ReadInputs
from transforms.labels import RowReader
from transforms.listed import RowImages
from transforms.match import ImageFinder
from transforms.plan import PlannedShards, PlanShards, TotalImages
from transforms.publish import PublishDataset
from transforms.quarantine import CopyRejected
from transforms.report import WriteReport
from transforms.write import WriteShards

if TYPE_CHECKING:
    from transforms.embed import Embedder


class Plan(NamedTuple):
    """Everything known about a dataset before an image is opened."""

    totals: beam.PCollection[PlanTotals]
    planned: PlannedShards
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]


def build_plan(pipeline: beam.Pipeline, config: ConvertConfig) -> Plan:
    """Finds, joins, splits and shards. Only names, sizes and labels move."""
    inputs = pipeline | "Read inputs" >> ReadInputs(
        config.images,
        ImageFinder(root=config.root, key=config.key, rules=config.path_rules),
        config.csv_paths,
        RowReader(
            config.columns,
            key=config.key,
            encoding=config.csv_encoding,
            keeps_rows=config.row_use.is_asked,
            images=None if config.images else RowImages(root=config.root, key=config.key),
        )
        if config.columns
        else None,
    )
    joined = inputs.sides | "Join labels" >> JoinLabels(
        label_from=config.label_from, placer=config.placer, use=config.row_use
    )
    images: beam.PCollection[LabelledImage] = joined.images
    totals = images | "Total images" >> beam.CombineGlobally(TotalImages())
    planned = images | "Plan shards" >> PlanShards(
        config.shard_plan, totals, class_names=config.class_names
    )
    return Plan(
        totals=totals,
        planned=planned,
        rejections=(inputs.rejections, joined.rejections, planned.rejections)
        | "All rejections" >> beam.Flatten(),
        counts=(inputs.counts, joined.counts) | "All counts" >> beam.Flatten(),
    )


def _embedder(config: ConvertConfig) -> Embedder | None:
    if config.embedding is None:
        return None
    # It brings Beam's inference, which other runs do without.
    from transforms.embed import Embedder

    return Embedder(config.embedding)


def build(pipeline: beam.Pipeline, config: ConvertConfig) -> beam.PCollection[str]:
    """The conversion: plans, converts and writes every shard, publishes the dataset, reports."""
    plan = build_plan(pipeline, config)
    converter = ImageConverter(
        root=config.root,
        features=config.features,
        limits=config.limits,
        check=config.check,
        pixels=config.pixels,
        embedder=_embedder(config),
        rows=config.row_values,
        waits=not config.images,
    )
    written = plan.planned.shards | "Write shards" >> WriteShards(
        config.output,
        converter,
        plan=config.shard_plan,
        totals=plan.totals,
        options_digest=config.dataset.digest,
        overwrite=config.overwrite,
    )
    counts = plan.counts
    if config.quarantine is not None:
        copied = written | "Quarantine rejected images" >> CopyRejected(
            config.root, config.quarantine, rejections=plan.rejections
        )
        # A run that is not published has its copies, too.
        counts = (counts, copied) | "Counts with copies" >> beam.Flatten()
    published = written | "Publish dataset" >> PublishDataset(
        config.output,
        config.dataset,
        totals=plan.totals,
        rejections=plan.rejections,
        counts=counts,
        max_rejected=config.max_rejected,
        class_names=config.class_names,
        overwrite=config.overwrite,
    )
    return published | "Write report" >> WriteReport(config.output)
