"""The datasets of `--holdout`, none of whose images may be in the new dataset."""

from __future__ import annotations

import argparse

from pipeline.errors import UsageError, input_error
from pipeline.open_dataset import open_dataset
from transforms.core.duplicates.holdouts import Holdout
from transforms.core.features.feature_sources import Role, with_role
from transforms.core.index.record_index import RecordIndexError
from transforms.core.index.source_records import has_records
from transforms.core.planning.splits import is_split_name
from transforms.core.shown_text import first_line
from transforms.find_holdouts import checked_index, holdout_entries
from transforms.storage.files import is_same_path


def read_holdouts(flags: argparse.Namespace) -> tuple[Holdout, ...]:
    """The datasets, each checked by its first index.

    Raises:
        UsageError: a folder holds no dataset, or none that images can be compared with.
    """
    return tuple(dict.fromkeys(_holdout(value, flags) for value in flags.holdout or ()))


def folder_and_split(value: str) -> tuple[str, str]:
    """The folder and the split in a value of `--holdout`; the split is empty for all.

    >>> folder_and_split("gs://b/out:test"), folder_and_split("gs://b/out/")
    (('gs://b/out', 'test'), ('gs://b/out', ''))
    """
    folder, colon, split = value.rpartition(":")
    if not (colon and is_split_name(split)):
        folder, split = value, ""
    return folder.rstrip("/") or "/", split


def _holdout(value: str, flags: argparse.Namespace) -> Holdout:
    folder, split = folder_and_split(value)
    name = f"--holdout {value}"
    if is_same_path(folder, flags.output):
        raise UsageError(f"{name} is also --output: its images would equal themselves")
    try:
        manifest = open_dataset(folder)
    except UsageError as error:
        raise UsageError(f"--holdout: {error}") from error
    if split and split not in manifest["splits"]:
        has = ", ".join(manifest["splits"])
        raise UsageError(f"{name}: {folder} has no split {split!r}, but {has}")
    splits = manifest["splits"].values() if not split else [manifest["splits"][split]]
    records = sum(each["records"] for each in splits)
    entries = holdout_entries(manifest, split)
    if sum(entry["records"] for entry in entries) != records:
        raise UsageError(f"{name}: it has no index of its records: convert its images again")
    if not _has_images(manifest["options"], manifest["features"]):
        raise UsageError(f"{name}: its records are rows, not images")
    try:
        for entry in [entry for entry in entries if entry["records"]][:1]:
            checked_index(folder, entry)
    except RecordIndexError as error:
        raise UsageError(f"{name}: {first_line(error)}") from error
    except OSError as error:
        raise input_error(f"cannot read the index of {name}", error) from error
    has_sizes = not has_records(manifest)
    return Holdout(folder, split, manifest.get("digest", ""), records, has_sizes)


def _has_images(options: dict[str, object], features: list[dict[str, object]]) -> bool:
    roles = (Role.IMAGE, Role.PIXELS, Role.EMBEDDING)
    return options.get("key") != "row" and any(with_role(features, role) for role in roles)
