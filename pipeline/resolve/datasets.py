"""Datasets as inputs: to reuse, as images, and held out."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import glob
import itertools
import logging
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from pipeline.open_dataset import has_manifest, is_indexed, record_files
from pipeline.options.parser import is_given
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.decided import SPLIT_WORDS
from pipeline.resolve.path_flags import LABEL_EXTENSIONS, images_below, plain_globs, why_empty
from pipeline.resolve.samples import GivenDataset, ImageSample, JobSize, reading_index
from transforms.core.messages import Decision, parse_json
from transforms.core.option import declared, text_of
from transforms.dataset.output_names import (
    CLASS_NAMES,
    FEATURES,
    INFO,
    LABELS,
    MANIFEST,
    STAGING,
)
from transforms.examples.layouts import (
    CLASSES,
    IMAGE,
    SOURCES,
    Feature,
    Role,
    is_layout_file,
    source_of,
    with_role,
)
from transforms.examples.partners import Partner
from transforms.images.pixel_options import HOLDOUT, UNTOUCHED, PixelOptions
from transforms.input_readers import LeftOut
from transforms.labels.keys import (
    MEMORY,
    WILDCARD,
    fixed_root,
    glob_regex,
    is_parquet,
    relative_path,
    tidy_root,
)
from transforms.labels.shards import changed_libraries, is_split_name, split_text
from transforms.labels.vocabulary import read_class_names
from transforms.records.foreign_records import (
    KEY,
    Noted,
    first_examples,
    foreign_manifest,
    meanings,
)
from transforms.records.other_datasets import (
    IMAGES,
    REUSE,
    DatasetReader,
    OtherDataset,
    OtherPartner,
    index_parts,
    is_unindexed,
)
from transforms.records.stored_images import RECORDS, has_records
from transforms.storage.files import is_same_path, join, storage_of

# The datasets of `--reuse`: whether their records can be reused in this run.

_LOGGER = logging.getLogger(__name__)


def read_bases(folders: Sequence[str], config: ConvertConfig) -> tuple[OtherDataset, ...]:
    """The datasets whose records can be reused; of each other, a line says why not.

    Args:
        folders: the values of `--reuse`.
        config: of the run.

    Raises:
        UsageError: a folder holds no dataset that this program reads.
    """
    bases = []
    for folder in folders:
        # A run that was killed while it replaced this dataset has all shards staged already.
        is_replaced = config.folder.overwrite and is_same_path(folder, config.folder.output)
        if is_replaced and not has_manifest(folder):
            continue
        dataset = GivenDataset.opened(REUSE, folder)
        manifest = dataset.manifest
        if reason := _difference(manifest, config):
            _LOGGER.warning("--reuse %s has no effect: %s", folder, reason)
            continue
        # Rows that list images spell them as the path of the CSV.
        own = config.globs if config.images else (config.root,)
        base = dataset.of_run(
            feature=_feature(manifest, config),
            root=same_spelling(manifest["root"], own),
            is_pixels=_is_of_pixels(config),
            partners=_partners(manifest, config),
        )
        bases.append(base)
    # A dataset that is in place is compared with the plan, or replaced: it needs no records.
    is_compared = bases and not config.folder.overwrite and has_manifest(config.folder.output)
    return () if is_compared else tuple(bases)


def same_spelling(root: str, globs: Sequence[str]) -> str:
    """The root of another dataset, absolute if the globs of this run are, and relative if not.

    A relative root is below this working folder. As it is if that cannot be decided: without
    globs, for those of both kinds, and for a path that leads out of a folder by `..`.

    Args:
        root: of the manifest.
        globs: of the images of this run.
    """
    kinds = {each.startswith("/") for each in globs}
    # A root in a bucket is not normal, for its two slashes.
    is_normal = (root or ".") == posixpath.normpath(root) and root != MEMORY
    storages = {type(storage_of(each)) for each in (root, *globs)}
    is_known = is_normal and len(kinds) == 1 and len(storages) == 1
    if not is_known or root.startswith("/") in kinds:
        return root
    spelled = (tidy_root(each) for each in storage_of(root).spellings(root or "."))
    return next(each for each in spelled if each.startswith("/") in kinds)


def moved_keys(was: str, now: str) -> tuple[str, str]:
    """What keys lose and get at their begin below another root; nothing if they stay.

    A root that was moved with all of its images keeps their keys.

    >>> moved_keys("y/2024", "y"), moved_keys("y", "y/2024"), moved_keys("y", "z")
    (('', '2024/'), ('2024/', ''), ('', ''))
    """
    if RECORDS in (was, now):
        return "", ""
    was, now = (f"{storage_of(root).absolute(root).removesuffix('/')}/" for root in (was, now))
    lost = now.removeprefix(was) if now.startswith(was) else ""
    return lost, was.removeprefix(now) if was.startswith(now) else ""


def _is_of_pixels(config: ConvertConfig) -> bool:
    """Whether the new records hold decoded pixels, and no image files."""
    roles = {feature.role for feature in config.features}
    return Role.PIXELS in roles and Role.IMAGE not in roles


def _feature(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The feature of a dataset from which the new records can be made; empty if there is none."""
    files, pixels = (with_role(manifest["features"], role) for role in (Role.IMAGE, Role.PIXELS))
    if not _is_of_pixels(config):
        return next(iter(files), "")
    # The hash in the index is that of the image files, if there are any.
    return "" if files else next(iter(pixels), "")


def _partners(
    manifest: Mapping[str, Any], config: ConvertConfig
) -> tuple[OtherPartner | None, ...]:
    """The masks and further images of a dataset, in the order of this run; None without one."""
    # A mask has the orientation of the stored image: both have files, or both pixels (`_feature`).
    names = {each["source"]: each["name"] for each in manifest["features"]}
    roots = manifest.get("partners", {})
    return tuple(
        OtherPartner(names[source], same_spelling(roots[partner.name], partner.globs))
        if (source := f"{partner.name}.bytes") in names and partner.name in roots
        else None
        for partner in config.partners
    )


def _difference(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The reason why no record of a dataset can be reused; empty if there is none."""
    if not manifest["index"]:
        return "it has no index"
    if config.of_rows:
        return "the new records are made of rows"
    if not _feature(manifest, config) and manifest.get("options_digest") != config.dataset.digest:
        kind = "decoded pixels" if _is_of_pixels(config) else "image files"
        return f"its records hold no {kind}"
    if flag := other_pixel_option(manifest, config):
        return f"it was made with another {flag}"
    if others := changed_libraries(manifest):
        return f"it was made with {'; '.join(others)}"
    return ""


def other_pixel_option(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The first flag about pixels and their check with which a dataset differs; empty if none."""
    was, now = manifest["options"], config.options
    for name in ("check", "max_pixels", *declared(PixelOptions)):
        # A given quality may apply to every image.
        recorded = (name, "reencode") if name == "quality" else (name,)
        if any(was.get(each) != now.get(each) for each in recorded):
            return f"--{name}"
    return ""


# The datasets of `--holdout`, none of whose images may be in the new dataset.


def read_held_out(flags: argparse.Namespace) -> tuple[OtherDataset, ...]:
    """The datasets, each checked by its first index.

    Raises:
        UsageError: a folder holds no dataset, or none that images can be compared with.
    """
    found = (_holdout(value, flags) for value in flags.holdout or ())
    return tuple({(each.folder, each.split): each for each in found}.values())


def folder_and_split(value: str) -> tuple[str, str]:
    """The folder and the split in a value of `--holdout`; the split is empty for all.

    >>> folder_and_split("gs://b/out:test"), folder_and_split("gs://b/out/")
    (('gs://b/out', 'test'), ('gs://b/out', ''))
    """
    folder, colon, split = value.rpartition(":")
    if not (colon and is_split_name(split)):
        folder, split = value, ""
    return folder.rstrip("/") or "/", split


def _holdout(value: str, flags: argparse.Namespace) -> OtherDataset:
    folder, split = folder_and_split(value)
    name = f"{HOLDOUT} {value}"
    if is_same_path(folder, flags.output):
        raise UsageError(f"{name} is also --output: its images would equal themselves")
    dataset = GivenDataset.opened(HOLDOUT, folder)
    manifest = dataset.manifest
    if split and split not in manifest["splits"]:
        has = ", ".join(manifest["splits"])
        raise UsageError(f"{name}: {folder} has no split {split!r}, but {has}")
    dataset.check_index(name, split)
    roles = (Role.IMAGE, Role.PIXELS, Role.EMBEDDING)
    has_images = any(with_role(manifest["features"], role) for role in roles)
    if manifest["options"].get("key") == "row" or not has_images:
        raise UsageError(f"{name}: its records are rows, not images")
    with reading_index(name):
        for part in itertools.islice(index_parts(manifest, HOLDOUT, split=split), 1):
            DatasetReader([dataset.of_run()]).checked(part)
    records, has_sizes = dataset.count("records", split), not has_records(manifest)
    return dataset.of_run(split=split, records=records, has_sizes=has_sizes)


# Files that `--images` or `--masks` match but that are no images, such as the label file.


def left_out(
    flags: argparse.Namespace, labels: Sequence[str], partners: Sequence[Partner] = ()
) -> tuple[LeftOut, list[Decision]]:
    """The paths that the listing of images leaves out, and a decision for each.

    Args:
        flags: those of the command line.
        labels: the label files.
        partners: masks and further images, which are listed like images.
    """
    others = (flags.class_names, flags.keys, is_layout_file(flags.layout) and flags.layout)
    paths = [*labels, *(path for path in others if isinstance(path, str))]
    named = [("--images", flags.images or ()), *((each.title, each.globs) for each in partners)]
    globs = {title: _any_of(patterns) for title, patterns in named}
    matched = {path: title for path in paths if (title := _matching(globs, path))}
    decisions = [
        Decision("left out", path, f"{title} matches it, and another flag names it")
        for path, title in matched.items()
    ]
    output = flags.output.rstrip("/")
    below: tuple[str, ...] = ()
    inside = (join(output, name) for name in (MANIFEST, LABELS, "x/train-0.tfrecord"))
    if title := next(filter(None, (_matching(globs, path) for path in inside)), ""):
        below = tuple(f"{each}/" for each in storage_of(output).spellings(output))
        decisions.append(Decision("left out", f"{output}/", f"{title} matches files of --output"))
    spelled = frozenset(each for path in matched for each in storage_of(path).spellings(path))
    return LeftOut(spelled, below), decisions


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """A regular expression for `fullmatch` of absolute paths that one of some globs matches."""
    regexes = (glob_regex(storage_of(each).absolute(each)).pattern for each in patterns)
    # Nothing matches the first one.
    return re.compile("|".join(["(?!)", *regexes]), re.DOTALL)


def _matching(globs: Mapping[str, re.Pattern[str]], path: str) -> str:
    """The first flag of which a glob matches a path, or what a layout file names; empty if none."""
    absolute = storage_of(path).absolute(path)
    return next((title for title, regex in globs.items() if regex.fullmatch(absolute)), "")


# The datasets among the values of `--images`: their records are images of the run.

# One of them is enough: the index of the records has the names of all ids.
_CLASSES_OF_OBJECTS = [
    source.name for source in SOURCES.values() if source.of_object and source.role in CLASSES
]

# In the names of files of records, in a glob, too.
_OF_RECORDS = re.compile(r"\.tfrec|-of-[\d?*]+$")


def find_datasets(
    flags: argparse.Namespace,
) -> tuple[list[str], tuple[GivenDataset, ...], list[Decision]]:
    """The globs among the values of `--images`, the datasets, and what folders of images mean.

    A folder is a dataset if it holds a manifest, or files of a dataset without one. TFRecord files
    that another program wrote are one, too.

    Raises:
        UsageError: a dataset is not finished, or its records are not images.
    """
    globs: list[str] = []
    found: dict[str, GivenDataset] = {}
    decisions: list[Decision] = []
    for pattern in flags.images or ():
        folder = pattern.rstrip("/") or "/"
        above, _, name = pattern.rpartition("/")
        is_of_records = name == MANIFEST or _OF_RECORDS.search(name)
        if _is_dataset(folder):
            found.setdefault(folder, _opened(folder, flags))
        elif is_of_records and _is_dataset(above or ".") and not is_indexed(above or "."):
            raise UsageError(
                f"--images {pattern!r} is not for images: the records of a dataset are named "
                f"by its folder, {above or '.'!r}"
            )
        elif name.rpartition(".")[2].lower() in LABEL_EXTENSIONS - {"parquet"}:
            raise UsageError(
                f"--images {pattern!r} names labels: give it to --labels, or write images, "
                "labels and output in this order"
            )
        elif not is_of_records and (images := images_below(pattern)):
            globs += images[0]
            decisions.append(images[1])
        elif files := _record_files(pattern, is_folder=not is_of_records):
            found[pattern], meant = loose_dataset(
                f"{IMAGES} {pattern}", pattern, files, flags.record_features
            )
            decisions += meant
        else:
            globs.append(pattern)
    of_others = any(is_unindexed(each.manifest) for each in found.values())
    if flags.record_features and not (of_others or any(map(is_parquet, globs))):
        raise UsageError(
            "--record_features is for Parquet files, and TFRecord files that another program wrote "
            "and nobody indexed: leave it out"
        )
    return globs, tuple(found.values()), decisions


def _record_files(pattern: str, *, is_folder: bool) -> dict[str, int]:
    """The files of records that a value of `--images` names, with their sizes."""
    if is_folder and (WILDCARD.search(pattern) or storage_of(pattern).find(pattern) is not None):
        return {}
    with trying(f"list --images {pattern!r}"):
        globs = [pattern] if is_folder else plain_globs([pattern], "--images")
        found = {uri: size for each in globs for uri, size in record_files(each).items()}
    if not (found or is_folder):
        raise UsageError(f"no file matches --images {pattern!r}; {why_empty(pattern)}")
    return found


# Files whose first records are read to find out what features mean: a test set has no labels.
_FIRST_FILES = 8

# What is said of features, by their sources.
_SAID = {
    IMAGE: "images",
    "label.id": "labels",
    "label.text": "names",
    "object.ids": "objects",
    "object.texts": "objects",
    "box.xmin": "boxes",
    KEY: "keys",
}


def loose_dataset(
    title: str, pattern: str, files: Mapping[str, int], given: Mapping[str, str] | None
) -> tuple[GivenDataset, list[Decision]]:
    """TFRecord files of another program as a dataset, and what their features mean.

    Args:
        title: what names them, for messages.
        pattern: a path or a glob, or their folder.
        files: that it names, with their sizes.
        given: names of features, see `foreign_records.meanings`.

    Raises:
        UsageError: the first records are damaged, or do not hold what they should.
    """
    folder = pattern.rstrip("/") if pattern not in files else pattern.rpartition("/")[0]
    folder = fixed_root([pattern]) if WILDCARD.search(folder) else folder
    some = [*files][:: max(1, len(files) // _FIRST_FILES)]
    with reading_index(title):
        first = [*itertools.chain.from_iterable(map(first_examples, some))]
    above = next(iter(files)).rpartition("/")[0] or "."
    splits, known = _of_tfds(above)
    with refusing(ValueError, because=f"{title}: "):
        names = meanings(first, given or {}, known)
    classes = {} if names.keys() & {"label.text", "object.texts"} else _class_names(above, names)
    words = "|".join(map(re.escape, sorted({*SPLIT_WORDS, *splits}, key=len, reverse=True)))
    of_split = re.compile(rf"(?<![a-z])({words})(?![a-z])", re.IGNORECASE)
    listed = [
        (file, split_text(["train", *of_split.findall(file)][-1]), size)
        for file, size in ((relative_path(uri, folder), size) for uri, size in files.items())
    ]
    noted = Noted()
    for example in first:
        noted.add_features(example)
    manifest = foreign_manifest([pattern], listed, noted.features(names), classes)
    said = [(source, f"in {name!r}") for source, name in names.items() if source in _SAID]
    said += [] if KEY in names else [(KEY, "file and number")]
    flag = "--record_features"
    because = "usual names of features" if given is None else f"by {flag}, or usual names"
    decided = [Decision(_SAID[source], value, because, flag) for source, value in said]
    return GivenDataset(IMAGES, folder or ".", manifest), decided


def _of_tfds(folder: str) -> tuple[list[str], dict[str, list[str]]]:
    """The splits that TensorFlow Datasets wrote into a folder, its images and its labels."""
    splits: list[str] = []
    known: dict[str, list[str]] = {"image": [], "label": []}
    kinds = {"Image": "image", "ClassLabel": "label"}
    storage = storage_of(folder)
    # Its files are only asked for hints.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        info = parse_json(storage.read_text(join(folder, INFO)) or "{}")
        splits += [each["name"] for each in info["splits"] if is_split_name(each["name"])]
        described = parse_json(storage.read_text(join(folder, FEATURES)) or "{}")
        for name, each in described["featuresDict"]["features"].items():
            if kind := kinds.get(each["pythonClassName"].rpartition(".")[2]):
                known[kind].append(name)
    return splits, known


def _class_names(folder: str, names: Mapping[str, str]) -> dict[int, str]:
    """The names of the class ids of records, as TensorFlow Datasets or TF-Slim write them."""
    feature = names.get("label.id", "").replace("/", ".")
    for name in (f"{feature}{CLASS_NAMES}", LABELS):
        with contextlib.suppress(OSError, ValueError):
            if text := storage_of(folder).read_text(join(folder, name)):
                return dict(enumerate(read_class_names(text)))
    return {}


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


def _opened(folder: str, flags: argparse.Namespace) -> GivenDataset:
    dataset = GivenDataset.opened(IMAGES, folder)
    manifest, name = dataset.manifest, f"{IMAGES} {folder}"
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
    dataset.check_index(name)
    return dataset


def check_flags_of_records(
    flags: argparse.Namespace, sources: Sequence[GivenDataset], *, has_files: bool
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
    of_files = {
        "--root": is_given(flags, "root"),
        f"--label_from {flags.label_from}": flags.label_from == "directory"
        or bool(text_of(flags.label_from)),
        "--split_by folder": flags.split_by == "folder",
    }
    for flag in filter(of_files.get, of_files):
        raise UsageError(
            f"{flag} is for image files, but {name} is a dataset, whose records keep their labels "
            "and splits: leave it out, or give --labels CSV or --splits"
        )


def left_partners(sources: Sequence[GivenDataset]) -> list[Decision]:
    """A decision for each dataset whose masks and further images are not taken over."""
    roles = (Role.MASK, Role.FURTHER_IMAGE)
    return [
        Decision("left out", f"{name} of {source.folder}", "of a record, only its image is taken")
        for source in sources
        for role in roles
        for name in with_role(source.manifest["features"], role)
    ]


def key_kind(flags: argparse.Namespace, sources: Sequence[GivenDataset]) -> str | None:
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


NO_FILES = ImageSample([], RECORDS, True, size=JobSize(is_all=True))
"""The sample of a command without globs."""


def sample_records(
    sources: Sequence[GivenDataset], kind: str, files: ImageSample = NO_FILES
) -> ImageSample:
    """The first records, and the first images of the globs.

    Args:
        sources: the datasets.
        kind: of the keys.
        files: the first images of the globs.

    Raises:
        UsageError: an index is damaged or cannot be read.
    """
    found = [[row["key"] for row in source.rows(source.sampled)] for source in sources]
    keys = dict.fromkeys(itertools.chain.from_iterable(found), "")
    pairs = [*zip(sources, found, strict=True)]
    # Without an index, the number of records is known if all of them were read.
    counts = [source.count("records") or len(own) for source, own in pairs]
    is_all = all(len(own) < source.sampled for source, own in pairs)
    whole = JobSize(
        files.size.images + sum(counts),
        files.size.bytes + sum(source.count("bytes") for source in sources),
        files.size.is_all and (is_all or all(source.count("records") for source in sources)),
    )
    return dataclasses.replace(
        files,
        is_all=files.is_all and is_all,
        size=whole,
        _keys={kind: keys | files.keys(kind)},
    )


def image_source(source: GivenDataset, config: ConvertConfig) -> OtherDataset:
    """A dataset whose records are images of a run.

    Args:
        source: the dataset.
        config: of the run, which says whether its images are final.

    Raises:
        UsageError: its index is damaged or cannot be read.
    """
    manifest = source.manifest
    [feature, *_] = with_role(manifest["features"], Role.IMAGE)
    roles = {source_of(each.source).role for each in config.features}
    computes = bool(roles & {Role.PIXELS, Role.EMBEDDING})
    is_final = not computes and not other_pixel_option(manifest, config)
    is_changed = not {*manifest.get("pixels", {})} <= {*UNTOUCHED}
    return source.of_run(
        feature=feature,
        is_final=is_final,
        # All images of a dataset have them, or none.
        has_hashes=not config.checks.drops_duplicates
        or all(row["content"] for row in source.rows(1)),
        # See `source_side`.
        has_sizes=(is_final or not is_changed) and not has_records(manifest),
    )


def features_of_records(
    features: Iterable[Feature], sources: Sequence[GivenDataset], layout: str
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
        else:
            needed = {*_CLASSES_OF_OBJECTS} if feature.from_label else {feature.source}
            for source in sources:
                if needed.isdisjoint(source.features):
                    raise UsageError(
                        f"--layout {layout} needs {feature.source} for {feature.name!r}, which the "
                        f"records of --images {source.folder} do not hold: give --labels CSV, or "
                        "another layout"
                    )
            found = [each for each in held if each and not feature.from_label]
            kept.append(_typed(feature, found, sources, layout) if found else feature)
    return tuple(kept)


def _typed(
    feature: Feature, held: Sequence[Feature], sources: Sequence[GivenDataset], layout: str
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
