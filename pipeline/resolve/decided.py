"""The decisions that were inferred from the inputs, for the block "Decided"."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.samples import ImageSample
from transforms.core.messages import Decision, given
from transforms.labels.csv_tables import DELIMITERS
from transforms.records.stored_images import RECORDS

_AUTOML = "rows split,image_uri,label, the form of AutoML"


def decide(
    flags: argparse.Namespace,
    config: ConvertConfig,
    *,
    boxes: Iterable[Decision] = (),
    types: Iterable[Decision] = (),
) -> tuple[Decision, ...]:
    """All decisions that are known before a job starts, in the order in which they are printed.

    Args:
        flags: as the user gave them.
        config: the resolved flags and inputs.
        boxes: the decisions about boxes.
        types: the decisions about column types.
    """
    if config.of_rows:
        columns = _columns(flags, config)
        return (*columns, *types, *_splits(flags, config), _root(flags, config))
    return (
        _label_source(flags, config),
        *_columns(flags, config),
        *boxes,
        *types,
        _key(flags, config),
        *_splits(flags, config),
        _root(flags, config),
    )


def _label_source(flags: argparse.Namespace, config: ConvertConfig) -> Decision:
    because = {
        "csv": "--labels is given",
        "regex": "--label_regex is given",
        "directory": "the images are in several folders",
        "records": "--images names datasets with labels",
        "none": f"{config.partners[0].title} is given"
        if config.partners
        else "--images names datasets without labels",
        "webdataset": "the archives hold labels next to the images",
    }
    source = config.label_from
    return _of_flag(flags, "label_from", "labels from", source, because.get(source, ""))


def _of_flag(flags: argparse.Namespace, name: str, what: str, value: str, because: str) -> Decision:
    """What a flag decided, or else something else."""
    is_given = getattr(flags, name) is not None
    return Decision(what, value, "given" if is_given else because, f"--{name}")


def _columns(flags: argparse.Namespace, config: ConvertConfig) -> list[Decision]:
    columns = config.columns
    if columns is None:
        return []
    found = []
    if columns.delimiter != "," or flags.csv_delimiter is not None:
        name = DELIMITERS.get(columns.delimiter, repr(columns.delimiter))
        found.append(Decision("separator", name, columns.because_delimiter, "--csv_delimiter"))
    # Rows in the AutoML form set flags that the user did not give.
    because_key, because_label = (
        _AUTOML if why == "given" and flag is None else why
        for why, flag in zip(columns.because, (flags.label_key, flags.label_column), strict=True)
    )
    if not columns.key_name:
        because = "no column is given"
        return [*found, Decision("key column", "file and line", because, "--label_key")]
    name = repr(columns.key_name)
    found.append(Decision("key column", name, because_key or "given", "--label_key"))
    if flags.key_cells != "auto":
        found.append(given("key cells", "as they are", "--key_cells"))
    elif str(columns.key_cells):
        because = "the first rows then name images"
        found.append(Decision("key cells", str(columns.key_cells), because, "--key_cells"))
    if columns.label_name is not None:
        name = repr(columns.label_name)
        found.append(Decision("label column", name, because_label, "--label_column"))
    return found


def _key(flags: argparse.Namespace, config: ConvertConfig) -> Decision:
    because = "default with --labels and --images"
    if config.sources is not None:
        because = "records keep their keys"
    elif config.partners and not (config.csv_paths and config.images):
        because = f"default with {config.partners[0].title}"
    elif not config.csv_paths:
        because = "default without --labels"
    elif not config.images:
        because = "default without --images"
    return _of_flag(flags, "key", "key", config.key, because)


def extensions(sample: ImageSample) -> list[Decision]:
    """Reports that an extension in a glob matches in any case, if that makes a difference."""
    if not sample.others:
        return []
    count = f"{sample.others} of {'the first ' if not sample.is_all else ''}{len(sample.uris)}"
    because = f"{count} images have it in another case than --images; write *.jp[g] for one case"
    return [Decision("extensions", "in any case", because, "--images")]


def _splits(flags: argparse.Namespace, config: ConvertConfig) -> list[Decision]:
    what, columns = "splits from", config.columns
    if config.split_from == "directory":
        return [given(what, "first folder", "--split_from")]
    group = columns.group_name if columns is not None else None
    by_hash = f"hash of column {group!r}" if group else "hash of the key"
    by_hash += ", by class" if config.splits.by_class else ""
    shares = "shares " + ", ".join(f"{name}={share:.6g}" for name, share in config.splits.splits)
    if config.split_from == "records":
        other = Decision("other images", by_hash, shares, "--splits")
        kept = Decision(what, "records", "the datasets in --images have splits", "--splits")
        return [kept, other] if config.globs else [kept]
    if config.split_from == "hash" or columns is None:
        return [Decision(what, by_hash, shares, "--splits")]
    value, flag = f"column {columns.split_name!r}", "--split_column"
    because = "a usual name for the split" if columns.has_header else _AUTOML
    is_given = flags.split_from is not None or flags.split_column is not None
    return [
        given(what, value, flag) if is_given else Decision(what, value, because, flag),
        Decision("empty splits", by_hash, shares, "--splits"),
    ]


def _root(flags: argparse.Namespace, config: ConvertConfig) -> Decision:
    if flags.root is None and config.root == RECORDS:
        return Decision("root", "none", "--images names only datasets", "--images")
    because = "the folder that all of --images share" if config.images else "the folder of --labels"
    return _of_flag(flags, "root", "root", config.root or ".", because)
