"""The datasets among the values of `--images`: their records are images of the run."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import glob
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.config import ConvertConfig
from pipeline.errors import UsageError, input_error
from pipeline.flags.options import is_given
from pipeline.inputs.bases import other_pixel_option
from pipeline.inputs.image_samples import ImageSample
from pipeline.inputs.job_size import JobSize
from pipeline.open_dataset import open_dataset
from transforms.core.dataset.manifest import manifest_indexes
from transforms.core.dataset.output_names import MANIFEST, STAGING
from transforms.core.decisions import Decision
from transforms.core.features.feature_sources import (
    SOURCES,
    Needs,
    Role,
    source_of,
    with_role,
)
from transforms.core.features.layouts import Feature
from transforms.core.globs import WILDCARD
from transforms.core.images.pixel_options import UNTOUCHED
from transforms.core.index.record_index import RecordIndexError
from transforms.core.index.source_records import RECORDS, has_records
from transforms.core.shown_text import first_line
from transforms.read_source import Source, SourceReader, record_rows
from transforms.storage.files import is_same_path, join, storage_of

# Records whose keys are read before the job.
_SAMPLE = 20_000

# One of them is enough: the index of the records has the names of all ids.
_CLASSES_OF_OBJECTS = [
    source.name for source in SOURCES.values() if source.of_object and Needs.LABEL in source.needs
]

# The end of the names of shards, in a glob, too.
_OF_RECORDS = re.compile(r"\.tfrecords?(\.gz)?\*?$")

# Flags about files that are found, which have no meaning for records.
_OF_FILES = ("label_regex", "root")


class SourceDataset(NamedTuple):
    """A dataset among the values of `--images`.

    Attributes:
        folder: its folder, as given.
        manifest: of the dataset.
    """

    folder: str
    manifest: Mapping[str, Any]

    @property
    def features(self) -> dict[str, Feature]:
        """Its features by their sources."""
        return {each["source"]: Feature.from_manifest(each) for each in self.manifest["features"]}

    @property
    def size(self) -> JobSize:
        """The number of its records, and their bytes."""
        splits = self.manifest["splits"].values()
        count, size = (sum(split[name] for split in splits) for name in ("records", "bytes"))
        return JobSize(count, size, True)


def find_datasets(flags: argparse.Namespace) -> tuple[list[str], tuple[SourceDataset, ...]]:
    """The globs among the values of `--images`, and the datasets.

    A folder is a dataset if it holds a manifest, or files of a dataset without one.

    Raises:
        UsageError: a dataset is not finished, or its records are not images.
    """
    globs: list[str] = []
    found: dict[str, SourceDataset] = {}
    for pattern in flags.images or ():
        folder = pattern.rstrip("/") or "/"
        if not _is_dataset(folder):
            _check_no_part(pattern)
            globs.append(pattern)
        elif folder not in found:
            found[folder] = _opened(folder, flags)
    return globs, tuple(found.values())


def _is_dataset(folder: str) -> bool:
    if WILDCARD.search(folder):
        return False
    storage = storage_of(folder)
    try:
        if storage.exists(join(folder, MANIFEST)):
            return True
        if storage.find(folder) is not None or not storage.is_folder(folder):
            return False
        # A run is still writing it, or was stopped.
        return bool(storage.names_below(join(folder, STAGING)))
    except (OSError, ValueError):
        # The listing of the glob says what is wrong, unless it works and shows a manifest.
        with contextlib.suppress(OSError, ValueError):
            return any(True for _ in storage.list_files(join(glob.escape(folder), MANIFEST)))
        return False


def _check_no_part(pattern: str) -> None:
    folder, _, name = pattern.rpartition("/")
    if name == MANIFEST or _OF_RECORDS.search(name):
        raise UsageError(
            f"--images {pattern!r} is not for images: the records of a dataset are named by its "
            f"folder, {folder or '.'!r}"
        )


def _opened(folder: str, flags: argparse.Namespace) -> SourceDataset:
    try:
        manifest = open_dataset(folder)
    except UsageError as error:
        raise UsageError(f"--images: {error}") from error
    name = f"--images {folder}"
    if is_same_path(folder, flags.output):
        raise UsageError(
            f"{name} is also --output, whose manifest is removed while it is replaced: write to "
            "another folder"
        )
    if not with_role(manifest["features"], Role.IMAGE):
        roles = {source_of(each["source"]).role for each in manifest["features"]}
        held = "decoded pixels" if Role.PIXELS in roles else "no image files"
        held = "embeddings" if Role.EMBEDDING in roles else held
        raise UsageError(f"{name}: its records hold {held}: give the images of which it was made")
    if manifest["options"].get("compression") not in (None, "none"):
        raise UsageError(
            f"{name}: its shards are compressed, so no record can be read alone: give the images "
            "of which it was made"
        )
    listed = sum(entry["records"] for entry in manifest_indexes(manifest))
    if listed != sum(split["records"] for split in manifest["splits"].values()):
        raise UsageError(f"{name}: it has no index of its records: convert its images again")
    return SourceDataset(folder, manifest)


def check_flags_of_records(
    flags: argparse.Namespace, sources: Sequence[SourceDataset], *, has_files: bool
) -> None:
    """Refuses flags that have no meaning for records.

    Args:
        flags: those of the command line.
        sources: the datasets.
        has_files: whether some images are files.

    Raises:
        UsageError: there is such a flag; the message names it.
    """
    name = f"--images {sources[0].folder}"
    if flags.quarantine is not None:
        raise UsageError(
            f"--quarantine copies image files, but {name} is a dataset: leave it out, and see "
            "rejected.jsonl"
        )
    if has_files:
        return
    for other in _OF_FILES:
        if is_given(flags, other):
            raise UsageError(f"--{other} is for image files, but {name} is a dataset: leave it out")
    if flags.label_from in ("directory", "regex"):
        raise UsageError(
            f"--label_from {flags.label_from} is for image files, but {name} is a dataset, whose "
            "records have labels: leave it out, or give --labels CSV"
        )
    if flags.split_from == "directory":
        raise UsageError(
            f"--split_from directory is for image files, but {name} is a dataset: leave it out to "
            "keep its splits, or give --splits"
        )


def left_partners(sources: Sequence[SourceDataset]) -> list[Decision]:
    """A decision for each dataset whose masks and further images are not taken over."""
    roles = (Role.MASK, Role.FURTHER_IMAGE)
    return [
        Decision("left out", f"{name} of {source.folder}", "of a record, only its image is taken")
        for source in sources
        for role in roles
        for name in with_role(source.manifest["features"], role)
    ]


def key_kind(flags: argparse.Namespace, sources: Sequence[SourceDataset]) -> str | None:
    """The kind of the keys of records, which rows have to name; None if it is not known.

    Raises:
        UsageError: `--key` is another one.
    """
    kinds = {each.manifest["options"].get("key") for each in sources} - {None}
    if len(kinds) != 1:
        return None
    kind = str(kinds.pop())
    if flags.key not in (None, kind):
        raise UsageError(
            f"--key {flags.key}: the keys in --images {sources[0].folder} are of the kind {kind}, "
            "and stay as they are: leave --key out"
        )
    return kind


def kind_of_labels(kind: str, sources: Sequence[SourceDataset]) -> str:
    """The kind of labels: numbers that are names in a dataset stay names.

    Args:
        kind: without these datasets.
        sources: the datasets.
    """
    are_names = any(each.manifest["options"].get("label_kind") == "text" for each in sources)
    return "text" if kind == "auto" and are_names else kind


def sample_records(
    sources: Sequence[SourceDataset], kind: str, files: ImageSample | None = None
) -> ImageSample:
    """The first records, and the first images of the globs.

    Args:
        sources: the datasets.
        kind: of the keys.
        files: the first images of the globs; None without globs.

    Raises:
        UsageError: an index is damaged or cannot be read.
    """
    keys: set[str] = set()
    for source in sources:
        keys.update(row["key"] for row in _first_rows(source, _SAMPLE))
    sizes = [source.size for source in sources]
    is_all = all(size.images <= _SAMPLE for size in sizes)
    if files is None:
        files = ImageSample([], RECORDS, True, size=JobSize(is_all=True))
    whole = JobSize(
        files.size.images + sum(size.images for size in sizes),
        files.size.bytes + sum(size.bytes for size in sizes),
        files.size.is_all,
    )
    return dataclasses.replace(
        files,
        is_all=files.is_all and is_all,
        size=whole,
        _keys={kind: keys | files.keys(kind)},
    )


def _first_rows(source: SourceDataset, count: int) -> Iterator[dict[str, Any]]:
    try:
        for row, _ in itertools.islice(record_rows(source.folder, source.manifest), count):
            yield row
    except RecordIndexError as error:
        message = f"--images {source.folder}: {first_line(error)}; see `verify`"
        raise UsageError(message) from error
    except OSError as error:
        raise input_error(f"cannot read the index of --images {source.folder}", error) from error


def source_reader(sources: Sequence[SourceDataset], config: ConvertConfig) -> SourceReader | None:
    """What lists the records in the job; None without datasets.

    Args:
        sources: the datasets.
        config: of the run, which says whether their images are final.

    Raises:
        UsageError: an index is damaged or cannot be read.
    """
    if not sources:
        return None
    return SourceReader(
        tuple(_source(each, config) for each in sources),
        label_from=config.label_from,
        keeps_splits=config.split_from != "hash",
        with_values=config.row_requirements.needs_rows,
    )


def _source(source: SourceDataset, config: ConvertConfig) -> Source:
    manifest = source.manifest
    [feature, *_] = with_role(manifest["features"], Role.IMAGE)
    roles = {source_of(each.source).role for each in config.features}
    computes = bool(roles & {Role.PIXELS, Role.EMBEDDING})
    is_final = not computes and not other_pixel_option(manifest, config)
    is_changed = not {*manifest.get("pixels", {})} <= {*UNTOUCHED}
    return Source(
        source.folder,
        manifest.get("digest", ""),
        feature,
        {name: each.name for name, each in source.features.items()},
        is_final=is_final,
        # All images of a dataset have them, or none.
        has_hashes=config.dedupe != "drop" or all(row["content"] for row in _first_rows(source, 1)),
        # See `source_side`.
        has_sizes=(is_final or not is_changed) and not has_records(manifest),
    )


def features_of_records(
    features: Iterable[Feature], sources: Sequence[SourceDataset], layout: str
) -> tuple[Feature, ...]:
    """The features of a layout, of which records fill those that rows would fill.

    Optional ones that no dataset has are left out; columns get the types that they have there.

    Args:
        features: of the layout.
        sources: the datasets.
        layout: its name, for messages.

    Raises:
        UsageError: a dataset lacks one, or has it with another type.
    """
    kept = []
    for feature in features:
        held = [source.features.get(feature.source) for source in sources]
        if not feature.from_rows or (feature.from_label and not feature.of_object):
            # The index of the records has their labels.
            kept.append(feature)
        elif source_of(feature.source).is_optional:
            if any(held):
                kept.append(feature)
        elif feature.from_label:
            _check_held(feature, sources, layout, _CLASSES_OF_OBJECTS)
            kept.append(feature)
        else:
            _check_held(feature, sources, layout, (feature.source,))
            kept.append(_typed(feature, [each for each in held if each], sources, layout))
    return tuple(kept)


def _check_held(
    feature: Feature, sources: Sequence[SourceDataset], layout: str, names: Sequence[str]
) -> None:
    for source in sources:
        if not any(name in source.features for name in names):
            raise UsageError(
                f"--layout {layout} needs {feature.source} for {feature.name!r}, which the records "
                f"of --images {source.folder} do not hold: give --labels CSV, or another layout"
            )


def _typed(
    feature: Feature, held: Sequence[Feature], sources: Sequence[SourceDataset], layout: str
) -> Feature:
    """The feature with the type that its column has in the records."""
    first = held[0]
    dtype, type_ = feature.dtype or first.dtype, feature.type or first.type
    if not feature.dtype:
        feature = feature._replace(dtype=dtype, type=type_)
    for source, other in zip(sources, held, strict=True):
        if (other.dtype, other.holds_many) != (dtype, feature.holds_many):
            raise UsageError(
                f"--layout {layout}: {feature.name!r} ({feature.source}) is not of the type that "
                f"it has in the records of --images {source.folder}, {other.dtype}"
                f"{' list' if other.holds_many else ''}"
            )
    return feature
