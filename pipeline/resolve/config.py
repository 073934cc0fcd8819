"""ConvertConfig: everything a conversion needs to know, resolved and valid. No Beam."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from pipeline.options.output_options import recorded_options
from pipeline.resolve.samples import JobSize
from transforms.core.messages import Decision
from transforms.core.rejections import RejectionLimit
from transforms.dataset.dataset_card import Card
from transforms.dataset.image_statistics import DatasetWarning
from transforms.dataset.manifest import Dataset
from transforms.examples.boxes import BoxRules
from transforms.examples.layouts import DETECTION, MASK, Feature, with_embedding
from transforms.examples.partners import Partner
from transforms.examples.row_features import RowValues, row_requirements
from transforms.find_images import KeyReader, LeftOut
from transforms.images.embeddings import Embedding
from transforms.images.pixel_options import AS_THEY_ARE, Limits, PixelOptions
from transforms.labels.joins import RowRequirements
from transforms.labels.label_rows import CsvColumns
from transforms.labels.label_rules import LabelRules, PathRules
from transforms.labels.shards import DEFAULT_SHARD_SIZE, ShardPlan
from transforms.labels.splits import SplitAssigner, Splits
from transforms.labels.table_formats import CSV, YOLO
from transforms.records.dataset_images import SourceReader
from transforms.records.reuse import Base
from transforms.selection.equal_images import Holdout


@dataclasses.dataclass(frozen=True)
class ConvertConfig:
    """A conversion.

    Attributes:
        images: globs, and folders of datasets.
        root: the folder below which record paths and keys begin; `RECORDS` without globs and rows
            that list images.
        output: the dataset's folder.
        label_from: `csv`, `directory`, `regex`, `webdataset`, `records` or `none`.
        csv_paths: the label files.
        columns: positions of key and label in them; None without label files.
        csv_encoding: a Python codec name.
        key: `stem`, `name`, `path` or `uri`.
        class_names: the classes in the order of their ids, or None for sorted labels.
        splits: name and share of each split.
        seed: for record order and split assignment.
        num_shards: shards of each split, or None to plan them from the bytes.
        shard_size: bytes.
        shard_by: what divides a split into shards, see `SHARD_BY`.
        layout: name of the feature layout, or the path of its file.
        layout_features: its features, as the flags and the rows resolve them.
        gzip: whether shards are compressed.
        check: `full` or `header`.
        limits: bytes and pixels an image may have.
        max_rejected: images that may be rejected.
        quarantine: folder for copies of rejected images, or None.
        overwrite: whether an existing dataset may be replaced.
        pixels: the changes made to the pixels of every image.
        strip_metadata: whether stored files lose their metadata.
        embedding: the model for a layout that needs one, or None.
        boxes: what the box columns hold, if the layout has boxes.
        label_separator: between the labels in one cell; empty when a cell is one label.
        label_regex: finds the label in a path; empty if labels do not come from paths.
        split_from: `hash`, `csv`, `directory` or `records`.
        stratify: `label`, or empty if the hash alone decides the split.
        files: `sharded` or `per_image`.
        of_rows: whether each row of the label files becomes a record, without images.
        dedupe: `off`, `report` or `drop`.
        row_places: folders that listed local files must be in, see `image_lists.top_folder`; None
            for anywhere.
        label_kind: `auto`, `integer` or `text`; `text` for names that a dataset gave.
        cell_kind: `--label_kind` as given, which decides what cells count as missing.
        known_ids: whether `class_names` are the classes of a dataset, with their ids.
        key_cells: `auto` or `as_is`.
        dense_labels: whether integer labels are numbered from 0.
        class_ids: the ids of `class_names`, if categories of label files gave them; None otherwise.
        new_classes: what happens to labels that `class_names` lacks, see `LabelRules`.
        decisions: decisions made before the job starts; they do not affect any record.
        warnings: warnings given before the job starts.
        left_out: files that the globs match but that are not images.
        strict: whether warnings keep the dataset from being published.
        workers: worker processes on this machine, or None to decide.
        sampled: the size of the job, as far as the globs show it.
        run: the name of this run in a bucket's lock; empty without such a lock.
        keys: reads the keys of the images to keep; None for all images.
        bases: datasets whose records may be reused.
        sources: lists the records of the datasets in `images`; None without them.
        holdouts: datasets whose images are reported like duplicates.
        card: name of the dataset and what is said about it; None without a name.
        partners: masks and further images, in the order of their names.
    """

    images: tuple[str, ...]
    root: str
    output: str
    label_from: str
    csv_paths: tuple[str, ...]
    columns: CsvColumns | None
    csv_encoding: str
    key: str
    class_names: tuple[str, ...] | None
    splits: tuple[tuple[str, float], ...]
    seed: int
    num_shards: int | None
    shard_size: int
    layout: str
    layout_features: tuple[Feature, ...]
    gzip: bool
    check: str
    limits: Limits
    max_rejected: RejectionLimit
    quarantine: str | None
    overwrite: bool
    pixels: PixelOptions = AS_THEY_ARE
    embedding: Embedding | None = None
    boxes: BoxRules | None = None
    label_separator: str = ""
    label_regex: str = ""
    split_from: str = "hash"
    stratify: str = ""
    files: str = "sharded"
    of_rows: bool = False
    dedupe: str = "report"
    row_places: tuple[str, ...] | None = None
    label_kind: str = "auto"
    cell_kind: str = "auto"
    known_ids: bool = False
    class_ids: tuple[int, ...] | None = None
    key_cells: str = "auto"
    dense_labels: bool = False
    new_classes: str = ""
    strip_metadata: bool = False
    shard_by: str = "hash"
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[DatasetWarning, ...] = ()
    strict: bool = False
    workers: int | None = None
    sampled: JobSize = JobSize()
    left_out: LeftOut = LeftOut()
    run: str = ""
    keys: KeyReader | None = None
    bases: tuple[Base, ...] = ()
    sources: SourceReader | None = None
    holdouts: tuple[Holdout, ...] = ()
    card: Card | None = None
    partners: tuple[Partner, ...] = ()

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs among `images`."""
        folders = {each.folder for each in self.sources.sources} if self.sources else set()
        return tuple(each for each in self.images if each not in folders)

    @property
    def shard_plan(self) -> ShardPlan:
        """How the dataset is cut into shards."""
        # Splits from rows or folders are known only after all of them are read.
        names = tuple(name for name, _ in self.splits) if self.split_from == "hash" else ()
        per_image = self.files == "per_image"
        return ShardPlan(
            names,
            self.shard_size,
            self.num_shards,
            self.gzip,
            per_image,
            len(self.partners),
            self.shard_by == "records",
        )

    @property
    def label_rules(self) -> LabelRules:
        """What labels are, and which ids they get."""
        first_id = 1 if self.layout in DETECTION else 0
        return LabelRules(
            self.label_kind,
            self.class_names,
            self.dense_labels,
            first_id,
            self.new_classes,
            self.known_ids,
            self.class_ids,
        )

    @property
    def path_rules(self) -> PathRules:
        """How an image's path gives its label and its split."""
        return PathRules(self.label_from, self.label_regex, self.split_from == "directory")

    @property
    def assigner(self) -> SplitAssigner:
        """Assigns every image its split and its position."""
        return SplitAssigner(
            Splits(self.splits),
            seed=self.seed,
            split_from=self.split_from,
            by_group=self.by_group,
            keeps_group=self.by_group and bool(self.stratify),
        )

    @property
    def by_group(self) -> bool:
        """Whether a column holds groups."""
        return self.columns is not None and self.columns.group is not None

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of the Examples."""
        if self.embedding is None:
            return self.layout_features
        return with_embedding(self.layout_features, self.embedding.shape, self.embedding.dtype)

    @property
    def row_requirements(self) -> RowRequirements:
        """What the layout needs of the rows."""
        requirements = row_requirements(
            self.features, boxes=self.boxes, separator=self.label_separator
        )
        return requirements._replace(
            has_label=self.columns is not None and self.columns.label is not None,
            are_optional=self._label_format == YOLO and self.boxes is not None,
        )

    @property
    def row_values(self) -> RowValues | None:
        """Computes features from rows, if the layout has any."""
        if not self.row_requirements.needs_rows:
            return None
        return RowValues(self.features, self.row_requirements, boxes=self.boxes)

    @property
    def held_out(self) -> dict[str, str]:
        """The digest of each holdout, by its folder and split, sorted."""
        # A dataset that replaced one under its name has another digest.
        named = {f"{each.folder}:{each.split}".rstrip(":"): each.digest for each in self.holdouts}
        return dict(sorted(named.items()))

    @property
    def model_digest(self) -> str:
        """The name of the model, or the digest of its file; empty without one."""
        # The location of a file affects no byte.
        return (self.embedding.digests[0] or self.embedding.model) if self.embedding else ""

    @property
    def options(self) -> dict[str, Any]:
        """The options that affect output bytes, by flag name."""
        # A quality alone re-encodes every JPEG; no separate option records that.
        reencode = {"reencode": True} if self.pixels.reencode else {}
        categories = {}
        if self.class_ids is not None:
            # They decide files, also those that no image has.
            named = dict(zip(self.class_names or (), self.class_ids, strict=True))
            categories = {"categories": named}
        return {**recorded_options(self), **reencode, **categories}

    @property
    def _label_format(self) -> str:
        return self.columns.format if self.columns else CSV

    @property
    def _inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {"images": list(self.images), "labels": list(self.csv_paths)}
        if self._label_format != CSV:
            inputs["label_format"] = self._label_format
        if self.sources is not None:
            inputs["datasets"] = [each.folder for each in self.sources.sources]
        for partner in self.partners:
            # The globs of others are in the layout file.
            if partner.name == MASK:
                inputs["masks"] = list(partner.globs)
        if self.keys is not None:
            inputs["keys"] = self.keys.name
        if self.embedding is not None:
            inputs["model"] = self.embedding.model
            if self.embedding.weights is not None:
                inputs["model_weights"] = self.embedding.weights
        return inputs

    @property
    def dataset(self) -> Dataset:
        """The description of the dataset that goes into its manifest."""
        return Dataset(
            options=self.options,
            inputs=self._inputs,
            root=self.root,
            features=self.features,
            splits=self.shard_plan.splits,
            of_rows=self.of_rows,
            decisions=self.decisions,
            warnings=self.warnings,
            is_strict=self.strict,
            partners={partner.name: partner.root for partner in self.partners},
        )


def shared_fields(flags: argparse.Namespace) -> dict[str, Any]:
    """The fields that depend on flags alone, for datasets of images and of rows."""
    return {
        "output": flags.output.rstrip("/") or "/",
        "csv_encoding": flags.csv_encoding,
        "splits": flags.splits,
        "seed": flags.seed,
        "num_shards": flags.num_shards,
        "shard_size": flags.shard_size or DEFAULT_SHARD_SIZE,
        "shard_by": flags.shard_by,
        "layout": flags.layout,
        "gzip": flags.compression == "gzip",
        "check": flags.check,
        "limits": Limits(max_pixels=flags.max_pixels, max_bytes=flags.max_bytes),
        "max_rejected": flags.max_rejected,
        "overwrite": flags.overwrite,
        "strict": flags.strict,
        "workers": flags.workers,
    }
