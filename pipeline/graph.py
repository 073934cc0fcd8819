"""The whole flow on one page: names are joined, planned and grouped; pixels stay in their shard.

find images ─┐
             ├─ join labels ─ plan shards ─ convert and write each shard ─ publish ─ report
read labels ─┘        └────────── rejections and counts ───────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import apache_beam as beam

from pipeline.config import ConvertConfig
from transforms.convert_images import ImageConverter
from transforms.copy_rejected import CopyRejected
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.examples.row_records import RowChecker, row_bytes
from transforms.core.labels.label_kinds import missing_labels
from transforms.core.records import BucketDuplicates, Count, LabelledImage
from transforms.core.rejections import Rejection
from transforms.drop_duplicates import DropDuplicates, FindEqualImages
from transforms.find_images import ImageFinder
from transforms.join_labels import JoinLabels, ReadInputs
from transforms.plan_rows import PlanRows, ReadRows, RowConverter, TableReader
from transforms.plan_shards import PlannedShards, PlanShards, TotalLabels
from transforms.publish_dataset import PublishDataset
from transforms.read_labels import RowReader
from transforms.storage.image_lookup import RowImages
from transforms.write_report import WriteReport
from transforms.write_shards import WriteShards, WrittenShards

if TYPE_CHECKING:
    from transforms.embed_images import Embedder


class Plan(NamedTuple):
    """Everything known about a dataset before an image is opened."""

    totals: beam.PCollection[PlanTotals]
    planned: PlannedShards
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    equal: beam.PCollection[BucketDuplicates] | None = None


def row_images(config: ConvertConfig) -> RowImages:
    """What looks up the images that rows list."""
    return RowImages(
        root=config.root, key=config.key, places=config.row_places, rules=config.path_rules
    )


def build_plan(pipeline: beam.Pipeline, config: ConvertConfig) -> Plan:
    """Finds, joins, splits and shards. Only names, sizes and labels move."""
    if config.of_rows:
        return _build_rows_plan(pipeline, config)
    inputs = pipeline | "Read inputs" >> ReadInputs(
        config.images,
        ImageFinder(
            root=config.root, key=config.key, rules=config.path_rules, left_out=config.left_out
        ),
        config.csv_paths,
        RowReader(
            config.columns,
            key=config.key,
            encoding=config.csv_encoding,
            keeps_rows=config.row_requirements.needs_rows,
            images=None if config.images else row_images(config),
            missing=missing_labels(config.label_kind, config.class_names),
            separator=config.label_separator,
        )
        if config.columns
        else None,
    )
    joined = inputs.sides | "Join labels" >> JoinLabels(
        label_from=config.label_from, assigner=config.assigner, requirements=config.row_requirements
    )
    images: beam.PCollection[LabelledImage] = joined.images
    rejections = [inputs.rejections, joined.rejections]
    counts = [inputs.counts, joined.counts]
    equal = None
    if config.dedupe == "drop":
        images, rejected, counted, equal = images | "Drop duplicates" >> DropDuplicates(
            config.root, max_bytes=config.limits.max_bytes, waits=not config.images
        )
        rejections.append(rejected)
        counts.append(counted)
    totals = images | "Totals" >> TotalLabels(inputs.labels, config.label_rules)
    planned = images | "Plan shards" >> PlanShards(
        config.shard_plan, totals, rules=config.label_rules
    )
    return Plan(
        totals=totals,
        planned=planned,
        rejections=(*rejections, planned.rejections) | "All rejections" >> beam.Flatten(),
        counts=counts | "All counts" >> beam.Flatten(),
        equal=equal,
    )


def _build_rows_plan(pipeline: beam.Pipeline, config: ConvertConfig) -> Plan:
    """The same for rows that are records: their cells are all that there is, and move."""
    assert config.columns is not None
    reader = TableReader(
        config.columns,
        root=config.root,
        encoding=config.csv_encoding,
        assigner=config.assigner,
        row_bytes=row_bytes(config.features),
    )
    rows = pipeline | "Read rows" >> ReadRows(config.csv_paths, reader)
    shards = rows.batches | "Plan shards" >> PlanRows(config.shard_plan, rows.totals)
    return Plan(rows.totals, PlannedShards(shards, rows.rejections), rows.rejections, rows.counts)


def _converter(config: ConvertConfig) -> ImageConverter | RowConverter:
    values = config.row_values
    if config.of_rows and values is not None:
        return RowConverter(config.features, RowChecker(values, root=config.root))
    return ImageConverter(
        root=config.root,
        features=config.features,
        limits=config.limits,
        check=config.check,
        pixels=config.pixels,
        embedder=_embedder(config),
        rows=values,
        waits=not config.images,
        fingerprints=config.dedupe != "off",
    )


def _embedder(config: ConvertConfig) -> Embedder | None:
    if config.embedding is None:
        return None
    # It brings Beam's inference, which other runs do without.
    from transforms.embed_images import Embedder

    return Embedder(config.embedding)


def _duplicates(
    written: WrittenShards, plan: Plan, config: ConvertConfig
) -> beam.PCollection[BucketDuplicates] | None:
    """Duplicates among the records, and those that the plan left out."""
    if config.dedupe == "off" or config.of_rows:
        return None
    found = written.fingerprints | "Find equal images" >> FindEqualImages()
    if plan.equal is None:
        return found
    return (found, plan.equal) | "All equal images" >> beam.Flatten()


def build(pipeline: beam.Pipeline, config: ConvertConfig) -> beam.PCollection[str]:
    """The conversion: plans, converts and writes every shard, publishes the dataset, reports."""
    plan = build_plan(pipeline, config)
    written = plan.planned.shards | "Write shards" >> WriteShards(
        config.output,
        _converter(config),
        plan=config.shard_plan,
        totals=plan.totals,
        options_digest=config.dataset.digest,
        overwrite=config.overwrite,
        per_image=config.files == "per_image",
    )
    counts = plan.counts
    if config.quarantine is not None:
        copied = written.shards | "Quarantine rejected images" >> CopyRejected(
            config.root, config.quarantine, rejections=plan.rejections
        )
        # A run that is not published has its copies, too.
        counts = (counts, copied) | "Counts with copies" >> beam.Flatten()
    published = written.shards | "Publish dataset" >> PublishDataset(
        config.output,
        config.dataset,
        totals=plan.totals,
        rejections=plan.rejections,
        counts=counts,
        duplicates=_duplicates(written, plan, config),
        max_rejected=config.max_rejected,
        rules=config.label_rules,
        overwrite=config.overwrite,
        run=config.run,
    )
    return published | "Write report" >> WriteReport(config.output)
