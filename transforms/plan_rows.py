"""ReadRows and PlanRows: rows without images, from CSV files to planned shards, in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from transforms.add_totals import AddTotals, Part, part
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.examples.encoder import ExampleEncoder
from transforms.core.examples.row_records import (
    BATCH_ROWS,
    RowChecker,
    from_batch,
    planned_rows,
    to_batch,
)
from transforms.core.features.layouts import Feature
from transforms.core.images.checked_image import CheckedImage
from transforms.core.planning.keys import nfc, relative_path
from transforms.core.planning.recipes import Libraries, Recipes
from transforms.core.planning.shards import ShardPlan, shard_index
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.records import Count, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.core.tables.csv_rows import CsvColumns, LabelRow, MalformedRow
from transforms.metrics import PROGRESS, counter
from transforms.name_inputs import NameInputs
from transforms.open_labels import open_labels
from transforms.plan_shards import every_shard
from transforms.storage.lineage import report_source

_TOTALS = "totals"
_REJECTIONS = "rejections"
_COUNTS = "counts"


class TableReader:
    """Reads the rows of one dataset, each with its split and its place in the order. Picklable."""

    def __init__(
        self,
        columns: CsvColumns,
        *,
        root: str,
        encoding: str,
        assigner: SplitAssigner,
        row_bytes: int,
    ) -> None:
        """Describes the files.

        Args:
            columns: positions of key, split, group and cells.
            root: common folder of the files.
            encoding: a Python codec name.
            assigner: gives rows their splits and their order.
            row_bytes: bytes of a record without the text of its cells.
        """
        self._columns = columns
        self._root = root
        self._encoding = encoding
        self._assigner = assigner
        self._row_bytes = row_bytes

    def read(self, uri: str) -> Iterator[str | Rejection | Count | PlanTotals]:
        """Reads one table: yields batches of rows, and their counts at the end.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        path = relative_path(uri, self._root)
        totals = PlanTotals()
        batch: list[tuple[Any, ...]] = []
        read = 0
        for _, rows in open_labels(uri, self._columns, self._encoding):
            for row in rows:
                read += 1
                placed = self._placed(row, uri, path)
                if isinstance(placed, Rejection):
                    yield placed
                    continue
                batch.append(placed)
                totals.images[placed[0]] += 1
                totals.bytes[placed[0]] += self._row_bytes + len(placed[-1])
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
            return Rejection("row", reason.value, detail, f"{uri}:{row.line}", row.key)
        key = nfc(row.key.strip())
        named = key or f"{path}:{row.line}"
        try:
            split, order = self._assigner.assign(named, split=row.split, group=row.group)
        except RejectedImageError as error:
            return Rejection("row", error.reason.value, error.detail, f"{uri}:{row.line}", named)
        # A key that is only the row's position need not be sent along.
        return split, order, key, row.line, "\0".join(row.cells)


class _ReadRowsFn(beam.DoFn):
    """Reads files. The following metric is maintained: `rows_read`."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._rows_read = counter("rows_read")

    def process(self, uri: str) -> Iterable[str | beam.pvalue.TaggedOutput]:
        report_source(uri)
        for result in self._reader.read(uri):
            if isinstance(result, str):
                yield result
            elif isinstance(result, PlanTotals):
                yield beam.pvalue.TaggedOutput(_TOTALS, part(result))
            elif isinstance(result, Rejection):
                yield beam.pvalue.TaggedOutput(_REJECTIONS, result)
            else:
                self._rows_read.inc(result.value)
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
        self._fn = _ReadRowsFn(reader)

    def expand(self, begin: beam.pvalue.PBegin) -> Rows:
        types = {_TOTALS: Part, _REJECTIONS: Rejection, _COUNTS: Count}
        read = (
            begin
            | "Name the files" >> NameInputs(self._paths)
            | "Read rows"
            >> beam.ParDo(self._fn)
            .with_output_types(str, **types)
            .with_outputs(_TOTALS, _REJECTIONS, _COUNTS, main="batches")
        )
        totals = (read.totals,) | "Total rows" >> AddTotals()
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


class _UnpackFn(beam.DoFn):
    def process(self, shard: tuple[str, Iterable[str]]) -> Iterable[tuple[str, list[ShardRow]]]:
        name, batches = shard
        yield name, planned_rows(batches)


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
            >> beam.ParDo(_UnpackFn()).with_output_types(tuple[str, Iterable[ShardRow]])
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
