"""All counts of a finished run, in a fixed order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transforms.core.dataset.dataset_warnings import DatasetWarning, split_warnings
from transforms.core.dataset.image_statistics import Statistics
from transforms.core.dataset.ledger import Ledger, PlanTotals, ShardSummary, split_classes
from transforms.core.planning.shards import ShardName, empty_shards_warning
from transforms.core.planning.splits import splits_in_order
from transforms.core.rejections import Reason, Rejection


class Gathered(NamedTuple):
    """All counts of a run, in a fixed order.

    Attributes:
        splits: names of the splits in their order.
        totals: totals of the plan.
        shards: sorted by split and number.
        planned: rejections of the join and the plan, sorted.
        rejections: all of them, sorted.
        counts: numbers of the listing, the reading and the join.
        statistics: of the images in all shards; moved here from `shards`.
        of_rows: whether records are made of rows, without images.
    """

    splits: tuple[str, ...]
    totals: PlanTotals
    shards: list[ShardSummary]
    planned: list[Rejection]
    rejections: list[Rejection]
    counts: Counter[str]
    statistics: Statistics
    of_rows: bool = False

    @property
    def failed(self) -> tuple[int, int]:
        """The number of rejections, and the total: of images, or of rows without images.

        Exact duplicates that were dropped as requested do not count as rejected.
        """
        ledger = self.ledger
        if self.of_rows:
            return ledger.rows_rejected, ledger.rows_read
        dropped = sum(r.reason == Reason.DUPLICATE_IMAGE.value for r in self.rejections)
        return ledger.images_rejected - dropped, ledger.images_matched

    def warnings(
        self, options: Mapping[str, Any], shards: Mapping[str, int]
    ) -> list[DatasetWarning]:
        """Warnings about the splits and their shards.

        Args:
            options: those of the dataset, by flag name.
            shards: of each split, including empty ones; none if every record has its own file.
        """
        records = dict.fromkeys(self.splits, 0)
        for shard in self.shards:
            records[ShardName.parse(shard.file).split] += shard.records
        texts = (empty_shards_warning(name, records[name], count) for name, count in shards.items())
        empty = [DatasetWarning("empty_shards", text) for text in texts if text]
        return empty + split_warnings(
            records,
            split_classes(self.shards),
            planned=self.totals.images,
            options=options,
            what="row" if self.of_rows else "image",
        )

    @property
    def ledger(self) -> Ledger:
        """All inputs and what became of them."""
        rows = Counter(r.reason for r in self.rejections if r.subject == "row")
        unmatched = rows.pop(Reason.ROW_WITHOUT_IMAGE.value, 0)
        records = sum(shard.records for shard in self.shards)
        return Ledger(
            images_matched=self.counts["images_found"] - self.counts["images_found_again"],
            records_written=records,
            images_rejected=sum(r.subject == "image" for r in self.rejections),
            rows_read=self.counts["rows_read"],
            rows_used=self.totals.rows_used,
            rows_repeated=self.totals.rows_repeated,
            rows_unmatched=unmatched,
            rows_rejected=rows.total() + self.counts["rows_rejected"],
            rows_written=records if self.of_rows else 0,
        )


def in_order(
    splits: Iterable[str], everything: Mapping[str, list[Any]], *, of_rows: bool = False
) -> Gathered:
    """Sorts counts that arrive in any order.

    Args:
        splits: the splits in order; if empty, those that occur in the totals.
        everything: `totals`, one `PlanTotals`; `shards`, all `ShardSummary`; `rejections`, those of
            the join and the plan; `counts` of the listing, the reading and the join.
        of_rows: whether records are made of rows, without images.
    """
    (totals,) = everything["totals"]
    ordered = tuple(splits) or splits_in_order(totals.images)
    rank = {split: position for position, split in enumerate(ordered)}
    added: Counter[str] = Counter()
    for count in everything["counts"]:
        added[count.name] += count.value

    def place(shard: ShardSummary) -> tuple[int, int]:
        name = ShardName.parse(shard.file)
        return rank[name.split], name.number

    planned = sorted(everything["rejections"])
    statistics = Statistics()
    placed: list[ShardSummary] = []
    for shard in everything["shards"]:
        statistics.merge(Statistics.from_json(shard.statistics))
        placed.append(dataclasses.replace(shard, statistics={}))
    placed.sort(key=place)
    all_rejections = sorted([*planned, *(r for shard in placed for r in shard.rejections)])
    return Gathered(ordered, totals, placed, planned, all_rejections, added, statistics, of_rows)
