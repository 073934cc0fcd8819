"""ConvertDataset: a whole conversion as one transform, with typed options."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Required, TypedDict, Unpack, cast

import apache_beam as beam

from pipeline.errors import UsageError
from pipeline.graph import build
from pipeline.options.output_options import OPTIONS, RUN
from pipeline.options.parser import parse_flags
from pipeline.resolve.preflight import check_flags
from transforms.labels.arguments import own_words

# The options of `ConvertDataset` with their types, for editors and type checkers.
#
# A test compares names and choices with the table of options in `pipeline.options.output_options`.

# Without postponed annotations: `Required` has no effect in them.


PathText = str | os.PathLike[str]
"""A path or URL; a URL is always a `str`."""

Several = Sequence[str] | str
"""Several names, or one text with commas between them."""

Size = int | str
"""Bytes, or text such as `64MB`."""


class ConvertOptions(TypedDict, total=False):
    """The options of a conversion, by the names of the flags; None and False omit the flag."""

    # images and labels
    images: Sequence[PathText] | PathText | None
    masks: Sequence[PathText] | PathText | None
    labels: PathText | None
    label_from: Literal["csv", "directory", "regex", "webdataset", "records", "none"] | None
    label_regex: str | None
    label_key: str | int | None
    label_column: str | int | None
    label_separator: str | None
    label_kind: Literal["auto", "integer", "text"] | None
    dense_labels: bool
    key: Literal["stem", "name", "path", "uri"] | None
    root: PathText | None
    keys: PathText | None
    reuse: Sequence[PathText] | PathText | None
    key_cells: Literal["auto", "as_is"] | None
    csv_delimiter: str | None
    csv_encoding: str | None
    allow_outside: bool
    class_names: PathText | None
    new_classes: Literal["append", "refuse"] | None
    # output
    output: Required[PathText]
    splits: Several | None
    group_by: str | int | None
    split_from: Literal["hash", "csv", "directory", "records"] | None
    split_column: str | int | None
    stratify: Literal["label"] | None
    seed: int | None
    num_shards: int | None
    shard_size: str | None
    shard_by: Literal["hash", "records"] | None
    layout: PathText | None
    box_columns: Several | None
    box_form: Literal["corners", "xywh", "center"] | None
    box_units: Literal["pixel", "normalized"] | None
    box_orientation: Literal["stored", "upright"] | None
    files: Literal["sharded", "per_image"] | None
    compression: Literal["none", "gzip"] | None
    overwrite: bool
    # description
    name: str | None
    dataset_version: str | None
    description: str | None
    citation: str | None
    license: str | None
    homepage: str | None
    croissant: str | None
    # pixels
    transcode: Literal["keep", "auto", "jpeg", "png"] | None
    resize: str | None
    color: Literal["keep", "rgb", "gray"] | None
    quality: int | None
    exif_orientation: Literal["keep", "apply"] | None
    depth: int | None
    strip_metadata: bool
    # embeddings
    model: PathText | None
    model_weights: PathText | None
    embed_dtype: Literal["float32", "bfloat16"] | None
    # checks
    check: Literal["full", "header"] | None
    max_pixels: int | None
    max_bytes: Size | None
    max_rejected: str | int | float | None
    strict: bool
    dedupe: Literal["off", "report", "drop"] | None
    holdout: Sequence[PathText] | PathText | None
    quarantine: PathText | None


# ConvertDataset: the whole command as one transform for a caller's pipeline.

Option = str | os.PathLike[str] | int | float | bool | Iterable[str | os.PathLike[str]] | None
"""A flag's value: True sets a switch; None and False omit the flag."""

OPTION_NAMES = frozenset(OPTIONS) - {option.name for option in RUN}
"""The options of `ConvertDataset`: every flag of `convert` except those of its run."""


class ConvertDataset(beam.PTransform):
    """Makes a dataset as `python -m pipeline.convert` does, with the same options.

    Input: the pipeline's begin. Output: `published`, or `up_to_date` if a dataset of the same
    inputs and options. There is no lock: one run at a time for an output folder is up to the
    caller.

    Raises in the job: see `PublishDataset`.
    """

    def __init__(self, **options: Unpack[ConvertOptions]) -> None:
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
        for name in options:
            if name not in OPTION_NAMES:
                listed = "docs/options.md lists them"
                raise TypeError(f"ConvertDataset has no option {name!r}: {listed}")
        given = cast(Mapping[str, Option], options)
        words = [word for name, value in given.items() for word in _words(name, value)]
        try:
            flags, _ = parse_flags("convert", words)
            self._config = check_flags(flags)
        except UsageError as error:
            raise ValueError(own_words(str(error))) from error

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return build(begin.pipeline, self._config)


def _words(name: str, value: Option) -> list[str]:
    """The command-line words for an option."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, str | os.PathLike | int | float):
        return [f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]
    texts = [os.fspath(each) for each in value]
    is_repeated = OPTIONS[name].is_repeatable
    return [f"--{name}={text}" for text in (texts if is_repeated else [",".join(texts)])]
