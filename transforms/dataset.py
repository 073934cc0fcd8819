"""Whole steps for a pipeline of one's own: images and labels in, a published dataset out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import apache_beam as beam

from transforms.convert_images import ImageConverter
from transforms.core.arguments import (
    label_rules,
    one_of,
    optional_delimiter,
    optional_path,
    own_words,
    path_text,
    path_texts,
    rejection_limit,
    root_text,
    seed_number,
    shard_plan,
    split_shares,
    truth,
)
from transforms.core.dataset.manifest import Dataset
from transforms.core.features.feature_sources import Needs
from transforms.core.features.layout_files import parse_layout
from transforms.core.features.layouts import (
    LAYOUTS,
    Feature,
    is_layout_file,
    layout_features,
    with_pixels,
)
from transforms.core.images.check import DEFAULT_LIMITS, MODES, Limits
from transforms.core.images.pixel_options import AS_THEY_ARE, PixelOptions
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_kinds import (
    LABEL_KINDS,
    missing_labels,
)
from transforms.core.labels.path_labels import PathRules
from transforms.core.labels.vocabulary import LabelRules
from transforms.core.planning.image_globs import any_case, expand_braces
from transforms.core.planning.keys import KEY_KINDS
from transforms.core.planning.rejection_limit import DEFAULT_LIMIT
from transforms.core.planning.shards import ShardPlan
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.tables.csv_rows import CsvColumns, first_rows
from transforms.core.tables.label_columns import resolve_columns
from transforms.find_images import ImageFinder
from transforms.join_labels import JoinedImages, JoinLabels, ReadInputs
from transforms.label_images import LabelImages
from transforms.plan_shards import PlanShards, TotalLabels
from transforms.publish_dataset import PublishDataset
from transforms.read_labels import RowReader
from transforms.storage import files
from transforms.storage.listing import list_files
from transforms.write_shards import WriteShards

__all__ = ["FindImages", "LabelImages", "WriteDataset"]

# Rows of a CSV that tell which of its columns is which.
_FIRST_ROWS = 20

# Where labels come from without a CSV.
_PATH_LABELS = ("directory", "none")


class FindImages(beam.PTransform):
    """Lists images by globs and labels them by a CSV or by their folders.

    Input: the pipeline's begin. Output: `JoinedImages`. Only names move; no image is opened.
    """

    def __init__(
        self,
        images: Sequence[str | os.PathLike[str]],
        *,
        labels: str | os.PathLike[str] | None = None,
        label_key: str | None = None,
        label_column: str | None = None,
        csv_encoding: str = "utf-8",
        csv_delimiter: str | None = None,
        label_from: str | None = None,
        label_kind: str = "auto",
        key: str | None = None,
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        seed: int = 0,
    ) -> None:
        """Takes the inputs: finds an image for each glob, and reads the first rows of `labels`.

        Args:
            images: globs.
            labels: path of a CSV, or None.
            label_key: its column that names images, by name or number; None to infer it.
            label_column: its column of labels, likewise.
            csv_encoding: a Python codec name.
            csv_delimiter: the character between cells, or `tab`; None to infer it.
            label_from: `directory` or `none` without `labels`; None is `directory`.
            label_kind: as it is given to `WriteDataset`: with `text`, `nan` is a label, too.
            key: `stem`, `name`, `path` or `uri`; None is `stem` with `labels` and `path` without.
            root: a folder that all images are in, which their paths in the dataset leave out.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            seed: of the order and of the splits.

        Raises:
            LabelsError: the CSV has no such columns, or they cannot be told.
            OSError: the CSV cannot be read, or a folder cannot be listed.
            TypeError: an argument has another type.
            ValueError: an argument has a value that it cannot have, or a glob matches nothing.
        """
        super().__init__()
        one_of("label_kind", label_kind, LABEL_KINDS)
        if label_from is not None:
            one_of("label_from", label_from, _PATH_LABELS)
            if labels is not None:
                raise ValueError("label_from is for images without labels: leave one of them out")
        path = _csv_path(labels, label_key, label_column, csv_delimiter)
        if key is not None:
            one_of("key", key, KEY_KINDS)
        self._label_from = "csv" if path is not None else (label_from or "directory")
        kind = key or ("path" if path is None else "stem")
        self._assigner = SplitAssigner(Splits(split_shares(splits)), seed=seed_number(seed))
        rules = PathRules(self._label_from)
        self._finder = ImageFinder(root=root_text("root", root), key=kind, rules=rules)
        self._images = _globs(images)
        self._csv_paths = [] if path is None else [path]
        self._reader = None
        if path is not None:
            delimiter = optional_delimiter("csv_delimiter", csv_delimiter)
            columns = _columns(path, label_key, label_column, csv_encoding, delimiter)
            missing = missing_labels(label_kind)
            self._reader = RowReader(columns, key=kind, encoding=csv_encoding, missing=missing)

    def expand(self, begin: beam.pvalue.PBegin) -> JoinedImages:
        inputs = begin | "Read inputs" >> ReadInputs(
            self._images, self._finder, self._csv_paths, self._reader
        )
        joined: JoinedImages = inputs.sides | "Join labels" >> JoinLabels(
            label_from=self._label_from, assigner=self._assigner
        )
        return JoinedImages(
            joined.images,
            (inputs.rejections, joined.rejections) | "All rejections" >> beam.Flatten(),
            (inputs.counts, joined.counts) | "All counts" >> beam.Flatten(),
            inputs.labels,
        )


def _globs(images: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The globs, with one for each alternative of theirs; each pattern matches a file."""
    found: list[str] = []
    for pattern in path_texts("images", images):
        globs = expand_braces(pattern)
        # A job over nothing would publish an empty dataset.
        if not any(next(list_files(any_case(glob)), None) for glob in globs):
            raise ValueError(f"no file matches {pattern!r} of images")
        found += globs
    return found


def _csv_path(labels: object, key: object, column: object, delimiter: object) -> str | None:
    """The path of the CSV; nothing is said of its content without it."""
    path = optional_path("labels", labels)
    for name, value in (("label_key", key), ("label_column", column)):
        if value is not None and path is None:
            raise ValueError(f"{name} is a column of labels: give labels, too")
    if delimiter is not None and path is None:
        raise ValueError("csv_delimiter is between the cells of labels: give labels, too")
    return path


def _columns(
    path: str, key: str | None, label: str | None, encoding: str, delimiter: str | None
) -> CsvColumns:
    try:
        with files.open_reader(path) as file:
            first = first_rows(file, _FIRST_ROWS, encoding=encoding, delimiter=delimiter, path=path)
        return resolve_columns(first, key=key, label=label, path=path)
    except LabelsError as error:
        raise LabelsError(own_words(str(error))) from error


class WriteDataset(beam.PTransform):
    """Plans shards, converts and writes them, and publishes the dataset, the manifest last.

    Input: `JoinedImages`, whole: images that are taken away in between are missed by the ledger,
    which fails the run. Output: `published`, or `up_to_date` beside a dataset of the same inputs
    and options.

    Raises in the job: see `PublishDataset`.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        *,
        layout: str | os.PathLike[str] = "slim",
        labelled: bool = True,
        class_names: Sequence[str] | None = None,
        label_kind: str = "auto",
        dense_labels: bool = False,
        root: str | os.PathLike[str] = "",
        num_shards: int | None = None,
        shard_size: int | None = None,
        gzip: bool = False,
        pixels: PixelOptions = AS_THEY_ARE,
        check: str = "full",
        limits: Limits = DEFAULT_LIMITS,
        max_rejected: str = DEFAULT_LIMIT,
        overwrite: bool = False,
    ) -> None:
        """Says what the dataset is like.

        Args:
            output: its folder, local or `gs://`.
            layout: a preset, or the path of a YAML file, of images and their one label.
            labelled: whether images have labels.
            class_names: the classes in the order of their ids; None sorts the labels.
            label_kind: `integer`, `text`, or `auto`: integers if all labels are.
            dense_labels: whether integer labels are numbered from 0.
            root: as it was given to `FindImages` or `LabelImages`.
            num_shards: of each split; None plans them from the bytes.
            shard_size: bytes that a shard should hold, without `num_shards`; None is 150 MB.
            gzip: whether shards are compressed.
            pixels: what is done to the pixels.
            check: `full` or `header`.
            limits: bytes and pixels an image may have.
            max_rejected: share or number of images that may be rejected, such as `1%` or `25`, or
                the larger of both, `1% or 10`.
            overwrite: whether a former dataset may be replaced.

        Raises:
            TypeError: an argument has another type.
            ValueError: an argument has a value that it cannot have; the layout cannot be read, or
                needs more than images and labels.
        """
        super().__init__()
        self._output = path_text("output", output).rstrip("/") or "/"
        layout, root = path_text("layout", layout), root_text("root", root)
        _check_images(pixels, limits, check)
        features = _features(layout, truth("labelled", labelled), pixels)
        self._rules = label_rules(label_kind, class_names, dense_labels)
        self._plan = shard_plan(num_shards, shard_size, truth("gzip", gzip))
        self._max_rejected = rejection_limit(max_rejected)
        self._overwrite = truth("overwrite", overwrite)
        self._converter = ImageConverter(
            root=root, features=features, limits=limits, check=check, pixels=pixels, waits=True
        )
        options = _options(layout, self._rules, self._plan, check, limits, pixels)
        self._dataset = Dataset(options, {}, root, features, ())

    def expand(self, joined: JoinedImages) -> beam.PCollection[str]:
        totals = joined.images | "Totals" >> TotalLabels(joined.labels, self._rules)
        planned = joined.images | "Plan shards" >> PlanShards(self._plan, totals, rules=self._rules)
        rejections = (joined.rejections, planned.rejections) | "All rejections" >> beam.Flatten()
        written = planned.shards | "Write shards" >> WriteShards(
            self._output,
            self._converter,
            plan=self._plan,
            totals=totals,
            options_digest=self._dataset.digest,
            overwrite=self._overwrite,
        )
        return written.shards | "Publish dataset" >> PublishDataset(
            self._output,
            self._dataset,
            totals=totals,
            rejections=rejections,
            counts=joined.counts,
            max_rejected=self._max_rejected,
            rules=self._rules,
            overwrite=self._overwrite,
        )


def _check_images(pixels: object, limits: object, check: object) -> None:
    if not isinstance(pixels, PixelOptions) or not isinstance(limits, Limits):
        raise TypeError("pixels is a PixelOptions and limits a Limits")
    one_of("check", check, MODES)


def _options(
    layout: str,
    rules: LabelRules,
    plan: ShardPlan,
    check: str,
    limits: Limits,
    pixels: PixelOptions,
) -> dict[str, Any]:
    """The options that decide bytes, by the names of the flags."""
    return {
        "layout": layout,
        "class_names": None if rules.class_names is None else list(rules.class_names),
        "label_kind": rules.kind,
        "dense_labels": rules.dense,
        "num_shards": plan.num_shards,
        "shard_size": plan.shard_size,
        "compression": "gzip" if plan.gzip else "none",
        "check": check,
        **limits._asdict(),
        **pixels._asdict(),
        "resize": str(pixels.resize) if pixels.resize else None,
    }


def _features(layout: str, labelled: bool, pixels: PixelOptions) -> tuple[Feature, ...]:
    if is_layout_file(layout):
        text = files.read_text(layout)
        if text is None:
            raise ValueError(f"there is no layout {layout}")
        features = parse_layout(text, layout)
    elif layout in LAYOUTS:
        features = layout_features(layout, labelled=labelled)
    else:
        raise ValueError(f"layout {layout!r} is no .yaml file and not in {', '.join(LAYOUTS)}")
    for feature in features:
        if feature.needs & (Needs.ROWS | Needs.MODEL):
            raise ValueError(
                f"layout {layout}: {feature.name!r} is of {feature.source}, which is neither of an "
                "image nor its label: use python -m pipeline.convert"
            )
    return with_pixels(features, pixels.fixed_shape)
