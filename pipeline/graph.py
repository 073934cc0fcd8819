"""The graph of the commands: the steps of `transforms.flow`, set up from a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apache_beam as beam

from pipeline.resolve.config import ConvertConfig
from transforms.convert_images import ImageConverter
from transforms.dataset_files import DatasetTarget
from transforms.drop_duplicates import DropDuplicates
from transforms.examples.encoder import RowChecker, row_bytes
from transforms.find_images import ImageFinder, PartnerFinder
from transforms.flow import (
    FindLabelledImages,
    ImageSource,
    Plan,
    PlanImages,
    PlanTable,
    WritePlan,
)
from transforms.labels.image_names import archive_path
from transforms.labels.splits import Splits
from transforms.labels.vocabulary import missing_labels
from transforms.plan_shards import RowConverter, TableReader
from transforms.read_labels import RowReader
from transforms.records.dataset_images import Source
from transforms.records.reuse import BaseReader
from transforms.selection.hash_cuts import Stratification
from transforms.storage.files import storage_of
from transforms.storage.image_lookup import RowImages

if TYPE_CHECKING:
    from transforms.embed_images import Embedder


def build(pipeline: beam.Pipeline, config: ConvertConfig) -> beam.PCollection[str]:
    """The conversion: plans, converts and writes every shard, publishes the dataset, reports."""
    plan = build_plan(pipeline, config)
    return plan.shards | "Write dataset" >> WritePlan(plan, _target(config))


def build_plan(pipeline: beam.Pipeline, config: ConvertConfig) -> Plan:
    """Finds, joins, splits and shards. Only names, sizes and labels move."""
    if config.of_rows:
        table = PlanTable(config.csv_paths, _table_reader(config), config.shard_plan)
        rows: Plan = pipeline | "Plan rows" >> table
        return rows
    images = pipeline | "Find images" >> FindLabelledImages(_source(config))
    drop = None
    if config.checks.drops_duplicates:
        max_bytes = config.checks.max_bytes
        # Of files in archives, no checksum comes with the listing.
        waits = _waits(config) or any(map(archive_path, config.images))
        drop = DropDuplicates(
            config.root,
            max_bytes=max_bytes,
            waits=waits,
            sources=_sources(config),
            holdouts=config.holdouts,
        )
    step = PlanImages(config.shard_plan, config.label_rules, drop, _stratification(config))
    plan: Plan = images | "Plan images" >> step
    return plan


def _source(config: ConvertConfig) -> ImageSource:
    is_dropped = config.checks.drops_duplicates
    images = RowImages(
        root=config.root,
        key=config.key,
        places=config.row_places,
        rules=config.path_rules,
        with_checksums=is_dropped,
    )
    return ImageSource(
        config.globs,
        ImageFinder(
            root=config.root,
            key=config.key,
            rules=config.path_rules,
            left_out=config.left_out,
            with_checksums=is_dropped,
        ),
        config.csv_paths,
        RowReader(
            config.columns,
            key=config.key,
            encoding=config.inputs.csv_encoding,
            keeps_rows=config.row_requirements.needs_rows,
            images=None if config.images else images,
            missing=missing_labels(config.inputs.label_kind, config.label_rules.class_names),
            separator=config.label_separator,
        )
        if config.columns
        else None,
        config.label_from,
        config.assigner,
        config.row_requirements,
        config.keys,
        _bases(config),
        config.sources,
        PartnerFinder(
            config.partners, key=config.key, images=config.globs, left_out=config.left_out
        )
        if config.partners
        else None,
    )


def _stratification(config: ConvertConfig) -> Stratification | None:
    if not config.splits.by_class:
        return None
    return Stratification(
        Splits(config.splits.splits),
        config.splits.seed,
        config.by_group,
        config.row_requirements.many_labels,
    )


def _waits(config: ConvertConfig) -> bool:
    """Whether images may be remote though their root is local."""
    folders = [each.folder for each in _sources(config)] + [each.root for each in config.partners]
    return not config.images or any(storage_of(each).is_remote for each in folders)


def _sources(config: ConvertConfig) -> tuple[Source, ...]:
    return config.sources.sources if config.sources else ()


def _bases(config: ConvertConfig) -> BaseReader | None:
    if not config.bases:
        return None
    return BaseReader(
        config.bases,
        root=config.root,
        key=config.key,
        are_listed=not config.images,
        libraries=converter_of(config).libraries,
        partners=config.partners,
    )


def _table_reader(config: ConvertConfig) -> TableReader:
    assert config.columns is not None
    return TableReader(
        config.columns,
        root=config.root,
        encoding=config.inputs.csv_encoding,
        assigner=config.assigner,
        row_bytes=row_bytes(config.features),
    )


def _target(config: ConvertConfig) -> DatasetTarget:
    return DatasetTarget(
        config.folder,
        config.checks,
        config.dataset,
        converter_of(config),
        config.shard_plan,
        config.label_rules,
        config.run,
        config.holdouts,
    )


def converter_of(config: ConvertConfig) -> ImageConverter | RowConverter:
    """What makes the records of a shard."""
    values = config.row_values
    if config.of_rows and values is not None:
        return RowConverter(config.features, RowChecker(values, root=config.root))
    return ImageConverter(
        root=config.root,
        features=config.features,
        checks=config.checks,
        pixels=config.pixels,
        embedder=_embedder(config),
        rows=values,
        waits=_waits(config),
        bases=config.bases,
        sources=_sources(config),
        partners=config.partners,
    )


def _embedder(config: ConvertConfig) -> Embedder | None:
    if config.embedding is None:
        return None
    # This imports Beam's inference, which other runs do not need.
    from transforms.embed_images import Embedder

    return Embedder(config.embedding)
