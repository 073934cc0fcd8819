"""JoinLabels: joins images and label rows on their key."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.arguments import one_of, path_texts
from transforms.core.records import Count, IndexPart, JoinSide, Kind, LabelledImage, NameRange
from transforms.core.rejections import Rejection
from transforms.examples.partners import Partner, join_partners
from transforms.find_images import ImageFinder, KeyReader, PartnerFinder
from transforms.labels.image_names import LISTED_NAMES
from transforms.labels.joins import ONE_LABEL, JoinRules, RowRequirements, join_group
from transforms.labels.keys import join_selected
from transforms.labels.splits import SplitAssigner
from transforms.labels.vocabulary import LabelCells, LabelCounter
from transforms.packing import (
    NameBatch,
    NameInputs,
    PackSides,
    SpreadElements,
    grouped_sides,
    rules_of,
    with_outputs,
)
from transforms.read_labels import RowReader
from transforms.records.other_datasets import IMAGES, REUSE, Found, SideReader
from transforms.records.stored_images import join_records, join_reused
from transforms.storage.files import storage_of
from transforms.storage.image_lookup import RowImages
from transforms.storage.lineage import report_source
from transforms.storage.metrics import PROGRESS, counter

# Joins the sides of each key, all keys of a part together.

Joined = LabelledImage | Rejection | Count

# Joins all sides with one key.
JoinGroup = Callable[[str, Iterable[JoinSide]], Iterable[Joined]]

_MATCHED_TYPES: dict[str, type] = {"rejections": Rejection, "counts": Count}
_MATCHED_TAGS = {kind: tag for tag, kind in _MATCHED_TYPES.items()}


@dataclasses.dataclass(eq=False, repr=False)
class _JoinFn(beam.DoFn):
    """Joins the sides of all keys of a part.

    Attributes:
        join: joins one group.
        reuses: whether some sides are records of bases, see `stored_images`.
    """

    join: JoinGroup
    reuses: bool

    def process(
        self, part: tuple[int, Iterable[NameBatch]]
    ) -> Iterable[LabelledImage | beam.pvalue.TaggedOutput]:
        groups = grouped_sides(part[1])
        if self.reuses:
            # If only a base has a key, there is nothing to plan.
            groups = {
                key: sides
                for key, sides in groups.items()
                if any(side.kind != Kind.RECORD for side in sides)
            }
        PROGRESS.count("planning", len(groups))
        return itertools.chain.from_iterable(itertools.starmap(self._joined, groups.items()))

    def _joined(
        self, key: str, sides: Iterable[JoinSide]
    ) -> Iterator[LabelledImage | beam.pvalue.TaggedOutput]:
        for result in self.join(key, sides):
            if isinstance(result, LabelledImage):
                yield result
                continue
            if isinstance(result, Rejection) and result.subject == "image":
                PROGRESS.count("planning", 0, rejected=1)
            yield beam.pvalue.TaggedOutput(_MATCHED_TAGS[type(result)], result)


# LookUpImages: finds the images that rows list, on many workers.

_SIDES = "sides"
_LABELS = "labels"

# Rows that are looked up together: each thread of the pool has several.
_BATCH = 512

_Side = tuple[str, JoinSide]


@dataclasses.dataclass(eq=False, repr=False)
class LookUpImages(beam.PTransform):
    """Finds the images that rows list: their sizes and versions, one request each.

    Rows of one label file are spread over all workers, and each process has a bounded pool of
    requests. A retry looks up the rows of one bundle again.

    Input: rows, each with the cell that names its image. Output: `sides`, images and rows with
    their keys, and `labels` in paths.
    """

    images: RowImages

    def expand(self, rows: beam.PCollection[_Side]) -> beam.pvalue.DoOutputsTuple:
        look_up = beam.ParDo(_LookUpFn(self.images))
        return (
            rows
            | "Spread rows" >> SpreadElements()
            | "Look up rows" >> with_outputs(look_up, _SIDES, _Side, **{_LABELS: LabelCells})
        )


class _LookUpFn(beam.DoFn):
    """Looks up the rows of a bundle in parallel."""

    def __init__(self, images: RowImages) -> None:
        self._images = images

    def start_bundle(self) -> None:
        self._rows: list[_Side] = []
        self._labels = LabelCounter()
        self._has_labels = False

    def process(self, row: _Side) -> Iterable[_Side]:
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            yield from self._look_up()

    def finish_bundle(self) -> Iterator[WindowedValue | beam.pvalue.TaggedOutput]:
        for side in self._look_up():
            yield GlobalWindows.windowed_value(side)
        if self._has_labels:
            counted = GlobalWindows.windowed_value(self._labels.counted())
            yield beam.pvalue.TaggedOutput(_LABELS, counted)

    def _look_up(self) -> Iterator[_Side]:
        rows, self._rows = sorted(self._rows, key=_label_file), []
        for path, of_file in itertools.groupby(rows, key=_label_file):
            for key, side in self._images.find(of_file, path):
                PROGRESS.count("reading")
                # The label of an image that a row lists may come from its path.
                if side.is_image and side.label:
                    self._labels.add(side.label, side.path)
                    self._has_labels = True
                yield key, side


def _label_file(row: _Side) -> str:
    """The label file of a row; its place is `FILE:LINE`."""
    return row[1].where.rpartition(":")[0]


# ReadIndexes: reads the indexes of other datasets on many workers.

_COUNTS = "counts"


@dataclasses.dataclass(eq=False, repr=False)
class ReadIndexes(beam.PTransform):
    """Reads the indexes of other datasets, each as an element of its own.

    Input: `IndexPart`. Output: `sides`, records with the keys of their images, `counts` of records
    that are images and of their `labels`. A retry reads one index again.

    Attributes:
        readers: those of the datasets, by their flags.
    """

    readers: Mapping[str, SideReader]

    def expand(self, parts: beam.PCollection[IndexPart]) -> beam.pvalue.DoOutputsTuple:
        read = beam.FlatMap(_read_index, self.readers)
        return (
            parts
            | "Spread indexes" >> SpreadElements()
            | "Read" >> with_outputs(read, _SIDES, _Side, **{_COUNTS: Count, _LABELS: LabelCells})
        )


def _read_index(
    part: IndexPart, readers: Mapping[str, SideReader]
) -> Iterator[_Side | beam.pvalue.TaggedOutput]:
    for result in readers[part.flag].read_part(part):
        if isinstance(result, Count):
            counter("images_found").inc(result.value)
            yield beam.pvalue.TaggedOutput(_COUNTS, result)
        elif isinstance(result, LabelCells):
            yield beam.pvalue.TaggedOutput(_LABELS, result)
        else:
            yield result


# ReadInputs and JoinLabels: read images, rows and keys, and join each image with its label.

_REJECTIONS = "rejections"


_REST = "rest"
_ROWS = "rows"
_INDEXES = "indexes"

_TYPES = {_REJECTIONS: Rejection, _COUNTS: Count, _LABELS: LabelCells}
_FURTHER_TYPES = {
    _REST: NameRange,
    _ROWS: tuple[str, JoinSide],
    _INDEXES: IndexPart,
}

# Where `_ReadInputFn` sends what is not a side with its key.
_TAGS = {kind: tag for tag, kind in {**_TYPES, **_FURTHER_TYPES}.items()}

# Images or rows that are counted at once for the progress: a lock for each would be a fortieth.
_COUNTED = 100

_COUNTERS = {
    "images_found": counter("images_found"),
    "partners_found": counter("partners_found"),
    "rows_read": counter("rows_read"),
}

# The source of the labels: `given` by the pipeline itself.
_LABEL_SOURCES = ("csv", "directory", "regex", "webdataset", "records", "given", "none")


# A glob of images or of a partner, a label file, and a file of keys; the kind of another dataset is
# the flag that names it.
_GLOB, _TABLE, _KEYS = "glob", "table", "keys"


class _Input(NamedTuple):
    """One of the inputs, and its kind."""

    part: NameRange
    kind: str = _GLOB


class Inputs(NamedTuple):
    """The outputs of `ReadInputs`.

    Attributes:
        sides: images and rows with their keys, and the keys to keep.
        rejections: images and rows that are left out.
        counts: of images and rows.
        labels: counts of the label cells, or of the labels in paths.
    """

    sides: beam.PCollection[tuple[str, JoinSide]]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    labels: beam.PCollection[LabelCells]


@dataclasses.dataclass(eq=False, repr=False)
class _ReadInputFn(beam.DoFn):
    """Lists a glob or a range of its names, or reads a label file or a file of keys.

    The following metrics are maintained: `images_found`, files that globs matched; `rows_read`,
    rows without headers and blank lines; `partners_found`, masks and further images.

    Attributes:
        readers: read the inputs of each kind.
        hands_on: whether the rows that list images are looked up by another step.
    """

    readers: Mapping[str, Callable[[NameRange], Iterator[Any]]]
    hands_on: bool = False

    def process(
        self, source: _Input | NameRange
    ) -> Iterable[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        if isinstance(source, NameRange):
            source = _Input(source)
        elif source.kind != _KEYS:
            report_source(source.part.glob)
        labels, counted = LabelCounter(), 0
        has_labels = source.kind == _GLOB and not source.part.partner
        stage = "listing" if source.kind == _GLOB else "reading"
        is_listing = source.kind == _TABLE and self.hands_on
        is_dataset = source.kind in (IMAGES, REUSE)
        for result in self.readers[source.kind](source.part):
            if type(result) is not tuple:
                yield self._tagged(result)
            elif is_dataset:
                if source.kind == IMAGES:
                    PROGRESS.count("listing")
                yield result
            elif is_listing:
                # A row, with the cell that names its image.
                yield beam.pvalue.TaggedOutput(_ROWS, result)
            else:
                counted += 1
                if not counted % _COUNTED:
                    PROGRESS.count(stage, _COUNTED)
                # The label of an image that a row lists may also come from its path.
                if result[1].is_image and result[1].label:
                    labels.add(result[1].label, result[1].path)
                    has_labels = True
                yield result
        if counted % _COUNTED:
            PROGRESS.count(stage, counted % _COUNTED)
        if has_labels:
            yield beam.pvalue.TaggedOutput(_LABELS, labels.counted())

    def _tagged(
        self, result: NameRange | IndexPart | Rejection | Count | LabelCells
    ) -> beam.pvalue.TaggedOutput:
        """A result that is not a side with its key."""
        if isinstance(result, Rejection) and result.subject == "image":
            PROGRESS.count("listing")
            PROGRESS.count("planning", 0, rejected=1)
        elif isinstance(result, Count):
            _COUNTERS[result.name].inc(result.value)
        return beam.pvalue.TaggedOutput(_TAGS[type(result)], result)


@dataclasses.dataclass(eq=False, repr=False)
class ReadInputs(beam.PTransform):
    """Lists the globs and reads the label files.

    One step for both: two would have to be flattened, which the in-process runner pays for with
    a copy of every name (docs/development/design_notes.md).

    Where each worker pays for its own listing, a long glob of images, masks or further images is
    handed on: in a bucket in ranges, in up to three rounds (see `name_ranges`), on a local or
    shared disk folder by folder. So are rows that list images, and the indexes of other datasets.
    In one process all workers share Python's lock, and each step has its price.

    Input: the pipeline's begin. Output: `Inputs`. Bounded; a retry lists one range, or reads one
    file, again. On other storages, one worker lists a glob.
    """

    globs: Sequence[str | os.PathLike[str]]
    finder: ImageFinder
    csv_paths: Sequence[str | os.PathLike[str]]
    reader: RowReader | None
    keys: KeyReader | None = None
    datasets: Sequence[SideReader] = ()
    partners: PartnerFinder | None = None

    def __post_init__(self) -> None:
        # One of them may be empty: rows or datasets can list the images, and images need no rows.
        self._globs = path_texts("globs", self.globs) if self.globs else []
        self._csv_paths = path_texts("csv_paths", self.csv_paths) if self.csv_paths else []

    def expand(self, begin: beam.pvalue.PBegin) -> Inputs:
        globs = [*map(NameRange, self._globs), *(self.partners.globs if self.partners else [])]
        inputs = [_Input(glob) for glob in globs]
        inputs += [_Input(NameRange(path), _TABLE) for path in self._csv_paths]
        in_process = not rules_of(begin.pipeline).shares_inputs
        limit, *limits = (*LISTED_NAMES, 0) if self._hands_on(begin.pipeline, globs) else (0,)
        images = self.reader.images if self.reader and not in_process else None
        readers: dict[str, Callable[[NameRange], Iterator[Any]]] = {_GLOB: self._lists(limit)}
        held: dict[str, Any] = {_REST: limit, _ROWS: images}
        if reader := self.reader:
            read_table = reader.read_rows if images else reader.read
            readers[_TABLE] = lambda part: read_table(part.glob)
        if keys := self.keys:
            inputs.append(_Input(NameRange(keys.path), _KEYS))
            readers[_KEYS] = lambda _: keys.read()
        # On several machines, indexes are handed on one by one.
        for each in self.datasets:
            folders = {dataset.folder: at for at, dataset in enumerate(each.datasets)}
            inputs += [_Input(NameRange(folder), each.flag) for folder in folders]
            readers[each.flag] = functools.partial(_read_dataset, each, folders, in_process)
        held[_INDEXES] = self.datasets and not in_process
        read_input = _ReadInputFn(readers, hands_on=images is not None)
        further = [name for name, has_some in held.items() if has_some]
        read = (
            begin
            | "Name the inputs" >> NameInputs(inputs)
            | "List images and read rows" >> _with_outputs(read_input, *further)
        )
        found: dict[str, list[Any]] = {name: [read[name]] for name in Inputs._fields}
        if images:
            looked_up = read[_ROWS] | "Look up images" >> LookUpImages(images)
            for name in (_SIDES, _LABELS):
                found[name].append(looked_up[name])
        if _INDEXES in further:
            indexes = ReadIndexes({each.flag: each for each in self.datasets})
            of_records = read[_INDEXES] | "Read indexes" >> indexes
            for name in (_SIDES, _COUNTS, _LABELS):
                found[name].append(of_records[name])
        for number, limit in enumerate(limits, 1):
            list_range = _ReadInputFn({_GLOB: self._lists(limit)})
            read = (
                read[_REST]
                | f"Spread ranges {number}" >> SpreadElements()
                | f"List ranges {number}" >> _with_outputs(list_range, *[_REST][:limit])
            )
            for name in Inputs._fields:
                found[name].append(read[name])
        return Inputs(
            *(
                outputs[0] if len(outputs) == 1 else outputs | f"All {name}" >> beam.Flatten()
                for name, outputs in found.items()
            )
        )

    def _lists(self, limit: int) -> Callable[[NameRange], Iterator[Any]]:
        """A function that lists a glob, or a range of its names."""
        finder, partners = self.finder, self.partners
        return lambda part: (partners if partners and part.partner else finder).find(part, limit)

    def _hands_on(self, pipeline: beam.Pipeline, globs: Sequence[NameRange]) -> bool:
        """Whether several workers should list one glob."""
        has_ranges = any(storage_of(each.glob).lists_ranges for each in globs)
        return has_ranges and rules_of(pipeline).shares_inputs


def _read_dataset(
    reader: SideReader, folders: Mapping[str, int], in_process: bool, part: NameRange
) -> Iterator[Found | IndexPart]:
    """The records of a dataset; on several machines its indexes, which are handed on one by one."""
    number = folders[part.glob]
    return reader.read(number) if in_process else reader.parts(number)


def _with_outputs(fn: beam.DoFn, *further: str) -> beam.PTransform:
    types = {**_TYPES, **{name: _FURTHER_TYPES[name] for name in further}}
    return with_outputs(beam.ParDo(fn), _SIDES, _Side, **types)


class JoinedImages(NamedTuple):
    """The outputs of `JoinLabels`.

    Attributes:
        images: with their labels.
        rejections: images and rows that are left out.
        counts: further counts for the ledger.
        labels: counts of the labels as they were read; None if they were not counted.
    """

    images: beam.PCollection[LabelledImage]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    labels: beam.PCollection[LabelCells] | None = None


class JoinLabels(beam.PTransform):
    """Joins images and label rows on their keys; `assigner` gives each image its split and order.

    With `selects`, only images whose key is also listed are kept. `datasets` are the flags of other
    datasets that are inputs: an image gets its record in one to reuse, or is itself a record. With
    `partners`, an image gets a file of each, or is rejected.

    Input: `(key, JoinSide)` of all. Output: `JoinedImages`. Only names cross the shuffle, with
    label texts and the cells that the layout needs.
    """

    def __init__(
        self,
        *,
        label_from: str,
        assigner: SplitAssigner,
        requirements: RowRequirements = ONE_LABEL,
        selects: bool = False,
        datasets: Collection[str] = (),
        partners: tuple[Partner, ...] = (),
    ) -> None:
        super().__init__()
        one_of("label_from", label_from, _LABEL_SOURCES)
        rules = JoinRules(label_from, assigner, requirements)
        self._join: JoinGroup = functools.partial(join_group, rules=rules)
        if IMAGES in datasets:
            self._join = functools.partial(join_records, rules=rules, join=self._join)
        if partners:
            self._join = functools.partial(join_partners, join=self._join, partners=partners)
        if selects:
            self._join = functools.partial(join_selected, join=self._join)
        self._reuses = REUSE in datasets
        if self._reuses:
            self._join = functools.partial(join_reused, join=self._join)

    def expand(self, sides: beam.PCollection[tuple[str, JoinSide]]) -> JoinedImages:
        match = beam.ParDo(_JoinFn(self._join, self._reuses))
        joined = (
            sides
            | "Pack sides" >> PackSides()
            | "Group by key" >> beam.GroupByKey()
            | "Match images and rows"
            >> with_outputs(match, "images", LabelledImage, **_MATCHED_TYPES)
        )
        return JoinedImages(joined.images, joined.rejections, joined.counts)
