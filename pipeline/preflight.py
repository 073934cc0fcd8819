"""Everything that can be wrong with flags and inputs, found before a job starts."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import uuid
from typing import Any

from pipeline.box_orientation import Locate
from pipeline.config import ConvertConfig, shared_fields
from pipeline.decided import decide, extensions
from pipeline.errors import UsageError, input_error
from pipeline.label_flags import (
    LabelFiles,
    check_kind_flags,
    check_label_kind,
    label_files,
    label_rows,
    label_source,
    read_classes,
)
from pipeline.layouts import read_layout
from pipeline.left_out import left_out
from pipeline.listing_flags import read_listing
from pipeline.model import check_model, check_model_flags
from pipeline.options import default_of
from pipeline.path_flags import check_path
from pipeline.root_flags import check_same_root, root_of
from pipeline.samples import ImageSample, list_inputs, plain_globs, sample_images
from pipeline.split_checks import check_splits
from pipeline.split_flags import split_source
from pipeline.table_flags import is_table, table_config
from transforms import files, gcs
from transforms.core.csv_lines import LabelsError
from transforms.core.csv_rows import CsvColumns, LabelRow
from transforms.core.dataset_warnings import strict_message
from transforms.core.globs import glob_regex
from transforms.core.keys import relative_path, row_key
from transforms.core.layouts import is_layout_file
from transforms.core.listed import listed_uri
from transforms.core.manifest import ManifestError
from transforms.core.output_names import MANIFEST, PROBE, ForeignNameError
from transforms.core.path_labels import PathRules
from transforms.core.pixel_options import DEFAULT_QUALITY, PixelOptions
from transforms.match import is_local
from transforms.staging import check_output


def check_flags(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and inputs into a configuration.

    Args:
        flags: what `parse_flags` gives.

    Raises:
        UsageError: when something is missing, unreadable, ambiguous or in the way.
    """
    _check_paths(flags)
    _check_files(flags)
    _check_listing(flags)
    if is_table(flags):
        try:
            config = table_config(flags)
            decided = decide(flags, config, types=config.decisions)
            config = dataclasses.replace(config, decisions=decided)
            _check_strict(config)
        except LabelsError as error:
            raise UsageError(str(error)) from error
        _check_output(flags, config)
        return config
    pixels = _pixel_options(flags)
    try:
        listing = None if flags.images else read_listing(flags)
    except LabelsError as error:
        raise UsageError(str(error)) from error
    given, flags = flags, listing.flags if listing else flags
    ignored, ignoring = left_out(flags)
    if listing:
        sample = listing.sample
    else:
        globs = plain_globs(flags.images, "--images")
        sample = sample_images(flags.images, root_of(flags, "--images", globs), ignored)
        flags = argparse.Namespace(**{**vars(flags), "images": globs})
    label_from = label_source(flags, sample)
    check_kind_flags(flags, label_from)
    split_from = split_source(flags, sample, label_from)
    layout = read_layout(flags, label_from, pixels)
    check_model_flags(flags, layout.features)
    key = flags.key or ("stem" if label_from == "csv" and not listing else "path")
    try:
        csv_paths: tuple[str, ...] = ()
        columns: CsvColumns | None = None
        found: LabelFiles | None = None
        if listing or label_from == "csv":
            found = listing.files if listing else label_files(flags, sample, key, layout)
            layout, columns = layout.asking(found.columns, found.first, found.paths[0])
            csv_paths = found.paths
            rows = label_rows(flags, csv_paths, columns)
            layout = layout.resolved(rows, csv_paths[0], _locate(flags, sample, key, csv_paths[0]))
            found = found._replace(columns=columns)
        class_names = read_classes(flags.class_names)
        rules = PathRules(label_from, flags.label_regex or "", split_from == "directory")
        check_label_kind(flags, sample, rules, found, layout.label_separator)
    except LabelsError as error:
        raise UsageError(str(error)) from error
    boxes = (*extensions(sample), *(layout.chosen.decisions if layout.chosen else ()))
    config = ConvertConfig(
        **shared_fields(flags),
        images=tuple(flags.images or ()),
        root=sample.root,
        label_from=label_from,
        csv_paths=csv_paths,
        columns=columns,
        key=key,
        class_names=class_names,
        quarantine=_quarantine(flags, sample),
        pixels=pixels,
        embedding=check_model(flags),
        layout_features=layout.features,
        boxes=layout.boxes,
        label_separator=layout.label_separator,
        label_regex=flags.label_regex or "",
        split_from=split_from,
        files=flags.files,
        dedupe=flags.dedupe,
        row_places=listing.places if listing else None,
        label_kind=flags.label_kind,
        dense_labels=flags.dense_labels,
    )
    first = found.first if found else None
    warnings = check_splits(
        given, sample, columns, first, split_from=split_from, label_from=label_from
    )
    decided = decide(given, config, boxes=boxes, types=layout.types)
    config = dataclasses.replace(
        config, decisions=(*decided, *ignoring), warnings=warnings, left_out=ignored
    )
    _check_strict(config)
    _check_output(flags, config)
    return config


def _locate(flags: argparse.Namespace, sample: ImageSample, key: str, path: str) -> Locate:
    """What finds the image of a row among the first ones; rows of `path` may list them."""
    if not flags.images:
        return lambda row: listed_uri(row.key, path)
    by_key: dict[str, str] = {}

    def locate(row: LabelRow) -> str | None:
        if not by_key:
            by_key.update(sample.by_key(key))
        return by_key.get(row_key(row.key, kind=key))

    return locate


def _check_strict(config: ConvertConfig) -> None:
    if config.strict and config.warnings:
        raise UsageError(strict_message(config.warnings))


def _pixel_options(flags: argparse.Namespace) -> PixelOptions:
    pixels = PixelOptions(
        transcode=flags.transcode,
        resize=flags.resize,
        color=flags.color,
        quality=flags.quality or DEFAULT_QUALITY,
        exif_orientation=flags.exif_orientation,
        # A quality is asked for, so every image gets it.
        reencode=flags.quality is not None and flags.transcode == "jpeg",
    )
    if flags.quality is not None and not pixels.may_write_jpeg:
        why = (
            "does not go with --transcode png, which writes no JPEG"
            if flags.transcode == "png"
            else "applies only to re-encoded JPEGs; add --transcode jpeg, which re-encodes every "
            "image, or --resize"
        )
        raise UsageError(f"--quality {why}")
    resize = pixels.resize
    if resize and resize.rule == "exact" and resize.height * resize.width > flags.max_pixels:
        raise UsageError(f"--resize {resize} is more than --max_pixels {flags.max_pixels}")
    return pixels


def _check_paths(flags: argparse.Namespace) -> None:
    for pattern in flags.images or ():
        check_path("--images", pattern)
    for name in (
        *("labels", "class_names", "root", "output", "quarantine"),
        *("layout", "model", "model_weights"),
    ):
        if getattr(flags, name) is not None:
            check_path(f"--{name}", getattr(flags, name))


def _check_files(flags: argparse.Namespace) -> None:
    if flags.num_shards is not None and flags.shard_size is not None:
        raise UsageError("--num_shards does not go with --shard_size: give one of them")
    if flags.files == "sharded":
        return
    for name in ("num_shards", "shard_size"):
        if getattr(flags, name) != default_of(name):
            raise UsageError(
                f"--{name} does not go with --files per_image: every image is a file of its own"
            )


def _check_listing(flags: argparse.Namespace) -> None:
    if flags.allow_outside and (flags.images or is_table(flags)):
        raise UsageError("--allow_outside applies only when rows list the images, without --images")


def _quarantine(flags: argparse.Namespace, sample: ImageSample) -> str | None:
    if flags.quarantine is None:
        return None
    folder = str(flags.quarantine).rstrip("/")
    inner, outer = _absolute(folder) + "/", _absolute(flags.output.rstrip("/")) + "/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise UsageError(f"--quarantine {folder} and --output {flags.output} lie in each other")
    for pattern in flags.images or ():
        copied = files.join(folder, "reason", relative_path(sample.uris[0], sample.root))
        if glob_regex(_absolute(pattern)).fullmatch(_absolute(copied)):
            raise UsageError(
                f"--images {pattern!r} would match the copies in --quarantine {folder}: "
                "choose another folder"
            )
    return folder


def _absolute(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def _check_output(flags: argparse.Namespace, config: ConvertConfig) -> None:
    if is_local(config.output):
        _check_local_output(config.output)
    former = _read_former(config.output)
    if former is None and gcs.is_gcs(config.output):
        _check_bucket_output(config.output)
    if former is not None and config.overwrite:
        check_same_root(flags, config, former)
    elif former is not None:
        _check_same_options(config, former)


def check_former(config: ConvertConfig) -> bool:
    """Whether the output folder holds a finished dataset that is not to be replaced.

    Raises:
        UsageError: it was made with other options.
    """
    former = None if config.overwrite else _read_former(config.output)
    if former is not None:
        _check_same_options(config, former)
    return former is not None


def _read_former(output: str) -> dict[str, Any] | None:
    try:
        former = files.read_manifest(files.join(output, MANIFEST))
        check_output(output, former, ())
    except (ManifestError, ForeignNameError) as error:
        raise UsageError(f"{error}; or choose another --output") from error
    except (OSError, ValueError) as error:
        raise input_error(f"cannot read --output {output}", error) from error
    return former


def _check_local_output(output: str) -> None:
    if not os.path.lexists(output):
        return
    if not os.path.isdir(output):
        raise UsageError(f"--output {output} is a file: give a folder")
    try:
        entries = sorted(os.listdir(output))
    except OSError as error:
        raise input_error(f"cannot read --output {output}", error) from error
    if entries and MANIFEST not in entries and files.STAGING not in entries:
        raise UsageError(
            f"--output {output} holds something else ({entries[0]!r}): give an empty or new folder"
        )


def _check_bucket_output(output: str) -> None:
    """Refuses a folder of a bucket that holds something else."""
    below = files.join(glob.escape(output), "**")
    other = next(list_inputs(below, "--output"), None)
    staged = files.join(glob.escape(output), files.STAGING, "**")
    is_ours = next(list_inputs(staged, "--output"), None) is not None
    if other and not is_ours:
        raise UsageError(
            f"--output {output} holds something else ({other.uri!r}): give an empty or new folder"
        )


def _check_same_options(config: ConvertConfig, former: dict[str, Any]) -> None:
    if former["options_digest"] == config.dataset.digest:
        return
    was, now = former["options"], config.options
    changed = [
        f"--{name} is {as_written(now.get(name))}, was {as_written(was.get(name))}"
        for name in sorted({*was, *now})
        if now.get(name) != was.get(name)
    ]
    is_own = is_layout_file(config.layout)
    other = f"--layout {config.layout} has changed" if is_own else "another format"
    raise UsageError(
        f"--output {config.output} holds a dataset made with other options: "
        f"{'; '.join(changed) or other}. Use --overwrite or another --output"
    )


def as_written(value: Any) -> str:
    """The value of an option as a command line has it.

    >>> as_written({"train": 0.9, "test": 0.1}), as_written(None)
    ('train=0.9,test=0.1', 'not given')
    """
    if isinstance(value, dict):
        return ",".join(f"{name}={share:.12g}" for name, share in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value[:5])) + (" ..." if len(value) > 5 else "")
    return "not given" if value is None else str(value)


def check_writable(config: ConvertConfig) -> None:
    """Writes and removes a file in every folder that the run writes to.

    Raises:
        UsageError: one cannot be written to.
    """
    if not files.exists(files.join(config.output, MANIFEST)):
        _probe("--output", config.output, files.join(config.output, files.STAGING))
    if config.quarantine is not None:
        _probe("--quarantine", config.quarantine, config.quarantine)


def _probe(flag: str, folder: str, inner: str) -> None:
    # A name of its own: a user's folder may hold a file called probe.
    probe = files.join(inner, f"{PROBE}.{uuid.uuid4().hex}")
    try:
        files.make_directory(inner)
        files.write_whole(probe, b"")
        files.remove(probe)
    except (OSError, ValueError) as error:
        raise input_error(f"cannot write to {flag} {folder}", error) from error
