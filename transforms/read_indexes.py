"""ReadIndexes and ReadSources: read the indexes of other datasets on many workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import apache_beam as beam

from transforms.core.labels.label_kinds import LabelCells
from transforms.core.records import Count, IndexPart, JoinSide, SourcePart
from transforms.metrics import counter
from transforms.read_base import BaseReader
from transforms.read_source import SourceReader
from transforms.spread_elements import SpreadElements

_COUNTS = "counts"
_LABELS = "labels"


class StoredSides(NamedTuple):
    """The output of `ReadIndexes`: records of bases with the keys of their images."""

    sides: beam.PCollection[tuple[str, JoinSide]]


class ReadIndexes(beam.PTransform):
    """Reads the indexes of datasets whose records may be reused, each as an element of its own.

    Input: `IndexPart`. Output: `StoredSides`. A retry reads one index again.
    """

    def __init__(self, reader: BaseReader) -> None:
        super().__init__()
        self._reader = reader

    def expand(self, parts: beam.PCollection[IndexPart]) -> StoredSides:
        spread = parts | "Spread indexes" >> SpreadElements()
        read = beam.FlatMap(self._reader.read_part)
        return StoredSides(spread | "Read" >> read.with_output_types(tuple[str, JoinSide]))


class SourceSides(NamedTuple):
    """The outputs of `ReadSources`.

    Attributes:
        sides: records with their keys.
        counts: of the records.
        labels: counts of their labels.
    """

    sides: beam.PCollection[tuple[str, JoinSide]]
    counts: beam.PCollection[Count]
    labels: beam.PCollection[LabelCells]


class ReadSources(beam.PTransform):
    """Reads the indexes of datasets whose records are images, each as an element of its own.

    Input: `SourcePart`. Output: `SourceSides`. A retry reads one index again.
    """

    def __init__(self, reader: SourceReader) -> None:
        super().__init__()
        self._fn = _ReadSourceFn(reader)

    def expand(self, parts: beam.PCollection[SourcePart]) -> SourceSides:
        read = (
            parts
            | "Spread indexes" >> SpreadElements()
            | "Read"
            >> beam.ParDo(self._fn)
            .with_output_types(tuple[str, JoinSide], **{_COUNTS: Count, _LABELS: LabelCells})
            .with_outputs(_COUNTS, _LABELS, main="sides")
        )
        return SourceSides(read.sides, read.counts, read.labels)


class _ReadSourceFn(beam.DoFn):
    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader
        self._found = counter("images_found")

    def process(
        self, part: SourcePart
    ) -> Iterator[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        for result in self._reader.read_part(part):
            if isinstance(result, Count):
                self._found.inc(result.value)
                yield beam.pvalue.TaggedOutput(_COUNTS, result)
            elif isinstance(result, LabelCells):
                yield beam.pvalue.TaggedOutput(_LABELS, result)
            else:
                yield result
