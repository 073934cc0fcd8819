"""ConvertConfig: everything a conversion needs to know, resolved and valid. No Beam."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from pipeline.options.option_table import OPTIONS
from pipeline.resolve.samples import JobSize
from transforms.core.messages import Decision
from transforms.core.option import Group, recorded_values, text_of, vars_of
from transforms.dataset.dataset_options import CardOptions, DatasetOptions, FileOptions, shard_plan
from transforms.dataset.image_statistics import DatasetWarning
from transforms.dataset.manifest import Dataset
from transforms.examples.boxes import BoxRules
from transforms.examples.layouts import MASK, Embedding, Feature, LayoutOptions, embedding_options
from transforms.examples.partners import Partner
from transforms.examples.row_features import RowValues, row_requirements
from transforms.images.pixel_options import CheckOptions, PixelOptions
from transforms.input_readers import KeyReader, LeftOut
from transforms.labels.csv_tables import delimiter_text
from transforms.labels.joins import RowRequirements
from transforms.labels.label_options import InputOptions, ShardOptions, SplitOptions
from transforms.labels.label_rows import CSV, LIST_SEPARATOR, YOLO, CsvColumns
from transforms.labels.label_rules import LabelRules
from transforms.labels.shards import ShardPlan, SplitAssigner
from transforms.records.other_datasets import OtherDataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    """A conversion: its options as they were given, and what follows from them and the inputs.

    Attributes:
        inputs: the options of images and labels.
        folder: the options of the dataset's folder.
        splits: the options of splits.
        shards: the options of shards.
        layout: the options of the layout.
        files: the options of the files that hold the records.
        pixels: the changes made to the pixels of every image.
        checks: which images are rejected or reported.
        card: the name of the dataset and what is said about it.
        images: globs, and folders of datasets.
        root: the folder below which record paths and keys begin; `RECORDS` without globs and rows
            that list images.
        label_from: `csv`, `directory`, `regex`, `webdataset`, `records` or `none`.
        csv_paths: the label files.
        columns: positions of key and label in them; None without label files.
        key: `stem`, `name`, `path`, `uri`, or `row`.
        split_from: `hash`, `csv`, `directory` or `records`.
        label_rules: what labels are, and which ids they get; their kind is `text` for names that a
            dataset gave.
        features: of the Examples, as the flags and the rows resolve them.
        embedding: the model for a layout that needs one, or None.
        boxes: what the box columns hold, if the layout has boxes.
        label_separator: between the labels in one cell; empty when a cell is one label.
        of_rows: whether each row of the label files becomes a record, without images.
        row_places: folders that listed local files must be in, see `image_lists.top_folder`; None
            for anywhere.
        workers: worker processes on this machine, or None to decide.
        keys: reads the keys of the images to keep; None for all images.
        bases: datasets from whose records images may be taken.
        sources: the datasets in `images`, whose records are images.
        held_out: datasets whose images are reported like duplicates.
        partners: masks and further images, in the order of their names.
        decisions: decisions made before the job starts; they do not affect any record.
        warnings: warnings given before the job starts.
        left_out: files that the globs match but that are not images.
        sampled: the size of the job, as far as the globs show it.
        run: the name of this run in a bucket's lock; empty without such a lock.
    """

    inputs: InputOptions
    folder: DatasetOptions
    splits: SplitOptions
    shards: ShardOptions
    layout: LayoutOptions
    files: FileOptions
    pixels: PixelOptions
    checks: CheckOptions
    card: CardOptions = CardOptions()
    images: tuple[str, ...]
    root: str
    label_from: str
    csv_paths: tuple[str, ...]
    columns: CsvColumns | None
    key: str
    split_from: str
    features: tuple[Feature, ...]
    label_rules: LabelRules = LabelRules()
    embedding: Embedding | None = None
    boxes: BoxRules | None = None
    label_separator: str = ""
    of_rows: bool = False
    row_places: tuple[str, ...] | None = None
    workers: int | None = None
    keys: KeyReader | None = None
    bases: tuple[OtherDataset, ...] = ()
    sources: tuple[OtherDataset, ...] = ()
    held_out: tuple[OtherDataset, ...] = ()
    partners: tuple[Partner, ...] = ()
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[DatasetWarning, ...] = ()
    left_out: LeftOut = LeftOut()
    sampled: JobSize = JobSize()
    run: str = ""

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs among `images`."""
        given = {value for source in self.sources for value in source.given}
        return tuple(each for each in self.images if each not in given)

    @property
    def shard_plan(self) -> ShardPlan:
        """How the dataset is cut into shards."""
        # Splits from rows or folders are known only after all of them are read.
        names = [name for name, _ in self.splits.splits] if self.split_from == "hash" else ()
        return shard_plan(self.shards, self.files, names, len(self.partners))

    @property
    def assigner(self) -> SplitAssigner:
        """Assigns every image its split and its position."""
        return self.splits.assigner(self.split_from)

    @property
    def row_requirements(self) -> RowRequirements:
        """What the layout needs of the rows."""
        requirements = row_requirements(
            self.features, boxes=self.boxes, separator=self.label_separator
        )
        return requirements._replace(
            has_label=self.columns is not None and self.columns.label.at >= 0,
            are_optional=self._label_format == YOLO and self.boxes is not None,
        )

    @property
    def row_values(self) -> RowValues | None:
        """Computes features from rows, if the layout has any."""
        if not self.row_requirements.needs_rows:
            return None
        return RowValues(self.features, boxes=self.boxes)

    @property
    def options(self) -> dict[str, Any]:
        """The options that affect output bytes, by flag name."""
        groups = (getattr(self, name) for name in _GROUPS)
        options = recorded_values(OPTIONS, {**vars_of(*groups), **self._decided})
        if self.pixels.reencode:
            # A quality alone re-encodes every JPEG; no separate option records that.
            options["reencode"] = True
        rules = self.label_rules
        if rules.class_ids is not None:
            # They decide files, also those that no image has.
            names = rules.class_names or ()
            options["categories"] = dict(zip(names, rules.class_ids, strict=True))
        return options

    @property
    def _decided(self) -> dict[str, Any]:
        """The values of options that follow from the inputs, or are recorded in another form."""
        columns, boxes, rules = self.columns, self.boxes, self.label_rules
        # Those of label files are no option.
        names = None if rules.are_categories else rules.class_names
        # A dataset that replaced one under its name has another digest.
        held_out = {
            f"{each.folder}:{each.split}".rstrip(":"): each.digest for each in self.held_out
        }
        return {
            "label_from": self.label_from,
            "label_regex": text_of(self.inputs.label_from) or None,
            "label_key": columns.key.name or None if columns else None,
            "label_column": columns.label.name if columns and columns.label.at >= 0 else None,
            # That of lists in a file is no option.
            "label_separator": self.label_separator.strip(LIST_SEPARATOR) or None,
            "label_kind": rules.kind,
            "key": self.key,
            "csv_delimiter": delimiter_text(columns.delimiter) if columns else None,
            "class_names": list(names) if names else None,
            "group_by": columns.group.name if columns and columns.group.at >= 0 else None,
            "split_from": self.split_from,
            "split_column": columns.split.name if columns and columns.split.at >= 0 else None,
            "box_columns": list(boxes.columns) if boxes else None,
            "box_form": boxes.form if boxes else None,
            "box_units": boxes.units if boxes else None,
            "box_orientation": boxes.orientation if boxes else None,
            "holdout": dict(sorted(held_out.items())),
            **embedding_options(self.embedding),
        }

    @property
    def _label_format(self) -> str:
        return self.columns.format if self.columns else CSV

    @property
    def _inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {"images": list(self.images), "labels": list(self.csv_paths)}
        if self._label_format != CSV:
            inputs["label_format"] = self._label_format
        if self.sources:
            inputs["datasets"] = [each.folder for each in self.sources]
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
            is_strict=self.checks.strict,
            partners={partner.name: partner.root for partner in self.partners},
        )


# The groups of options in a configuration.
_GROUPS: Mapping[str, type[Group]] = {
    name: kind
    for name, kind in get_type_hints(ConvertConfig).items()
    if isinstance(kind, type) and issubclass(kind, Group)
}


def option_groups(values: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a configuration, from the values of all options."""
    return {name: group.of(values) for name, group in _GROUPS.items()}
