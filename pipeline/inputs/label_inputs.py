"""The files of `--labels`: which there are, in which format, and how they begin."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from pipeline.errors import UsageError, input_error
from pipeline.inputs.image_samples import list_inputs, plain_globs, why_empty
from pipeline.resolve.path_flags import check_path
from transforms.core.annotations.coco_json import SEGMENTATIONS
from transforms.core.annotations.label_tables import first_annotations, first_rows
from transforms.core.decisions import Decision
from transforms.core.tables.csv_rows import FirstRows
from transforms.core.tables.table_formats import (
    COCO,
    CSV,
    FORMATS,
    HEAD_BYTES,
    VOC,
    YOLO,
    Category,
    find_format,
    is_annotation,
    is_yolo,
)
from transforms.open_labels import annotation_files
from transforms.storage.files import storage_of

# Files whose first bytes are read to find one that is not empty.
_FIRST_FILES = 100

# Options of a CSV, with their defaults.
_OF_CSV = {"csv_delimiter": None, "csv_encoding": "utf-8"}


class LabelInputs(NamedTuple):
    """The files of `--labels`.

    Attributes:
        paths: of the tables, sorted; or the globs of files for each image.
        first: the first rows of the first, and the format of all.
        categories: those of each COCO file.
    """

    paths: tuple[str, ...]
    first: FirstRows
    categories: Mapping[str, Sequence[Category]]

    def decisions(self, *, has_object_masks: bool = False) -> tuple[Decision, ...]:
        """What was decided, for the block "Decided"; nothing for a CSV.

        Args:
            has_object_masks: whether the layout takes segmentations.
        """
        found = FORMATS[self.first.format]
        if self.first.format == CSV:
            return ()
        decided = [Decision("label format", found.title, found.because)]
        left_out = dict(self.first.left_out)
        read = "boxes and categories"
        if self.first.format == COCO and has_object_masks:
            objects = sum(category.uses for category in self.first.categories)
            if (empty := objects - left_out.pop(SEGMENTATIONS, 0)) > 0:
                because = "these annotations have no segmentation"
                decided.append(Decision("empty masks", f"{empty:,} objects", because))
            read = "boxes, categories and segmentations"
        if left_out:
            counts = ", ".join(f"{count:,} {what}" for what, count in left_out.items())
            flag = "--layout" if SEGMENTATIONS in left_out else ""
            decided.append(Decision("no features", counts, f"{read} are read", flag))
        if self.first.format == YOLO:
            because = "YOLO writes no file for such images"
            decided.append(Decision("no label file", "no objects", because))
            if has_object_masks:
                decided += self._without_outlines()
        return tuple(decided)

    def _without_outlines(self) -> tuple[Decision, ...]:
        """How many of the first objects of YOLO have a box alone."""
        outlines = [outline for _, label, *_, outline in self.first.rows[1:] if label]
        if not (empty := outlines.count("")):
            return ()
        value = f"{empty} of the first {len(outlines)} objects"
        return (Decision("empty masks", value, "these lines are boxes, not outlines"),)


def read_label_inputs(
    flags: argparse.Namespace, count: int, *, has_boxes: bool = False
) -> LabelInputs:
    """Finds the files of `--labels` and reads their first rows.

    Args:
        flags: the result of `parse_flags`.
        count: how many rows.
        has_boxes: whether the layout needs boxes, which the files of YOLO have.

    Raises:
        UsageError: there is no file, it cannot be read, or files have several formats.
        LabelsError: it cannot be read as a table.
    """
    files = label_paths(flags)
    format_ = _format_of_each(files, has_boxes)
    if format_ == YOLO and not has_boxes:
        # Rows of numbers may be a CSV, of which more is said then.
        said = (flags.label_key, flags.label_column, flags.csv_delimiter)
        if flags.images and said == (None, None, None):
            raise UsageError(
                f"--labels {flags.labels} looks like YOLO, whose labels are boxes: add --layout "
                "detection"
            )
        format_ = ""
    if format_:
        globs = tuple(plain_globs([flags.labels], "--labels"))
        with _readable(files[0]):
            first = first_annotations(_contents(globs), count, format_)
        found = LabelInputs(globs, first, {})
    else:
        first = read_first(flags, files[0], count)
        found = LabelInputs(files, first, {})
        if first.format == COCO:
            found = _with_categories(flags, found)
        elif len({path.rpartition(".")[2] for path in files}) > 1:
            _check_formats(flags, found)
    if first.format != CSV:
        for name, default in _OF_CSV.items():
            if getattr(flags, name) != default:
                title = FORMATS[first.format].title
                raise UsageError(
                    f"--{name} is for CSV files, but --labels is {title}: leave it out"
                )
    return found


def label_paths(flags: argparse.Namespace) -> tuple[str, ...]:
    """The files that `--labels` matches, sorted.

    Raises:
        UsageError: there is none, or the name of one is not valid.
    """
    globs = plain_globs([flags.labels], "--labels")
    paths = tuple(sorted({file.uri for glob in globs for file in list_inputs(glob, "--labels")}))
    if not paths:
        raise UsageError(
            f"no file matches --labels {flags.labels!r}; {why_empty(flags.labels, of_labels=True)}"
        )
    for path in paths:
        check_path("--labels", path)
    return paths


def read_first(flags: argparse.Namespace, path: str, count: int) -> FirstRows:
    """The first rows of a table.

    Raises:
        UsageError: it cannot be read.
        LabelsError: it cannot be read as a table.
    """
    with open_table(path) as file:
        return first_rows(
            file, count, encoding=flags.csv_encoding, delimiter=flags.csv_delimiter, path=path
        )


@contextlib.contextmanager
def open_table(path: str) -> Iterator[BinaryIO]:
    """A label file, open for reading.

    Raises:
        UsageError: it cannot be read.
    """
    with _readable(path), storage_of(path).open_reader(path) as file:
        yield file


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise input_error(f"cannot read --labels {path}", error) from error


def _format_of_each(files: Sequence[str], has_boxes: bool) -> str:
    """The format of files that are of one image each; empty for tables."""
    known = [path for path in files if is_annotation(path)]
    names = {path.rpartition(".")[2].lower() for path in known}
    if names not in ({"xml"}, {"txt"}):
        return ""
    has_text = False
    for path in known[:_FIRST_FILES]:
        with _readable(path):
            head = storage_of(path).read_range(path, 0, HEAD_BYTES)
        if find_format(path, head) == VOC:
            return VOC
        has_text = has_text or bool(head.strip())
        # A file with a wrong line rejects its image alone.
        if head.strip() and is_yolo(path, head):
            return YOLO
    return YOLO if has_boxes and not has_text else ""


def _contents(globs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for path, data in itertools.chain.from_iterable(map(annotation_files, globs)):
        if isinstance(data, bytes):
            yield path, data


def _with_categories(flags: argparse.Namespace, found: LabelInputs) -> LabelInputs:
    """The categories of all files, each read to its end."""
    files = {found.paths[0]: found.first}
    files |= {path: read_first(flags, path, 0) for path in found.paths[1:]}
    _check_same(found.paths[0], {path: first.format for path, first in files.items()})
    merged: dict[int, Category] = {}
    left_out: dict[str, int] = {}
    for first in files.values():
        for each in first.categories:
            uses = merged[each.id].uses if each.id in merged else 0
            merged[each.id] = each._replace(uses=uses + each.uses)
        for what, count in first.left_out:
            left_out[what] = left_out.get(what, 0) + count
    first = found.first._replace(
        categories=tuple(merged.values()), left_out=tuple(left_out.items())
    )
    return LabelInputs(found.paths, first, {path: each.categories for path, each in files.items()})


def _check_formats(flags: argparse.Namespace, found: LabelInputs) -> None:
    formats = {path: read_first(flags, path, 1).format for path in found.paths[1:]}
    _check_same(found.paths[0], {found.paths[0]: found.first.format, **formats})


def _check_same(path: str, formats: Mapping[str, str]) -> None:
    for other, format_ in formats.items():
        if format_ != formats[path]:
            titles = [FORMATS[each].title for each in (formats[path], format_)]
            raise UsageError(
                f"--labels: {path} is {titles[0]}, but {other} is {titles[1]}: give files of one "
                "format"
            )
