"""Flags of splits, and what splits warn of."""

from __future__ import annotations

import argparse
import os

from pipeline.errors import UsageError
from pipeline.options.parser import is_given
from pipeline.resolve.samples import ImageSample, LabelFiles, Sample
from transforms.dataset.image_statistics import DatasetWarning
from transforms.labels.image_names import listed_path
from transforms.labels.label_rules import split_folder
from transforms.labels.splits import is_split_name, split_text

# The split flags: the source of the splits, and the columns of the CSV that hold them.


def split_source(sample: Sample, label_from: str) -> str:
    """The source of the splits: `hash`, `csv`, `directory` or `records`.

    Raises:
        UsageError: no folder names a split, or there are no records that could.
    """
    flags, has_records = sample.flags, bool(sample.sources)
    if flags.split_from == "records" and not has_records:
        raise UsageError("--split_from records needs the folder of a dataset in --images")
    keeps = has_records and not is_given(flags, "splits") and flags.group_by is None
    otherwise = "records" if keeps else "hash"
    source = flags.split_from or ("csv" if flags.split_column is not None else otherwise)
    if source == "directory":
        check_folders(sample.images, label_from)
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


# Finds split flags without effect, and splits in the inputs that no flag uses.

_SOURCES = {"csv": "a column", "directory": "folders", "records": "records"}

# Common names of splits, in lower case.
_SPLIT_WORDS = frozenset(
    "train training val valid validation dev test testing eval evaluation holdout".split()
)


def check_splits(
    flags: argparse.Namespace,
    sample: ImageSample,
    found: LabelFiles | None,
    *,
    split_from: str,
    label_from: str,
) -> tuple[DatasetWarning, ...]:
    """Checks that all split flags and splits in the inputs are used.

    Args:
        flags: as the user gave them.
        sample: the first images; empty for rows without images.
        found: the label files, if there are any.
        split_from: the source of the split.
        label_from: where labels come from.

    Returns:
        a warning for each column, and for folders, with unused names of splits.

    Raises:
        UsageError: `--splits` is given but has no effect, or `--stratify` cannot be used.
    """
    if is_given(flags, "splits"):
        _check_shares_used(flags, sample, found, split_from)
    if flags.stratify:
        _check_stratified(flags, found, split_from, label_from)
    if flags.split_from == "hash" or split_from != "hash":
        return ()
    unused = [*(_unused_columns(found) if found else ()), *_unused_folders(sample, label_from)]
    return tuple(DatasetWarning("splits_unused", text) for text in unused)


def _check_stratified(
    flags: argparse.Namespace, found: LabelFiles | None, split_from: str, label_from: str
) -> None:
    if split_from != "hash":
        raise UsageError(
            f"--stratify {flags.stratify} cannot be used with splits from {_SOURCES[split_from]}: "
            "add --split_from hash, or leave out --stratify"
        )
    if label_from == "csv" and found is not None and found.columns.label is None:
        raise UsageError(
            f"--stratify {flags.stratify} needs labels, but no column of --labels {flags.labels} "
            "is read as labels: name one with --label_column, or leave out --stratify"
        )
    if label_from == "none":
        raise UsageError(
            f"--stratify {flags.stratify} needs labels, but the images have none: add --labels or "
            "--label_from, or leave out --stratify"
        )


def _check_shares_used(
    flags: argparse.Namespace, sample: ImageSample, found: LabelFiles | None, split_from: str
) -> None:
    if split_from == "directory":
        folders = {split_folder(listed_path(uri, sample.root)) for uri in sample.uris}
        if "" not in folders:
            raise UsageError(
                "--splits cannot be used with --split_from directory: the folders decide the split "
                "of every image; leave one of them out"
            )
    if split_from == "csv" and found is not None:
        columns = found.columns
        said = {split_text(_cell(row, columns.split or 0)) for row in found.first_rows}
        if flags.split_from != "csv" and said and "" not in said:
            other = (
                "or add --split_from hash to ignore the column"
                if flags.split_column is None
                else "or --split_column"
            )
            raise UsageError(
                f"--splits cannot be used with the column {columns.split_name!r}, which decides "
                f"the split of every row: leave out --splits, {other}"
            )


def _cell(row: tuple[str, ...], at: int) -> str:
    return row[at] if at < len(row) else ""


def _unused_columns(found: LabelFiles) -> list[str]:
    columns = found.columns
    used = {columns.key, columns.label, columns.group}
    texts = []
    for at in range(columns.width):
        said = {_cell(row, at).strip().casefold() for row in found.first_rows}
        said -= {"", "unassigned"}
        if at not in used and said and said <= _SPLIT_WORDS:
            name = found.first.rows[0][at].strip() if columns.has_header else str(at + 1)
            texts.append(
                f"the column {name!r} looks like splits ({_joined(said)}) and is not used: "
                f"--split_column {name!r} uses it, --split_from hash ignores it"
            )
    return texts


def _unused_folders(sample: ImageSample, label_from: str) -> list[str]:
    folders = {
        listed_path(uri, sample.root).partition("/")[0]
        for uri in sample.uris
        if "/" in listed_path(uri, sample.root)
    }
    said = {folder for folder in folders if folder.casefold() in _SPLIT_WORDS}
    if len(said) < 2:
        return []
    flag = "--split_from directory"
    try:
        check_folders(sample, label_from)
    except UsageError:
        # The images have no other folder, so these folders were taken for classes.
        flag += " --label_from none"
    return [
        f"the folders {_joined(said)} look like splits and are not used: {flag} uses them, "
        "--split_from hash confirms that they are not splits"
    ]


def _joined(names: set[str]) -> str:
    return ", ".join(sorted(names))
