"""LabelImages: takes images and labels from any source of a caller's pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import apache_beam as beam

from transforms.core.arguments import (
    exact_text,
    one_of,
    root_text,
    seed_number,
    split_shares,
    truth,
)
from transforms.core.labels.label_kinds import LabelCells, LabelCounter, given_label
from transforms.core.planning.image_lists import listed_key, listed_path
from transforms.core.planning.keys import KEY_KINDS
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.records import Count, JoinSide
from transforms.join_labels import JoinedImages, JoinLabels
from transforms.metrics import counter
from transforms.storage.files import storage_of
from transforms.storage.image_lookup import find_listed
from transforms.storage.read_ahead import ReadAhead, reading_threads

_LABELS = "labels"

# Images to look up together.
_LOOKED_UP = 256


class LabelImages(beam.PTransform):
    """Takes images and labels from any source of the pipeline.

    Input: `(path or gs:// URI, label)`; the label is text or a number. Repeated pairs count
    once; an image whose label is empty, None or NaN is rejected. Output: `JoinedImages`. Looks
    every image up for its size and version, many at once; no image is opened.
    """

    def __init__(
        self,
        *,
        labelled: bool = True,
        key: str = "path",
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        seed: int = 0,
    ) -> None:
        """Sets keys, splits and order.

        Args:
            labelled: False ignores labels; pass the same to `WriteDataset`.
            key: `stem`, `name`, `path` or `uri`. The key must be unique for each image, and decides
                the split and the order.
            root: a folder that contains all images; paths in the dataset are relative to it.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            seed: for record order and split assignment.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value.
        """
        super().__init__()
        self._fn = _LookUpFn(one_of("key", key, KEY_KINDS), root_text("root", root))
        self._join = JoinLabels(
            label_from="given" if truth("labelled", labelled) else "none",
            assigner=SplitAssigner(Splits(split_shares(splits)), seed=seed_number(seed)),
        )

    def expand(self, labelled: beam.PCollection[tuple[str, object]]) -> JoinedImages:
        looked_up = (
            labelled
            | "Batch images" >> beam.BatchElements(max_batch_size=_LOOKED_UP)
            | "Look up images"
            >> beam.ParDo(self._fn)
            .with_output_types(tuple[str, JoinSide], **{_LABELS: LabelCells})
            .with_outputs(_LABELS, main="sides")
        )
        sides = looked_up.sides
        found = (
            sides
            | "Count images" >> beam.combiners.Count.Globally()
            | "Name the count" >> beam.Map(_found).with_output_types(Count)
        )
        joined: JoinedImages = sides | "Join labels" >> self._join
        counts = (joined.counts, found) | "All counts" >> beam.Flatten()
        return JoinedImages(joined.images, joined.rejections, counts, looked_up[_LABELS])


def _found(count: int) -> Count:
    return Count("images_found", count)


class _LookUpFn(beam.DoFn):
    def __init__(self, key: str, root: str) -> None:
        self._key = key
        self._root = root
        self._found = counter("images_found")

    def process(
        self, batch: Sequence[tuple[str, object]]
    ) -> Iterator[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        self._found.inc(len(batch))
        batch = [(exact_text(os.fspath(uri)), label) for uri, label in batch]
        waits = any(storage_of(uri).is_remote for uri, _ in batch)
        ahead, labels = ReadAhead(threads=reading_threads("", waits=waits)), LabelCounter()
        for key, side in ahead.map(self._side, batch):
            if side.label:
                labels.add(side.label, side.path)
            yield key, side
        yield beam.pvalue.TaggedOutput(_LABELS, labels.counted())

    def _side(self, labelled: tuple[str, object]) -> tuple[str, JoinSide]:
        uri, label = labelled
        text = given_label(label)
        found = find_listed(uri)
        path = listed_path(uri, self._root)
        image = JoinSide(path, found.size, found.version, text, "", is_image=True)
        return listed_key(uri, kind=self._key, root=self._root), image
