"""Shards of equal numbers of records, in one process and on several machines."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest

from tests.transforms.beam import collect
from transforms import packing as pack_names
from transforms.core.records import PlannedImage
from transforms.labels.keys import key_hashes
from transforms.labels.shards import ShardPlan, shard_index
from transforms.packing import PackRecords
from transforms.plan_shards import BalanceShards, TotalLabels

PLAN = ShardPlan((), shard_size=1, num_shards=4, gzip=False, by_records=True)
IMAGES = [
    PlannedImage(
        key_hashes(f"{at}", seed=0)[1] - 2**63,
        *(f"{at}", f"{at}.jpg", 1, 1, "cat"),
        split="test" if at < 5 else "train",
    )
    for at in range(43)
]


def starts(images: list[PlannedImage]) -> Any:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | beam.Create(images).with_output_types(PlannedImage)
        totals = created | TotalLabels(None)
        return {"totals": created | PackRecords() | BalanceShards(PLAN, totals, PlannedImage)}

    [totals] = collect(construct)["totals"]
    assert totals.images.total() == len(images)
    return totals.shard_starts


def test_shards_have_equal_numbers_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_names, "BATCH_NAMES", 7)
    found = starts(IMAGES)
    for split, sizes in (("train", [9, 10, 9, 10]), ("test", [1, 1, 1, 2])):
        orders = [image.order for image in IMAGES if image.split == split]
        places = [shard_index(order, 4, found[split]) for order in orders]
        assert [places.count(number) for number in range(4)] == sizes
    monkeypatch.setattr(pack_names, "BATCH_NAMES", 2)
    assert starts(IMAGES[::-1]) == found
