"""Flags of labels, keys and classes."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from pipeline.open_dataset import open_dataset
from pipeline.options.beam_flags import has_local_workers
from pipeline.resolve.decided import SPLIT_WORDS, check_folders
from pipeline.resolve.layout_flags import Layout
from pipeline.resolve.path_flags import read_flag_file
from pipeline.resolve.samples import (
    ImageSample,
    LabelFiles,
    Sample,
    listed_key_hint,
    mismatch_hint,
    read_label_inputs,
)
from transforms.core.machine import scratch_folder
from transforms.core.messages import LabelsError
from transforms.core.option import text_of
from transforms.core.records import TablePart
from transforms.dataset.image_statistics import KEYS_UNMATCHED, DatasetWarning
from transforms.dataset.manifest import names_of_ids
from transforms.dataset.output_names import LABELS, MANIFEST
from transforms.input_readers import KeyReader, open_labels
from transforms.labels.annotations import category_classes, yaml_class_names
from transforms.labels.joins import STANDARD_INPUT
from transforms.labels.keys import is_in_parquet, listed_path, row_key
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_options import SplitOptions
from transforms.labels.label_rows import (
    AS_THEY_ARE,
    FORMATS,
    YOLO,
    Category,
    LabelRow,
    find_key_cells,
    keys_as_they_are,
)
from transforms.labels.label_rules import KnownClasses, LabelRules, PathRules, split_folder
from transforms.labels.vocabulary import (
    LabelCounter,
    check_integers,
    decide_kind,
    labels_in,
    missing_labels,
    parse_labels,
    read_class_names,
)
from transforms.storage.files import is_same_path, join, read_dataset_file, storage_of

# The classes of `--class_names`: names in a file, or the classes of a dataset and their ids.

_FLAG = "--class_names"


def check_ids(classes: KnownClasses, rules: LabelRules) -> None:
    """Checks that the classes of a dataset keep their ids under the other flags.

    Raises:
        UsageError: they do not; the message names a flag.
        LabelsError: see `Vocabulary.build`.
    """
    ids = classes.ids
    if not ids:
        return
    cannot = f"{_FLAG} {classes.source}: its class ids cannot be kept: "
    now = _ids(rules)
    if now == ids:
        name, smallest = min(ids.items(), key=lambda each: each[1])
        if smallest < rules.first_id:
            raise UsageError(
                f"{cannot}{name[:40]!r} is {smallest} there, which readers of --layout detection "
                "reserve for the background: use another layout"
            )
        return
    others = {
        "add --dense_labels": rules._replace(dense=True),
        "leave out --dense_labels": rules._replace(dense=False),
        "add --label_kind text": rules._replace(kind="text"),
        "leave out --label_kind text": rules._replace(kind="auto"),
    }
    hint = "only ids of --layout detection begin at 1: use the same layout"
    if max(ids.values()) - min(ids.values()) >= len(ids):
        hint = "there are gaps between them, which only the categories of COCO labels give"
    for keeps, other in others.items():
        with contextlib.suppress(LabelsError):
            if _ids(other) == ids:
                hint = keeps
                break
    name = next(name for name, class_id in ids.items() if now.get(name) != class_id)
    raise UsageError(
        f"{cannot}{name[:40]!r} is {ids[name]} there, and would be {now.get(name, 'unknown')}; "
        f"{hint}"
    )


def _ids(rules: LabelRules) -> Mapping[str, int]:
    known = rules.vocabulary((), rules.kind)
    return dict(zip(known.lines, known.ids, strict=True))


def known_classes(
    source: str | tuple[str, ...] | KnownClasses | None, replaced: str = ""
) -> KnownClasses:
    """Reads the classes.

    Args:
        source: a file, also the `data.yaml` of YOLO; the folder of a dataset; the names, listed in
            the file of `--config`; or the classes of a run that is repeated.
        replaced: the folder whose dataset this run replaces; empty if it replaces none.

    Raises:
        UsageError: they cannot be read, or the folder holds no dataset with classes, or the one
            that is replaced.
        LabelsError: the file has no class name, or the same name twice.
    """
    if source is None:
        return KnownClasses()
    if isinstance(source, KnownClasses):
        return source
    if not isinstance(source, str):
        return KnownClasses(read_class_names("\n".join(source)))
    if replaced and is_same_path(source, replaced):
        # A run that is killed while it publishes could not read the classes again.
        raise UsageError(
            f"{_FLAG} {source} is also --output, whose manifest is removed while it is replaced: "
            f"copy its {LABELS} to a file, or write to another folder"
        )
    with trying(f"read {_FLAG} {source}"):
        storage = storage_of(source)
        is_file = storage.find(source) is not None
        if not is_file and storage.is_folder(source):
            return _of_dataset(source.rstrip("/") or "/")
    if not is_file:
        raise UsageError(f"no such file: {_FLAG} {source}; write one class name per line of a file")
    text = read_flag_file(_FLAG, source)
    if source.lower().endswith(".csv") and "," in text.partition("\n")[0]:
        raise UsageError(f"{_FLAG} {source} is a table: write one class name per line")
    if source.lower().endswith((".yaml", ".yml")):
        text = "\n".join(yaml_class_names(text, f"{_FLAG} {source}"))
    return KnownClasses(read_class_names(text))


def classes_of_records(datasets: Mapping[str, Mapping[str, Any]], *, first_id: int) -> KnownClasses:
    """The classes of datasets whose records are images, with the ids that categories gave them.

    There are none, and labels are sorted, unless all datasets have such ids, which agree.

    Args:
        datasets: the manifest of each dataset by its folder.
        first_id: the smallest id that readers take for a class.
    """
    # The categories of label files gave the classes their ids.
    if not all("categories" in manifest["options"] for manifest in datasets.values()):
        return KnownClasses()
    categories = {
        folder: [Category(*each, 1) for each in names_of_ids(manifest).items()]
        for folder, manifest in datasets.items()
    }
    with contextlib.suppress(LabelsError):
        return category_classes(categories, first_id=first_id)
    return KnownClasses()


def _of_dataset(folder: str) -> KnownClasses:
    with refusing(UsageError, because=f"{_FLAG}: "):
        manifest = open_dataset(folder)
    if manifest["labels"] == "none":
        raise UsageError(f"{_FLAG} {folder}: this dataset has no labels")
    path, listed = join(folder, LABELS), manifest["files"].get(LABELS)
    if listed is None:
        edited = join(folder, MANIFEST)
        raise UsageError(f"{_FLAG}: {edited} was edited: it lists no {LABELS}")
    with trying(f"read {_FLAG} {path}"):
        data = read_dataset_file(path, listed)
    if data is None:
        raise UsageError(
            f"{_FLAG}: {path} was changed, its checksum is not that in {MANIFEST}: restore it, or "
            "copy the names to a file"
        )
    classes = parse_labels(data.decode())
    if not classes:
        raise UsageError(
            f"{_FLAG} {folder}: its {LABELS} is empty, since its integer labels are ids that it "
            "cannot list; they are kept without the flag"
        )
    ids = {name: number for number, name in classes.items()}
    numbers = tuple(classes) if "categories" in manifest["options"] else None
    return KnownClasses(tuple(ids), ids, folder, numbers)


# The keys of `--keys`: a file, or standard input, of which a copy is kept for the run.

# Keys used to try a hint.
_HINT_KEYS = 1_000


@contextlib.contextmanager
def standard_input_kept(flags: argparse.Namespace, beam_flags: Sequence[str]) -> Iterator[None]:
    """Replaces `--keys -` in the flags by a copy of standard input, within the block.

    Args:
        flags: the result of `parse_flags`.
        beam_flags: options of Beam, which say whether the workers are on this machine, where the
            copy is.

    Raises:
        UsageError: they are not.
    """
    if flags.keys != STANDARD_INPUT:
        yield
        return
    if not has_local_workers(beam_flags):
        raise UsageError(
            "--keys - is standard input of this machine, which the workers of --runner cannot "
            "read: give a file in a bucket"
        )
    with scratch_folder() as folder:
        path = os.path.join(folder, "keys.txt")
        source = sys.stdin.buffer
        if source.seekable():
            # The command may have been started again.
            source.seek(0)
        with open(path, "wb") as file:
            shutil.copyfileobj(source, file)
        flags.keys = KeyReader(path, STANDARD_INPUT)
        yield


def read_keys(sample: Sample, key: str) -> KeyReader | None:
    """The reader of the keys, if there are any, checked on the first images.

    Args:
        sample: of the inputs.
        key: the kind of their keys.

    Raises:
        UsageError: the file cannot be read, lists no key, or no key of an image.
        LabelsError: a line is not a key.
    """
    reader = sample.flags.keys
    if reader is None:
        return None
    if not isinstance(reader, KeyReader):
        if reader == STANDARD_INPUT:
            raise UsageError("--keys - is only possible on the command line: give a file")
        reader = KeyReader(reader)
    with trying(f"read --keys {reader.name}"):
        try:
            _check(reader, sample.images, key)
        except OSError as error:
            # With no permission, whether the file exists may not be asked either.
            storage = storage_of(reader.path)
            if isinstance(error, PermissionError) or storage.exists(reader.path):
                raise
            raise UsageError(f"no such file: --keys {reader.name}; list keys in a file") from error
    return reader


def _check(reader: KeyReader, sample: ImageSample, key: str) -> None:
    known = sample.keys(key) if sample.is_all else {}
    first: list[str] = []
    for listed, _ in reader.read():
        if not known or listed in known:
            return
        if len(first) < _HINT_KEYS:
            first.append(listed)
    if not first:
        raise UsageError(f"--keys {reader.name} lists no key: write one per line")
    hint = listed_key_hint(first, sample, key)
    raise UsageError(
        f"no image has a key in --keys {reader.name}, such as {first[0][:60]!r}; images have keys "
        f"like {min(known)!r} (--key {key}); {hint}"
    )


# The label flags: where labels come from, and which files and columns hold them.

# Rows used to try a hint.
_HINT_ROWS = 1_000

# Rows used to find the columns, and files that are opened for what the run refuses later: of
# thousands, each takes a quarter of a millisecond. And characters of rows that are held, with some
# for each cell: a segmentation may have a megabyte.
_FIRST_ROWS, _FIRST_FILES = 20, 1000
_MOST_HELD, _CELL = 64 << 20, 60

# Rows from which a run is decided.
SAMPLE_ROWS = 20_000


def label_source(sample: Sample) -> str:
    """Where labels come from: `csv`, `directory`, `regex`, `webdataset`, `records` or `none`.

    Raises:
        UsageError: the flags contradict each other, or do not say.
    """
    flags, images, sources = sample.flags, sample.images, sample.sources
    if flags.label_from == "records" and not images.labels and (not sources or images.uris):
        raise UsageError(
            "--label_from records: image files have no records; give another source of labels"
            if sources
            else "--label_from records needs the folder of a dataset in --images, or Parquet files "
            "with a column of labels"
        )
    if sources and not images.uris and flags.labels is None and flags.label_from is None:
        has_labels = any(source.manifest["labels"] != "none" for source in sources)
        return "records" if has_labels else "none"
    if flags.label_from == "webdataset" and not images.labels:
        raise UsageError(
            "--label_from webdataset finds no image with a KEY.cls, or a label in a KEY.json, next "
            "to it; it reads .tar archives, as in --images 'shards/*.tar!/**/*.jpg'"
        )
    # Otherwise rows list the images, and their labels come from elsewhere.
    if flags.labels is not None and (flags.images or not asks_path(flags)):
        return "csv"
    if expression := text_of(flags.label_from):
        paths = [listed_path(uri, images.root) for uri in images.uris]
        if not any(map(PathRules("regex", expression).label, paths)):
            raise UsageError(
                f"--label_from regex:{expression} finds no label in any of {len(paths)} paths, "
                f"such as {paths[0]!r}: it is searched for in the path below {images.root or '.'!r}"
            )
        return "regex"
    if flags.label_from is not None:
        return str(flags.label_from)
    if images.labels:
        return "records" if any(map(is_in_parquet, images.labels)) else "webdataset"
    # Images with masks or further images need no labels.
    return "none" if sample.partners else _folders(flags, images)


def _folders(flags: argparse.Namespace, sample: ImageSample) -> str:
    """`directory`, if all images are in folders, and in several."""
    paths = sample.keys("path")
    if flags.split_by == "folder":
        if not any(split_folder(path).casefold() in SPLIT_WORDS for path in paths):
            check_folders(sample, "directory")
        paths = {path.partition("/")[2]: "" for path in paths}
    folders = {os.path.dirname(path) for path in paths}
    if len(folders) > 1 and "" not in folders:
        return "directory"
    column = "--record_features label=COLUMN, " * any(map(is_in_parquet, sample.uris))
    raise UsageError(
        f"cannot tell where labels come from: give {column}--labels CSV, or --label_from directory "
        "(a folder for each class) or none"
    )


def asks_path(flags: argparse.Namespace) -> bool:
    """Whether the flags say that labels do not come from rows."""
    return flags.label_from in ("none", "directory") or text_of(flags.label_from) != ""


def label_files(sample: Sample, key: str, layout: Layout) -> LabelFiles:
    """The files of `--labels`, and the columns in them.

    Raises:
        UsageError: there is none, or it cannot be read.
        LabelsError: a column is missing or cannot be inferred.
    """
    flags = sample.flags
    files = read_label_inputs(flags, sample.labels, _FIRST_ROWS, has_boxes=layout.has_boxes)
    if files.first.format == YOLO and key != "stem":
        raise UsageError(
            f"--key {key} cannot be used with YOLO labels: their names are stems of images"
        )
    keys = sample.images.keys(key)

    def is_key(cell: str) -> bool:
        return row_key(cell, kind=key) in keys

    spelling = find_key_cells if flags.key_cells == "auto" else keys_as_they_are
    files = with_columns(
        flags, files, lambda cell: spelling([cell], is_key) is not None, layout.needs_label
    )
    spelled = spelling(files.keys, is_key) or AS_THEY_ARE
    files = files._replace(columns=files.columns._replace(key_cells=spelled))
    # Annotations have no columns to find, and each file of COCO was read to its end.
    for path in () if FORMATS[files.first.format].units else files.paths[1:_FIRST_FILES]:
        next(label_rows(flags, files._replace(paths=(path,))), None)
    return files


def with_columns(
    flags: argparse.Namespace,
    files: LabelFiles,
    is_image_key: Callable[[str], bool],
    label_required: bool,
) -> LabelFiles:
    """The label files with their columns of keys, labels, splits and groups.

    Raises:
        LabelsError: a column is missing or cannot be inferred.
    """
    columns = resolve_columns(
        files.first,
        key=flags.label_key,
        label=flags.label_column,
        splits=SplitOptions.of(vars(flags)),
        is_image_key=is_image_key,
        path=files.paths[0],
        label_required=label_required,
    )
    return files._replace(columns=columns)


def with_first_rows(flags: argparse.Namespace, found: LabelFiles) -> LabelFiles:
    """The label files with their first rows, from which everything is decided.

    To read rows takes as long as in a run, so they are read once.
    """
    paths = found.paths[:_FIRST_FILES], found.paths[_FIRST_FILES:]
    rows, others = (label_rows(flags, found._replace(paths=each)) for each in paths)
    sampled: list[tuple[str, LabelRow]] = []
    held = 0
    for path, row in itertools.islice(rows, SAMPLE_ROWS):
        sampled.append((path, row))
        held += sum(len(cell) + _CELL for cell in (row.key, row.label, row.group, *row.cells))
        if held > _MOST_HELD:
            break
    return found._replace(sampled=sampled, others=itertools.chain(rows, others))


def check_label_kind(
    sample: Sample, rules: PathRules, found: LabelFiles | None, separator: str
) -> None:
    """Refuses contradictory labels before a job starts, based on the first ones.

    Args:
        sample: of the inputs; the paths of images may hold the labels.
        rules: how a path gives a label.
        found: the label files, if there are any.
        separator: between the labels in one cell.

    Raises:
        LabelsError: see `decide_kind`.
    """
    flags, images = sample.flags, sample.images
    is_integer = flags.label_kind == "integer"
    if not is_integer and (flags.label_kind != "auto" or flags.class_names is not None):
        return
    if found is not None and found.columns.categories:
        return
    counter = LabelCounter()
    if rules.label_from in ("webdataset", "records"):
        for uri, label in images.labels.items():
            counter.add(label, listed_path(uri, images.root))
    elif found is None or rules.label_from in ("directory", "regex"):
        for path in (listed_path(uri, images.root) for uri in images.uris):
            if label := rules.label(path):
                counter.add(label, path)
    elif found.columns.label.at >= 0:
        missing = missing_labels(flags.label_kind)
        for path, row in found.sampled:
            for label in labels_in(row.label, missing, separator):
                counter.add(label, path, row.line)
    counted = counter.counted()
    if is_integer:
        check_integers(counted)
    else:
        decide_kind(counted)


def label_rows(
    flags: argparse.Namespace, found: LabelFiles, *, are_sound: bool = True
) -> Iterator[tuple[str, LabelRow]]:
    """The well-formed rows, or the others, each after the path of its file."""
    for path in found.paths:
        with trying(f"read --labels {path}"):
            for file, rows in open_labels(TablePart(path), found.columns, flags.csv_encoding):
                yield from ((file, row) for row in rows if are_sound != bool(row.problem))


def check_matches(sample: Sample, key: str, files: LabelFiles) -> tuple[DatasetWarning, ...]:
    """Refuses labels if no row identifies an image, and warns if most rows or images are alone.

    Rows are read until one does and nothing explains those that do not: of a long table, the first
    ones may be of other images. Of files for each image, none is opened after that.
    """
    if sample.listed or not sample.images.is_all:
        return ()
    flags, keys = sample.flags, sample.images.keys(key)
    is_single = FORMATS[files.first.format].is_per_image
    # If one more row is not there, these are all.
    rows, size = itertools.chain(files.sampled, files.others), len(files.sampled) + 1
    named: set[str] = set()
    cells: list[str] = []
    count, matches, is_whole = 0, 0, False
    while not is_whole:
        before = count
        for _, row in itertools.islice(rows, size):
            count += 1
            found = row_key(row.key, kind=key)
            if found in keys:
                named.add(found)
                matches += 1
            elif len(cells) < SAMPLE_ROWS:
                cells.append(row.key)
        is_whole = count < before + size
        alone = keys.keys() - named
        is_most = 2 * matches < count or 2 * len(named) < len(keys)
        is_odd = bool(named and is_most and cells and alone)
        hint = mismatch_hint(cells, alone, sample.images, key) if is_odd else ""
        if named and (is_single or not (hint or (is_whole and is_odd))):
            return ()
        size *= 2
    if not count:
        lacks = "row below its header"
        for path, row in itertools.islice(label_rows(flags, files, are_sound=False), 1):
            lacks = f"usable row: {path}:{row.line}: {row.problem}"
        raise UsageError(f"--labels {flags.labels} has no {lacks}")
    hint = hint if named else mismatch_hint(cells[:_HINT_ROWS], alone, sample.images, key)
    shown = (
        f"column {files.columns.key.name!r} holds {cells[0][:60]!r}, images have keys like "
        f"{min(alone)!r} (--key {key}); {hint or 'check --label_key and --key'}"
    )
    if not named:
        raise UsageError(f"no row of --labels {flags.labels} names an image: {shown}")
    text = (
        f"{count - matches} of {count} rows of --labels {flags.labels} name no image, and "
        f"{len(alone)} of {len(keys)} images no row: {shown}"
    )
    return (DatasetWarning(KEYS_UNMATCHED, text),)
