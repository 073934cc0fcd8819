"""SummarizeShards: what the publishing worker needs of each shard, and totals of the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam

from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.shard_totals import ShardTotals
from transforms.core.rejections import Rejection

_FANOUT = 64
"""Places that add up totals before one does: 73,334 shards of 41 kB are 47 MB in each."""

_NOTHING: dict[str, Any] = {}


class SummarizedShards(NamedTuple):
    """The outputs of `SummarizeShards`.

    Attributes:
        shards: without labels, changes, statistics and rejections.
        totals: of labels, changes and statistics; one element.
        rejections: of all shards.
    """

    shards: beam.PCollection[ShardSummary]
    totals: beam.PCollection[ShardTotals]
    rejections: beam.PCollection[Rejection]


class SummarizeShards(beam.PTransform):
    """Adds up what does not need to be known of each shard, where the shards are written.

    Input: `ShardSummary`, 30 to 41 kB with 1,000 classes. Output: `SummarizedShards`, with less
    than 170 bytes a shard.
    """

    def expand(self, shards: beam.PCollection[ShardSummary]) -> SummarizedShards:
        short = shards | "Shorten summaries" >> beam.Map(_shortened).with_output_types(ShardSummary)
        totals = shards | "Combine labels and statistics" >> beam.CombineGlobally(
            AddShards()
        ).with_fanout(_FANOUT)
        rejections = shards | "Name rejections of shards" >> beam.FlatMap(
            _rejections
        ).with_output_types(Rejection)
        return SummarizedShards(short, totals, rejections)


def _shortened(shard: ShardSummary) -> ShardSummary:
    # One object for all: those that are pickled together get one, too.
    return dataclasses.replace(
        shard, labels=_NOTHING, pixels=_NOTHING, statistics=_NOTHING, rejections=(), roots=""
    )


def _rejections(shard: ShardSummary) -> Iterator[Rejection]:
    yield from shard.rejections


class AddShards(beam.CombineFn):
    """Adds up summaries."""

    def create_accumulator(self) -> ShardTotals:
        return ShardTotals()

    def add_input(self, accumulator: ShardTotals, shard: ShardSummary) -> ShardTotals:
        accumulator.add(shard)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[ShardTotals]) -> ShardTotals:
        merged = ShardTotals()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: ShardTotals) -> ShardTotals:
        return accumulator
