"""NameInputs: the inputs of a job as elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam


class NameInputs(beam.PTransform):
    """Makes a collection of a few names; each may be read by another worker.

    Input: the pipeline's begin. Output: the names. `beam.Create` has one more step, which decodes
    them.
    """

    def __init__(self, names: Sequence[Any]) -> None:
        super().__init__()
        self._names = list(names)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        names = (
            begin
            | "Begin" >> beam.Impulse()
            | "List" >> beam.FlatMap(_these, self._names).with_output_types(type(self._names[0]))
        )
        return names | "Spread" >> beam.Reshuffle() if len(self._names) > 1 else names


def _these(_: bytes, names: Sequence[Any]) -> Sequence[Any]:
    return names
