"""The options of the steps in Python, by the names of the flags.

Made by `python -m tests.option_documents`.
"""

# Without postponed annotations: `Required` has no effect in them.

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict

PathText = str | os.PathLike[str]
"""A path or URL; a URL is always a `str`."""

Several = Sequence[str] | str
"""Several names, or one text with commas between them."""

Size = int | str
"""Bytes, or text such as `64MB`."""


class PlaceOptions(TypedDict, total=False):
    """The options that several steps take; None omits one."""

    root: PathText | None
    splits: Several | None
    seed: int | None


class RowOptions(TypedDict, total=False):
    """The options that several steps take; None omits one."""

    labels: PathText | None
    label_from: str | None
    label_key: str | int | None
    label_column: str | int | None
    key: Literal["stem", "name", "path", "uri"] | None
    csv_delimiter: str | None
    csv_encoding: str | None
    group_by: str | int | None
    split_by: str | None


class LabelImagesOptions(PlaceOptions, total=False):
    """The options of `LabelImages`; None omits one."""

    key: Literal["stem", "name", "path", "uri"] | None


class FindImagesOptions(PlaceOptions, RowOptions, total=False):
    """The options of `FindImages`; None omits one."""

    label_kind: Literal["auto", "integer", "text"] | None


class WriteDatasetOptions(PlaceOptions, total=False):
    """The options of `WriteDataset`; None omits one."""

    label_kind: Literal["auto", "integer", "text"] | None
    dense_labels: bool
    overwrite: bool
    layout: PathText | None
    num_shards: int | None
    shard_size: Size | None
    shard_by: Literal["hash", "records"] | None
    files: Literal["sharded", "per_image"] | None
    compression: Literal["none", "gzip"] | None
    file_name: str | None
    transcode: Literal["keep", "auto", "jpeg", "png"] | None
    resize: str | None
    color: Literal["keep", "rgb", "gray"] | None
    quality: int | None
    exif_orientation: Literal["keep", "apply"] | None
    depth: int | None
    strip_metadata: bool
    model: PathText | None
    model_weights: PathText | None
    embed_dtype: Literal["float32", "bfloat16"] | None
    check: Literal["full", "header"] | None
    max_pixels: int | None
    max_bytes: Size | None
    max_rejected: str | int | float | None
    strict: bool
    dedupe: Literal["off", "report", "drop"] | None
    quarantine: PathText | None


class ConvertDatasetOptions(WriteDatasetOptions, RowOptions, total=False):
    """The options of `ConvertDataset`; None omits one."""

    images: Sequence[PathText] | PathText | None
    record_features: str | None
    masks: Sequence[PathText] | PathText | None
    label_separator: str | None
    keys: PathText | None
    reuse: Sequence[PathText] | PathText | None
    key_cells: Literal["auto", "as_is"] | None
    allow_outside: bool
    class_names: PathText | Sequence[str] | None
    new_classes: Literal["append", "refuse"] | None
    output: Required[PathText]
    stratify: Literal["label"] | None
    boxes: Several | Mapping[str, Several] | None
    name: str | None
    dataset_version: str | None
    description: str | None
    citation: str | None
    license: str | None
    homepage: str | None
    croissant: str | None
    holdout: Sequence[PathText] | PathText | None
