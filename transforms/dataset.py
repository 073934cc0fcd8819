"""Complete steps for a caller's pipeline: from images and labels to a published dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam

from transforms.convert_images import ImageConverter
from transforms.copy_rejected import overlap
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
from transforms.core.dataset.image_file_names import FILES
from transforms.core.dataset.manifest import Dataset
from transforms.core.duplicates.equal_images import MODES as DEDUPE_MODES
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
from transforms.core.labels.label_kinds import LABEL_KINDS, missing_labels
from transforms.core.labels.path_labels import PathRules, parse_label_regex
from transforms.core.labels.vocabulary import LabelRules
from transforms.core.planning.image_globs import any_case, expand_braces
from transforms.core.planning.keys import KEY_KINDS
from transforms.core.planning.rejection_limit import DEFAULT_LIMIT
from transforms.core.planning.shards import ShardPlan
from transforms.core.planning.split_assignment import SPLIT_SOURCES, SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.tables.csv_rows import CsvColumns, first_rows
from transforms.core.tables.label_columns import resolve_columns
from transforms.core.tables.place_columns import with_place_columns
from transforms.drop_duplicates import DropDuplicates
from transforms.find_images import ImageFinder
from transforms.flow import DatasetTarget, FindLabelledImages, ImageSource, PlanImages, WritePlan
from transforms.join_labels import JoinedImages
from transforms.label_images import LabelImages
from transforms.read_labels import RowReader
from transforms.storage.files import storage_of

__all__ = ["FindImages", "LabelImages", "WriteDataset"]

# Rows of a CSV from which its columns are inferred.
_FIRST_ROWS = 20

# Where labels come from without a CSV.
_PATH_LABELS = ("directory", "regex", "none")


class FindImages(FindLabelledImages):
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
        label_regex: str | None = None,
        label_kind: str = "auto",
        key: str | None = None,
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        split_from: str | None = None,
        split_column: str | None = None,
        group_by: str | None = None,
        seed: int = 0,
    ) -> None:
        """Checks the inputs: finds an image for each glob, and reads the first rows of `labels`.

        Args:
            images: globs.
            labels: path of a CSV, or None.
            label_key: its column that names images, by name or number; None to infer it.
            label_column: its column of labels, likewise.
            csv_encoding: a Python codec name.
            csv_delimiter: the character between cells, or `tab`; None to infer it.
            label_from: `directory`, `regex` or `none` without `labels`; None is `regex` with
                `label_regex`, and `directory` without.
            label_regex: finds the label in a path below `root`.
            label_kind: the same as for `WriteDataset`; with `text`, `nan` is also a label.
            key: `stem`, `name`, `path` or `uri`; None is `stem` with `labels` and `path` without.
            root: a folder that contains all images; paths in the dataset are relative to it.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            split_from: `hash`, `csv` or `directory`; None is `csv` with `split_column`, and `hash`
                without.
            split_column: column of `labels` that names the split, by name or number.
            group_by: column of `labels` whose cells stay together in one split, likewise.
            seed: for record order and split assignment.

        Raises:
            LabelsError: the CSV has no such columns, or they cannot be inferred.
            OSError: the CSV cannot be read, or a folder cannot be listed.
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value, or a glob matches nothing.
        """
        path = optional_path("labels", labels)
        label_from = _label_source(label_from, label_regex, path)
        split_from = split_from or ("hash" if split_column is None else "csv")
        _check_places(split_from, split_column, group_by)
        chosen = {
            "label_key": label_key,
            "label_column": label_column,
            "split_column": split_column,
            "group_by": group_by,
        }
        if csv_delimiter is not None and path is None:
            raise ValueError("csv_delimiter is between the cells of labels: give labels, too")
        delimiter = optional_delimiter("csv_delimiter", csv_delimiter)
        columns = _columns(path, csv_encoding, delimiter, chosen, split_from)
        kind = one_of("key", key or ("path" if path is None else "stem"), KEY_KINDS)
        assigner = SplitAssigner(
            Splits(split_shares(splits)),
            seed=seed_number(seed),
            split_from=split_from,
            by_group=group_by is not None,
        )
        rules = PathRules(label_from, label_regex or "", split_from == "directory")
        finder = ImageFinder(root=root_text("root", root), key=kind, rules=rules)
        missing = missing_labels(one_of("label_kind", label_kind, LABEL_KINDS))
        reader = columns and RowReader(columns, key=kind, encoding=csv_encoding, missing=missing)
        csv_paths = [] if path is None else [path]
        source = ImageSource(_globs(images), finder, csv_paths, reader, label_from, assigner)
        super().__init__(source)


def _label_source(label_from: str | None, label_regex: str | None, path: str | None) -> str:
    """The source of labels, from the given arguments.

    Raises:
        ValueError: the arguments contradict each other.
    """
    given = label_from or ("directory" if label_regex is None else "regex")
    one_of("label_from", given, _PATH_LABELS)
    if path is not None:
        for name, value in (("label_from", label_from), ("label_regex", label_regex)):
            if value is not None:
                raise ValueError(f"{name} is for images without labels: leave one of them out")
        return "csv"
    if (given == "regex") != (label_regex is not None):
        raise ValueError("label_regex goes with label_from 'regex', and with no other")
    if label_regex is not None:
        try:
            parse_label_regex(label_regex)
        except ValueError as error:
            raise ValueError(f"label_regex {error}") from error
    return given


def _globs(images: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The globs, with alternatives expanded; each pattern matches a file."""
    found: list[str] = []
    for pattern in path_texts("images", images):
        globs = expand_braces(pattern)
        listings = (storage_of(glob).list_files(any_case(glob)) for glob in globs)
        # A job over nothing would publish an empty dataset.
        if not any(next(listing, None) for listing in listings):
            raise ValueError(f"no file matches {pattern!r} of images")
        found += globs
    return found


def _check_places(split_from: str, split_column: str | None, group_by: str | None) -> None:
    one_of("split_from", split_from, SPLIT_SOURCES)
    if split_column is not None and split_from != "csv":
        raise ValueError(f"split_column does not go with split_from {split_from!r}")
    if group_by is not None and split_from == "directory":
        raise ValueError("group_by does not go with split_from 'directory'")


def _columns(
    path: str | None,
    encoding: str,
    delimiter: str | None,
    chosen: Mapping[str, str | None],
    split_from: str,
) -> CsvColumns | None:
    """The columns of `labels`, inferred from its first rows."""
    if path is None:
        for name, column in chosen.items():
            if column is not None:
                raise ValueError(f"{name} is a column of labels: give labels, too")
        if split_from == "csv":
            raise ValueError("split_from 'csv' reads a column of labels: give labels, too")
        return None
    key, label, split, group = chosen.values()
    try:
        with storage_of(path).open_reader(path) as file:
            first = first_rows(file, _FIRST_ROWS, encoding=encoding, delimiter=delimiter, path=path)
        columns = resolve_columns(first, key=key, label=label, path=path)
        return with_place_columns(
            columns, first, split_from=split_from, split_column=split, group_by=group, path=path
        )
    except LabelsError as error:
        raise LabelsError(own_words(str(error))) from error


class WriteDataset(beam.PTransform):
    """Plans shards, converts and writes them, and publishes the dataset, the manifest last.

    Input: `JoinedImages`, unfiltered: images dropped in between are missing in the ledger,
    which fails the run. Output: `published`, or `up_to_date` for a dataset of the same inputs
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
        files: str = "sharded",
        gzip: bool = False,
        pixels: PixelOptions = AS_THEY_ARE,
        check: str = "full",
        limits: Limits = DEFAULT_LIMITS,
        max_rejected: str = DEFAULT_LIMIT,
        strict: bool = False,
        dedupe: str = "report",
        quarantine: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Sets the options of the dataset.

        Args:
            output: its folder, local or `gs://`.
            layout: a preset or the path of a YAML file, with features of images and one label each.
            labelled: whether images have labels.
            class_names: the classes in the order of their ids; None sorts the labels.
            label_kind: `integer`, `text`, or `auto`: integers if all labels are.
            dense_labels: whether integer labels are numbered from 0.
            root: the same as for `FindImages` or `LabelImages`.
            num_shards: of each split; None plans them from the bytes.
            shard_size: bytes that a shard should hold, without `num_shards`; None is 150 MB.
            files: `sharded`, or `per_image`: a file for each image, named after its key.
            gzip: whether they are compressed.
            pixels: the changes to the pixels.
            check: `full` or `header`.
            limits: bytes and pixels an image may have.
            max_rejected: share or number of images that may be rejected, such as `1%` or `25`, or
                the larger of both, `1% or 10`.
            strict: whether warnings keep the dataset from being published.
            dedupe: `off`; `report` exact and near-duplicates; or `drop` exact ones, keeping one.
            quarantine: folder for copies of rejected images, `quarantine/REASON/PATH`, or None.
            overwrite: whether a former dataset may be replaced.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value; the layout cannot be read, or
                needs more than images and labels.
        """
        super().__init__()
        output = path_text("output", output).rstrip("/") or "/"
        layout, root = path_text("layout", layout), root_text("root", root)
        _check_images(pixels, limits, check)
        features = _features(layout, truth("labelled", labelled), pixels)
        rules = label_rules(label_kind, class_names, dense_labels)
        plan = shard_plan(num_shards, shard_size, truth("gzip", gzip))
        if one_of("files", files, FILES) == "per_image" and (num_shards or shard_size):
            raise ValueError("num_shards and shard_size do not go with files 'per_image'")
        quarantine = optional_path("quarantine", quarantine)
        if quarantine is not None and overlap(quarantine, output):
            raise ValueError(f"quarantine {quarantine} and output {output} contain each other")
        options = _options(layout, rules, plan, check, limits, pixels)
        # As in the command, default values do not change the digest.
        if files != FILES[0]:
            options["files"] = files
        if dedupe == "drop":
            options["dedupe"] = dedupe
        self._drop = None
        if one_of("dedupe", dedupe, DEDUPE_MODES) == "drop":
            self._drop = DropDuplicates(root, max_bytes=limits.max_bytes, waits=True)
        self._target = DatasetTarget(
            output=output,
            dataset=Dataset(options, {}, root, features, (), is_strict=truth("strict", strict)),
            converter=ImageConverter(
                root=root,
                features=features,
                limits=limits,
                check=check,
                pixels=pixels,
                waits=True,
                fingerprints=dedupe != "off",
            ),
            plan=plan,
            max_rejected=rejection_limit(max_rejected),
            overwrite=truth("overwrite", overwrite),
            rules=rules,
            quarantine=quarantine,
            per_image=files == "per_image",
        )

    def expand(self, joined: JoinedImages) -> beam.PCollection[str]:
        plan = joined | "Plan images" >> PlanImages(
            self._target.plan, self._target.rules, self._drop
        )
        return plan.shards | "Write dataset" >> WritePlan(plan, self._target)


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
    """The options that affect output bytes, by the names of the flags."""
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
        text = storage_of(layout).read_text(layout)
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
