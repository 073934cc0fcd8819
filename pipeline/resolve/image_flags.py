"""The flags of a command that converts images, which globs or rows list."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.config import ConvertConfig, shared_fields
from pipeline.errors import UsageError
from pipeline.inputs.bases import read_bases
from pipeline.inputs.given_card import given_card
from pipeline.inputs.held_out import read_holdouts
from pipeline.inputs.image_samples import ImageSample, plain_globs, sample_images
from pipeline.inputs.known_classes import (
    KnownClasses,
    classes_of_categories,
    classes_of_records,
    known_classes,
)
from pipeline.inputs.left_out import left_out
from pipeline.inputs.listed_keys import key_decisions, read_keys
from pipeline.inputs.source_datasets import (
    SourceDataset,
    check_flags_of_records,
    find_datasets,
    key_kind,
    kind_of_labels,
    left_partners,
    sample_records,
    source_reader,
)
from pipeline.resolve.box_orientation import Locate
from pipeline.resolve.decided import decide, extensions
from pipeline.resolve.label_flags import (
    LabelFiles,
    check_dense_names,
    check_label_kind,
    label_files,
    label_rows,
    label_source,
)
from pipeline.resolve.layout_flags import Layout, read_layout
from pipeline.resolve.listing_flags import ListedImages, read_listing
from pipeline.resolve.model_flags import check_model, check_model_flags
from pipeline.resolve.partner_flags import check_partners, read_partners
from pipeline.resolve.root_flags import root_of
from pipeline.resolve.split_checks import check_splits
from pipeline.resolve.split_flags import split_source
from transforms.copy_rejected import overlap
from transforms.core.decisions import Decision
from transforms.core.features.feature_sources import PIXELS
from transforms.core.features.layouts import DETECTION, stores_pixels
from transforms.core.features.partners import Partner
from transforms.core.globs import glob_regex
from transforms.core.images.pixel_options import DEFAULT_QUALITY, PixelOptions
from transforms.core.labels.path_labels import PathRules
from transforms.core.planning.image_lists import is_in_places, listed_problem, listed_uri
from transforms.core.planning.keys import relative_path, row_key
from transforms.core.tables.csv_rows import LabelRow
from transforms.find_files import LeftOut
from transforms.storage.files import join, storage_of


class _Images(NamedTuple):
    """The images of a command.

    Attributes:
        flags: the flags, completed from the inputs, with alternatives in globs expanded.
        sample: the first images.
        listing: the images that rows list; None with globs.
        left_out: files that the globs match but that are not images.
        ignoring: a decision for each path that is left out.
        sources: datasets whose records are images.
        kind: of the keys of these records; None if it is not known.
        partners: masks and further images.
    """

    flags: argparse.Namespace
    sample: ImageSample
    listing: ListedImages | None
    left_out: LeftOut
    ignoring: list[Decision]
    sources: tuple[SourceDataset, ...] = ()
    kind: str | None = None
    partners: tuple[Partner, ...] = ()


class _Labels(NamedTuple):
    """The sources of labels, keys, splits and features.

    Attributes:
        label_from: where labels come from.
        split_from: the source of the split.
        key: how rows identify images.
        layout: the layout, completed from the columns.
        files: the label files, if there are any.
        classes: the classes of `--class_names`.
    """

    label_from: str
    split_from: str
    key: str
    layout: Layout
    files: LabelFiles | None
    classes: KnownClasses


def image_config(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and inputs into a configuration.

    Args:
        flags: as the user gave them.

    Raises:
        UsageError: something is missing, unreadable, ambiguous or in the way.
        LabelsError: the CSV cannot be used.
    """
    pixels = _pixel_options(flags)
    partners = read_partners(flags)
    images = _images(flags, partners)._replace(partners=partners)
    if partners and images.sources:
        raise UsageError(
            f"{partners[0].title} cannot be used with --images {images.sources[0].folder}, which "
            "is a dataset: give the images of which it was made"
        )
    labels = _labels(images, pixels)
    found, layout = labels.files, labels.layout
    if pixels.depth == 16 and stores_pixels(layout.features):
        raise UsageError(f"--depth 16 cannot be used with {PIXELS} of a layout, which has 8 bits")
    config = _config(images, labels, pixels)
    config = dataclasses.replace(config, sources=source_reader(images.sources, config))
    labels.classes.check_ids(config.label_rules)
    warnings = check_splits(
        flags,
        images.sample,
        found.columns if found else None,
        found.first if found else None,
        split_from=labels.split_from,
        label_from=labels.label_from,
    )
    boxes = (*extensions(images.sample), *(layout.chosen.decisions if layout.chosen else ()))
    decided = decide(flags, config, boxes=boxes, types=layout.types)
    kept = key_decisions(config.keys)
    masks = layout.has_object_masks
    of_labels = found.inputs.decisions(has_object_masks=masks) if found else ()
    return dataclasses.replace(
        config,
        bases=read_bases(flags.reuse or (), config),
        decisions=(
            *of_labels,
            *decided,
            *labels.classes.decisions(flags.label_kind),
            *kept,
            *images.ignoring,
        ),
        warnings=warnings,
        left_out=images.left_out,
        sampled=images.sample.size,
        holdouts=read_holdouts(flags),
    )


def _images(flags: argparse.Namespace, partners: Sequence[Partner]) -> _Images:
    if not flags.images:
        listing = read_listing(flags)
        ignored, ignoring = left_out(listing.flags, partners)
        return _Images(listing.flags, listing.sample, listing, ignored, ignoring)
    ignored, ignoring = left_out(flags, partners)
    patterns, sources = find_datasets(flags)
    globs = plain_globs(patterns, "--images")
    images = [*globs, *(source.folder for source in sources)]
    expanded = argparse.Namespace(**{**vars(flags), "images": images})
    sample = None
    if globs:
        sample = sample_images(patterns, root_of(flags, "--images", globs), ignored)
        if not sources:
            return _Images(expanded, sample, None, ignored, ignoring)
    check_flags_of_records(flags, sources, has_files=bool(globs))
    kind = key_kind(flags, sources)
    sample = sample_records(sources, flags.key or kind or "path", sample)
    ignoring += left_partners(sources)
    return _Images(expanded, sample, None, ignored, ignoring, sources, kind)


def _labels(images: _Images, pixels: PixelOptions) -> _Labels:
    flags, sample, listing = images.flags, images.sample, images.listing
    label_from = label_source(flags, sample, images.sources, has_partners=bool(images.partners))
    split_from = split_source(flags, sample, label_from, has_records=bool(images.sources))
    layout = read_layout(flags, label_from, pixels, images.sources)
    check_model_flags(flags, layout.features)
    key = flags.key or images.kind
    is_joined = label_from == "csv" and not (listing or images.sources)
    key = key or ("stem" if is_joined or images.partners else "path")
    check_partners(flags, images.partners, sample, key)
    found: LabelFiles | None = None
    if listing or label_from == "csv":
        found = listing.files if listing else label_files(flags, sample, key, layout)
        layout, columns = layout.asking(found.columns, found.first, found.paths[0])
        rows = label_rows(flags, found.paths, columns)
        path = found.paths[0]
        layout = layout.resolved(rows, path, _locate(images, key, path))
        found = found._replace(columns=columns)
    classes = _classes(images, label_from, found, layout)
    rules = PathRules(label_from, flags.label_regex or "", split_from == "directory")
    check_label_kind(flags, sample, rules, found, layout.label_separator)
    return _Labels(label_from, split_from, key, layout, found, classes)


def _classes(
    images: _Images, label_from: str, found: LabelFiles | None, layout: Layout
) -> KnownClasses:
    """The classes of `--class_names`, or those that the label files or the records define."""
    flags = images.flags
    classes = known_classes(flags.class_names, flags.output if flags.overwrite else "")
    check_dense_names(flags, classes.names)
    first_id = 1 if layout.name in DETECTION else 0
    if classes.names is None and label_from == "records" and not flags.dense_labels:
        manifests = {source.folder: source.manifest for source in images.sources}
        return classes_of_records(manifests, first_id=first_id)
    if classes.names is not None or not (found and found.columns.categories):
        return classes
    if flags.dense_labels:
        raise UsageError(
            "--dense_labels cannot be used with COCO labels, whose categories have ids: give the "
            "names in their order with --class_names FILE"
        )
    return classes_of_categories(found.inputs.categories, first_id=first_id)


def _config(images: _Images, labels: _Labels, pixels: PixelOptions) -> ConvertConfig:
    """The configuration, without its decisions and warnings."""
    flags, sample, listing = images.flags, images.sample, images.listing
    layout, found = labels.layout, labels.files
    return ConvertConfig(
        **shared_fields(flags),
        card=given_card(flags),
        images=tuple(flags.images or ()),
        root=sample.root,
        label_from=labels.label_from,
        csv_paths=found.paths if found else (),
        columns=found.columns if found else None,
        key=labels.key,
        class_names=labels.classes.names,
        quarantine=_quarantine(flags, sample),
        pixels=pixels,
        embedding=check_model(flags),
        layout_features=layout.features,
        boxes=layout.boxes,
        label_separator=layout.label_separator,
        label_regex=flags.label_regex or "",
        split_from=labels.split_from,
        stratify=flags.stratify or "",
        files=flags.files,
        dedupe=flags.dedupe,
        row_places=listing.places if listing else None,
        label_kind=kind_of_labels(labels.classes.kind(flags.label_kind), images.sources),
        cell_kind=flags.label_kind,
        known_ids=labels.classes.ids is not None,
        class_ids=labels.classes.numbers,
        key_cells=flags.key_cells,
        dense_labels=flags.dense_labels,
        new_classes=flags.new_classes or "",
        strip_metadata=flags.strip_metadata,
        keys=read_keys(flags, sample, labels.key),
        partners=images.partners,
    )


def _locate(images: _Images, key: str, path: str) -> Locate:
    """A function that finds a row's image in the sample; rows of `path` may list the images."""
    sample, listing = images.sample, images.listing
    if listing:
        full_path, places = storage_of(path).absolute(path), listing.places

        def listed(row: LabelRow) -> str | None:
            is_taken = places is None or is_in_places(row.key, full_path, places)
            is_file = is_taken and not listed_problem(row.key, path)
            return listed_uri(row.key, path) if is_file else None

        return listed
    # Records are not opened: no evidence comes from them.
    by_key: dict[str, str] = {}

    def locate(row: LabelRow) -> str | None:
        if not by_key:
            by_key.update(sample.by_key(key))
        return by_key.get(row_key(row.key, kind=key))

    return locate


def _pixel_options(flags: argparse.Namespace) -> PixelOptions:
    if flags.depth == 16 and flags.transcode == "jpeg":
        raise UsageError("--depth 16 cannot be used with --transcode jpeg: a JPEG has 8 bits")
    pixels = PixelOptions(
        transcode=flags.transcode,
        resize=flags.resize,
        color=flags.color,
        quality=flags.quality or DEFAULT_QUALITY,
        exif_orientation=flags.exif_orientation,
        # Every image is re-encoded, so the quality applies to all of them.
        reencode=flags.quality is not None and flags.transcode == "jpeg",
        depth=flags.depth,
    )
    if flags.quality is not None and not pixels.may_write_jpeg:
        why = (
            "cannot be used with --transcode png, which writes no JPEG"
            if flags.transcode == "png"
            else "applies only to re-encoded JPEGs; add --transcode jpeg, which re-encodes every "
            "image, or --resize"
        )
        raise UsageError(f"--quality {why}")
    resize = pixels.resize
    if resize and resize.rule == "exact" and resize.height * resize.width > flags.max_pixels:
        raise UsageError(f"--resize {resize} is more than --max_pixels {flags.max_pixels}")
    return pixels


def _quarantine(flags: argparse.Namespace, sample: ImageSample) -> str | None:
    if flags.quarantine is None:
        return None
    folder = str(flags.quarantine).rstrip("/")
    if overlap(folder, flags.output):
        raise UsageError(
            f"--quarantine {folder} and --output {flags.output} must not contain each other"
        )
    for pattern in flags.images or ():
        copied = join(folder, "reason", relative_path(sample.uris[0], sample.root))
        matched = glob_regex(storage_of(pattern).absolute(pattern))
        if matched.fullmatch(storage_of(copied).absolute(copied)):
            raise UsageError(
                f"--images {pattern!r} would match the copies in --quarantine {folder}: "
                "choose another folder"
            )
    return folder
