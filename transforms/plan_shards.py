"""PlanShards and ReadRows: which record is in which shard."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core.arguments import whole_number
from transforms.core.records import Count, LabelledImage, ShardImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.ledger import PlanTotals
from transforms.examples.layouts import Feature
from transforms.examples.row_features import RowValues
from transforms.images.check import CheckedImage, ImageInfo
from transforms.images.pixel_options import Original
from transforms.labels.joins import with_ids
from transforms.labels.keys import full_uri, nfc, relative_path
from transforms.labels.label_rows import CsvColumns, LabelRow
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import MAX_SHARDS, ShardPlan, SplitAssigner, shard_index
from transforms.labels.vocabulary import LabelCells, with_images
from transforms.packing import (
    AddTogether,
    AddUp,
    NameBatch,
    NameInputs,
    PackRecords,
    by_type,
    pack,
    rules_of,
    unpack,
    with_outputs,
)
from transforms.read_labels import open_labels
from transforms.records.existing_shards import Converter, Planned
from transforms.storage.beam_storage import report_source
from transforms.storage.metrics import PROGRESS, counter

# PlanShards: assigns every labelled image to a shard and a position. Moves names only.


_REJECTIONS = "rejections"

# Classes whose ids a worker keeps at hand.
_CLASSES = 4096


class PlacedRow(NamedTuple):
    """A row that will be a record, without an image: a `ShardRow` after the name of its split."""

    split: str
    order: int
    key: str
    path: str
    line: int
    cells: str


class PlannedShards(NamedTuple):
    """The outputs of `PlanShards`: a shard is its file name and its images, unordered.

    They include shards without images.
    """

    shards: beam.PCollection[tuple[str, Iterable[Planned]]]
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
    """Assigns the images or rows of a batch to their shards, and packs them by shard."""

    def __init__(self, plan: ShardPlan, rules: LabelRules, kind: type[PlacedRow | LabelledImage]):
        self._plan = plan
        self._rules = rules
        self._kind = kind
        self._totals: PlanTotals | None = None

    def process(
        self, batch: NameBatch, totals: PlanTotals
    ) -> Iterator[tuple[str, NameBatch] | beam.pvalue.TaggedOutput]:
        self._prepare(totals)
        shards: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for each in unpack(batch, self._kind):
            try:
                # A row is planned without its split.
                planned = each[1:] if isinstance(each, PlacedRow) else self._planned(each)
            except RejectedImageError as error:
                yield self._rejected(each, error)
                continue
            files, starts = self._files[each.split], self._starts.get(each.split, ())
            shards[files[shard_index(each.order, len(files), starts)]].append(planned)
        for name, records in shards.items():
            yield name, pack(records)

    def _rejected(
        self, image: LabelledImage | PlacedRow, error: RejectedImageError
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
            image.record,
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


def _unpacked(
    shard: tuple[str, Iterable[NameBatch]], kind: type[Planned]
) -> tuple[str, list[Planned]]:
    name, batches = shard
    return name, [each for batch in batches for each in unpack(batch, kind)]


def _every_shard(
    totals: PlanTotals, plan: ShardPlan, *, is_bounded: bool
) -> Iterator[tuple[str, NameBatch]]:
    """The names of all planned shards, each with an empty batch.

    Without it, a shard that gets no element would not be grouped, and not be written.

    Raises:
        LabelsError: `is_bounded`, and a shard has more than `MAX_SHARD_NAMES` images.
    """
    if is_bounded:
        plan.check_sizes(totals.bytes, totals.images)
    for names in plan.files(totals.bytes, totals.images).values():
        for name in names:
            yield name, pack(())


class PlanShards(beam.PTransform):
    """Groups labelled images by shard.

    Input: `LabelledImage`, or `of_rows` batches of `PlacedRow`. Output: `PlannedShards`. Only
    names, and the cells that the layout needs, cross the shuffle.

    Raises in the job:
        LabelsError: on several machines, a shard has more than `MAX_SHARD_NAMES` images.
    """

    def __init__(
        self,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        *,
        rules: LabelRules = ANY_LABELS,
        of_rows: bool = False,
    ) -> None:
        super().__init__()
        whole_number("shard_size", plan.shard_size, 1)
        if plan.num_shards is not None:
            whole_number("num_shards", plan.num_shards, 1, MAX_SHARDS)
        self._plan = plan
        self._totals = totals
        self._rules = rules
        self._of_rows = of_rows

    def expand(
        self, images: beam.PCollection[LabelledImage] | beam.PCollection[NameBatch]
    ) -> PlannedShards:
        kind: type[PlacedRow | LabelledImage] = PlacedRow if self._of_rows else LabelledImage
        planned: Any = ShardRow if self._of_rows else ShardImage
        assign = _AssignFn(self._plan, self._rules, kind)
        step = beam.ParDo(assign, beam.pvalue.AsSingleton(self._totals))
        batches = images if self._of_rows else images | "Pack images" >> PackRecords()
        assigned = batches | "Assign shards" >> with_outputs(
            step, "names", tuple[str, NameBatch], **{_REJECTIONS: Rejection}
        )
        is_bounded = rules_of(images.pipeline).max_element and not self._of_rows
        name_shards = beam.FlatMap(_every_shard, self._plan, is_bounded=is_bounded)
        every = self._totals | "Name every shard" >> name_shards.with_output_types(
            tuple[str, NameBatch]
        )
        unpack_names = beam.Map(_unpacked, planned)
        shards = (
            (assigned.names, every)
            | "Images and shards" >> beam.Flatten()
            | "Group names by shard" >> beam.GroupByKey()
            | "Unpack images" >> unpack_names.with_output_types(tuple[str, Iterable[planned]])
        )
        return PlannedShards(shards, assigned.rejections)


# ReadRows: rows without images, from CSV files, in batches: one element for each row would cost
# more than its processing.

_OfTable: TypeAlias = NameBatch | Rejection | Count | PlanTotals

BATCH_ROWS = 2048
"""The number of rows in a batch."""


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

    def read(self, uri: str) -> Iterator[_OfTable]:
        """Reads one table: yields batches of rows, and their counts at the end.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        path = relative_path(uri, self.root)
        totals = PlanTotals()
        batch: list[PlacedRow] = []
        read = 0
        for _, rows in open_labels(uri, self.columns, self.encoding):
            for row in rows:
                read += 1
                placed = self._placed(row, uri, path)
                if isinstance(placed, Rejection):
                    yield placed
                    continue
                batch.append(placed)
                totals.images[placed.split] += 1
                totals.bytes[placed.split] += self.row_bytes + len(placed.cells)
                if len(batch) == BATCH_ROWS:
                    PROGRESS.count("reading", BATCH_ROWS)
                    yield pack(batch)
                    batch = []
        if batch:
            PROGRESS.count("reading", len(batch))
            yield pack(batch)
        yield totals
        yield Count("rows_read", read)

    def _placed(self, row: LabelRow, uri: str, path: str) -> PlacedRow | Rejection:
        if row.problem:
            reason, detail = Reason.MALFORMED_ROW, row.problem
            return Rejection("row", reason.code, detail, f"{uri}:{row.line}", row.key)
        key = nfc(row.key.strip())
        named = key or f"{path}:{row.line}"
        try:
            split, order = self.assigner.assign(named, split=row.split, group=row.group)
        except RejectedImageError as error:
            return Rejection("row", error.reason.code, error.detail, f"{uri}:{row.line}", named)
        # A key that is only the row's position need not be sent along.
        return PlacedRow(split, order, key, path, row.line, "\0".join(row.cells))


def _read_rows(uri: str, reader: TableReader) -> Iterator[_OfTable]:
    """Reads a file. The following metric is maintained: `rows_read`."""
    report_source(uri)
    for result in reader.read(uri):
        if isinstance(result, Count):
            counter("rows_read").inc(result.value)
        yield result


class Rows(NamedTuple):
    """The outputs of `ReadRows`; `batches` hold rows, and `totals` is one element."""

    batches: beam.PCollection[NameBatch]
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
        self._read = functools.partial(_read_rows, reader=reader)

    def expand(self, begin: beam.pvalue.PBegin) -> Rows:
        types = {"totals": PlanTotals, "rejections": Rejection, "counts": Count}
        read = (
            begin
            | "Name the files" >> NameInputs(self._paths)
            | "Read rows" >> by_type(self._read, "batches", NameBatch, **types)
        )
        adder = AddUp(PlanTotals, PlanTotals.merge, PlanTotals.merge)
        totals = {"rows": read.totals} | "Total rows" >> AddTogether(adder)
        return Rows(read.batches, totals, read.rejections, read.counts)


_NO_IMAGE = (b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))


class RowConverter(Converter):
    """Turns the rows of one shard into serialized Examples."""

    def __init__(self, features: Sequence[Feature], values: RowValues, *, root: str) -> None:
        """Describes the rows.

        Args:
            features: of the Examples.
            values: makes features from cells.
            root: common folder of the files.
        """
        super().__init__(features)
        self._values = values
        self._root = root

    def load(self, rows: Iterable[ShardRow]) -> Iterator[CheckedImage | Rejection]:
        """Rows with their values, or the rejections of those whose cells do not fit, in order."""
        return map(self._checked, rows)

    def _checked(self, row: ShardRow) -> CheckedImage | Rejection:
        try:
            values = self._values.of_row((row.path, row.line), row.cells.split("\0"))
        except RejectedImageError as error:
            where = f"{full_uri(self._root, row.path)}:{row.line}"
            key = row.key or f"{row.path}:{row.line}"
            return Rejection("row", error.reason.code, error.detail, where, key)
        return CheckedImage(*_NO_IMAGE, values=values, row=row)
