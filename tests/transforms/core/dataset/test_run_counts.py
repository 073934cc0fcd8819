"""Counts of a run: in any order, and whether all rejections are listed or counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from transforms.core.dataset.ledger import PlanTotals, ShardSummary
from transforms.core.dataset.run_counts import Gathered, in_order, rejection_counts
from transforms.core.records import Count
from transforms.core.rejections import Rejection

ROWS = [
    Rejection("row", "row_without_image", "no image", f"a.csv:{number}", f"{number}")
    for number in range(30)
]
MALFORMED = Rejection("row", "malformed_row", "3 cells", "a.csv:99", "")
DROPPED = Rejection("image", "duplicate_image", "the same bytes as a.jpg", "b.jpg", "b")
DAMAGED = Rejection("image", "corrupt_image", "cut", "c.jpg", "c")
SHARD = ShardSummary("train-00000-of-00001.tfrecord", "0" * 32, 5, rejections=(DAMAGED,))
PLANNED = [*ROWS, MALFORMED, DROPPED]
COUNTS = [Count("images_found", 7), Count("rows_read", 36)]
TOTALS = PlanTotals(Counter(train=6), Counter(), Counter(), 5)
REASONS = {
    ("row", "row_without_image"): 30,
    ("row", "malformed_row"): 1,
    ("image", "duplicate_image"): 1,
}


def gathered(listed: list[Rejection], *counts: Count) -> Gathered:
    everything: dict[str, list[Any]] = {
        "totals": [TOTALS],
        "shards": [SHARD],
        "rejections": listed,
        "counts": [*COUNTS, *counts],
    }
    return in_order(["train"], everything)


@pytest.mark.parametrize("listed", [PLANNED, ROWS[:3]])
def test_counts_stand_for_what_is_not_listed(listed: list[Rejection]) -> None:
    whole, counted = gathered(PLANNED), gathered(listed, *rejection_counts(REASONS))
    assert counted.ledger == whole.ledger
    assert counted.failed == whole.failed == (1, 7)
    assert counted.reasons == whole.reasons
    assert (whole.unlisted, counted.unlisted) == (0, len(PLANNED) - len(listed))
    whole.ledger.check()
    assert whole.ledger.rows_unmatched == 30


def test_everything_is_put_in_order() -> None:
    shards = [
        ShardSummary("b-00000-of-00001.tfrecord", "", 3),
        ShardSummary("a-00010-of-00011.tfrecord", "", 2, rejections=(DAMAGED,)),
        ShardSummary("a-00002-of-00011.tfrecord", "", 1),
    ]
    row = ROWS[0]
    counts = [
        Count("images_found", 9),
        Count("images_found_again", 2),
        Count("images_found", 1),
        Count("rows_read", 11),
        Count("rows_rejected", 5),
    ]
    everything = {
        "totals": [PlanTotals(Counter(train=2), Counter(), Counter(), 2)],
        "shards": shards,
        "rejections": [MALFORMED, row, row],
        "counts": counts,
    }
    gathered = in_order(["b", "a"], everything)
    assert [shard.file[:7] for shard in gathered.shards] == ["b-00000", "a-00002", "a-00010"]
    assert gathered.planned == sorted([MALFORMED, row, row])
    assert gathered.rejections == sorted([DAMAGED, MALFORMED, row, row])
    ledger = gathered.ledger
    assert (ledger.images_matched, ledger.records_written, ledger.images_rejected) == (8, 6, 1)
    assert (ledger.rows_read, ledger.rows_used, ledger.rows_repeated) == (11, 2, 0)
    assert (ledger.rows_unmatched, ledger.rows_rejected) == (2, 6)
