"""LookUpImages: finds the images that rows list, on many workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.labels.label_kinds import LabelCells, LabelCounter
from transforms.core.records import JoinSide
from transforms.metrics import PROGRESS
from transforms.spread_elements import SpreadElements
from transforms.storage.image_lookup import RowImages

_LABELS = "labels"

# Rows that are looked up together: each thread of the pool has several.
_BATCH = 512

_Side = tuple[str, JoinSide]


class LookedUp(NamedTuple):
    """The outputs of `LookUpImages`: images and rows with their keys, and labels in paths."""

    sides: beam.PCollection[_Side]
    labels: beam.PCollection[LabelCells]


class LookUpImages(beam.PTransform):
    """Finds the images that rows list: their sizes and versions, one request each.

    Rows of one label file are spread over all workers, and each process has a bounded pool of
    requests. A retry looks up the rows of one bundle again.

    Input: rows, each with the cell that names its image. Output: `LookedUp`.
    """

    def __init__(self, images: RowImages) -> None:
        super().__init__()
        self._images = images

    def expand(self, rows: beam.PCollection[_Side]) -> LookedUp:
        found = (
            rows
            | "Spread rows" >> SpreadElements()
            | "Look up rows"
            >> beam.ParDo(_LookUpFn(self._images))
            .with_output_types(_Side, **{_LABELS: LabelCells})
            .with_outputs(_LABELS, main="sides")
        )
        return LookedUp(found.sides, found.labels)


class _LookUpFn(beam.DoFn):
    """Looks up the rows of a bundle in parallel."""

    def __init__(self, images: RowImages) -> None:
        self._images = images

    def start_bundle(self) -> None:
        self._rows: list[_Side] = []
        self._labels = LabelCounter()
        self._has_labels = False

    def process(self, row: _Side) -> Iterable[_Side]:
        # In another process, Beam decodes rows to a generated class.
        self._rows.append((row[0], JoinSide(*row[1])))
        if len(self._rows) >= _BATCH:
            yield from self._look_up()

    def finish_bundle(self) -> Iterator[WindowedValue | beam.pvalue.TaggedOutput]:
        for side in self._look_up():
            yield GlobalWindows.windowed_value(side)
        if self._has_labels:
            counted = GlobalWindows.windowed_value(self._labels.counted())
            yield beam.pvalue.TaggedOutput(_LABELS, counted)

    def _look_up(self) -> Iterator[_Side]:
        rows, self._rows = sorted(self._rows, key=_label_file), []
        for path, of_file in itertools.groupby(rows, key=_label_file):
            for key, side in self._images.find(of_file, path):
                PROGRESS.count("reading")
                # The label of an image that a row lists may come from its path.
                if side.is_image and side.label:
                    self._labels.add(side.label, side.path)
                    self._has_labels = True
                yield key, side


def _label_file(row: _Side) -> str:
    """The label file of a row; its place is `FILE:LINE`."""
    return row[1].where.rpartition(":")[0]
