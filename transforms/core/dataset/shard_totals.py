"""ShardTotals: labels, changes and statistics of all shards, added up in any order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from transforms.core.dataset.image_statistics import Statistics
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.labels.label_kinds import class_order
from transforms.core.planning.shards import ShardName


@dataclasses.dataclass
class ShardTotals:
    """Totals over shards; a mergeable accumulator: any order of merges gives the same.

    Attributes:
        labels: records of each label text, by split; splits without a shard are left out.
        pixels: records of each change to the pixels, by name.
        statistics: of the images.
    """

    labels: dict[str, Counter[str]] = dataclasses.field(default_factory=dict)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)
    statistics: Statistics = dataclasses.field(default_factory=Statistics)

    @classmethod
    def of(cls, shards: Iterable[ShardSummary]) -> ShardTotals:
        """The totals of these shards."""
        totals = cls()
        for shard in shards:
            totals.add(shard)
        return totals

    def add(self, shard: ShardSummary) -> None:
        """Adds one shard."""
        split = ShardName.parse(shard.file).split
        self.labels.setdefault(split, Counter()).update(shard.labels)
        self.pixels.update(shard.pixels)
        self.statistics.merge(Statistics.from_json(shard.statistics))

    def merge(self, other: ShardTotals) -> None:
        """Adds the totals of other shards."""
        for split, labels in other.labels.items():
            self.labels.setdefault(split, Counter()).update(labels)
        self.pixels.update(other.pixels)
        self.statistics.merge(other.statistics)

    def split_classes(self, splits: Iterable[str]) -> dict[str, dict[str, int]]:
        """Records of each label in each split, labels in the order of `class_order`.

        Args:
            splits: all of them, in order; those without a shard are left out.
        """
        return {
            split: {label: labels[label] for label in sorted(labels, key=class_order)}
            for split in splits
            if (labels := self.labels.get(split)) is not None
        }

    @property
    def changes(self) -> dict[str, int]:
        """Records of each change to the pixels, in the order of the names."""
        return dict(sorted(self.pixels.items()))
