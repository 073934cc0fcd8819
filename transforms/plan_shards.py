"""PlanShards and PlanRows: which record is in which shard."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam

from transforms.core.arguments import whole_number
from transforms.core.records import Count, LabelledImage, ShardImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.ledger import PlanTotals
from transforms.examples.encoder import (
    BATCH_ROWS,
    ExampleEncoder,
    RowChecker,
    from_batch,
    planned_rows,
    to_batch,
)
from transforms.examples.layouts import Feature
from transforms.images.check import CheckedImage
from transforms.labels.joins import with_ids
from transforms.labels.keys import nfc, relative_path
from transforms.labels.label_rows import CsvColumns, LabelRow, MalformedRow
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import MAX_SHARDS, Libraries, Recipes, ShardPlan, shard_index
from transforms.labels.splits import SplitAssigner
from transforms.labels.vocabulary import LabelCells, with_images
from transforms.packing import (
    AddTogether,
    AddUp,
    NameBatch,
    NameInputs,
    PackImages,
    pack,
    rules_of,
    unpack,
    with_outputs,
)
from transforms.read_labels import open_labels
from transforms.storage.lineage import report_source
from transforms.storage.metrics import PROGRESS, counter

# PlanShards: assigns every labelled image to a shard and a position. Moves names only.


Nothing = TypeVar("Nothing")

_REJECTIONS = "rejections"

# Classes whose ids a worker keeps at hand.
_CLASSES = 4096


class PlannedShards(NamedTuple):
    """The outputs of `PlanShards`: a shard is its file name and its images, unordered.

    They include shards without images.
    """

    shards: beam.PCollection[tuple[str, Iterable[ShardImage | ShardRow]]]
    rejections: beam.PCollection[Rejection]


def _count(totals: PlanTotals, counted: LabelledImage | LabelCells) -> None:
    if isinstance(counted, LabelCells):
        totals.merge(PlanTotals(cells=counted))
    else:
        totals.add(counted)


def _decided(totals: PlanTotals, rules: LabelRules) -> PlanTotals:
    rules.check(totals.labels)
    cells = with_images(totals.cells, totals.labels)
    return dataclasses.replace(totals, cells=cells, label_kind=rules.decide(cells))


@dataclasses.dataclass(eq=False, repr=False)
class TotalLabels(beam.PTransform):
    """Computes the totals of images, and decides the kind of their labels.

    Input: `LabelledImage`. Output: one `PlanTotals`.

    Raises in the job:
        LabelsError: labels contradict each other, see `decide_kind`, or are new classes that
            `--new_classes` refuses.

    Attributes:
        labels: the counts of the labels as they were read, if there are any.
        rules: how they become classes.
    """

    labels: beam.PCollection[LabelCells] | None
    rules: LabelRules = ANY_LABELS

    def expand(self, images: beam.PCollection[LabelledImage]) -> beam.PCollection[PlanTotals]:
        counted = {"images": images}
        if self.labels is not None:
            counted["labels"] = self.labels
        totals = counted | "Add totals" >> AddTogether(AddUp(PlanTotals, _count, PlanTotals.merge))
        if self.labels is None:
            return totals
        decide = beam.Map(_decided, self.rules)
        return totals | "Decide kind" >> decide.with_output_types(PlanTotals)


class _AssignFn(beam.DoFn):
    """Assigns the images of a batch to their shards, and packs them by shard."""

    def __init__(self, plan: ShardPlan, rules: LabelRules) -> None:
        self._plan = plan
        self._rules = rules
        self._totals: PlanTotals | None = None

    def process(
        self, batch: NameBatch, totals: PlanTotals
    ) -> Iterator[tuple[str, NameBatch] | beam.pvalue.TaggedOutput]:
        self._prepare(totals)
        shards: defaultdict[str, list[ShardImage]] = defaultdict(list)
        for image in unpack(batch, LabelledImage):
            try:
                planned = self._planned(image)
                shards[self._shard(image)].append(planned)
            except RejectedImageError as error:
                yield self._rejected(image, error)
        for name, images in shards.items():
            yield name, pack(images)

    def _shard(self, image: LabelledImage) -> str:
        files = self._files[image.split]
        return files[shard_index(image.order, len(files), self._starts.get(image.split, ()))]

    def _rejected(
        self, image: LabelledImage, error: RejectedImageError
    ) -> beam.pvalue.TaggedOutput:
        # Planned but rejected: count it as done, so that the stage reaches its total.
        PROGRESS.advance(1, 1)
        reason = error.reason.code
        rejection = Rejection("image", reason, error.detail, image.path, image.key)
        return beam.pvalue.TaggedOutput(_REJECTIONS, rejection)

    def _planned(self, image: LabelledImage) -> ShardImage:
        label_id, text = self._class_of(image.label) if image.label else (0, "")
        if label_id is None:
            detail = f"the label {image.label!r} {self._rules.unknown}"
            raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
        cells = image.cells
        if cells:
            vocabulary, unknown = self._vocabulary, self._rules.unknown
            cells = with_ids(cells, vocabulary.id_of, vocabulary.text_of, unknown)
        return ShardImage(
            image.order,
            image.key,
            image.path,
            image.size,
            image.version,
            text,
            label_id,
            cells,
            image.stored,
            image.partners,
        )

    def _look_up(self, label: str) -> tuple[int | None, str]:
        return self._vocabulary.id_of(label), self._vocabulary.text_of(label)

    def _prepare(self, totals: PlanTotals) -> None:
        if totals is self._totals:
            return
        self._totals = totals
        PROGRESS.plan(sum(totals.images.values()))
        self._vocabulary = self._rules.vocabulary(totals.labels, totals.label_kind)
        # Most images have one of few classes.
        self._class_of = functools.lru_cache(_CLASSES)(self._look_up)
        self._files = self._plan.files(totals.bytes, totals.images)
        self._starts = totals.shard_starts


def _unpacked(shard: tuple[str, Iterable[NameBatch]]) -> tuple[str, list[ShardImage]]:
    name, batches = shard
    return name, [image for batch in batches for image in unpack(batch, ShardImage)]


def every_shard(
    totals: PlanTotals, plan: ShardPlan, nothing: Nothing, *, is_bounded: bool = False
) -> Iterator[tuple[str, Nothing]]:
    """The names of all planned shards, each with an element that stands for none.

    Without it, a shard that gets no element would not be grouped, and not be written.

    Raises:
        LabelsError: `is_bounded`, and a shard has more than `MAX_SHARD_NAMES` images.
    """
    if is_bounded:
        plan.check_sizes(totals.bytes, totals.images)
    for names in plan.files(totals.bytes, totals.images).values():
        for name in names:
            yield name, nothing


class PlanShards(beam.PTransform):
    """Groups labelled images by shard.

    Input: `LabelledImage`. Output: `PlannedShards`. Only names cross the shuffle.

    Raises in the job:
        LabelsError: on several machines, a shard has more than `MAX_SHARD_NAMES` images.
    """

    def __init__(
        self,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        *,
        rules: LabelRules = ANY_LABELS,
    ) -> None:
        super().__init__()
        whole_number("shard_size", plan.shard_size, 1)
        if plan.num_shards is not None:
            whole_number("num_shards", plan.num_shards, 1, MAX_SHARDS)
        self._plan = plan
        self._totals = totals
        self._rules = rules

    def expand(self, images: beam.PCollection[LabelledImage]) -> PlannedShards:
        assign = beam.ParDo(
            _AssignFn(self._plan, self._rules), beam.pvalue.AsSingleton(self._totals)
        )
        assigned = (
            images
            | "Pack images" >> PackImages()
            | "Assign shards"
            >> with_outputs(assign, "images", tuple[str, NameBatch], **{_REJECTIONS: Rejection})
        )
        is_bounded = rules_of(images.pipeline).max_element
        every = self._totals | "Name every shard" >> beam.FlatMap(
            every_shard, self._plan, pack(()), is_bounded=is_bounded
        ).with_output_types(tuple[str, NameBatch])
        shards = (
            (assigned.images, every)
            | "Images and shards" >> beam.Flatten()
            | "Group names by shard" >> beam.GroupByKey()
            | "Unpack images"
            >> beam.Map(_unpacked).with_output_types(tuple[str, Iterable[ShardImage]])
        )
        return PlannedShards(shards, assigned.rejections)


# ReadRows and PlanRows: rows without images, from CSV files to planned shards, in batches.

_TOTALS = "totals"
_COUNTS = "counts"


@dataclasses.dataclass(frozen=True)
class TableReader:
    """Reads the rows of one dataset, each with its split and its place in the order. Picklable.

    Attributes:
        columns: positions of key, split, group and cells.
        root: common folder of the files.
        encoding: a Python codec name.
        assigner: gives rows their splits and their order.
        row_bytes: bytes of a record without the text of its cells.
    """

    columns: CsvColumns
    _: dataclasses.KW_ONLY
    root: str
    encoding: str
    assigner: SplitAssigner
    row_bytes: int

    def read(self, uri: str) -> Iterator[str | Rejection | Count | PlanTotals]:
        """Reads one table: yields batches of rows, and their counts at the end.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        path = relative_path(uri, self.root)
        totals = PlanTotals()
        batch: list[tuple[Any, ...]] = []
        read = 0
        for _, rows in open_labels(uri, self.columns, self.encoding):
            for row in rows:
                read += 1
                placed = self._placed(row, uri, path)
                if isinstance(placed, Rejection):
                    yield placed
                    continue
                batch.append(placed)
                totals.images[placed[0]] += 1
                totals.bytes[placed[0]] += self.row_bytes + len(placed[-1])
                if len(batch) == BATCH_ROWS:
                    PROGRESS.count("reading", BATCH_ROWS)
                    yield to_batch(path, batch)
                    batch = []
        if batch:
            PROGRESS.count("reading", len(batch))
            yield to_batch(path, batch)
        yield totals
        yield Count("rows_read", read)

    def _placed(
        self, row: LabelRow | MalformedRow, uri: str, path: str
    ) -> tuple[Any, ...] | Rejection:
        if isinstance(row, MalformedRow):
            reason, detail = Reason.MALFORMED_ROW, row.detail
            return Rejection("row", reason.code, detail, f"{uri}:{row.line}", row.key)
        key = nfc(row.key.strip())
        named = key or f"{path}:{row.line}"
        try:
            split, order = self.assigner.assign(named, split=row.split, group=row.group)
        except RejectedImageError as error:
            return Rejection("row", error.reason.code, error.detail, f"{uri}:{row.line}", named)
        # A key that is only the row's position need not be sent along.
        return split, order, key, row.line, "\0".join(row.cells)


def _read_rows(uri: str, reader: TableReader) -> Iterator[str | beam.pvalue.TaggedOutput]:
    """Reads a file. The following metric is maintained: `rows_read`."""
    report_source(uri)
    for result in reader.read(uri):
        if isinstance(result, str):
            yield result
        elif isinstance(result, PlanTotals):
            yield beam.pvalue.TaggedOutput(_TOTALS, result)
        elif isinstance(result, Rejection):
            yield beam.pvalue.TaggedOutput(_REJECTIONS, result)
        else:
            counter("rows_read").inc(result.value)
            yield beam.pvalue.TaggedOutput(_COUNTS, result)


class Rows(NamedTuple):
    """The outputs of `ReadRows`; `batches` hold rows, and `totals` is one element."""

    batches: beam.PCollection[str]
    totals: beam.PCollection[PlanTotals]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]


class ReadRows(beam.PTransform):
    """Reads CSV files whose rows are records.

    Input: the pipeline's begin. Output: `Rows`. One file is read by one worker.
    """

    def __init__(self, paths: Sequence[str], reader: TableReader) -> None:
        super().__init__()
        self._paths = list(paths)
        self._read = beam.FlatMap(_read_rows, reader)

    def expand(self, begin: beam.pvalue.PBegin) -> Rows:
        types = {_TOTALS: PlanTotals, _REJECTIONS: Rejection, _COUNTS: Count}
        read = (
            begin
            | "Name the files" >> NameInputs(self._paths)
            | "Read rows" >> with_outputs(self._read, "batches", str, **types)
        )
        adder = AddUp(PlanTotals, PlanTotals.merge, PlanTotals.merge)
        totals = {"rows": read.totals} | "Total rows" >> AddTogether(adder)
        return Rows(read.batches, totals, read.rejections, read.counts)


class _AssignRowsFn(beam.DoFn):
    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._totals: PlanTotals | None = None

    def process(self, batch: str, totals: PlanTotals) -> Iterable[tuple[str, str]]:
        if totals is not self._totals:
            self._totals = totals
            self._files = self._plan.files(totals.bytes, totals.images)
            self._starts = totals.shard_starts
            PROGRESS.plan(sum(totals.images.values()))
        shards: defaultdict[str, list[list[Any]]] = defaultdict(list)
        path, rows = from_batch(batch)
        for split, *row in rows:
            names, starts = self._files[split], self._starts.get(split, ())
            shards[names[shard_index(row[0], len(names), starts)]].append(row)
        for name, planned in shards.items():
            yield name, to_batch(path, planned)


def row_places(batch: str) -> Iterator[tuple[str, int]]:
    """The split and the order of each row of a batch."""
    return ((split, order) for split, order, *_ in from_batch(batch)[1])


class PlanRows(beam.PTransform):
    """Groups rows by shard.

    Input: batches of rows. Output: `(file name, rows)`, unordered, including shards without
    rows.
    """

    def __init__(self, plan: ShardPlan, totals: beam.PCollection[PlanTotals]) -> None:
        super().__init__()
        self._plan = plan
        self._totals = totals

    def expand(
        self, batches: beam.PCollection[str]
    ) -> beam.PCollection[tuple[str, Iterable[ShardRow]]]:
        assigned = batches | "Assign shards" >> beam.ParDo(
            _AssignRowsFn(self._plan), beam.pvalue.AsSingleton(self._totals)
        ).with_output_types(tuple[str, str])
        every = self._totals | "Name every shard" >> beam.FlatMap(
            every_shard, self._plan, to_batch("", [])
        ).with_output_types(tuple[str, str])
        return (
            (assigned, every)
            | "Rows and shards" >> beam.Flatten()
            | "Group rows by shard" >> beam.GroupByKey()
            | "Unpack rows"
            >> beam.MapTuple(lambda name, batches: (name, planned_rows(batches))).with_output_types(
                tuple[str, Iterable[ShardRow]]
            )
        )


class RowConverter:
    """Turns the rows of one shard into serialized Examples; picklable.

    `setup` creates the parts that are not.
    """

    of_images = False
    fingerprints = False
    many_labels = False
    partner_names: tuple[str, ...] = ()
    libraries = Libraries()

    def __init__(self, features: Sequence[Feature], checker: RowChecker) -> None:
        self._features = tuple(features)
        self._checker = checker

    def setup(self) -> None:
        """Makes the encoder, once for each DoFn instance."""
        self._encoder = ExampleEncoder(self._features)

    def load(self, rows: Iterable[ShardRow]) -> Iterator[CheckedImage | Rejection]:
        """Rows with their values, or their rejections, in order."""
        return map(self._checker.check, rows)

    def whole_shard(self, _name: str, _recipes: Recipes, _rows: Sequence[ShardRow]) -> None:
        """None: rows are not reused."""

    def encode(self, rows: Iterable[CheckedImage]) -> Iterator[bytes]:
        """Serialized Examples in the order of the rows."""
        return map(self._encoder.encode, rows)
