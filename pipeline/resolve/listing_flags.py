"""The flags of a command without --images: the rows of --labels list the images."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.inputs.image_samples import ImageSample
from pipeline.inputs.label_inputs import read_label_inputs
from pipeline.resolve.label_flags import LabelFiles, asks_path
from pipeline.resolve.path_flags import is_web_address
from pipeline.resolve.split_flags import add_place_columns
from transforms.core.features.box_columns import is_automl
from transforms.core.features.layouts import DETECTION
from transforms.core.planning.image_lists import (
    listed_problem,
    listed_uri,
    names_image,
    top_folder,
)
from transforms.core.planning.keys import fixed_root, tidy_root
from transforms.core.tables.csv_rows import FirstRows, find_column, header_names
from transforms.core.tables.key_cells import KeyCells
from transforms.core.tables.label_columns import resolve_columns
from transforms.core.tables.table_formats import CSV, FORMATS
from transforms.storage.files import join, storage_of

# First rows; at least one must name an existing file.
_ROWS = 50


class ListedImages(NamedTuple):
    """Images that rows list.

    Attributes:
        flags: the flags, completed from the file.
        sample: the first images.
        files: the label files.
        places: folders that listed local files must be in, see `top_folder`; None for anywhere.
    """

    flags: argparse.Namespace
    sample: ImageSample
    files: LabelFiles
    places: tuple[str, ...] | None


def read_listing(flags: argparse.Namespace) -> ListedImages:
    """Resolves label files that list the images.

    Raises:
        UsageError: there is none, or its first rows name no file.
        LabelsError: a column is missing or cannot be inferred.
    """
    if flags.labels is None:
        raise UsageError("give --images GLOB, or --labels CSV with a column of image paths")
    inputs = read_label_inputs(flags, _ROWS, has_boxes=flags.layout in DETECTION)
    paths, first = inputs.paths, inputs.first
    if FORMATS[first.format].is_per_image:
        title = FORMATS[first.format].title
        raise UsageError(f"{title} files do not say in which folder images are: give --images GLOB")
    flags = _completed(flags, first, paths[0])
    columns = resolve_columns(
        first,
        key=flags.label_key,
        label=flags.label_column,
        is_image_key=names_image,
        path=paths[0],
        label_required=not asks_path(flags),
    )
    columns = add_place_columns(columns, first, flags, paths[0])
    rows = first.rows[1:] if columns.has_header else first.rows
    cells = [row[columns.key] for row in rows if columns.key < len(row)]
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
            f"{columns.key_name!r} names no file in its first rows{shown}: {hint} --images GLOB, "
            "or paths from the CSV's folder"
        )
    root = fixed_root(paths) if flags.root is None else tidy_root(flags.root)
    return ListedImages(
        flags,
        ImageSample(uris, root, False),
        LabelFiles(inputs, columns),
        None if flags.allow_outside else _places(paths, uris, flags.root),
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
    if first.format == CSV and first.rows and _is_automl(first):
        added["label_key"] = flags.label_key or "2"
        if not asks_path(flags):
            added["label_column"] = flags.label_column or "3"
        column: str | None = "1"
    else:
        names = header_names(first.rows[0]) if first.rows else []
        at = find_column(names, "split", path=path)
        column = None if at is None else names[at]
    if flags.split_from in (None, "csv") and flags.split_column is None:
        added["split_column"] = column
    return argparse.Namespace(**added)


def _is_automl(first: FirstRows) -> bool:
    """Whether every row has the AutoML form: split, image, label, and for detection, corners."""
    return len({len(row) for row in first.rows}) == 1 and all(
        is_automl(row, names_image) for row in first.rows
    )
