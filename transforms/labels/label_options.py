"""The options of images and labels, of splits and of shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.core.option import (
    Conflict,
    Group,
    Need,
    as_it_is,
    at_least_one,
    if_any,
    one_of,
    only,
    option,
    read_size,
    some_text,
    text_of,
    utf8_text,
)
from transforms.labels.csv_tables import parse_delimiter
from transforms.labels.keys import KEY_KINDS, record_features
from transforms.labels.label_rules import parse_label_regex
from transforms.labels.shards import (
    DEFAULT_SHARD_SIZE,
    MAX_SHARDS,
    SMALLEST_SHARD,
    SplitAssigner,
    Splits,
    parse_splits,
)

LABELS = Need("--labels CSV")

# A pattern of values in parameters of a template.
_SHARE = "[A-Za-z][A-Za-z0-9_]*=[0-9.]+%?"

Shares = tuple[tuple[str, float], ...]
"""The name and the share of each split."""


_NO_LABELS = Conflict("label_from", ("none",), "there are no labels")


def _column(**declaration: Any) -> Any:
    """An option that names a column of the label files."""
    return option(
        metavar="COL",
        needs=(LABELS,),
        regex="^.+$",
        python="str | int",
        **declaration,
    )


_LABEL_SOURCES = ("csv", "directory", "regex:EXPR", "webdataset", "records", "none")


def _label_source(text: str) -> str:
    """A source of labels, of which the expression of `regex` is valid.

    Raises:
        ValueError: it is none, its expression cannot find labels, or is not valid UTF-8.
    """
    source = one_of(_LABEL_SOURCES)(text)
    if expression := text_of(source):
        parse_label_regex(utf8_text(expression))
    return source


def recorded_split(split_by: str) -> str:
    """The source of splits, in the word that a dataset records.

    >>> recorded_split("column:set"), recorded_split("folder"), recorded_split("hash")
    ('csv', 'directory', 'hash')
    """
    kind = split_by.partition(":")[0]
    return {"column": "csv", "folder": "directory"}.get(kind, kind)


@dataclasses.dataclass(frozen=True)
class InputOptions(Group, title="images and labels", of_images=True, recorded=as_it_is):
    """Which images and labels are read, and how they are joined."""

    images: Sequence[str] | None = option(
        metavar="FOLDER|GLOB|DATASET",
        is_usual=True,
        help="folder, zip, tar or glob of images, also of files in archives "
        "('photos.zip!/**/*.jpg'), or a dataset or TFRecord files, whose records are images; "
        "repeatable; if omitted, the CSV lists the images",
        is_repeatable=True,
        is_path=True,
        template_help="one image glob, in which ** is any depth of folders; if omitted, the CSV "
        "lists the images",
        of_images=False,
        recorded=None,
    )
    record_features: Mapping[str, str] | None = option(
        metavar="image=NAME,...",
        parse=lambda text: record_features(utf8_text(text)),
        help="columns of Parquet, or features of TFRecord files of other programs, of image, label "
        "and key; key= for file and number, label= for none",
        regex="^(image|label|key)=[^,]*(,(image|label|key)=[^,]*)*$",
        recorded=if_any,
    )
    masks: Sequence[str] | None = option(
        metavar="GLOB",
        help="glob of masks, one for each image, joined by --key: 'masks/*_mask.png' finds "
        "1_mask.png for 1.jpg; repeatable",
        is_repeatable=True,
        is_path=True,
        template_help="one glob of masks, joined by --key",
        recorded=None,
    )
    labels: str | None = option(
        aliases=("label_file",),
        metavar="CSV",
        is_usual=True,
        help="labels, a path or a glob: CSV, Parquet, JSON Lines, or boxes of COCO, Pascal VOC or "
        "YOLO; text may be compressed (.gz)",
        is_path=True,
        of_images=False,
        recorded=None,
    )
    label_from: str | None = option(
        choices=_LABEL_SOURCES,
        parse=_label_source,
        is_usual=True,
        help="source of labels; if omitted: csv with --labels, records of datasets, webdataset if "
        "archives hold labels, else directory if there are folders; EXPR has the label in a path "
        "as its group 'label', or only group",
        needs=(LABELS._replace(values=("csv",)), Need("--label_from regex:EXPR", ("regex",))),
        recorded_as=("label_from", "label_regex"),
        regex="^(csv|directory|regex:.*[(].*[)].*|webdataset|records|none)$",
    )
    label_key: str | None = _column(
        help="column that identifies the image: its name, or 1, 2, ...",
        of_images=False,
    )
    label_column: str | None = _column(
        help="column that holds the label: its name, or 1, 2, ...",
        conflicts=(
            Conflict("label_from", ("directory", "regex", "webdataset", "records", "none")),
        ),
    )
    label_separator: str | None = option(
        metavar="TEXT",
        parse=some_text,
        help="separates several labels in one cell, such as | or ' '",
        regex="^.+$",
    )
    label_kind: str = option(
        "auto",
        choices=("auto", "integer", "text"),
        help="type of the labels; auto: integers if all of them are",
        conflicts=(_NO_LABELS,),
    )
    dense_labels: bool = option(
        is_switch=True,
        help="number integer labels from 0 without gaps",
        conflicts=(_NO_LABELS, Conflict("label_kind", ("text",), "its class ids have no gaps")),
    )
    key: str | None = option(
        choices=KEY_KINDS,
        help="how CSV rows identify images: stem, name, relative path or URI",
    )
    root: str | None = option(
        metavar="DIR",
        help="folder that record paths and keys are relative to; if omitted, the common folder "
        "of --images",
        is_path=True,
        of_images=False,
        recorded=None,
    )
    keys: str | None = option(
        metavar="FILE",
        help="keep only images with these keys, one per line; - for standard input",
        is_path=True,
        template_help="keep only images with these keys, one per line",
        recorded=None,
    )
    reuse: Sequence[str] | None = option(
        metavar="DIR",
        help="take unchanged images from the records of this dataset; repeatable",
        is_repeatable=True,
        is_path=True,
        recorded=None,
    )
    key_cells: str = option(
        "auto",
        choices=("auto", "as_is"),
        help="how rows spell keys; auto: also with backslashes, or relative to another folder",
        needs=(LABELS,),
    )
    csv_delimiter: str | None = option(
        metavar="CHAR",
        parse=parse_delimiter,
        help="separator of cells, such as ; or tab; if omitted, inferred from the first line of "
        "each file",
        needs=(LABELS,),
        regex='^([^A-Za-z0-9"]|tab|space|comma|semicolon)$',
        of_images=False,
    )
    csv_encoding: str = option(
        "utf-8",
        metavar="ENC",
        help="text encoding of the label file, such as cp949 or utf-16",
        needs=(LABELS,),
        regex="^[A-Za-z0-9_.-]+$",
        of_images=False,
    )
    allow_outside: bool = option(
        is_switch=True,
        help="let rows list local files anywhere, not only where the CSV and its first images are",
        is_parameter=False,
        of_images=False,
        recorded=None,
    )
    class_names: Any = option(
        metavar="FILE|DATASET",
        help="class names in the order of their ids, one per line; or the folder of a dataset, "
        "whose ids are kept",
        is_path=True,
        conflicts=(_NO_LABELS,),
        python="PathText | Sequence[str]",
    )
    new_classes: str | None = option(
        choices=("append", "refuse"),
        help="labels that --class_names lacks: new classes after the known ones (append), or an "
        "error (refuse); if omitted, their images are rejected",
        needs=(Need("--class_names FILE|DATASET"),),
        recorded=only("append"),
    )


def _seed(text: str) -> int:
    """A seed, an integer of 128 bits.

    Raises:
        ValueError: it is none.
    """
    try:
        seed = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if not -(2**127) <= seed < 2**127:
        raise ValueError(f"{text} takes more than 128 bits")
    return seed


@dataclasses.dataclass(frozen=True)
class SplitOptions(Group, title="splits", recorded=as_it_is):
    """How images are divided into splits, and their order."""

    splits: Shares = option(
        "train=1",
        metavar="NAME=SHARE,...",
        parse=parse_splits,
        is_usual=True,
        help="splits and their shares, assigned by a hash of the key",
        regex=f"^{_SHARE}(,{_SHARE})*$",
        recorded=dict,
        python="Several",
    )
    group_by: str | None = _column(
        help="column whose equal cells stay together in one split",
        conflicts=(Conflict("split_by", ("folder",)),),
    )
    split_by: str | None = option(
        choices=("hash", "folder", "column:X", "records"),
        help="source of the split; X is a name or 1, 2, ...; if omitted: records of datasets "
        "without --splits, else hash",
        needs=(LABELS._replace(values=("column",)),),
        recorded_as=("split_from", "split_column"),
        regex="^(hash|folder|column(:.+)?|records)$",
    )
    stratify: str | None = option(
        choices=("label",),
        help="give each class its share of each split, within one image",
        of_images=True,
        needs=(Need("--splits NAME=SHARE,..."),),
        conflicts=(
            _NO_LABELS,
            Conflict("split_by", ("folder", "column", "records"), "the inputs name the splits"),
        ),
        recorded=if_any,
    )
    seed: int = option(
        0,
        metavar="N",
        parse=_seed,
        help="seed for record order and split assignment",
        regex="^-?[0-9]{1,38}$",
    )

    @property
    def by_class(self) -> bool:
        """Whether each class gets its share of each split."""
        return self.stratify is not None

    @property
    def by_group(self) -> bool:
        """Whether the images of a group stay together."""
        return self.group_by is not None

    def assigner(self, split_from: str = "hash") -> SplitAssigner:
        """Assigns every image its split and its position; `split_from` is the source of splits."""
        return SplitAssigner(
            Splits(self.splits),
            seed=self.seed,
            split_from=split_from,
            by_group=self.by_group,
            keeps_group=self.by_group and self.by_class,
        )


def _shard_number(text: str) -> int:
    """A number of shards.

    Raises:
        ValueError: it is not one, or has too many digits for the file names.
    """
    if at_least_one(text) > MAX_SHARDS:
        raise ValueError(f"{text} is more than {MAX_SHARDS}, the maximum that file names allow")
    return int(text)


def parse_shard_size(text: str) -> int:
    """The size of a shard, at least 1 MB, with its unit.

    Raises:
        ValueError: it is not valid; the message suggests the size that was probably meant.

    >>> parse_shard_size("64MB")
    64000000
    """
    size, number, unit = read_size(text)
    if not unit:
        meant = f"{number}MB" if size < SMALLEST_SHARD else f"{size / 10**6:.15g}MB"
        raise ValueError(f"{text!r} has no unit: did you mean {meant}?")
    if size < SMALLEST_SHARD:
        meant = f"{number}MB" if float(number) >= 1 else "1MB"
        raise ValueError(f"{text!r} is less than 1MB: did you mean {meant}?")
    return size


_PER_IMAGE = Conflict("files", ("per_image",), "every image is a file of its own")


@dataclasses.dataclass(frozen=True)
class ShardOptions(Group, title="shards", recorded=as_it_is, conflicts=(_PER_IMAGE,)):
    """How a split is divided into shards."""

    num_shards: int | None = option(
        metavar="N",
        parse=_shard_number,
        help="number of shards of each split",
        conflicts=(Conflict("shard_size", why="give one of them"), _PER_IMAGE),
        regex="^[1-9][0-9]{0,4}$",
    )
    shard_size: int | None = option(
        metavar="SIZE",
        parse=parse_shard_size,
        help="approximate size of a shard, at least 1MB; if omitted: 150MB",
        regex="^([1-9][0-9]*([.][0-9]+)?[MG]i?B|[1-9][0-9]{3,}Ki?B)$",
        recorded=lambda size: size or DEFAULT_SHARD_SIZE,
        unit="B",
    )
    shard_by: str = option(
        "hash",
        choices=("hash", "records"),
        help="shards are equal ranges of the hash of the key, or have equal numbers of records",
        recorded=only("records"),
    )

    @property
    def size(self) -> int:
        """Bytes that a shard should hold without a number of shards."""
        return self.shard_size or DEFAULT_SHARD_SIZE
