"""Where splits come from, and all decisions that were inferred from the inputs, for "Decided"."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from collections import defaultdict
from collections.abc import Iterable

from pipeline.errors import UsageError
from pipeline.options.parser import is_given
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.samples import ImageSample, LabelFiles, Sample
from transforms.core.messages import Decision, given
from transforms.dataset.image_statistics import DatasetWarning
from transforms.labels.csv_tables import DELIMITERS
from transforms.labels.keys import is_inside, listed_path
from transforms.labels.label_options import recorded_split
from transforms.labels.label_rows import Column, cell_at
from transforms.labels.label_rules import split_folder
from transforms.labels.shards import is_split_name, split_text
from transforms.records.stored_images import RECORDS

_AUTOML = "rows split,image_uri,label, the form of AutoML"


def decide(
    flags: argparse.Namespace,
    config: ConvertConfig,
    images: ImageSample,
    layout: Iterable[Decision],
) -> tuple[Decision, ...]:
    """All decisions that are known before a job starts, in the order in which they are printed.

    Args:
        flags: as the user gave them.
        config: the resolved flags and inputs.
        images: the first ones.
        layout: the decisions about boxes and column types.
    """
    columns, splits, root = (each(flags, config) for each in (_columns, _splits, _root))
    if config.of_rows:
        return (*columns, *layout, *splits, *root)
    labels, key = _label_source(flags, config), _key(flags, config)
    return (labels, *columns, *_extensions(images), *layout, key, *splits, *root)


def _label_source(flags: argparse.Namespace, config: ConvertConfig) -> Decision:
    because = {
        "csv": "--labels is given",
        "directory": "the images are in several folders",
        "records": "--images names datasets with labels"
        if config.sources
        else "the Parquet files have labels",
        "none": f"{config.partners[0].title} is given"
        if config.partners
        else "--images names datasets without labels",
        "webdataset": "the archives hold labels next to the images",
    }
    source = config.label_from
    return _of_flag(flags, "label_from", "labels from", source, because.get(source, ""))


def _of_flag(flags: argparse.Namespace, name: str, what: str, value: str, because: str) -> Decision:
    """What a flag decided, or else something else."""
    return Decision(what, value, because if getattr(flags, name) is None else "given", f"--{name}")


def _columns(flags: argparse.Namespace, config: ConvertConfig) -> list[Decision]:
    columns = config.columns
    if columns is None:
        return []
    found = []
    if columns.delimiter != "," or flags.csv_delimiter is not None:
        name = DELIMITERS.get(columns.delimiter, repr(columns.delimiter))
        found.append(Decision("separator", name, columns.because_delimiter, "--csv_delimiter"))
    key, label = columns.key, columns.label
    if key.at < 0:
        because = "no column is given"
        return [*found, Decision("key column", "file and line", because, "--label_key")]
    found.append(_column("key column", key, flags.label_key, "--label_key"))
    if flags.key_cells != "auto":
        found.append(given("key cells", "as they are", "--key_cells"))
    elif str(columns.key_cells):
        because = "the first rows then name images"
        found.append(Decision("key cells", str(columns.key_cells), because, "--key_cells"))
    if label.at >= 0:
        found.append(_column("label column", label, flags.label_column, "--label_column"))
    return found


def _column(what: str, column: Column, wanted: str | None, flag: str) -> Decision:
    # Rows in the AutoML form set flags that the user did not give.
    because = _AUTOML if column.because == "given" and wanted is None else column.because
    return Decision(what, repr(column.name), because, flag)


def _key(flags: argparse.Namespace, config: ConvertConfig) -> Decision:
    because = "default with --labels and --images"
    if config.sources:
        because = "records keep their keys"
    elif config.partners and not (config.csv_paths and config.images):
        because = f"default with {config.partners[0].title}"
    elif not config.csv_paths:
        because = "default without --labels"
    elif not config.images:
        because = "default without --images"
    return _of_flag(flags, "key", "key", config.key, because)


def _extensions(sample: ImageSample) -> list[Decision]:
    """Reports that an extension in a glob matches in any case, if that makes a difference."""
    if not sample.others:
        return []
    count = f"{sample.others} of {'the first ' if not sample.is_all else ''}{len(sample.uris)}"
    because = f"{count} images have it in another case than --images; write *.jp[g] for one case"
    return [Decision("extensions", "in any case", because, "--images")]


def _splits(flags: argparse.Namespace, config: ConvertConfig) -> list[Decision]:
    what, columns = "splits from", config.columns
    if config.split_from == "directory":
        return [given(what, "first folder", "--split_by")]
    group = columns.group.name if columns is not None else ""
    by_hash = f"hash of column {group!r}" if group else "hash of the key"
    by_hash += ", by class" if config.splits.by_class else ""
    shares = "shares " + ", ".join(f"{name}={share:.6g}" for name, share in config.splits.splits)
    if config.split_from == "records":
        other = Decision("other images", by_hash, shares, "--splits")
        kept = Decision(what, "records", "the datasets in --images have splits", "--splits")
        return [kept, other] if config.globs else [kept]
    if config.split_from == "hash" or columns is None:
        return [Decision(what, by_hash, shares, "--splits")]
    value, flag = f"column {columns.split.name!r}", "--split_by"
    because = "a usual name for the split" if columns.has_header else _AUTOML
    is_given = flags.split_by is not None
    return [
        given(what, value, flag) if is_given else Decision(what, value, because, flag),
        Decision("empty splits", by_hash, shares, "--splits"),
    ]


def _root(flags: argparse.Namespace, config: ConvertConfig) -> list[Decision]:
    if flags.root is None and config.root == RECORDS:
        return [Decision("root", "none", "--images names only datasets", "--images")]
    because = "the folder that all of --images share" if config.images else "the folder of --labels"
    return [_of_flag(flags, "root", "root", config.root or ".", because)]


# The split flags: the source of the splits, and the columns of the CSV that hold them.


def split_source(sample: Sample, label_from: str) -> str:
    """The source of the splits: `hash`, `csv`, `directory` or `records`.

    Raises:
        UsageError: no folder names a split, or there are no records that could.
    """
    flags, has_records = sample.flags, bool(sample.sources)
    if flags.split_by == "records" and not has_records:
        raise UsageError("--split_by records needs the folder of a dataset in --images")
    keeps = has_records and not is_given(flags, "splits") and flags.group_by is None
    otherwise = "records" if keeps else "hash"
    source = recorded_split(flags.split_by or otherwise)
    if source == "directory":
        check_folders(sample.images, label_from)
    return source


def check_folders(sample: ImageSample, label_from: str) -> None:
    """Checks that the first folder of a path can name a split.

    Raises:
        UsageError: no image is in such a folder, or the folders are the classes.
    """
    paths = [listed_path(uri, sample.root) for uri in sample.uris]
    below = (
        f"; below the common folder {sample.root or '.'!r} of --images, an image is at "
        f"{paths[0]!r}: move them, or give --splits NAME=SHARE,... instead"
    )
    if not any(is_split_name(split_folder(path) or "train") for path in paths):
        raise UsageError(f"--split_by folder needs a folder for each split (train/, test/){below}")
    if label_from == "directory" and not any(
        os.path.dirname(path.partition("/")[2]) for path in paths
    ):
        raise UsageError(
            "--split_by folder needs the folders of the splits above those of the classes, "
            f"as in train/cat/1.jpg{below}"
        )


# Finds split flags without effect, and splits in the inputs that no flag uses.

_SOURCES = {"csv": "a column", "directory": "folders", "records": "records"}

SPLIT_WORDS = frozenset(
    "train training val valid validation dev test testing eval evaluation holdout".split()
)
"""Common names of splits, in lower case."""


def check_splits(
    flags: argparse.Namespace,
    sample: ImageSample,
    found: LabelFiles | None,
    config: ConvertConfig,
) -> tuple[DatasetWarning, ...]:
    """Checks that all split flags and splits in the inputs are used.

    Args:
        flags: as the user gave them.
        sample: the first images; empty for rows without images.
        found: the label files, if there are any.
        config: of the run, which says where splits and labels come from.

    Returns:
        a warning for each column, and for folders, with unused names of splits.

    Raises:
        UsageError: `--splits` is given but has no effect, or `--stratify` cannot be used.
    """
    split_from = config.split_from
    if is_given(flags, "splits"):
        _check_shares_used(flags, sample, found, split_from)
    if flags.stratify:
        _check_stratified(flags, config)
    if flags.split_by == "hash" or split_from not in ("hash", "directory"):
        return ()
    unused = _unused_columns(found) if found and split_from == "hash" else []
    unused += _unused_folders(sample, config)
    return tuple(DatasetWarning("splits_unused", text) for text in unused)


def _check_stratified(flags: argparse.Namespace, config: ConvertConfig) -> None:
    if config.split_from != "hash":
        source = _SOURCES[config.split_from]
        raise UsageError(
            f"--stratify {flags.stratify} cannot be used with splits from {source}: add "
            "--split_by hash, or leave out --stratify"
        )
    has_column = config.columns is None or config.columns.label.at >= 0
    if config.label_from == "none" or (config.label_from == "csv" and not has_column):
        raise UsageError(
            f"--stratify {flags.stratify} needs labels, and there are none: add --label_column or "
            "--label_from, or leave out --stratify"
        )


def _check_shares_used(
    flags: argparse.Namespace, sample: ImageSample, found: LabelFiles | None, split_from: str
) -> None:
    if split_from == "directory":
        folders = {split_folder(listed_path(uri, sample.root)) for uri in sample.uris}
        if "" not in folders:
            raise UsageError(
                "--splits cannot be used with --split_by folder: the folders decide the split "
                "of every image; leave one of them out"
            )
    if split_from == "csv" and found is not None:
        columns = found.columns
        said = {split_text(cell_at(row, columns.split.at)) for row in found.first_rows}
        if flags.split_by != "column" and said and "" not in said:
            raise UsageError(
                f"--splits cannot be used with the column {columns.split.name!r}, which decides "
                "the split of every row: leave out --splits, or ignore it with --split_by hash"
            )


def _unused_columns(found: LabelFiles) -> list[str]:
    columns = found.columns
    used = {columns.key.at, columns.label.at, columns.group.at}
    texts = []
    for at in range(columns.width):
        said = {cell_at(row, at).strip().casefold() for row in found.first_rows}
        said -= {"", "unassigned"}
        if at not in used and said and said <= SPLIT_WORDS:
            name = found.first.rows[0][at].strip() if columns.has_header else str(at + 1)
            texts.append(
                f"the column {name!r} looks like splits ({', '.join(sorted(said))}) and is not "
                f"used: --split_by {shlex.quote(f'column:{name}')} uses it, "
                "--split_by hash ignores it"
            )
    return texts


def _unused_folders(sample: ImageSample, config: ConvertConfig) -> list[str]:
    is_hash = config.split_from == "hash"
    inside: dict[str, set[str]] = defaultdict(set)
    for uri in sample.uris:
        first, second, *_ = (*listed_path(uri, sample.root).split("/")[:-1], "", "")
        for above, folder in (("", first), (first, second)):
            if folder.casefold() in SPLIT_WORDS and (above or is_hash):
                inside[above].add(folder)
    found = sorted(above for above, said in inside.items() if len(said) > 1)
    if not found:
        return []
    root = os.path.join(sample.root, found[0]) if found[0] else sample.root
    where, flag = (f" in {root!r}", f"--images {shlex.quote(root)} ") if found[0] else ("", "")
    flag += "--split_by folder"
    below = [uri for uri in sample.uris if not found[0] or is_inside(uri, root)]
    try:
        check_folders(dataclasses.replace(sample, uris=below, root=root), config.label_from)
    except UsageError:
        # The images have no other folder, so these folders were taken for classes.
        flag += " --label_from none"
    if found[0] and found[1:]:
        flag = "move them above these folders, as in train/cat/1.jpg, so that --split_by folder"
        where += f" and {len(found) - 1} more"
    text = f"the folders {', '.join(sorted(inside[found[0]]))}{where} look like splits and are not "
    text += f"used: {flag} uses them"
    return [f"{text}, --split_by hash confirms that they are not splits" if is_hash else text]
