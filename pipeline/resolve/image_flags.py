"""Resolves the flags of images and of tables."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pipeline.errors import UsageError, refusing
from pipeline.options.option_table import OPTIONS
from pipeline.options.parser import is_given
from pipeline.resolve.config import ConvertConfig, option_groups
from pipeline.resolve.datasets import (
    NO_FILES,
    check_flags_of_records,
    find_datasets,
    image_source,
    key_kind,
    left_out,
    left_partners,
    moved_keys,
    read_bases,
    read_held_out,
    sample_records,
)
from pipeline.resolve.decided import check_splits, decide, split_source
from pipeline.resolve.label_flags import (
    asks_path,
    check_ids,
    check_label_kind,
    check_matches,
    classes_of_records,
    known_classes,
    label_files,
    label_source,
    read_keys,
    with_columns,
    with_first_rows,
)
from pipeline.resolve.layout_flags import (
    Layout,
    Locate,
    check_partners,
    layout_of,
    read_layout,
    read_partners,
)
from pipeline.resolve.path_flags import given_card, is_web_address, parquet_images, plain_globs
from pipeline.resolve.samples import (
    ImageSample,
    LabelFiles,
    Sample,
    list_labels,
    read_label_inputs,
    sample_images,
)
from transforms.core.messages import LabelsError, given
from transforms.core.option import text_of
from transforms.dataset.image_statistics import DatasetWarning
from transforms.examples.boxes import is_automl
from transforms.examples.layouts import (
    DETECTION,
    PIXELS,
    ROWS,
    EmbeddingOptions,
    LayoutOptions,
    is_layout_file,
    stores_pixels,
    with_embedding,
)
from transforms.examples.partners import Partner
from transforms.images.pixel_options import CheckOptions, PixelOptions, checked_pixels
from transforms.labels.annotations import category_classes
from transforms.labels.keys import (
    fixed_root,
    glob_regex,
    is_below,
    is_in_places,
    listed_problem,
    listed_uri,
    names_image,
    relative_path,
    row_key,
    tidy_root,
    top_folder,
)
from transforms.labels.label_columns import table_columns
from transforms.labels.label_options import SplitOptions
from transforms.labels.label_rows import (
    CSV,
    FORMATS,
    FirstRows,
    KeyCells,
    LabelRow,
    column_finder,
    header_names,
)
from transforms.labels.label_rules import KnownClasses, LabelRules, PathRules
from transforms.labels.vocabulary import is_canonical_integer
from transforms.storage.files import join, overlap, storage_of

# The flag `--root`: the folder below which paths and keys begin.


def root_of(flags: argparse.Namespace, flag: str, globs: Sequence[str]) -> str:
    """The folder of `--root`, spelled as in the globs; without it their common folder.

    Args:
        flags: the result of `parse_flags`.
        flag: the flag that has the globs, for messages.
        globs: all files that they match must be below the folder.

    Raises:
        UsageError: a glob can match files outside of it.
    """
    if flags.root is None:
        return fixed_root(globs)
    for root in _spellings(flags.root):
        if all(is_below(glob, root) for glob in globs):
            return root
    outside = next(glob for glob in globs if not is_below(glob, tidy_root(flags.root)))
    raise UsageError(
        f"--root {flags.root} does not contain all files of {flag} {outside!r}: give a folder "
        f"above them, such as {fixed_root(globs) or '.'!r}"
    )


def _spellings(root: str) -> list[str]:
    """The folder as given, absolute, and relative to the working directory."""
    return [tidy_root(spelled) for spelled in storage_of(root).spellings(root)]


def root_change(flags: argparse.Namespace, config: ConvertConfig, former: str) -> str:
    """What another root than that of a former dataset changes, and the flag that decides.

    Args:
        flags: the result of `parse_flags`.
        config: of the run.
        former: the root of the dataset.

    Returns:
        the end of a sentence; empty if a flag decides, or unchanged images keep their keys.
    """
    keys_move = config.key in ("path", "row") or config.split_from == "directory"
    if flags.root is not None or not keys_move or not any(moved_keys(former, config.root)):
        return ""
    was, now = former or ".", config.root or "."
    globs = config.images or (flags.labels,)
    keep = any(all(is_below(glob, root) for glob in globs) for root in _spellings(was))
    advice = f"--root {was} keeps the keys; " if keep else ""
    return (
        f"the root {was!r}, but the root is now {now!r}: this changes every key, and moves images "
        f"to other splits. {advice}--root {now} accepts the change"
    )


# What a command converts: images and their labels, or rows.


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


# The flags of a command without --images: the rows of --labels list the images.

# First rows; at least one must name an existing file.
_ROWS = 50


def _listed_images(flags: argparse.Namespace, labels: tuple[str, ...]) -> Sample:
    """Resolves label files that list the images.

    Raises:
        UsageError: there is none, or its first rows name no file.
        LabelsError: a column is missing or cannot be inferred.
    """
    files = read_label_inputs(flags, labels, _ROWS, has_boxes=flags.layout in DETECTION)
    paths, format_ = files.paths, FORMATS[files.first.format]
    if format_.is_per_image:
        raise UsageError(
            f"{format_.title} files do not say in which folder images are: give --images GLOB"
        )
    flags = _completed(flags, files.first, paths[0])
    files = with_columns(flags, files, names_image, not asks_path(flags))
    columns, cells = files.columns, files.keys
    uris = _uris(cells, paths[0])
    is_open = flags.key_cells == "auto" and not any(_is_there(uri) for uri in uris)
    if is_open and any("\\" in cell for cell in cells):
        columns = columns._replace(key_cells=KeyCells(backslashes=True))
        cells = [columns.key_cells.key(cell) for cell in cells]
        uris = _uris(cells, paths[0])
    if not any(map(_is_there, uris)):
        named = [*uris, *filter(str.strip, cells)]
        shown = f", such as {named[0]!r}" if named else ""
        is_web = named and is_web_address(named[0])
        hint = "download the images, and give" if is_web else "give"
        raise UsageError(
            f"without --images, rows of --labels {flags.labels} list the images, but column "
            f"{columns.key.name!r} names no file in its first rows{shown}: {hint} --images GLOB, "
            "or paths from the CSV's folder"
        )
    root = fixed_root(paths) if flags.root is None else tidy_root(flags.root)
    return Sample(
        flags,
        ImageSample(uris, root, False),
        labels,
        files._replace(columns=columns),
        places=None if flags.allow_outside else _places(paths, uris, flags.root),
    )


def _uris(cells: Iterable[str], path: str) -> list[str]:
    """The files that cells name, without those that no row can list, such as web addresses."""
    return [
        listed_uri(cell, path) for cell in cells if cell.strip() and not listed_problem(cell, path)
    ]


def _is_there(uri: str) -> bool:
    return storage_of(uri).find(uri) is not None


def _top_folder(path: str) -> str:
    return top_folder(storage_of(path).absolute(path))


def _places(csv_paths: Sequence[str], uris: Sequence[str], root: str | None) -> tuple[str, ...]:
    """The folders of `--root`, of the label files, and of the images that the first rows name.

    A CSV of absolute paths may be anywhere; its images are in one folder or a few, and the first
    rows show which. Only existing files with the extension of an image count.
    """
    places = {"", *map(_top_folder, csv_paths)}
    if root is not None:
        places.add(_top_folder(join(root or ".", "image")))
    for uri in uris:
        place = _top_folder(uri)
        if place not in places and names_image(uri) and _is_there(uri):
            places.add(place)
    return tuple(sorted(places - {""}))


def _completed(flags: argparse.Namespace, first: FirstRows, path: str) -> argparse.Namespace:
    """The flags, completed from the AutoML form `split,image_uri,label…`."""
    added = dict(vars(flags))
    is_even = len({len(row) for row in first.rows}) == 1
    if first.format == CSV and is_even and all(is_automl(row, names_image) for row in first.rows):
        added["label_key"] = flags.label_key or "2"
        if not asks_path(flags):
            added["label_column"] = flags.label_column or "3"
        column: str | None = "1"
    else:
        names = header_names(first.rows[0]) if first.rows else []
        at = column_finder(names, path=path)("split")
        column = None if at is None else names[at]
    if flags.split_by in (None, "column") and column is not None:
        added["split_by"] = f"column:{column}"
    return argparse.Namespace(**added)


# Resolves the flags of a command, of images or of rows.


def resolve(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and inputs into a configuration.

    Args:
        flags: as the user gave them.

    Raises:
        UsageError: something is missing, unreadable, ambiguous or in the way.
        LabelsError: the CSV cannot be used.
    """
    of_rows = _is_table(flags)
    if flags.allow_outside and (flags.images or of_rows):
        raise UsageError("--allow_outside applies only when rows list the images, without --images")
    sample, labels = _table(flags) if of_rows else _images_and_labels(flags)
    found, layout, images = labels.files, labels.layout, sample.images
    config = _config(sample, labels)
    sources = tuple(image_source(each, config) for each in sample.sources)
    config = dataclasses.replace(config, sources=sources)
    check_ids(labels.classes, config.label_rules)
    bases = read_bases(flags.reuse or (), config)
    warnings = (
        *(found.warnings if found else ()),
        *check_splits(flags, images, found, config),
        *layout.warnings,
        *(
            DatasetWarning("root_changed", f"--reuse {base.folder} has {change}")
            for base in bases
            if (change := root_change(flags, config, base.root))
        ),
    )
    masks, keys = layout.has_object_masks, config.keys
    return dataclasses.replace(
        config,
        bases=bases,
        decisions=(
            *(found.decisions(has_object_masks=masks) if found else ()),
            *decide(flags, config, images, layout.decisions),
            *labels.classes.decisions(flags.label_kind),
            *([given("images kept", f"those in {keys.name}", "--keys")] if keys else []),
            *sample.ignoring,
        ),
        warnings=warnings,
        held_out=read_held_out(flags),
    )


def _images_and_labels(flags: argparse.Namespace) -> tuple[Sample, _Labels]:
    with refusing(ValueError):
        pixels = checked_pixels(PixelOptions.of(vars(flags)), CheckOptions.of(vars(flags)))
    sample = _sample(flags, read_partners(flags))
    if sample.partners and sample.sources:
        raise UsageError(
            f"{sample.partners[0].title} cannot be used with --images {sample.sources[0].folder}, "
            "which is a dataset: give the images of which it was made"
        )
    labels = _labels(sample, pixels)
    if pixels.depth == 16 and stores_pixels(labels.layout.features):
        raise UsageError(f"--depth 16 cannot be used with {PIXELS} of a layout, which has 8 bits")
    return sample, labels


def _sample(flags: argparse.Namespace, partners: tuple[Partner, ...]) -> Sample:
    if not flags.images and flags.labels is None:
        raise UsageError("give --images GLOB, or --labels CSV with a column of image paths")
    if not flags.images:
        labels = list_labels(flags)
        ignored, ignoring = left_out(flags, labels, partners)
        listed = _listed_images(flags, labels)
        return listed._replace(left_out=ignored, ignoring=ignoring, partners=partners)
    patterns, sources, meant = find_datasets(flags)
    labels = list_labels(flags)
    patterns, columns, classes = parquet_images(patterns, flags.record_features)
    globs = plain_globs(patterns, "--images")
    values = [value for source in sources for value in source.of_run().given]
    added: dict[str, Any] = {"images": [*globs, *values]}
    if classes and flags.class_names is None and not (flags.labels or sources or asks_path(flags)):
        added["class_names"] = classes
    expanded = argparse.Namespace(**{**vars(flags), **added})
    of_files = argparse.Namespace(**{**vars(flags), "images": globs})
    ignored, ignoring = left_out(of_files, labels, partners)
    ignoring = [*meant, *columns, *ignoring]
    images, kind = NO_FILES, None
    if globs:
        images = sample_images(patterns, root_of(flags, "--images", globs), ignored)
        named = flags.record_features or {}
        is_open = columns and "key" not in named and flags.key is None
        if is_open and len(images.keys("path")) < len(images.uris):
            named = {**named, "key": ""}
            again = argparse.Namespace(**{**vars(flags), "record_features": named})
            return _sample(again, partners)
    if sources:
        check_flags_of_records(flags, sources, has_files=bool(globs))
        kind = key_kind(flags, sources)
        images = sample_records(sources, flags.key or kind or "path", images)
        ignoring += left_partners(sources)
    return Sample(expanded, images, labels, None, None, ignored, ignoring, sources, kind, partners)


def _labels(sample: Sample, pixels: PixelOptions) -> _Labels:
    flags, found = sample.flags, sample.listed
    label_from = label_source(sample)
    split_from = split_source(sample, label_from)
    layout = read_layout(sample, label_from, pixels)
    with refusing(ValueError):
        EmbeddingOptions.of(vars(flags)).check(flags.layout, layout.features)
    is_joined = label_from == "csv" and not (found or sample.sources)
    key = flags.key or sample.kind or ("stem" if is_joined or sample.partners else "path")
    check_partners(sample, key)
    if found or label_from == "csv":
        layout, files = layout.asking(found or label_files(sample, key, layout))
        files = with_first_rows(flags, files)
        found = files._replace(warnings=check_matches(sample, key, files))
        layout = layout.resolved(found, _locate(sample, key, found.paths[0]))
    classes = _classes(sample, label_from, found, layout)
    rules = PathRules(label_from, text_of(flags.label_from), split_from == "directory")
    check_label_kind(sample, rules, found, layout.label_separator)
    return _Labels(label_from, split_from, key, layout, found, classes)


def _classes(
    sample: Sample, label_from: str, found: LabelFiles | None, layout: Layout
) -> KnownClasses:
    """The classes of `--class_names`, or those that the label files or the records define."""
    flags = sample.flags
    classes = known_classes(flags.class_names, flags.output if flags.overwrite else "")
    if flags.dense_labels and not all(map(is_canonical_integer, classes.names or ())):
        file = f" {flags.class_names}" if isinstance(flags.class_names, str) else ""
        raise UsageError(
            f"--dense_labels is for integer labels; --class_names{file} numbers its lines from 0 "
            "already: leave one out"
        )
    has_own = label_from == "records" and bool(sample.sources)
    if classes.names is None and has_own and not flags.dense_labels:
        manifests = {source.folder: source.manifest for source in sample.sources}
        return classes_of_records(manifests, first_id=layout.first_id)
    if classes.names is not None or not (found and found.columns.categories):
        return classes
    if flags.dense_labels:
        raise UsageError(
            "--dense_labels cannot be used with COCO labels, whose categories have ids: give the "
            "names in their order with --class_names FILE"
        )
    return category_classes(found.categories, first_id=layout.first_id)


def _config(sample: Sample, labels: _Labels) -> ConvertConfig:
    """The configuration, without its decisions and warnings."""
    flags, layout, found = sample.flags, labels.layout, labels.files
    output, quarantine = flags.output.rstrip("/") or "/", _quarantine(flags, sample.images)
    values = {**vars(flags), "output": output, "quarantine": quarantine}
    embedding, features = None, layout.features
    if flags.model is not None:
        # This imports Beam's inference, which other runs do not need.
        from transforms.embed_images import load_embedding

        with refusing(ValueError):
            embedding = load_embedding(EmbeddingOptions.of(vars(flags)))
        features = with_embedding(features, embedding.shape, embedding.dtype)
    classes = labels.classes
    # Numbers that are names in a dataset stay names.
    options = (each.manifest["options"] for each in sample.sources)
    are_names = any(each.get("label_kind") == "text" for each in options)
    kind = classes.kind(flags.label_kind)
    return ConvertConfig(
        **{**option_groups(values), "card": given_card(flags)},
        workers=flags.workers,
        images=tuple(flags.images or ()),
        root=sample.images.root,
        label_from=labels.label_from,
        csv_paths=found.paths if found else (),
        columns=found.columns if found else None,
        key=labels.key,
        label_rules=LabelRules(
            "text" if kind == "auto" and are_names else kind,
            classes.names,
            flags.dense_labels,
            layout.first_id,
            flags.new_classes or "",
            known_ids=classes.ids is not None,
            class_ids=classes.numbers,
        ),
        features=features,
        embedding=embedding,
        boxes=layout.boxes,
        label_separator=layout.label_separator,
        split_from=labels.split_from,
        of_rows=labels.key == ROW,
        row_places=sample.places,
        keys=read_keys(sample, labels.key),
        partners=sample.partners,
        left_out=sample.left_out,
        sampled=sample.images.size,
    )


def _locate(sample: Sample, key: str, path: str) -> Locate:
    """A function that finds a row's image in the sample; rows of `path` may list the images."""
    if sample.listed:
        full_path, places = storage_of(path).absolute(path), sample.places

        def listed(row: LabelRow) -> str | None:
            is_taken = places is None or is_in_places(row.key, full_path, places)
            is_file = is_taken and not listed_problem(row.key, path)
            return listed_uri(row.key, path) if is_file else None

        return listed
    # Records are not opened: no evidence comes from them.
    return lambda row: sample.images.keys(key).get(row_key(row.key, kind=key)) or None


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


# The flags of a command without images, in which rows are records.

# Rows that are searched for names of splits.
_FIRST_ROWS = 20

# The key of rows that are records.
ROW = "row"


def _is_table(flags: argparse.Namespace) -> bool:
    """Whether records are made of rows alone: without images, with columns as features.

    Raises:
        UsageError: such a layout is given with images, or its file cannot be read.
    """
    if flags.images and flags.layout == ROWS:
        raise UsageError(
            f"--layout {ROWS} makes records from rows without images: leave out --images, or write "
            "a layout with image.bytes and the columns (docs/layouts.md)"
        )
    if flags.images or not is_layout_file(flags.layout):
        return bool(flags.layout == ROWS)
    return all(feature.column is not None for feature in layout_of(flags).features)


def _table(flags: argparse.Namespace) -> tuple[Sample, _Labels]:
    """The rows of a table, none of which has an image."""
    from transforms.examples.encoder import table_features

    _check_flags(flags)
    split_from = split_source(Sample(flags, NO_FILES), "csv")
    files = read_label_inputs(flags, list_labels(flags), _FIRST_ROWS)
    paths, first = files.paths, files.first
    if FORMATS[first.format].is_per_image or first.categories:
        title = FORMATS[first.format].title
        raise UsageError(f"--layout {flags.layout} needs a table, but --labels is {title}")
    if not first.rows:
        raise LabelsError(f"{paths[0]} is empty: give a file with rows to --labels")
    splits = SplitOptions.of(vars(flags))
    columns = table_columns(first, key=flags.label_key, splits=splits, path=paths[0])
    features = layout_of(flags).features or table_features(
        header_names(first.rows[0]), columns.split.name, path=paths[0]
    )
    layout = Layout(LayoutOptions.of(vars(flags)), features)
    layout, files = layout.asking(files._replace(columns=columns))
    files = with_first_rows(flags, files)
    if not files.sampled:
        raise UsageError(
            f"--labels {flags.labels} has no usable row: below the header, each row needs "
            f"{columns.width} cells"
        )
    layout = layout.resolved(files, lambda _: None)
    images = ImageSample([], root_of(flags, "--labels", [flags.labels]), False)
    labels = _Labels("none", split_from, ROW, layout, files, KnownClasses())
    return Sample(flags, images), labels


def _check_flags(flags: argparse.Namespace) -> None:
    if flags.labels is None:
        raise UsageError(f"--layout {flags.layout} makes records from rows: give --labels CSV")
    for name, option in OPTIONS.items():
        if option.of_images and is_given(flags, name):
            raise UsageError(
                f"--{name} cannot be used with --layout {flags.layout} without --images: it makes "
                "records from rows alone"
            )
    if flags.split_by == "folder":
        raise UsageError("--split_by folder needs --images: rows are not in folders")
