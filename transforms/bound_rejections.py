"""BoundRejections: counts rejections, and keeps no more of them than one worker can hold."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core.dataset.run_counts import MAX_LISTED, rejection_counts
from transforms.core.records import Count
from transforms.core.rejections import Rejection

MAX_SAMPLED = 10_000
"""Of more rejections, about this many are kept as examples."""

# Rejections by subject and reason.
_Counts: TypeAlias = Counter[tuple[str, str]]


class BoundedRejections(NamedTuple):
    """The outputs of `BoundRejections`.

    Attributes:
        listed: all rejections, or a sample if there are too many.
        counts: of all rejections, see `run_counts.rejection_counts`.
        of_shards: like `listed`, of the rejections of shards; None without them.
    """

    listed: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    of_shards: beam.PCollection[Rejection] | None = None


class CountReasons(beam.CombineFn):
    """Counts rejections by subject and reason, where they are made."""

    def create_accumulator(self) -> _Counts:
        return Counter()

    def add_input(self, accumulator: _Counts, rejection: Rejection) -> _Counts:
        accumulator[rejection.subject, rejection.reason] += 1
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Counts]) -> _Counts:
        merged: _Counts = Counter()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: _Counts) -> _Counts:
        return accumulator


class BoundRejections(beam.PTransform):
    """Bounds what the publishing worker gets: a wrong key may reject every row.

    Input: `Rejection`. Output: `BoundedRejections`.
    """

    def __init__(self, of_shards: beam.PCollection[Rejection] | None = None) -> None:
        """Describes the rejections.

        Args:
            of_shards: further rejections, which are counted together with the input.
        """
        super().__init__()
        self._of_shards = of_shards

    def expand(self, rejections: beam.PCollection[Rejection]) -> BoundedRejections:
        every, of_shards = rejections, self._of_shards
        if of_shards is not None:
            every = (rejections, of_shards) | "Every rejection" >> beam.Flatten()
        counted = every | "Count rejections" >> beam.CombineGlobally(CountReasons())
        total = beam.pvalue.AsSingleton(counted)
        listed = rejections | "List or sample" >> beam.ParDo(_ListFn(), total).with_output_types(
            Rejection
        )
        if of_shards is not None:
            of_shards = of_shards | "List or sample of shards" >> beam.ParDo(
                _ListFn(), total
            ).with_output_types(Rejection)
        counts = counted | "Name counts" >> beam.FlatMap(rejection_counts).with_output_types(Count)
        return BoundedRejections(listed, counts, of_shards)


class _ListFn(beam.DoFn):
    def process(
        self, rejection: Rejection, counts: Counter[tuple[str, str]]
    ) -> Iterator[Rejection]:
        total = counts.total()
        if total <= MAX_LISTED or _is_sampled(rejection, MAX_SAMPLED / total):
            yield rejection


def _is_sampled(rejection: Rejection, share: float) -> bool:
    """Whether a rejection is in a sample; the same for every retry."""
    return zlib.crc32(f"{rejection.path}\0{rejection.key}".encode(errors="replace")) < share * 2**32
