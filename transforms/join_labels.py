"""ReadInputs and JoinLabels: reads inputs, and joins images and rows on their keys."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core.records import (
    Count,
    IndexPart,
    JoinSide,
    Kind,
    NameRange,
    PlannedImage,
    ShardRow,
    TablePart,
)
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.ledger import PlanTotals
from transforms.examples.partners import Partner, join_partners
from transforms.input_readers import (
    ImageFinder,
    KeyReader,
    PartnerFinder,
    RowReader,
    divide_labels,
    open_labels,
)
from transforms.labels import csv_tables
from transforms.labels.joins import (
    ONE_LABEL,
    Joined,
    JoinGroup,
    JoinRules,
    RowRequirements,
    join_group,
    join_selected,
)
from transforms.labels.keys import nfc, relative_path
from transforms.labels.label_rows import FORMATS, CsvColumns, LabelRow
from transforms.labels.shards import SplitAssigner
from transforms.labels.vocabulary import LabelCells, LabelCounter
from transforms.packing import (
    Collections,
    NameBatch,
    RecordCoder,
    SpreadElements,
    by_type,
    grouped_sides,
    named,
    pack,
    pack_sides,
    packing_sides,
    rules_of,
    together,
    unpack_sides,
)
from transforms.records.other_datasets import IMAGES, REUSE, DatasetReader, Found
from transforms.records.stored_images import join_records, join_reused
from transforms.storage.beam_storage import report_source
from transforms.storage.files import storage_of
from transforms.storage.interface import LISTED_NAMES, FoundFile
from transforms.storage.metrics import PROGRESS, counter

# Joins the sides of each key, all keys of a part together.


def _joined(
    part: tuple[int, Iterable[NameBatch]], join: JoinGroup, reuses: bool
) -> Iterator[Joined]:
    """Joins the sides of all keys of a part.

    Args:
        part: batches of sides.
        join: joins one group.
        reuses: whether some sides are records of bases, see `stored_images`.
    """
    groups = grouped_sides(part[1])
    if reuses:
        # If only a base has a key, there is nothing to plan.
        groups = {
            key: sides
            for key, sides in groups.items()
            if any(side.kind != Kind.RECORD for side in sides)
        }
    PROGRESS.count("planning", len(groups))
    for key, sides in groups.items():
        for result in join(key, sides):
            if isinstance(result, Rejection) and result.subject == "image":
                PROGRESS.count("planning", 0, rejected=1)
            yield result


# ReadInputs and JoinLabels: read images, rows and keys, and join each image with its label.

_Side = tuple[str, JoinSide]

INPUT_TYPES = {"rejections": Rejection, "counts": Count, "labels": LabelCells}
"""The outputs of a step that reads inputs, next to their sides."""

# Sides that are counted at once for the progress: a lock for each would be a fortieth.
_COUNTED = 100

# Rows that are handed on, and looked up together: each thread of the pool has several.
_BATCH = 512

_COUNTERS = {
    "images_found": counter("images_found"),
    "partners_found": counter("partners_found"),
    "rows_read": counter("rows_read"),
}


# A glob of images or of a partner, or a range of its names; a label file, a part of it, a range of
# a glob of them, or rows that list images; a file of keys; an index of another dataset, whose kind
# is its flag.
_GLOB, _TABLE, _PART, _ANNOTATIONS = "glob", "table", "part", "annotations"
_ROWS, _KEYS, _INDEX = "rows", "keys", "index"

# The stage of the progress in which the sides of a kind are counted.
_READ = (_TABLE, _PART, _ANNOTATIONS, _ROWS, _KEYS)
_STAGES = {_GLOB: "listing", IMAGES: "listing", **dict.fromkeys(_READ, "reading")}


class _Input(NamedTuple):
    """One of the inputs, or a part of one that any worker may read.

    Attributes:
        kind: what it is.
        part: the arguments of what reads it: texts, numbers and bytes.
    """

    kind: str
    part: tuple[Any, ...]


beam.coders.registry.register_coder(_Input, RecordCoder)


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

    @classmethod
    def of(cls, *rounds: beam.pvalue.DoOutputsTuple) -> Inputs:
        """The outputs of one or several steps that read inputs, see `INPUT_TYPES`."""
        outputs = {name: [each[name] for each in rounds] for name in cls._fields}
        return cls(*(together(f"All {name}", *each) for name, each in outputs.items()))

    def joined(self, join: JoinLabels) -> JoinedImages:
        """The images, joined, with what was left out before or is now."""
        joined: JoinedImages = self.sides | "Join labels" >> join
        rejections = {"of inputs": self.rejections, **named("of the join", joined.rejections)}
        counts = {"of inputs": self.counts, **named("of the join", joined.counts)}
        return JoinedImages(joined.images, rejections, counts, self.labels)


def _read_input(
    source: _Input, readers: Mapping[str, Callable[..., Iterator[Any]]]
) -> Iterator[_Side | Rejection | Count | LabelCells | _Input]:
    """Reads an input or a part of one.

    The following metrics are maintained: `images_found`, files that globs matched and records that
    are images; `rows_read`, rows without headers and blank lines; `partners_found`, masks and
    further images.

    Args:
        source: what to read.
        readers: read the inputs of each kind.
    """
    labels, counted = LabelCounter(), 0
    has_labels = False
    stage = _STAGES.get(source.kind)
    for result in readers[source.kind](*source.part):
        if type(result) is tuple:
            counted += 1
            if stage and not counted % _COUNTED:
                PROGRESS.count(stage, _COUNTED)
            # The label of a file comes from its path, also if a row lists it.
            if result[1].label and result[1].kind == Kind.IMAGE:
                labels.add(result[1].label, result[1].path)
                has_labels = True
        elif isinstance(result, Rejection) and result.subject == "image":
            PROGRESS.count("listing")
            PROGRESS.count("planning", 0, rejected=1)
        elif isinstance(result, Count):
            _COUNTERS[result.name].inc(result.value)
        yield result
    if stage and counted % _COUNTED:
        PROGRESS.count(stage, counted % _COUNTED)
    if has_labels:
        yield labels.counted()


def _read_glob(
    finder: ImageFinder, partners: PartnerFinder | None, limit: int, *part: str
) -> Iterator[Any]:
    """Lists a glob, or a range of its names; the rest may follow as ranges."""
    names = NameRange(*part)
    report_source(names.glob)
    for found in (partners if partners and names.partner else finder).find(names, limit):
        yield _Input(_GLOB, tuple(found)) if isinstance(found, NameRange) else found


def _read_table(reader: RowReader, path: str) -> Iterator[Any]:
    """Reads a label file, or a glob of annotations."""
    report_source(path)
    yield from reader.read(TablePart(path))


def _divide_table(reader: RowReader, path: str) -> Iterator[_Input]:
    """Hands on the parts of a label file."""
    report_source(path)
    for part in divide_labels(TablePart(path), reader.columns, reader.encoding):
        yield _Input(_PART, tuple(part))


def _hand_on_rows(reader: RowReader, path: str) -> Iterator[Any]:
    """Reads a label file, whose rows list images, and hands them on."""
    report_source(path)
    rows: list[_Side] = []
    for found in reader.read_rows(TablePart(path)):
        if isinstance(found, Rejection | Count | LabelCells):
            yield found
            continue
        rows.append(found)
        if len(rows) == _BATCH:
            yield _Input(_ROWS, (path, pack_sides(rows)))
            rows = []
    if rows:
        yield _Input(_ROWS, (path, pack_sides(rows)))


def _read_annotations(reader: RowReader, limit: int, *part: str) -> Iterator[Any]:
    """Reads the annotation files of a glob, or of a range of its names; the rest may follow."""
    names, ranges = NameRange(*part), []
    report_source(names.glob)

    def files() -> Iterator[FoundFile]:
        for found in storage_of(names.glob).list_range(names, limit):
            if isinstance(found, FoundFile):
                yield found
            else:
                ranges.append(_Input(_ANNOTATIONS, tuple(found)))

    yield from reader.read_rows(files())
    yield from ranges


def _read_dataset(reader: DatasetReader, hands_on: bool, number: int) -> Iterator[Found | _Input]:
    """Reads the records of a dataset; or hands its indexes on, one by one."""
    report_source(reader.datasets[number].folder)
    if not hands_on:
        return reader.read(number)
    return (_Input(_INDEX, tuple(part)) for part in reader.parts(number))


@dataclasses.dataclass(eq=False, repr=False)
class ReadInputs(beam.PTransform):
    """Lists the globs and reads the label files.

    One step for both: two would have to be flattened, which the in-process runner pays for with
    a copy of every name (docs/development/design_notes.md).

    Where each worker pays for its own listing, a long glob of images, masks or further images is
    handed on: in a bucket in ranges, in up to three rounds, on a local or
    shared disk folder by folder. So are the parts of label files, rows that list images, and the
    indexes of other datasets.
    In one process all workers share Python's lock, and each step has its price.

    Input: the pipeline's begin. Output: `Inputs`. Bounded; a retry lists one range, or reads one
    part or one batch of rows, again. On other storages, one worker lists a glob.
    """

    globs: Sequence[str]
    finder: ImageFinder
    csv_paths: Sequence[str]
    reader: RowReader | None
    keys: KeyReader | None = None
    datasets: Sequence[DatasetReader] = ()
    partners: PartnerFinder | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> Inputs:
        csv_tables.GROWN.clear()
        globs = [*map(NameRange, self.globs), *(self.partners.globs if self.partners else [])]
        inputs = [_Input(_GLOB, tuple(glob)) for glob in globs]
        inputs += [_Input(_TABLE, (path,)) for path in self.csv_paths]
        inputs += [_Input(_KEYS, ())] if self.keys else []
        for each in self.datasets:
            numbers = {tuple(dataset.given): at for at, dataset in enumerate(each.datasets)}
            inputs += [_Input(each.flag, (number,)) for number in numbers.values()]
        shares = rules_of(begin.pipeline).shares_inputs
        limits = [*(LISTED_NAMES if globs else [0]), 0] if shares else [0]
        named = begin | "Name the inputs" >> beam.Create(inputs)
        rounds = [named | "List images and read rows" >> self._read(limits[0], shares)]
        for number, limit in enumerate(limits[1:], 1):
            parts = rounds[-1].parts | f"Spread parts {number}" >> SpreadElements()
            rounds.append(parts | f"Read parts {number}" >> self._read(limit, shares))
        return Inputs.of(*rounds)

    def _read(self, limit: int, shares: bool) -> beam.PTransform:
        """A step that reads inputs, and hands parts on after `limit` names of a glob."""
        finder, partners, reader, keys = self.finder, self.partners, self.reader, self.keys
        of_flags = {each.flag: each for each in self.datasets}
        readers: dict[str, Callable[..., Iterator[Any]]] = {
            _GLOB: functools.partial(_read_glob, finder, partners, limit),
            _INDEX: lambda flag, *part: of_flags[flag].read_part(IndexPart(flag, *part)),
        }
        for flag, each in of_flags.items():
            readers[flag] = functools.partial(_read_dataset, each, shares)
        if keys:
            readers[_KEYS] = keys.read
        if reader:
            images = reader.images
            readers[_ANNOTATIONS] = functools.partial(_read_annotations, reader, limit)
            readers[_TABLE] = functools.partial(_read_table, reader)
            if shares and images is not None:
                readers[_TABLE] = functools.partial(_hand_on_rows, reader)
            elif shares and FORMATS[reader.columns.format].is_per_image:
                readers[_TABLE] = readers[_ANNOTATIONS]
            elif shares:
                readers[_TABLE] = functools.partial(_divide_table, reader)
            readers[_PART] = lambda *part: reader.read(TablePart(*part))
            if images is not None:
                # Their sizes and versions, one request each.
                readers[_ROWS] = lambda path, rows: images.find(unpack_sides(rows), path)
        read = functools.partial(_read_input, readers=readers)
        return by_type(read, "sides", _Side, **INPUT_TYPES, parts=_Input)


class JoinedImages(NamedTuple):
    """The outputs of `JoinLabels`.

    Attributes:
        images: with their labels.
        rejections: images and rows that are left out.
        counts: further counts for the ledger.
        labels: counts of the labels as they were read; None if they were not counted.
    """

    images: beam.PCollection[PlannedImage]
    rejections: Collections[Rejection]
    counts: Collections[Count]
    labels: beam.PCollection[LabelCells] | None = None

    def flat(self) -> JoinedImages:
        """The same with one collection of each kind, for pipelines of other people."""
        return self._replace(
            rejections=together("All rejections", *named("", self.rejections).values()),
            counts=together("All counts", *named("", self.counts).values()),
        )


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
        match = functools.partial(_joined, join=self._join, reuses=self._reuses)
        joined = (
            sides
            | "Pack sides" >> packing_sides()
            | "Group by key" >> beam.GroupByKey()
            | "Match images and rows"
            >> by_type(match, "images", PlannedImage, rejections=Rejection, counts=Count)
        )
        return JoinedImages(joined.images, joined.rejections, joined.counts)


# Rows without images, from CSV files, in batches: one element for each row would cost more than its
# processing.

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

    def read(self, part: TablePart) -> Iterator[_OfTable]:
        """Reads a table or a part of it: yields batches of rows, and their counts at the end.

        Raises:
            LabelsError: the file cannot be read as a table.
        """
        uri = part.path
        path = relative_path(uri, self.root)
        totals = PlanTotals()
        batch: list[ShardRow] = []
        read = 0
        for _, rows in open_labels(part, self.columns, self.encoding):
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

    def _placed(self, row: LabelRow, uri: str, path: str) -> ShardRow | Rejection:
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
        return ShardRow(order, key, path, row.line, "\0".join(row.cells), split)


def read_table_rows(part: TablePart, reader: TableReader) -> Iterator[_OfTable]:
    """Reads a table, or a part. The following metric is maintained: `rows_read`."""
    report_source(part.path)
    for result in reader.read(part):
        if isinstance(result, Count):
            counter("rows_read").inc(result.value)
        yield result
