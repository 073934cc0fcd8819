"""ReadIndexes: reads the indexes of bases on many workers."""

from __future__ import annotations

from typing import NamedTuple

import apache_beam as beam

from transforms.core.records import IndexPart, JoinSide
from transforms.read_base import BaseReader
from transforms.spread_elements import SpreadElements


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
