"""Checks flags and inputs before a job starts."""

from __future__ import annotations

import argparse
import hashlib
import os
import uuid
from collections.abc import Set
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from pipeline.open_dataset import has_manifest
from pipeline.options.option_table import OPTIONS
from pipeline.options.parser import is_given
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.image_flags import resolve, root_change
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import LabelsError, as_written, format_bytes
from transforms.core.option import check_combinations, renamed
from transforms.dataset.dataset_options import card_of
from transforms.dataset.image_statistics import strict_message
from transforms.dataset.manifest import ManifestError
from transforms.dataset.output_names import (
    CARD,
    CROISSANT,
    MANIFEST,
    PROBE,
    STAGING,
    ForeignNameError,
)
from transforms.examples.layouts import Role, is_layout_file
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.local_storage import free_bytes

# The least part of the images that a dataset has, unless it fails.
_AT_LEAST = 0.8


def check_flags(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and inputs into a configuration.

    Args:
        flags: the result of `parse_flags`.

    Raises:
        UsageError: something is missing, unreadable, ambiguous or in the way.
    """
    _check_alone(flags)
    with refusing(LabelsError):
        config = resolve(flags)
        config.shard_plan.check_file_name()
    if config.checks.strict and config.warnings:
        raise UsageError(strict_message(config.warnings))
    _check_output(flags, config)
    return config


def _check_alone(flags: argparse.Namespace) -> None:
    """Refuses flags that are wrong whatever the inputs are, before any of these is listed.

    Raises:
        UsageError: a path cannot be used, an option conflicts with another, or needs one that is
            missing.
    """
    for name, option in OPTIONS.items():
        value = getattr(flags, name)
        # A configuration file may list the names of classes, instead of naming a file of them, and
        # keys may have been read from standard input.
        paths = value or () if option.is_repeatable else [value] * isinstance(value, str)
        for path in paths if option.is_path else ():
            check_path(f"--{name}", path)
    with refusing(ValueError):
        check_combinations(OPTIONS, vars(flags))
    if storage_of(flags.output).has_folders and os.path.isfile(flags.output):
        raise UsageError(f"--output {flags.output} is a file: give a folder")
    if flags.images and flags.label_from not in (None, "csv"):
        for name in ("labels", "label_key"):
            if is_given(flags, name):
                raise UsageError(f"--{name} cannot be used with --label_from {flags.label_from}")


def _check_output(flags: argparse.Namespace, config: ConvertConfig) -> None:
    output = config.folder.output
    former, ours = _read_former(output)
    for name in () if config.card.name is None else (CARD, CROISSANT):
        # A user may have written it.
        if name not in ours and storage_of(output).exists(join(output, name)):
            raise UsageError(
                f"--output {output} holds a {name} that no run wrote, and --name would replace it: "
                "move it to another folder, or leave --name out"
            )
    if former is None:
        with trying(f"read --output {output}"):
            other = storage_of(output).find_foreign(output)
        if other is not None:
            raise UsageError(
                f"--output {output} holds something else ({other!r}): give an empty or new folder"
            )
        _check_room(config)
    elif not config.folder.overwrite:
        _check_same_options(config, former)
    elif change := root_change(flags, config, former["root"]):
        raise UsageError(f"--output {output} holds a dataset with {change}")


def check_former(config: ConvertConfig) -> bool:
    """Whether the output folder holds a finished dataset that must not be replaced.

    Raises:
        UsageError: it was made with other options.
    """
    if config.folder.overwrite:
        return False
    former, _ = _read_former(config.folder.output)
    if former is not None:
        _check_same_options(config, former)
    return former is not None


def _read_former(output: str) -> tuple[dict[str, Any] | None, Set[str]]:
    """The manifest in a folder, and the files that earlier runs wrote into it."""
    # It needs NumPy, which most refusals do without.
    from transforms.records.existing_shards import check_output

    with trying(f"read --output {output}"):
        try:
            former = read_manifest(join(output, MANIFEST))
            return former, check_output(output, former, ()).names
        except (ManifestError, ForeignNameError) as error:
            raise UsageError(f"{error}; or choose another --output") from error


def _check_same_options(config: ConvertConfig, former: dict[str, Any]) -> None:
    was, now = map(renamed, (former["options"], config.options))
    is_same = former["options_digest"] == config.dataset.digest
    if is_same and card_of(was) == card_of(now):
        return
    changed = [
        f"--{name} is {as_written(now.get(name))}, was {as_written(was.get(name))}"
        for name in sorted({*was, *now})
        if now.get(name) != was.get(name)
    ]
    is_own = is_layout_file(config.layout.layout)
    other = f"--layout {config.layout.layout} has changed" if is_own else "another format"
    names = [[each["name"] for each in former["features"]], [each.name for each in config.features]]
    if not is_own and names[0] != names[1]:
        other = f"its features are {', '.join(names[0])}"
    raise UsageError(
        f"--output {config.folder.output} holds a dataset made with other options: "
        f"{'; '.join(changed) or other}. Use --overwrite or another --output"
    )


def check_writable(config: ConvertConfig) -> None:
    """Writes and removes a file in every folder that the run writes to.

    Raises:
        UsageError: one cannot be written to.
    """
    output, quarantine = config.folder.output, config.checks.quarantine
    if not has_manifest(output):
        _probe("--output", output, join(output, STAGING))
    if quarantine is not None:
        _probe("--quarantine", quarantine, quarantine, owner=output)


def _check_room(config: ConvertConfig) -> None:
    """Refuses a local folder whose disk certainly cannot hold the images."""
    output = config.folder.output
    storage = storage_of(output)
    others = (config.bases, config.keys, config.held_out, config.checks.drops_duplicates)
    stores_files = any(feature.role is Role.IMAGE for feature in config.features)
    are_stored = config.pixels.changes_nothing and stores_files
    # Fewer images are written if some are left out, and shards of an earlier attempt are kept.
    if storage.is_remote or any(others) or not are_stored or storage.exists(join(output, STAGING)):
        return
    needed, free = config.sampled.bytes, free_bytes(output)
    if needed * _AT_LEAST > free:
        raise UsageError(
            f"--output {output}: the images have at least {format_bytes(needed)}, but its disk has "
            f"{format_bytes(free)} free: make room, or give another folder"
        )


def _probe(flag: str, folder: str, inner: str, *, owner: str = "") -> None:
    """Writes and removes a file.

    Args:
        flag: the flag that names the folder.
        folder: the folder as the user gave it.
        inner: the folder to write to.
        owner: the run's output, if files that a killed run leaves in `inner` are not removed by the
            next one: then it leaves what the next one writes and removes again.
    """
    # A unique name: a user's folder may hold a file called probe.
    digest = hashlib.blake2b(owner.encode(), digest_size=16).hexdigest()
    probe = join(inner, f"{PROBE}.{digest if owner else uuid.uuid4().hex}")
    with trying(f"write to {flag} {folder}"):
        storage = storage_of(folder)
        storage.make_directory(inner)
        storage.write_whole(probe, b"", is_synced=False)
        storage.remove(probe)
