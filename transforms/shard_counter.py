"""Counts the images of one shard as they are written."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from transforms.core.dataset.image_statistics import Sample, Statistics
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.images.checked_image import CheckedImage
from transforms.core.images.pixel_options import FROM_HEIC, UNTOUCHED
from transforms.core.index.index_rows import IndexRows
from transforms.core.planning.recipes import Recipes
from transforms.core.planning.row_cells import class_texts
from transforms.core.rejections import Rejection
from transforms.metrics import PROGRESS, counter, distribution

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass
class ShardCounter:
    """Counts of one shard; `observe` and `observe_examples` count the items that they pass on.

    Attributes:
        file: name of the shard.
        of_images: whether its records are made of images; others have no statistics.
        records: in the shard.
        index: the rows of its index.
        statistics: of its images.
        image_bytes: stored bytes of its images.
        labels: records of each label text.
        rejections: its images that are left out.
        pixels: records of each change to the pixels.
        reused: images that are from records of another dataset.
        is_changed: whether some image may not be stored unchanged.
    """

    file: str
    of_images: bool
    records: int = 0
    index: IndexRows = dataclasses.field(default_factory=IndexRows)
    statistics: Statistics = dataclasses.field(default_factory=Statistics)
    image_bytes: int = 0
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    rejections: list[Rejection] = dataclasses.field(default_factory=list)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)
    reused: int = 0
    is_changed: bool = False

    @property
    def has_heic(self) -> bool:
        """Whether some image was a HEIC."""
        return FROM_HEIC in self.pixels

    def recipe(self, recipes: Recipes) -> str:
        """The recipe of the shard, after all of its images are counted."""
        return recipes.of(is_changed=self.is_changed, has_heic=self.has_heic)

    def observe(self, loaded: Iterable[CheckedImage | Rejection]) -> Iterator[CheckedImage]:
        """Passes images on and keeps rejections."""
        for result in loaded:
            if isinstance(result, Rejection):
                self.rejections.append(result)
                PROGRESS.advance(1, 1)
            else:
                self._count(result)
                PROGRESS.advance(1)
                yield result

    def observe_examples(self, examples: Iterable[bytes]) -> Iterator[bytes]:
        """Passes Examples on and keeps their lengths."""
        for example in examples:
            self.records += 1
            self.index.lengths.append(len(example))
            yield example

    def observe_copied(
        self, images: Iterable[CheckedImage | Rejection], lengths: Sequence[int]
    ) -> None:
        """Counts the images of a shard that is copied, and the lengths of its records."""
        self.records = sum(1 for _ in self.observe(images))
        self.index.lengths.extend(lengths)

    def _count(self, checked: CheckedImage) -> None:
        if not self.of_images:
            # A row has no class.
            self.labels[""] += 1
            self.index.add(checked)
            return
        classes = class_texts(checked.image)
        # `Counter.update` costs ten times as much as one addition.
        for class_ in classes:
            self.labels[class_] += 1
        image, info = checked.image, checked.info
        samples, size = self.statistics.samples, len(checked.data) or checked.unread
        for class_ in classes:
            if samples.takes(class_):
                samples.add(class_, Sample(image.order, self.file, len(self.index.checked)))
        self.statistics.add(
            info.format,
            height=info.height,
            width=info.width,
            size=size,
            orientation=checked.orientation,
        )
        self.statistics.gps += checked.has_place
        self.image_bytes += size
        self.reused += checked.is_reused
        for change in checked.changes:
            self.pixels[change] += 1
        if checked.partners:
            self._count_partners(checked)
        self.is_changed = self.is_changed or checked.changes != UNTOUCHED
        self.index.add(checked)

    def _count_partners(self, checked: CheckedImage) -> None:
        """Counts what further images alone bring into a record."""
        if not checked.has_place:
            self.statistics.gps += any(partner.has_place for partner in checked.partners)
        if checked.has_heic and FROM_HEIC not in checked.changes:
            self.pixels[FROM_HEIC] += 1

    def counts(self) -> dict[str, Any]:
        """The fields for a `ShardSummary`."""
        self.statistics.samples.shrink()
        return {
            "records": self.records,
            "image_bytes": self.image_bytes,
            "labels": dict(sorted(self.labels.items())),
            "rejections": tuple(self.rejections),
            "pixels": dict(sorted(self.pixels.items())),
            "statistics": self.statistics.to_json() if self.of_images else {},
        }


def count_shard(summary: ShardSummary, seconds: float, *, is_read: bool) -> None:
    """Adds a shard that was written to Beam's metrics, and logs it.

    Args:
        summary: of the shard.
        seconds: from its beginning to its last record.
        is_read: whether its images were read, not a whole shard copied.
    """
    counter("shards_written").inc()
    counter("images_written").inc(summary.records)
    counter("images_rejected").inc(len(summary.rejections))
    counter("bytes_read").inc(summary.image_bytes if is_read else 0)
    counter("bytes_written").inc(summary.bytes)
    distribution("shard_msec").update(int(seconds * 1000))
    rejected, size = len(summary.rejections), summary.bytes
    message = "%s: %d records, %d rejected, %d bytes in %.1f s"
    _LOGGER.info(message, summary.file, summary.records, rejected, size, seconds)
