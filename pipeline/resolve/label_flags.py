"""The label flags: where labels come from, and which files and columns hold them."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.errors import UsageError, input_error
from pipeline.flags.options import is_given
from pipeline.inputs.image_samples import ImageSample
from pipeline.inputs.key_hints import key_hint
from pipeline.inputs.label_inputs import LabelInputs, read_label_inputs
from pipeline.inputs.source_datasets import SourceDataset
from pipeline.resolve.layout_flags import SAMPLE_ROWS, Layout
from pipeline.resolve.split_flags import add_place_columns
from transforms.core.labels.label_kinds import (
    LabelCounter,
    decide_kind,
    is_canonical_integer,
    labels_in,
    missing_labels,
)
from transforms.core.labels.path_labels import PathRules
from transforms.core.planning.image_lists import listed_path
from transforms.core.planning.keys import relative_path, row_key
from transforms.core.tables.csv_rows import CsvColumns, FirstRows, LabelRow
from transforms.core.tables.key_cells import AS_THEY_ARE, find_key_cells, keys_as_they_are
from transforms.core.tables.label_columns import resolve_columns
from transforms.core.tables.table_formats import FORMATS, YOLO
from transforms.open_labels import open_labels

# Rows used to try a hint.
_HINT_ROWS = 1_000

# Rows used to find the columns.
_FIRST_ROWS = 20


def label_source(
    flags: argparse.Namespace,
    sample: ImageSample,
    sources: Sequence[SourceDataset] = (),
    *,
    has_partners: bool = False,
) -> str:
    """Where labels come from: `csv`, `directory`, `regex`, `webdataset`, `records` or `none`.

    Args:
        flags: those of the command line.
        sample: the first images.
        sources: datasets whose records are images.
        has_partners: whether images have masks or further images, which need no labels.

    Raises:
        UsageError: the flags contradict each other, or do not say.
    """
    if flags.label_from == "records" and (not sources or sample.uris):
        raise UsageError(
            "--label_from records: image files have no records; give another source of labels"
            if sources
            else "--label_from records needs the folder of a dataset in --images"
        )
    if sources and not sample.uris and flags.labels is None and flags.label_from is None:
        has_labels = any(source.manifest["labels"] != "none" for source in sources)
        return "records" if has_labels else "none"
    if flags.label_regex is not None and flags.labels is not None and flags.images:
        raise UsageError(
            "--label_regex cannot be used with --labels and --images: give one of them"
        )
    if flags.images and flags.label_from not in (None, "csv"):
        for name in ("labels", "label_key"):
            if is_given(flags, name):
                raise UsageError(f"--{name} cannot be used with --label_from {flags.label_from}")
    _check_neighbours(flags, sample)
    # Rows list the images, and their labels come from elsewhere.
    lists_images = not flags.images and asks_path(flags)
    if lists_images and flags.label_from == "none":
        return "none"
    if flags.labels is not None and not lists_images:
        return "csv"
    if flags.label_regex is not None:
        _check_regex(flags.label_regex, sample)
        return "regex"
    if flags.label_from is not None:
        return str(flags.label_from)
    if sample.labels:
        return "webdataset"
    return "none" if has_partners else _folders(flags, sample)


def _folders(flags: argparse.Namespace, sample: ImageSample) -> str:
    """`directory`, if all images are in folders, and in several."""
    paths = [relative_path(uri, sample.root) for uri in sample.uris]
    if flags.split_from == "directory":
        paths = [path.partition("/")[2] for path in paths]
    folders = {os.path.dirname(path) for path in paths}
    if len(folders) > 1 and "" not in folders:
        return "directory"
    raise UsageError(
        "cannot tell where labels come from: give --labels CSV, or --label_from directory "
        "(a folder for each class) or none"
    )


def _check_neighbours(flags: argparse.Namespace, sample: ImageSample) -> None:
    if flags.label_from == "webdataset" and not sample.labels:
        raise UsageError(
            "--label_from webdataset finds no image with a KEY.cls, or a label in a KEY.json, next "
            "to it; it reads .tar archives, as in --images 'shards/*.tar!/**/*.jpg'"
        )


def asks_path(flags: argparse.Namespace) -> bool:
    """Whether the flags say that labels do not come from rows."""
    return flags.label_from in ("none", "directory", "regex") or flags.label_regex is not None


def _check_regex(expression: str, sample: ImageSample) -> None:
    rules = PathRules("regex", expression)
    paths = [listed_path(uri, sample.root) for uri in sample.uris]
    if not any(rules.label(path) for path in paths):
        raise UsageError(
            f"--label_regex {expression!r} finds no label in any of {len(paths)} paths, such as "
            f"{paths[0]!r}: it is searched for in the path below {sample.root or '.'!r}"
        )


class LabelFiles(NamedTuple):
    """The files of `--labels`.

    Attributes:
        inputs: the files.
        columns: in each of them.
    """

    inputs: LabelInputs
    columns: CsvColumns

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files, or globs of them."""
        return self.inputs.paths

    @property
    def first(self) -> FirstRows:
        """The first rows of the first file."""
        return self.inputs.first


def label_files(
    flags: argparse.Namespace, sample: ImageSample, key: str, layout: Layout
) -> LabelFiles:
    """The files of `--labels`, and the columns in them.

    Raises:
        UsageError: there is none, it cannot be read, or it lists no image.
        LabelsError: a column is missing or cannot be inferred.
    """
    inputs = read_label_inputs(flags, _FIRST_ROWS, has_boxes=layout.has_boxes)
    paths, first = inputs.paths, inputs.first
    if first.format == YOLO and key != "stem":
        raise UsageError(
            f"--key {key} cannot be used with YOLO labels: their names are stems of images"
        )
    keys = sample.keys(key)

    def is_key(cell: str) -> bool:
        return row_key(cell, kind=key) in keys

    spelling = find_key_cells if flags.key_cells == "auto" else keys_as_they_are
    columns = resolve_columns(
        first,
        key=flags.label_key,
        label=flags.label_column,
        is_image_key=lambda cell: spelling([cell], is_key) is not None,
        path=paths[0],
        label_required=layout.needs_label,
    )
    rows = first.rows[1:] if columns.has_header else first.rows
    cells = [row[columns.key] for row in rows if columns.key < len(row)]
    columns = columns._replace(key_cells=spelling(cells, is_key) or AS_THEY_ARE)
    columns = add_place_columns(columns, first, flags, paths[0])
    for path in () if FORMATS[first.format].is_per_image else paths[1:]:
        next(_rows(path, columns, flags.csv_encoding), None)
    if sample.is_all:
        _check_any_match(flags, sample, key, paths, columns)
    return LabelFiles(inputs, columns)


def label_rows(
    flags: argparse.Namespace, paths: Sequence[str], columns: CsvColumns
) -> Iterator[LabelRow]:
    """The well-formed rows of all files."""
    for path in paths:
        yield from _rows(path, columns, flags.csv_encoding)


def check_dense_names(flags: argparse.Namespace, class_names: Sequence[str] | None) -> None:
    """Refuses `--dense_labels` if `--class_names` already numbers the classes.

    Raises:
        UsageError: the class names do not need the flag.
    """
    if flags.dense_labels and not all(map(is_canonical_integer, class_names or ())):
        file = f" {flags.class_names}" if isinstance(flags.class_names, str) else ""
        raise UsageError(
            f"--dense_labels is for integer labels; --class_names{file} numbers its lines from 0 "
            "already: leave one out"
        )


def check_label_kind(
    flags: argparse.Namespace,
    sample: ImageSample,
    rules: PathRules,
    found: LabelFiles | None,
    separator: str,
) -> None:
    """Refuses contradictory labels before a job starts, based on the first ones.

    Args:
        flags: those of the command line.
        sample: the first images, whose paths may hold the labels.
        rules: how a path gives a label.
        found: the label files, if there are any.
        separator: between the labels in one cell.

    Raises:
        LabelsError: see `decide_kind`.
    """
    if flags.label_kind != "auto" or flags.class_names is not None:
        return
    if found is not None and found.columns.categories:
        return
    counter = LabelCounter()
    if rules.label_from == "webdataset":
        for uri, label in sample.labels.items():
            counter.add(label, listed_path(uri, sample.root))
    elif found is None or rules.label_from in ("directory", "regex"):
        for path in (listed_path(uri, sample.root) for uri in sample.uris):
            if label := rules.label(path):
                counter.add(label, path)
    elif found.columns.label is not None:
        missing = missing_labels(flags.label_kind)
        columns, encoding = found.columns, flags.csv_encoding
        rows = ((path, row) for path in found.paths for row in _rows(path, columns, encoding))
        for path, row in itertools.islice(rows, SAMPLE_ROWS):
            for label in labels_in(row.label, missing, separator):
                counter.add(label, path, row.line)
    decide_kind(counter.counted())


def _rows(path: str, columns: CsvColumns, encoding: str) -> Iterator[LabelRow]:
    try:
        for _, rows in open_labels(path, columns, encoding):
            yield from (row for row in rows if isinstance(row, LabelRow))
    except OSError as error:
        raise input_error(f"cannot read --labels {path}", error) from error


def _check_any_match(
    flags: argparse.Namespace,
    sample: ImageSample,
    key: str,
    paths: tuple[str, ...],
    columns: CsvColumns,
) -> None:
    """Refuses labels if no row identifies an image; the search ends at the first that does."""
    keys = sample.keys(key)
    cells: list[str] = []
    for path in paths:
        for row in _rows(path, columns, flags.csv_encoding):
            if row_key(row.key, kind=key) in keys:
                return
            if len(cells) < _HINT_ROWS:
                cells.append(row.key)
    if not cells:
        raise UsageError(f"--labels {flags.labels} has no usable row: check its columns")
    hint = key_hint(cells, sample)
    raise UsageError(
        f"no row of --labels {flags.labels} names an image: column {columns.key_name!r} holds "
        f"{cells[0][:60]!r}, images have keys like {min(keys)!r} (--key {key}); {hint}"
    )
