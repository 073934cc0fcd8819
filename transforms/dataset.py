"""FindImages: lists and labels images for a caller's pipeline; with `WriteDataset`, all of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from transforms.core.annotations.label_tables import first_rows
from transforms.core.arguments import (
    class_texts,
    one_of,
    optional_delimiter,
    optional_path,
    own_words,
    path_texts,
    root_text,
    seed_number,
    split_shares,
)
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_kinds import LABEL_KINDS, missing_labels
from transforms.core.labels.path_labels import PathRules, parse_label_regex
from transforms.core.planning.archives import archive_problem
from transforms.core.planning.image_globs import any_case, expand_braces
from transforms.core.planning.keys import KEY_KINDS
from transforms.core.planning.split_assignment import SPLIT_SOURCES, SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.tables.csv_rows import CsvColumns
from transforms.core.tables.label_columns import resolve_columns
from transforms.core.tables.place_columns import with_place_columns
from transforms.find_images import ImageFinder
from transforms.flow import FindLabelledImages, ImageSource
from transforms.label_images import LabelImages
from transforms.read_labels import RowReader
from transforms.storage.files import storage_of
from transforms.write_dataset import WriteDataset

__all__ = ["FindImages", "LabelImages", "WriteDataset"]

# Rows of a CSV from which its columns are inferred.
_FIRST_ROWS = 20

# Where labels come from without a CSV.
_PATH_LABELS = ("directory", "regex", "webdataset", "none")


class FindImages(FindLabelledImages):
    """Lists images by globs and labels them by a CSV or by their folders.

    Input: the pipeline's begin. Output: `JoinedImages`. Only names move; no image is opened.
    """

    def __init__(
        self,
        images: Sequence[str | os.PathLike[str]],
        *,
        labels: str | os.PathLike[str] | None = None,
        label_key: str | None = None,
        label_column: str | None = None,
        csv_encoding: str = "utf-8",
        csv_delimiter: str | None = None,
        label_from: str | None = None,
        label_regex: str | None = None,
        label_kind: str = "auto",
        class_names: Sequence[str] | None = None,
        key: str | None = None,
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        split_from: str | None = None,
        split_column: str | None = None,
        group_by: str | None = None,
        seed: int = 0,
    ) -> None:
        """Checks the inputs: finds an image for each glob, and reads the first rows of `labels`.

        Args:
            images: globs, also of files in archives, such as `photos.zip!/**/*.jpg`.
            labels: path of a CSV, Parquet, JSON Lines or COCO file, or None.
            label_key: its column that names images, by name or number; None to infer it.
            label_column: its column of labels, by name or number; None to infer it.
            csv_encoding: a Python codec name.
            csv_delimiter: the character between cells, or `tab`; None to infer it.
            label_from: `directory`, `regex`, `webdataset` or `none` without `labels`; None is
                `regex` with `label_regex`, and `directory` without.
            label_regex: finds the label in a path below `root`.
            label_kind: the same as for `WriteDataset`; with `text`, `nan` is also a label.
            class_names: the same as for `WriteDataset`; a class `NA` is then a label.
            key: `stem`, `name`, `path` or `uri`; None is `stem` with `labels` and `path` without.
            root: a folder that contains all images; paths in the dataset are relative to it.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            split_from: `hash`, `csv` or `directory`; None is `csv` with `split_column`, and `hash`
                without.
            split_column: column of `labels` that names the split, by name or number.
            group_by: column of `labels` whose equal cells stay in one split, by name or number.
            seed: for record order and split assignment.

        Raises:
            LabelsError: the CSV has no such columns, or they cannot be inferred.
            OSError: the CSV cannot be read, or a folder cannot be listed.
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value, or a glob matches nothing.
        """
        path = optional_path("labels", labels)
        label_from = _label_source(label_from, label_regex, path)
        split_from = split_from or ("hash" if split_column is None else "csv")
        _check_places(split_from, split_column, group_by)
        chosen = {
            "label_key": label_key,
            "label_column": label_column,
            "split_column": split_column,
            "group_by": group_by,
        }
        if csv_delimiter is not None and path is None:
            raise ValueError("csv_delimiter is between the cells of labels: give labels, too")
        delimiter = optional_delimiter("csv_delimiter", csv_delimiter)
        columns = _columns(path, csv_encoding, delimiter, chosen, split_from)
        kind = one_of("key", key or ("path" if path is None else "stem"), KEY_KINDS)
        assigner = SplitAssigner(
            Splits(split_shares(splits)),
            seed=seed_number(seed),
            split_from=split_from,
            by_group=group_by is not None,
        )
        rules = PathRules(label_from, label_regex or "", split_from == "directory")
        finder = ImageFinder(root=root_text("root", root), key=kind, rules=rules)
        names = class_texts("class_names", class_names)
        missing = missing_labels(one_of("label_kind", label_kind, LABEL_KINDS), names)
        reader = columns and RowReader(columns, key=kind, encoding=csv_encoding, missing=missing)
        csv_paths = [] if path is None else [path]
        source = ImageSource(_globs(images), finder, csv_paths, reader, label_from, assigner)
        super().__init__(source)


def _label_source(label_from: str | None, label_regex: str | None, path: str | None) -> str:
    """The source of labels, from the given arguments.

    Raises:
        ValueError: the arguments contradict each other.
    """
    given = label_from or ("directory" if label_regex is None else "regex")
    one_of("label_from", given, _PATH_LABELS)
    if path is not None:
        for name, value in (("label_from", label_from), ("label_regex", label_regex)):
            if value is not None:
                raise ValueError(f"{name} is for images without labels: leave one of them out")
        return "csv"
    if (given == "regex") != (label_regex is not None):
        raise ValueError("label_regex goes with label_from 'regex', and with no other")
    if label_regex is not None:
        try:
            parse_label_regex(label_regex)
        except ValueError as error:
            raise ValueError(f"label_regex {error}") from error
    return given


def _globs(images: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The globs, with alternatives expanded; each pattern matches a file."""
    found: list[str] = []
    for pattern in path_texts("images", images):
        globs = expand_braces(pattern)
        for glob in globs:
            if problem := archive_problem(glob):
                raise ValueError(f"images {glob!r} {problem}")
        listings = (storage_of(glob).list_files(any_case(glob)) for glob in globs)
        # A job over nothing would publish an empty dataset.
        if not any(next(listing, None) for listing in listings):
            raise ValueError(f"no file matches {pattern!r} of images")
        found += globs
    return found


def _check_places(split_from: str, split_column: str | None, group_by: str | None) -> None:
    one_of("split_from", split_from, SPLIT_SOURCES)
    if split_column is not None and split_from != "csv":
        raise ValueError(f"split_column cannot be used with split_from {split_from!r}")
    if group_by is not None and split_from == "directory":
        raise ValueError("group_by cannot be used with split_from 'directory'")


def _columns(
    path: str | None,
    encoding: str,
    delimiter: str | None,
    chosen: Mapping[str, str | None],
    split_from: str,
) -> CsvColumns | None:
    """The columns of `labels`, inferred from its first rows."""
    if path is None:
        for name, column in chosen.items():
            if column is not None:
                raise ValueError(f"{name} is a column of labels: give labels, too")
        if split_from == "csv":
            raise ValueError("split_from 'csv' reads a column of labels: give labels, too")
        return None
    key, label, split, group = chosen.values()
    try:
        with storage_of(path).open_reader(path) as file:
            first = first_rows(file, _FIRST_ROWS, encoding=encoding, delimiter=delimiter, path=path)
        columns = resolve_columns(first, key=key, label=label, path=path)
        return with_place_columns(
            columns, first, split_from=split_from, split_column=split, group_by=group, path=path
        )
    except LabelsError as error:
        raise LabelsError(own_words(str(error))) from error
