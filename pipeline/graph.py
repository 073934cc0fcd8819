"""The graph of the commands: the steps of `transforms.flow`, set up from a configuration."""

from __future__ import annotations

import argparse
from typing import Unpack

import apache_beam as beam

from pipeline.errors import UsageError
from pipeline.options.option_table import GROUPS, OPTIONS
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.preflight import check_flags
from transforms.convert_images import ImageConverter, RowConverter
from transforms.core.option import declared_in, own_words, read_arguments, text_of
from transforms.core.option_types import ConvertDatasetOptions
from transforms.dataset_files import DatasetTarget
from transforms.drop_duplicates import DropDuplicates
from transforms.examples.encoder import row_bytes
from transforms.flow import (
    Plan,
    PlanImages,
    PlanTable,
    WritePlan,
)
from transforms.input_readers import ImageFinder, PartnerFinder, RowImages, RowReader
from transforms.join_labels import Inputs, JoinLabels, ReadInputs, TableReader
from transforms.labels.keys import archive_path
from transforms.labels.label_rules import PathRules
from transforms.labels.shards import Splits
from transforms.labels.vocabulary import missing_labels
from transforms.records.existing_shards import Converter
from transforms.records.image_origins import Origins
from transforms.records.other_datasets import DatasetReader, ImageRecordReader, ReuseReader
from transforms.selection.hash_cuts import ClassLines
from transforms.storage.files import storage_of


def build(pipeline: beam.Pipeline, config: ConvertConfig) -> beam.PCollection[str]:
    """The conversion: plans, converts and writes every shard, publishes the dataset, reports."""
    plan = build_plan(pipeline, config)
    target = DatasetTarget(
        config.folder,
        config.checks,
        config.dataset,
        converter_of(config),
        config.shard_plan,
        config.label_rules,
        config.run,
        config.held_out,
    )
    return plan.shards | "Write dataset" >> WritePlan(plan, target)


def build_plan(pipeline: beam.Pipeline, config: ConvertConfig) -> Plan:
    """Finds, joins, splits and shards. Only names, sizes and labels move."""
    if config.of_rows:
        assert config.columns is not None
        reader = TableReader(
            config.columns,
            root=config.root,
            encoding=config.inputs.csv_encoding,
            assigner=config.assigner,
            row_bytes=row_bytes(config.features),
        )
        table = PlanTable(config.csv_paths, reader, config.shard_plan)
        rows: Plan = pipeline | "Plan rows" >> table
        return rows
    read = _inputs(config)
    join = JoinLabels(
        label_from=config.label_from,
        assigner=config.assigner,
        requirements=config.row_requirements,
        selects=read.keys is not None,
        datasets={each.flag for each in read.datasets},
        # The finder knows their extensions.
        partners=read.partners.partners if read.partners else (),
    )
    inputs: Inputs = pipeline | "Read inputs" >> read
    images = inputs.joined(join)
    drop = None
    if config.checks.drops_duplicates:
        max_bytes = config.checks.max_bytes
        origins = origins_of(config)
        # Of files in archives, no checksum comes with the listing.
        waits = origins.waits or any(map(archive_path, config.images))
        origins = origins._replace(waits=waits, bases=())
        drop = DropDuplicates(origins, max_bytes=max_bytes, held_out=config.held_out)
    classes = None
    if config.splits.by_class:
        classes = ClassLines(
            Splits(config.splits.splits),
            config.splits.seed,
            by_group=config.splits.by_group,
            many_labels=config.row_requirements.many_labels,
        )
    step = PlanImages(config.shard_plan, config.label_rules, drop, classes)
    plan: Plan = images | "Plan images" >> step
    return plan


def _inputs(config: ConvertConfig) -> ReadInputs:
    regex = text_of(config.inputs.label_from)
    finder = ImageFinder(
        root=config.root,
        key=config.key,
        rules=PathRules(config.label_from, regex, config.split_from == "directory"),
        left_out=config.left_out,
        with_checksums=config.checks.drops_duplicates,
    )
    return ReadInputs(
        config.globs,
        finder,
        config.csv_paths,
        RowReader(
            config.columns,
            key=config.key,
            encoding=config.inputs.csv_encoding,
            keeps_rows=config.row_requirements.needs_rows,
            images=None if config.images else RowImages(finder, config.row_places),
            missing=missing_labels(config.inputs.label_kind, config.label_rules.class_names),
            separator=config.label_separator,
        )
        if config.columns
        else None,
        config.keys,
        _datasets(config),
        PartnerFinder(
            config.partners, key=config.key, images=config.globs, left_out=config.left_out
        )
        if config.partners
        else None,
    )


def origins_of(config: ConvertConfig) -> Origins:
    """Where the images of a run come from."""
    # They may be remote though the root of the images is local.
    folders = [each.folder for each in config.sources] + [each.root for each in config.partners]
    waits = not config.images or any(storage_of(each).is_remote for each in folders)
    return Origins(config.root, waits, config.bases, config.sources)


def _datasets(config: ConvertConfig) -> list[DatasetReader]:
    """What reads the records of other datasets."""
    readers: list[DatasetReader] = []
    if config.bases:
        of_bases = ReuseReader(
            config.bases,
            root=config.root,
            key=config.key,
            are_listed=not config.images,
            libraries=converter_of(config).libraries,
            partners=config.partners,
        )
        readers.append(of_bases)
    if config.sources:
        images = ImageRecordReader(
            config.sources,
            label_from=config.label_from,
            keeps_splits=config.split_from != "hash",
            with_values=config.row_requirements.needs_rows,
        )
        readers.append(images)
    return readers


def converter_of(config: ConvertConfig) -> Converter:
    """What makes the records of a shard."""
    values = config.row_values
    if config.of_rows and values is not None:
        return RowConverter(config.features, values, root=config.root)
    return ImageConverter(
        origins=origins_of(config),
        features=config.features,
        checks=config.checks,
        pixels=config.pixels,
        embedding=config.embedding,
        rows=values,
        partners=config.partners,
    )


# A whole conversion as one transform of a pipeline.


class ConvertDataset(beam.PTransform):
    """Makes a dataset as `python -m pipeline.convert` does, with the same options.

    Input: the pipeline's begin. Output: `published`, or `up_to_date` if a dataset of the same
    inputs and options. There is no lock: one run at a time for an output folder is up to the
    caller.

    Raises in the job:
        NotPublishedError: more images were rejected than allowed, or the output folder holds
            another dataset or a damaged one.
    """

    def __init__(self, **options: Unpack[ConvertDatasetOptions]) -> None:
        """Resolves the options, which reads the first rows and lists the first images.

        Args:
            options: by the names of the flags, with their values as Python has them, or as text:
                `output="out"`, `images=["photos/*/*.jpg"]`, `seed=3`, `overwrite=True`. A `str` is
                one glob.

        Raises:
            TypeError: an option does not exist.
            ValueError: an option has an invalid value, or conflicts with the others
                or with the inputs.
        """
        super().__init__()
        known = declared_in(GROUPS, ConvertDatasetOptions.__annotations__)
        # The options of a run have their defaults.
        of_run = {name: each.default_value for name, each in OPTIONS.items()}
        flags = argparse.Namespace(**{**of_run, **read_arguments("ConvertDataset", known, options)})
        if flags.output is None:
            raise ValueError("output is missing: give the folder of the dataset")
        try:
            self._config = check_flags(flags)
        except UsageError as error:
            raise ValueError(own_words(str(error))) from error

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return build(begin.pipeline, self._config)
