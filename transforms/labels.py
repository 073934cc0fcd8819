"""ReadLabels and JoinLabels: label rows out of CSV files, and every image with its label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.core.csv_rows import CsvColumns, LabelRow, MalformedRow, read_rows
from transforms.core.joins import Match, join_group
from transforms.core.keys import key_hashes, row_key
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Reason, Rejection
from transforms.core.splits import Splits
from transforms.metrics import counter

_REJECTIONS = "rejections"
_COUNTS = "counts"


class LabelRows(NamedTuple):
    """The outputs of `ReadLabels`."""

    rows: beam.PCollection[tuple[str, JoinSide]]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]


class _ReadRowsFn(beam.DoFn):
    """Reads one CSV, row by row.

    The following metrics are maintained: `rows_read`, rows besides headers and blank lines.
    """

    def __init__(self, columns: CsvColumns, *, key: str, encoding: str) -> None:
        self._columns = columns
        self._key = key
        self._encoding = encoding
        self._rows_read = counter("rows_read")

    def process(self, path: str) -> Iterable[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        count = 0
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            for row in read_rows(file, self._columns, encoding=self._encoding, path=path):
                count += 1
                yield self._describe(row, f"{path}:{row.line}")
        self._rows_read.inc(count)
        yield beam.pvalue.TaggedOutput(_COUNTS, Count("rows_read", count))

    def _describe(
        self, row: LabelRow | MalformedRow, where: str
    ) -> tuple[str, JoinSide] | beam.pvalue.TaggedOutput:
        key = row_key(row.key, kind=self._key)
        if isinstance(row, LabelRow) and key:
            return key, JoinSide("", 0, 0, row.label, where)
        detail = row.detail if isinstance(row, MalformedRow) else f"{row.key!r} names no file"
        rejection = Rejection("row", Reason.MALFORMED_ROW.value, detail, where, row.key)
        return beam.pvalue.TaggedOutput(_REJECTIONS, rejection)


class ReadLabels(beam.PTransform):
    """Reads the label rows of CSV files.

    Input: the pipeline's begin. Output: `LabelRows`. Bounded; a retry reads again. One file is
    read by one worker.
    """

    def __init__(
        self, paths: Sequence[str], columns: CsvColumns, *, key: str, encoding: str
    ) -> None:
        super().__init__()
        self._paths = list(paths)
        self._fn = _ReadRowsFn(columns, key=key, encoding=encoding)

    def expand(self, begin: beam.pvalue.PBegin) -> LabelRows:
        read = (
            begin
            | "Name the CSV files" >> beam.Create(self._paths)
            | "Read rows"
            >> beam.ParDo(self._fn)
            .with_output_types(tuple[str, JoinSide], **{_REJECTIONS: Rejection, _COUNTS: Count})
            .with_outputs(_REJECTIONS, _COUNTS, main="rows")
        )
        return LabelRows(read.rows, read.rejections, read.counts)


class JoinedImages(NamedTuple):
    """The outputs of `JoinLabels`."""

    images: beam.PCollection[LabelledImage]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]


class _JoinFn(beam.DoFn):
    def __init__(self, *, label_from: str, splits: Splits, seed: int) -> None:
        self._label_from = label_from
        self._splits = splits
        self._seed = seed

    def process(
        self, group: tuple[str, Iterable[JoinSide]]
    ) -> Iterable[LabelledImage | beam.pvalue.TaggedOutput]:
        key, sides = group
        for result in join_group(key, sides, label_from=self._label_from):
            if isinstance(result, Match):
                yield self._place(key, result)
            elif isinstance(result, Rejection):
                yield beam.pvalue.TaggedOutput(_REJECTIONS, result)
            else:
                yield beam.pvalue.TaggedOutput(_COUNTS, result)

    def _place(self, key: str, match: Match) -> LabelledImage:
        split_hash, order_hash = key_hashes(key, seed=self._seed)
        image = match.image
        return LabelledImage(
            split=self._splits.of(split_hash),
            # Beam's integers are signed; the order stays the same.
            order=order_hash - 2**63,
            key=key,
            path=image.path,
            size=image.size,
            version=image.version,
            label=match.label,
            rows=match.rows,
        )


class JoinLabels(beam.PTransform):
    """Joins images and label rows on their keys, and gives each image its split and order.

    Input: a tuple of PCollections of `(key, JoinSide)`, images and, if any, rows. Output:
    `JoinedImages`. What crosses the shuffle is names and label texts.
    """

    def __init__(self, *, label_from: str, splits: Splits, seed: int) -> None:
        super().__init__()
        self._fn = _JoinFn(label_from=label_from, splits=splits, seed=seed)

    def expand(self, sides: tuple[beam.PCollection[tuple[str, JoinSide]], ...]) -> JoinedImages:
        joined = (
            sides
            | "Images and rows" >> beam.Flatten()
            | "Group by key" >> beam.GroupByKey()
            | "Match images and rows"
            >> beam.ParDo(self._fn)
            .with_output_types(LabelledImage, **{_REJECTIONS: Rejection, _COUNTS: Count})
            .with_outputs(_REJECTIONS, _COUNTS, main="images")
        )
        return JoinedImages(joined.images, joined.rejections, joined.counts)
