"""A sample of the inputs: first images, first rows, and hints from both."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.errors import UsageError, refusing, trying
from pipeline.open_dataset import open_dataset
from pipeline.options.parser import is_given
from pipeline.resolve.path_flags import (
    check_path,
    image_globs,
    list_inputs,
    plain_globs,
    why_empty,
)
from transforms.core.messages import Decision, first_line
from transforms.dataset.image_statistics import DatasetWarning
from transforms.examples.layouts import Feature
from transforms.examples.partners import Partner
from transforms.input_readers import LeftOut, annotation_files
from transforms.labels.annotations import SEGMENTATIONS
from transforms.labels.keys import (
    KEY_KINDS,
    any_case,
    image_key,
    other_case,
    row_key,
)
from transforms.labels.label_rows import (
    COCO,
    CSV,
    FORMATS,
    HEAD_BYTES,
    NO_COLUMNS,
    VOC,
    YOLO,
    Category,
    CsvColumns,
    FirstRows,
    LabelRow,
    find_format,
    is_annotation,
    is_yolo,
)
from transforms.labels.label_tables import first_annotations, first_rows
from transforms.records.other_datasets import (
    ImageRecordReader,
    OtherDataset,
    index_parts,
    is_unindexed,
)
from transforms.records.record_index import RecordIndexError, index_split, key_kind
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile

# How large a job is, as far as it is known before it starts.


class JobSize(NamedTuple):
    """The size of a job.

    Attributes:
        images: their number, at least.
        bytes: of their files, at least; 0 if unknown.
        is_all: whether there are no more.
    """

    images: int = 0
    bytes: int = 0
    is_all: bool = False

    def __str__(self) -> str:
        """The size in words.

        >>> print(JobSize(30000, 10**9, True), JobSize(20000), sep=", ")
        30,000 images, at least 20,000 images
        """
        return f"{'' if self.is_all else 'at least '}{self.images:,} images"


# The first images that a command's globs match, used to check its other flags.

# Images inspected before the job: enough to match a row of any sorted or shuffled CSV.
_SAMPLE = 20_000

# Of records without an index.
_LOOSE_SAMPLE = 1_000

_NOTHING = LeftOut()


@dataclasses.dataclass(frozen=True)
class ImageSample:
    """The first images that the globs match.

    Attributes:
        uris: at most `_SAMPLE` of them.
        root: the folder below which paths and keys begin.
        is_all: whether there are no more.
        others: those with an extension in a different case than in their glob.
        size: of the job, as far as the sample shows it.
        labels: of those that have one next to them in their archive.
    """

    uris: list[str]
    root: str
    is_all: bool
    others: int = 0
    size: JobSize = JobSize()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    _keys: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict, repr=False)

    def keys(self, kind: str) -> dict[str, str]:
        """The images by their keys of one kind; of a record, the image is empty."""
        if kind not in self._keys:
            keys = {image_key(uri, kind=kind, root=self.root): uri for uri in self.uris}
            self._keys[kind] = keys
        return self._keys[kind]


def first_files(
    patterns: Sequence[str], title: str, left_out: LeftOut = _NOTHING
) -> tuple[list[tuple[str, FoundFile]], bool]:
    """The first files of all globs, without those that are left out.

    Each glob has an equal part of the sample. What some need not, others get: they are listed a
    second time, so that all globs together are listed to twice the size of the sample.

    Args:
        patterns: of images or masks, which may have alternatives.
        title: of the flag, for messages.
        left_out: files that the globs match, but that are none of them.

    Returns:
        the files, each after its glob; and whether there are no more.

    Raises:
        UsageError: a pattern matches nothing, or cannot be listed.
    """
    plain = [(each, pattern) for pattern in patterns for each in image_globs([pattern], title)]

    def first(at: int, count: int) -> list[FoundFile]:
        each = plain[at][0]
        files = list_inputs(each, title, listed=any_case(each))
        return [*itertools.islice((file for file in files if not left_out.has(file.uri)), count)]

    most = max(1, _SAMPLE // len(plain))
    found = [first(at, most + 1) for at in range(len(plain))]
    matched = {pattern for (_, pattern), files in zip(plain, found, strict=True) if files}
    for pattern in patterns:
        if pattern not in matched:
            why = why_empty(pattern)
            globs = (each for each, of in plain if of == pattern)
            if any(any(list_inputs(each, title, listed=any_case(each))) for each in globs):
                # Left out, as the output of an earlier run would be.
                why = "its files are in --output, or are those of other flags: give another folder"
            raise UsageError(f"no file matches {title} {pattern!r}; {why}")
    left = _SAMPLE - sum(min(len(files), most) for files in found)
    is_all = True
    for at, files in enumerate(found):
        if len(files) > most:
            limit = most + max(0, left)
            files = first(at, limit + 1) if left > 0 else files
            is_all = is_all and len(files) <= limit
            found[at] = files[:limit]
            left -= len(found[at]) - most
    globs = (each for each, _ in plain)
    return [
        (each, file) for each, files in zip(globs, found, strict=True) for file in files
    ], is_all


def sample_images(globs: Sequence[str], root: str, left_out: LeftOut) -> ImageSample:
    """The first images of all globs below `root`; raises as `first_files` does."""
    found, is_all = first_files(globs, "--images", left_out)
    uris = [file.uri for _, file in found]
    size = JobSize(len(uris), sum(file.size for _, file in found), is_all)
    labels = {file.uri: file.label for _, file in found if file.label}
    others = sum(other_case(each, file.uri) for each, file in found)
    return ImageSample(uris, root, is_all, others, size, labels)


# Hints in messages, each tried on the actual inputs before it is given.

# Characters of a line and of a key that are shown.
_SHOWN = 60

# What two spellings of a key differ in, and what makes them the same.
_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "upper and lower case": str.casefold,
    "leading zeros": lambda key: re.sub(r"(?<!\d)0+(?=\d)", "", key),
    "the extension": lambda key: os.path.splitext(key)[0],
    "the folder": os.path.basename,
}


def mismatch_hint(
    cells: Sequence[str], keys: Collection[str], sample: ImageSample, kind: str
) -> str:
    """What at least half of the keys without a counterpart differ in; empty if nothing is found.

    Args:
        cells: those of rows without an image.
        keys: those of images without a row.
        sample: the images.
        kind: of the keys.
    """
    rows = {row_key(cell, kind=kind) for cell in cells}
    least = -(-min(len(rows), len(keys)) // 2)
    named = other_key(cells, sample, least=least)
    hints: Counter[str] = Counter()
    for what, spell in _SPELLINGS.items():
        known = {spell(key): key for key in keys}
        pairs = [(row, known[spell(row)]) for row in rows if spell(row) in known]
        if pairs:
            row, key = min(pairs)
            hints[f"{row[-_SHOWN:]!r} and {key[-_SHOWN:]!r} differ in {what}"] = len(pairs)
    for texts, others, (which, not_which) in (
        (rows, keys, ("cells", "keys of images")),
        (keys, rows, ("keys of images", "cells")),
    ):
        for text in texts:
            for at in range(1, min(len(text), _SHOWN)):
                if text[at:] in others:
                    hints[f"{which} begin with {text[:at]!r}, {not_which} do not"] += 1
                if text[:-at] in others:
                    hints[f"{which} end with {text[-at:]!r}, {not_which} do not"] += 1
    hint = max(hints, key=lambda hint: (hints[hint], hint), default="")
    return "; ".join(filter(None, (hint if hints[hint] >= least else "", named)))


def listed_key_hint(lines: Sequence[str], sample: ImageSample, kind: str) -> str:
    """How the lines of `--keys`, which are compared as they are, become keys of images.

    Args:
        lines: the first ones; none of them is a key.
        sample: the images.
        kind: of their keys.
    """
    if named := other_key(lines, sample, lambda line, _: line):
        return named
    keys = sample.keys(kind)
    for line in lines:
        near = row_key(line, kind=kind)
        below = (key for key in keys if line.endswith(f"/{key}"))
        if key := near if near in keys else max(below, key=len, default=""):
            return f"write {key[:_SHOWN]!r} for {line[-_SHOWN:]!r}"
    return "write one such key a line"


def other_key(
    texts: Sequence[str],
    sample: ImageSample,
    key_of: Callable[[str, str], str] = lambda cell, kind: row_key(cell, kind=kind),
    least: int = 1,
) -> str:
    """The `--key` to try: of several, the one under which the fewest images share a key.

    Args:
        texts: cells of rows, or other texts.
        sample: the images.
        key_of: the key of a text.
        least: how many texts have to be keys.

    Returns:
        the advice; empty if there is no such `--key`.
    """
    found = []
    for kind in KEY_KINDS:
        keys = sample.keys(kind)
        named = sum(key_of(text, kind) in keys for text in texts)
        if named >= least:
            found.append((len(sample.uris) - len(keys), -named, kind))
    if not found:
        return ""
    shared, _, kind = min(found)
    doubt = f", under which {shared} images of {len(sample.uris)} share a key and are rejected"
    return f"try --key {kind}" + (doubt if shared else "")


# The files of `--labels`: which there are, in which format, and how they begin.

# Files whose first bytes are read to find one that is not empty.
_FIRST_FILES = 100

_OF_CSV = ("csv_delimiter", "csv_encoding")


class LabelFiles(NamedTuple):
    """The files of `--labels`.

    Attributes:
        paths: of the tables, sorted; or the globs of files for each image.
        first: the first rows of the first, and the format of all.
        categories: those of each COCO file.
        columns: in each of them, once they are known.
        warnings: about rows without images.
        sampled: the first well-formed rows, each after the path of its file, once they are read.
        others: those that follow.
    """

    paths: tuple[str, ...]
    first: FirstRows
    categories: Mapping[str, Sequence[Category]] = {}
    columns: CsvColumns = NO_COLUMNS
    warnings: tuple[DatasetWarning, ...] = ()
    sampled: Sequence[tuple[str, LabelRow]] = ()
    others: Iterator[tuple[str, LabelRow]] = iter(())

    @property
    def first_rows(self) -> Sequence[tuple[str, ...]]:
        """The first rows below the header."""
        return self.first.rows[self.columns.has_header :]

    @property
    def keys(self) -> list[str]:
        """The cells of keys in the first rows."""
        at = self.columns.key.at
        return [row[at] for row in self.first_rows if at < len(row)]

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
            outlines = [outline for _, label, *_, outline in self.first.rows[1:] if label]
            if has_object_masks and (empty := outlines.count("")):
                value = f"{empty} of the first {len(outlines)} objects"
                because = "these lines are boxes, not outlines"
                decided.append(Decision("empty masks", value, because))
        return tuple(decided)


def read_label_inputs(
    flags: argparse.Namespace, files: Sequence[str], count: int, *, has_boxes: bool = False
) -> LabelFiles:
    """The files of `--labels`, of which the first rows are read.

    Args:
        flags: the result of `parse_flags`.
        files: see `list_labels`.
        count: how many rows.
        has_boxes: whether the layout needs boxes, which the files of YOLO have.

    Raises:
        UsageError: one cannot be read, or files have several formats.
        LabelsError: it cannot be read as a table.
    """
    for path in files:
        check_path("--labels", path)
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
        listed = itertools.chain.from_iterable(storage_of(each).list_files(each) for each in globs)
        with trying(f"read --labels {files[0]}"):
            first = first_annotations(annotation_files(listed), count, format_)
        found = LabelFiles(globs, first)
    else:
        first = _read_first(flags, files[0], count)
        starts = {files[0]: first}
        if first.format == COCO or len({path.rpartition(".")[2] for path in files}) > 1:
            starts |= {path: _read_first(flags, path, 1) for path in files[1:]}
            _check_same(starts)
        categories = {path: each.categories for path, each in starts.items()}
        found = LabelFiles(tuple(files), _with_categories(first, starts.values()), categories)
    if first.format != CSV:
        for name in _OF_CSV:
            if is_given(flags, name):
                title = FORMATS[first.format].title
                raise UsageError(
                    f"--{name} is for CSV files, but --labels is {title}: leave it out"
                )
    return found


def list_labels(flags: argparse.Namespace) -> tuple[str, ...]:
    """The files that `--labels` matches, sorted; none without it.

    Raises:
        UsageError: there are none, or they cannot be listed.
    """
    if flags.labels is None:
        return ()
    globs = plain_globs([flags.labels], "--labels")
    files = {file.uri for glob in globs for file in list_inputs(glob, "--labels")}
    if not files:
        why = why_empty(flags.labels, of_labels=True)
        raise UsageError(f"no file matches --labels {flags.labels!r}; {why}")
    return tuple(sorted(files))


def _read_first(flags: argparse.Namespace, path: str, count: int) -> FirstRows:
    """The first rows of a table; of COCO, all categories, which takes a reading to its end."""
    with trying(f"read --labels {path}"), storage_of(path).open_reader(path) as file:
        return first_rows(
            file, count, encoding=flags.csv_encoding, delimiter=flags.csv_delimiter, path=path
        )


def _format_of_each(files: Sequence[str], has_boxes: bool) -> str:
    """The format of files that are of one image each; empty for tables."""
    known = [path for path in files if is_annotation(path)]
    names = {path.rpartition(".")[2].lower() for path in known}
    if names not in ({"xml"}, {"txt"}):
        return ""
    has_text = False
    for path in known[:_FIRST_FILES]:
        with trying(f"read --labels {path}"):
            head = storage_of(path).read_range(path, 0, HEAD_BYTES)
        if find_format(path, head) == VOC:
            return VOC
        has_text = has_text or bool(head.strip())
        # A file with a wrong line rejects its image alone.
        if head.strip() and is_yolo(path, head):
            return YOLO
    return YOLO if has_boxes and not has_text else ""


def _with_categories(first: FirstRows, starts: Iterable[FirstRows]) -> FirstRows:
    """The first rows of one file, with the categories of all."""
    merged: dict[int, Category] = {}
    left_out: Counter[str] = Counter()
    for start in starts:
        for each in start.categories:
            uses = merged[each.id].uses if each.id in merged else 0
            merged[each.id] = each._replace(uses=uses + each.uses)
        left_out.update(dict(start.left_out))
    return first._replace(categories=tuple(merged.values()), left_out=tuple(left_out.items()))


def _check_same(starts: Mapping[str, FirstRows]) -> None:
    titles = {path: FORMATS[first.format].title for path, first in starts.items()}
    (path, title), *others = titles.items()
    for other, its in others:
        if its != title:
            raise UsageError(
                f"--labels: {path} is {title}, but {other} is {its}: give files of one format"
            )


# Datasets that are inputs of a run, each with a finished manifest.


class GivenDataset(NamedTuple):
    """A dataset that a flag names.

    Attributes:
        flag: that names it.
        folder: its folder, as given.
        manifest: of the dataset.
    """

    flag: str
    folder: str
    manifest: Mapping[str, Any]

    @classmethod
    def opened(cls, flag: str, folder: str) -> GivenDataset:
        """Reads the manifest.

        Raises:
            UsageError: the folder holds no dataset that this program reads.
        """
        with refusing(UsageError, because=f"{flag}: "):
            return cls(flag, folder, open_dataset(folder))

    @property
    def features(self) -> dict[str, Feature]:
        """Its features by their sources."""
        return {each["source"]: Feature.from_manifest(each) for each in self.manifest["features"]}

    def count(self, name: str, split: str = "") -> int:
        """The `records` or `bytes` of a split; of all if it is empty."""
        splits = self.manifest["splits"]
        return sum(splits[each][name] for each in ([split] if split else splits))

    def check_index(self, name: str, split: str = "") -> None:
        """Checks that every record of a split is in an index; of all if it is empty."""
        entries = self.manifest["index"]
        listed = sum(each["records"] for each in entries if split in ("", index_split(each)))
        if listed != self.count("records", split):
            raise UsageError(f"{name}: it has no index of its records: convert its images again")

    @property
    def sampled(self) -> int:
        """How many records are read before the job; without an index, their images are, too."""
        return _LOOSE_SAMPLE if is_unindexed(self.manifest) else _SAMPLE

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """The first rows of its indexes, or of its records.

        Raises:
            UsageError: an index is damaged or cannot be read.
        """
        reader = ImageRecordReader([self.of_run()])
        parts = index_parts(self.manifest, self.flag)
        rows = (reader.rows(part, reader.checked(part)) for part in parts)
        with reading_index(f"{self.flag} {self.folder}", "; see `verify`"):
            for row, _ in itertools.islice(itertools.chain.from_iterable(rows), count):
                yield row

    def of_run(self, **more: Any) -> OtherDataset:
        """The dataset as an input of the job, with these further fields."""
        names = {each["source"]: each["name"] for each in self.manifest["features"]}
        # An edited manifest may lack its digest: the reader refuses it.
        loose = self.manifest if is_unindexed(self.manifest) else {}
        digest = self.manifest.get("digest", "")
        kind = key_kind(self.manifest)
        return OtherDataset(self.folder, digest, names=names, key_kind=kind, manifest=loose, **more)


@contextlib.contextmanager
def reading_index(name: str, hint: str = "") -> Iterator[None]:
    """Raises a `UsageError` that names the dataset for an index that cannot be read."""
    with trying(f"read the index of {name}"):
        try:
            yield
        except RecordIndexError as error:
            raise UsageError(f"{name}: {first_line(error)}{hint}") from error


# The whole sample.


class Sample(NamedTuple):
    """What is read of the inputs of a command before its job, once.

    Attributes:
        flags: the flags, completed from the inputs, with alternatives in globs expanded.
        images: the first ones; empty if the rows are the records.
        labels: the paths of the label files.
        listed: these files, if their rows list the images.
        places: folders that listed local files must be in, see `top_folder`; None for anywhere.
        left_out: files that the globs match but that are not images.
        ignoring: a decision for each path that is left out.
        sources: datasets whose records are images.
        kind: of the keys of these records; None if it is not known.
        partners: masks and further images.
    """

    flags: argparse.Namespace
    images: ImageSample
    labels: tuple[str, ...] = ()
    listed: LabelFiles | None = None
    places: tuple[str, ...] | None = None
    left_out: LeftOut = LeftOut()
    ignoring: Sequence[Decision] = ()
    sources: tuple[GivenDataset, ...] = ()
    kind: str | None = None
    partners: tuple[Partner, ...] = ()
