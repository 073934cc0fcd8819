"""What plan prints: the counts of a run that writes nothing, and what it would reuse."""

from __future__ import annotations

import base64
import dataclasses
import glob
import itertools
import json
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import apache_beam as beam

from pipeline.diff import open_indexed, read_records
from pipeline.errors import DatasetError
from pipeline.graph import build_plan, converter_of, origins_of
from pipeline.open_dataset import open_dataset
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.datasets import moved_keys
from pipeline.run.launch import run_pipeline
from transforms.convert_images import RowConverter
from transforms.core.messages import entries_of, format_bytes
from transforms.core.records import PlannedImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.ledger import ShardSummary, count_reasons, in_order, shortened
from transforms.dataset_files import completed
from transforms.labels.joins import class_texts
from transforms.labels.shards import RecipeMaker, ShardName
from transforms.packing import (
    Everything,
    Gather,
    NameBatch,
    pack,
    part_of,
    unpack,
    with_outputs,
)
from transforms.publish_dataset import added_up
from transforms.records.comparison import (
    PlannedReads,
    Records,
    compare_records,
    option_changes,
    planned_part,
    read_part,
)
from transforms.records.existing_shards import Planned, is_copied
from transforms.records.image_origins import ShardOrigins
from transforms.storage.files import storage_of

# The graph of `plan`: the planning half of a conversion, and one small summary file.

# Images of which some are converted, to estimate the time: of so many shards, from each so many.
_SAMPLE = "sample"
_SHARDS = 20
_IMAGES = 4000

# Reasons for rejecting an image or a row because of its cells.
_OF_CELLS = (Reason.BAD_CELL.code, Reason.ROW_CONFLICT.code)


class _MeasureShardFn(beam.DoFn):
    """Counts the images of a shard, their bytes and classes, and checks the cells of their rows.

    The bytes of rows are in the totals. With a path, its images are written next to that, to be
    compared with the datasets of `--reuse`.
    """

    def __init__(self, config: ConvertConfig, path: str | None) -> None:
        self._path = path
        self._origins = origins_of(config)._replace(
            max_bytes=config.checks.max_bytes, with_values=config.row_values is not None
        )
        self._config = config
        self._values = config.row_values
        self._sampled = 0
        self._row_converter = converter_of(config) if config.of_rows else None

    def setup(self) -> None:
        self._whole_shard = None
        config = self._config
        if self._path is None or not config.bases:
            return
        # `convert` copies whole shards of images from a dataset of `--reuse`.
        converter = converter_of(config)
        libraries = converter.libraries._replace(gzip=config.files.gzip)
        self._recipes = RecipeMaker(config.dataset.digest, libraries)
        self._whole_shard = converter.whole_shard

    def process(
        self, shard: tuple[str, Iterable[Planned]]
    ) -> Iterator[ShardSummary | beam.pvalue.TaggedOutput]:
        name, group = shard
        every = list(group)
        checked = [(element, self._rejection(element)) for element in every]
        accepted = [element for element, rejection in checked if rejection is None]
        images = [] if self._config.of_rows else cast(list[PlannedImage], accepted)
        if self._path is not None:
            self._write_part(name, sorted(images), sorted(cast(list[PlannedImage], every)))
        # The order of images is a hash.
        if images and max(self._sampled, ShardName.parse(name).number) < _SHARDS:
            self._sampled += 1
            yield beam.pvalue.TaggedOutput(_SAMPLE, pack(sorted(images)[:_IMAGES]))
        yield ShardSummary(
            name,
            "",
            records=len(accepted),
            image_bytes=sum(image.size for image in images),
            labels=Counter(text for image in images for text in class_texts(image)),
            rejections=tuple(each for _, each in checked if each is not None),
        )

    def _write_part(self, name: str, images: list[PlannedImage], every: list[PlannedImage]) -> None:
        """Writes what is compared with other datasets: only for `--reuse`.

        Args:
            name: of the shard.
            images: those of which records are made, as far as their cells show.
            every: also those that are rejected.
        """
        whole = False
        if self._whole_shard is not None:
            # What that dataset rejected is supposed to be rejected again.
            recipes = self._recipes.recipes(name, every)
            published = self._config.shard_plan.published(name)
            found = self._whole_shard(published, recipes, every, _rejected_again)
            whole = found is not None and is_copied(found, self._config.folder.output)
        origins = ShardOrigins(self._origins, images)
        # Of a copied shard, only the originals of images that its dataset rejected are read.
        is_reused = self._origins.may_reuse if whole else origins.is_reused
        held = {each.key for each in images if is_reused(each)}
        opened = [image.size for image in images if not (image.key in held or image.record)]
        for image in images:
            # Larger ones are rejected, and not read.
            if image.size <= self._origins.max_bytes and not (whole and image.key in held):
                opened += [file.size for file in origins.opened(image)]
        opened = [size for size in opened if size <= self._origins.max_bytes]
        ranges, copied = (0, 1) if whole else (origins.ranges, 0)
        reads = PlannedReads(len(held), len(opened), sum(opened), ranges, copied, origins.records)
        split = ShardName.parse(name).split
        images = [each if each.key in held else each._replace(stored=()) for each in images]
        many_labels = self._config.row_requirements.many_labels
        part = planned_part(images, split, reads, many_labels=many_labels)
        path = f"{self._path}.{name}"
        storage_of(path).write_whole(path, part)

    def _rejection(self, planned: Planned) -> Rejection | None:
        """The rejection that the cells of an image or a row will cause, if any."""
        if self._values is None:
            return None
        if isinstance(self._row_converter, RowConverter):
            [checked] = self._row_converter.load([cast(ShardRow, planned)])
            return checked if isinstance(checked, Rejection) else None
        image = cast(PlannedImage, planned)
        try:
            self._values.check_cells(image)
        except RejectedImageError as error:
            return Rejection("image", error.reason.code, error.detail, image.path, image.key)
        return None


def _rejected_again(images: Iterable[PlannedImage]) -> Iterator[Rejection]:
    for image in images:
        yield Rejection("image", Reason.UNREADABLE.code, "", image.path, image.key)


def _described(everything: Everything, config: ConvertConfig, path: str) -> None:
    """Writes the plan: its splits, classes, rejections and the ledger."""
    gathered = in_order(config.shard_plan.splits, everything, of_rows=config.of_rows)
    gathered.check()
    totals, rules = gathered.totals, config.label_rules
    dataset = completed(config.dataset, rules, gathered)
    records: dict[str, list[int]] = {name: [] for name in gathered.splits}
    sizes = dict.fromkeys(gathered.splits, 0)
    for shard in gathered.shards:
        split = ShardName.parse(shard.file).split
        records[split].append(shard.records)
        sizes[split] += shard.image_bytes
    if config.of_rows:
        sizes |= totals.bytes
    is_per_image = config.files.per_image
    plan = {
        "labels": rules.vocabulary(totals.labels, totals.label_kind).labels_text(),
        "decided": entries_of(dataset.decisions),
        "warnings": entries_of(dataset.warnings),
        "splits": {
            name: (sum(counts), sum(counts) if is_per_image else len(counts), sizes[name])
            for name, counts in records.items()
        },
        "shard_records": records if config.shard_plan.by_records else {},
        "ledger": dataclasses.asdict(gathered.ledger),
        "rejected": count_reasons(gathered.reasons),
        "bad_cells": [each.detail for each in gathered.run.rejected.first_of(*_OF_CELLS)],
        _SAMPLE: [base64.b64encode(batch).decode() for batch in everything[_SAMPLE]],
    }
    storage_of(path).write_whole(path, json.dumps(plan).encode())


def plan_dataset(
    config: ConvertConfig,
    path: str,
    beam_flags: Sequence[str],
    *,
    progress: str,
    compares: bool = False,
) -> None:
    """Plans on the given runner, and writes the result to `path` as JSON.

    Args:
        config: what to plan.
        path: of the result.
        beam_flags: options of Beam.
        progress: see `show_progress`.
        compares: whether to write the images of each shard, too, next to `path`: see
            `planned_part`.

    Raises:
        DatasetError: it fails for a reason that fits in one line.
    """
    # Records that may be reused change no plan.
    planned = config if compares else dataclasses.replace(config, bases=())
    measure = _MeasureShardFn(planned, path if compares else None)

    def construct(pipeline: beam.Pipeline) -> None:
        plan = build_plan(pipeline, planned)
        step = with_outputs(beam.ParDo(measure), "shards", ShardSummary, **{_SAMPLE: NameBatch})
        measured = plan.shards | "Measure shards" >> step
        shards = measured.shards
        short = beam.Map(shortened).with_output_types(ShardSummary)
        # No more than one worker can hold.
        gathered = {
            "totals": plan.totals,
            "run": added_up(shards, plan.rejections, plan.counts),
            "shards": shards | "Shorten summaries" >> short,
            _SAMPLE: measured[_SAMPLE],
        }
        summed = gathered | "Gather what is planned" >> Gather()
        _ = summed | "Sum up" >> beam.Map(_described, config, path)

    run_pipeline(construct, beam_flags, progress=progress)


def sampled_images(plan: dict[str, Any]) -> list[PlannedImage]:
    """The images that a plan took as a sample, shuffled; the plan holds them no more."""
    batches = map(NameBatch, map(base64.b64decode, plan.pop(_SAMPLE)))
    images = itertools.chain.from_iterable(unpack(batch, PlannedImage) for batch in batches)
    return sorted(images, key=lambda image: part_of(image.key))


# What `plan --reuse` prints: images that are reused, originals that are read, and differences.


def reuse_lines(
    config: ConvertConfig, folders: Sequence[str], path: str, labels: str
) -> Iterator[str]:
    """The lines of `plan` about `--reuse`.

    Args:
        config: of the run.
        folders: the values of `--reuse`.
        path: of the plan, next to which its parts are; they are removed.
        labels: the planned `labels.txt`.

    Raises:
        UsageError: a dataset of `--images` was removed meanwhile.
    """
    reads, records = _read_parts(path, labels)
    options = json.loads(json.dumps(config.options))
    features = json.loads(json.dumps([feature.to_manifest() for feature in config.features]))
    now = {"options": options, "features": features}
    used = {base.folder for base in config.bases}
    indexes, lines = 0, []
    for folder in dict.fromkeys(folders):
        try:
            manifest = open_indexed(folder)
            former = read_records(folder, manifest)
        except (DatasetError, OSError) as error:
            lines.append(f"diff     {folder} cannot be compared: {error}")
            continue
        indexes += 1 + len(manifest["index"]) if folder in used else 0
        if manifest["options"].get("key") == config.key == "path":
            former = former.rekeyed(*moved_keys(manifest["root"], config.root))
        found = compare_records(former, records, option_changes(manifest, now))
        lines.append(f"diff     {folder} -> {config.folder.output}")
        lines += [f"  {line}" for line in found.planned_lines()]
    for source in config.sources:
        if not source.manifest:
            indexes += 1 + len(open_dataset(source.folder)["index"])
    yield f"reused   {reads.taken} images from their records (--reuse)"
    records_too = f", and {reads.records} records of --images" if reads.records else ""
    yield f"read     {reads.originals} originals, {format_bytes(reads.bytes)}{records_too}"
    copied = f", {reads.copied} for copied shards" if reads.copied else ""
    yield (
        f"requests {reads.originals + reads.ranges + indexes + reads.copied}: "
        f"{reads.originals} for originals, {reads.ranges} for records, {indexes} for manifests and "
        f"indexes{copied}"
    )
    yield from lines


def _read_parts(path: str, labels: str) -> tuple[PlannedReads, Records]:
    """The sums of all planned shards, and their records."""
    storage = storage_of(path)
    total = PlannedReads()

    def tables() -> Iterator[Records]:
        nonlocal total
        parts = sorted(file.uri for file in storage.list_files(f"{glob.escape(path)}.*"))
        for data in storage.for_each(storage.read_bytes, parts):
            table, reads = read_part(data)
            total = PlannedReads(*map(operator.add, total, reads))
            yield Records.of_index(table)
        list(storage.for_each(storage.remove, parts))

    records = Records.joined(tables(), labels)
    return total, records
