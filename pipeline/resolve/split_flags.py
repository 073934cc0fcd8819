"""The split flags: the source of the splits, and the columns of the CSV that hold them."""

from __future__ import annotations

import argparse
import os

from pipeline.errors import UsageError
from pipeline.flags.options import is_given
from pipeline.inputs.image_samples import ImageSample
from transforms.core.labels.path_labels import split_folder
from transforms.core.planning.image_lists import listed_path
from transforms.core.planning.splits import is_split_name
from transforms.core.tables.csv_rows import CsvColumns, FirstRows
from transforms.core.tables.place_columns import with_place_columns


def split_source(
    flags: argparse.Namespace, sample: ImageSample, label_from: str, *, has_records: bool = False
) -> str:
    """The source of the splits: `hash`, `csv`, `directory` or `records`.

    Raises:
        UsageError: no folder names a split, or there are no records that could.
    """
    if flags.split_from == "records" and not has_records:
        raise UsageError("--split_from records needs the folder of a dataset in --images")
    keeps = has_records and not is_given(flags, "splits") and flags.group_by is None
    otherwise = "records" if keeps else "hash"
    source = flags.split_from or ("csv" if flags.split_column is not None else otherwise)
    if source == "directory":
        check_folders(sample, label_from)
    return str(source)


def check_folders(sample: ImageSample, label_from: str) -> None:
    """Checks that the first folder of a path can name a split.

    Raises:
        UsageError: no image is in such a folder, or the folders are the classes.
    """
    paths = [listed_path(uri, sample.root) for uri in sample.uris]
    below = f"below the common folder {sample.root or '.'!r}"
    if not any(is_split_name(split_folder(path) or "train") for path in paths):
        raise UsageError(
            "--split_from directory needs a folder for each split (train/, test/ ...) "
            f"{below} of --images, but an image is at {paths[0]!r}"
        )
    if label_from == "directory" and not any(
        os.path.dirname(path.partition("/")[2]) for path in paths
    ):
        raise UsageError(
            "--split_from directory needs the folders of the splits above those of the classes, "
            f"as in train/cat/1.jpg; {below} of --images, an image is at {paths[0]!r}"
        )


def add_place_columns(
    columns: CsvColumns, first: FirstRows, flags: argparse.Namespace, path: str
) -> CsvColumns:
    """Adds the columns of split and group, if flags name them; see `with_place_columns`."""
    return with_place_columns(
        columns,
        first,
        split_from=flags.split_from,
        split_column=flags.split_column,
        group_by=flags.group_by,
        path=path,
    )
