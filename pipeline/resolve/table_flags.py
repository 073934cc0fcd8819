"""The flags of a command without images, in which rows are records."""

from __future__ import annotations

import argparse
import dataclasses
import itertools

from pipeline.config import ConvertConfig, shared_fields
from pipeline.errors import UsageError
from pipeline.flags.option_table import OPTIONS
from pipeline.flags.options import is_given
from pipeline.inputs.given_card import given_card
from pipeline.inputs.image_samples import ImageSample
from pipeline.inputs.label_inputs import read_label_inputs
from pipeline.resolve.decided import decide
from pipeline.resolve.label_flags import label_rows
from pipeline.resolve.layout_flags import (
    SAMPLE_ROWS,
    column_types,
    read_layout_file,
    with_cells,
)
from pipeline.resolve.root_flags import root_of
from pipeline.resolve.split_checks import check_splits
from pipeline.resolve.split_flags import add_place_columns, split_source
from transforms.core.examples.row_records import table_features
from transforms.core.features.column_types import TypedRow, infer_types, with_file_types
from transforms.core.features.layouts import ROWS, Feature, is_layout_file
from transforms.core.features.row_features import row_requirements
from transforms.core.label_errors import LabelsError
from transforms.core.tables.csv_rows import (
    NO_KEY,
    CsvColumns,
    FirstRows,
    header_names,
)
from transforms.core.tables.label_columns import find_further
from transforms.core.tables.table_formats import FORMATS

# Rows that are searched for names of splits.
_FIRST_ROWS = 20


def is_table(flags: argparse.Namespace) -> bool:
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
    features = read_layout_file(flags.layout).features
    return all(feature.column is not None for feature in features)


def table_config(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and files into a configuration.

    Raises:
        UsageError: something is missing, unreadable or in the way.
        LabelsError: the CSV cannot be used.
    """
    _check_flags(flags)
    split_from = split_source(flags, ImageSample([], "", False), "csv")
    inputs = read_label_inputs(flags, _FIRST_ROWS)
    paths, first = inputs.paths, inputs.first
    if FORMATS[first.format].is_per_image or first.categories:
        title = FORMATS[first.format].title
        raise UsageError(f"--layout {flags.layout} needs a table, but --labels is {title}")
    if not first.rows:
        raise LabelsError(f"{paths[0]} is empty: give a file with rows to --labels")
    columns = _columns(flags, first, paths[0])
    features = _features(flags, first, columns, paths[0])
    features, of_file = with_file_types(features, column_types(first))
    names, header = row_requirements(features).columns, header_names(first.rows[0])
    columns = with_cells(columns, names, header, paths[0], flags.layout)
    rows = list(itertools.islice(label_rows(flags, paths, columns), SAMPLE_ROWS))
    if not rows:
        raise UsageError(
            f"--labels {flags.labels} has no usable row: below the header, each row needs "
            f"{columns.width} cells"
        )
    warnings = check_splits(
        flags,
        ImageSample([], "", False),
        columns,
        first,
        split_from=split_from,
        label_from="none",
    )
    typed = [TypedRow(row.line, row.cells) for row in rows]
    features, types = infer_types(features, typed, columns.cell_names, of_file)
    config = ConvertConfig(
        **shared_fields(flags),
        card=given_card(flags),
        warnings=warnings,
        images=(),
        root=root_of(flags, "--labels", [flags.labels]),
        label_from="none",
        csv_paths=paths,
        columns=columns,
        key="row",
        class_names=None,
        quarantine=None,
        layout_features=features,
        split_from=split_from,
        of_rows=True,
    )
    decided = decide(flags, config, types=types)
    return dataclasses.replace(config, decisions=(*inputs.decisions(), *decided))


def _check_flags(flags: argparse.Namespace) -> None:
    if flags.labels is None:
        raise UsageError(f"--layout {flags.layout} makes records from rows: give --labels CSV")
    for name, option in OPTIONS.items():
        if option.of_images and is_given(flags, name):
            raise UsageError(
                f"--{name} cannot be used with --layout {flags.layout} without --images: it makes "
                "records from rows alone"
            )
    if flags.split_from == "directory":
        raise UsageError("--split_from directory needs --images: rows are not in folders")


def _columns(flags: argparse.Namespace, first: FirstRows, path: str) -> CsvColumns:
    """The positions of key, split and group."""
    header = header_names(first.rows[0])
    columns = CsvColumns(
        first.delimiter,
        has_header=True,
        key=NO_KEY,
        label=None,
        key_name="",
        label_name=None,
        width=len(header),
        is_strict=True,
        because_delimiter=first.because,
        format=first.format,
    )
    if flags.label_key is not None:
        at = find_further(columns, first, flags.label_key, "--label_key", path)
        columns = columns._replace(key=at, key_name=header[at])
    return add_place_columns(columns, first, flags, path)


def _features(
    flags: argparse.Namespace, first: FirstRows, columns: CsvColumns, path: str
) -> tuple[Feature, ...]:
    if is_layout_file(flags.layout):
        return read_layout_file(flags.layout).features
    return table_features(header_names(first.rows[0]), columns.split_name, path=path)
