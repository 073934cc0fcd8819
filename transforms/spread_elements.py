"""SpreadElements: hands elements to all workers, also behind another step that does."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import apache_beam as beam

# More than workers; a key has few of millions of elements.
_PARTS = 4096


class SpreadElements(beam.PTransform):
    """Spreads elements over all workers, by a hash of what they hold.

    Input: records. Output: the same ones. `beam.Reshuffle` does the same, but Flink ignores a
    second one if nothing is grouped in between: its batch engine finds them spread already. All
    ranges of a listing stayed with the worker that cut them.
    """

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        kind: Any = elements.element_type
        pair: Any = tuple
        return (
            elements
            | "Choose parts" >> beam.Map(_with_part).with_output_types(pair[int, kind])
            | "Group by part" >> beam.GroupByKey()
            | "Take out" >> beam.FlatMap(_elements).with_output_types(kind)
        )


def _with_part(element: Any) -> tuple[int, Any]:
    # In other processes Beam decodes rows to a class that it generates: a tuple like the original.
    return zlib.crc32(repr(tuple(element)).encode(errors="replace")) % _PARTS, element


def _elements(group: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return group[1]
