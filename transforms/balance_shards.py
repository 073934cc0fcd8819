"""BalanceShards: finds where shards begin that have equal numbers of records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from transforms.core.balance.hash_cuts import Cuts, Draw
from transforms.core.balance.shard_lines import ShardLines, shard_starts
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.planning.shards import ShardPlan
from transforms.core.records import LabelledImage
from transforms.find_cuts import FindCuts
from transforms.pack_names import NameBatch, PackImages, unpack
from transforms.runners import runs_in_process

# The split and the order of each record of an element.
Places = Callable[[Any], Iterable[tuple[str, int]]]


class BalanceShards(beam.PTransform):
    """Adds to the totals where the shards of each split begin, see `PlanTotals.shard_starts`.

    Input: what `places` reads, such as batches of rows. Output: one `PlanTotals`.
    """

    def __init__(
        self, plan: ShardPlan, totals: beam.PCollection[PlanTotals], places: Places
    ) -> None:
        super().__init__()
        self._totals = totals
        self._lines = _Orders(ShardLines(plan), places)

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[PlanTotals]:
        cuts = elements | "Find cuts" >> FindCuts(self._lines, self._totals)
        return self._totals | "Add starts" >> beam.Map(
            _with_starts, beam.pvalue.AsSingleton(cuts)
        ).with_output_types(PlanTotals)


class BalanceImages(beam.PTransform):
    """The same for images.

    Input: `LabelledImage`. Output: one `PlanTotals`.
    """

    def __init__(self, plan: ShardPlan, totals: beam.PCollection[PlanTotals]) -> None:
        super().__init__()
        self._plan = plan
        self._totals = totals

    def expand(self, images: beam.PCollection[LabelledImage]) -> beam.PCollection[PlanTotals]:
        elements: beam.PCollection[Any] = images
        places: Places = _image_place
        if runs_in_process(images.pipeline):
            elements, places = images | "Pack images" >> PackImages(), _batch_places
        return elements | "Balance" >> BalanceShards(self._plan, self._totals, places)


class _Orders:
    """The lines of splits, from elements of which `places` reads the records."""

    def __init__(self, lines: ShardLines, places: Places) -> None:
        self._lines = lines
        self._places = places
        self.bins, self.rule, self.ranks = lines.bins, lines.rule, lines.ranks

    def prepare(self, totals: PlanTotals, *_: Cuts) -> None:
        """Takes the totals."""
        self._lines.prepare(totals)

    def draws(self, element: Any) -> Iterator[Draw]:
        """The draw of each record."""
        return (self._lines.draw(split, order) for split, order in self._places(element))


def _image_place(image: LabelledImage) -> Iterable[tuple[str, int]]:
    return [(image.split, image.order)]


def _batch_places(batch: NameBatch) -> Iterator[tuple[str, int]]:
    return (image[:2] for image in unpack(batch, LabelledImage))


def _with_starts(totals: PlanTotals, cuts: Cuts) -> PlanTotals:
    return dataclasses.replace(totals, shard_starts=shard_starts(cuts))
