"""Counts of a run: in any order, and whether all rejections are listed or counted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from transforms.core import rejections
from transforms.core.records import Count, RejectedPart
from transforms.core.rejections import Rejection, RejectionTotals
from transforms.dataset.ledger import (
    Gathered,
    LedgerError,
    PlanTotals,
    ShardSummary,
    ShardTotals,
    in_order,
)
from transforms.labels.vocabulary import Vocabulary

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
ALL = [*PLANNED, DAMAGED]
NO_CLASS = Vocabulary.build([])


def everything(**others: list[Any]) -> dict[str, list[Any]]:
    found = {"totals": [TOTALS], "shards": [SHARD], "counts": COUNTS, "rejections": PLANNED}
    return {**found, **others}


def of_workers(*lines: int, **others: list[Any]) -> Gathered:
    """What workers give: totals, a sample, and parts of as many lines."""
    found = everything(
        shards=[dataclasses.replace(SHARD, rejections=())],
        written=[ShardTotals()],
        rejected=[RejectionTotals.of(PLANNED)],
        rejected_of_shards=[RejectionTotals.of([DAMAGED])],
        sample=[[tuple(each) for each in ALL[:3]]],
        parts=[RejectedPart(number, "", each, 1, "") for number, each in enumerate(lines)],
    )
    del found["rejections"]
    return in_order(["train"], {**found, **others})


def test_totals_stand_for_what_is_not_listed() -> None:
    whole, counted = in_order(["train"], everything()), of_workers(len(ALL))
    assert counted.ledger == whole.ledger
    assert counted.failed == whole.failed == (1, 7)
    assert counted.reasons == whole.reasons
    assert counted.planned == whole.planned
    assert (whole.unlisted, counted.unlisted) == (0, 0)
    assert whole.rejections == sorted(ALL)
    assert counted.rejections == sorted(ALL[:3])
    for each in (whole, counted):
        each.check()
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
    found = {
        "totals": [PlanTotals(Counter(train=2), Counter(), Counter(), 2)],
        "shards": shards,
        "rejections": [MALFORMED, row, row],
        "counts": counts,
    }
    gathered = in_order(["b", "a"], found)
    assert [shard.file[:7] for shard in gathered.shards] == ["b-00000", "a-00002", "a-00010"]
    assert gathered.planned == RejectionTotals.of([row, MALFORMED, row]).digest
    assert gathered.rejections == sorted([DAMAGED, MALFORMED, row, row])
    ledger = gathered.ledger
    assert (ledger.images_matched, ledger.records_written, ledger.images_rejected) == (8, 6, 1)
    assert (ledger.rows_read, ledger.rows_used, ledger.rows_repeated) == (11, 2, 0)
    assert (ledger.rows_unmatched, ledger.rows_rejected) == (2, 6)


def test_a_part_that_is_lost_is_an_error() -> None:
    of_workers(len(ALL) - 2, 2).check()
    with pytest.raises(LedgerError, match="31 of 33 lines of rejected.jsonl written"):
        of_workers(len(ALL) - 2).check()


def test_too_many_rejections_have_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL))
    assert of_workers(len(ALL)).unlisted == 0
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL) - 1)
    found = of_workers()
    found.check()
    assert found.unlisted == len(ALL)
    # In one process all are listed.
    assert in_order(["train"], everything()).unlisted == 0


def test_a_dataset_without_records_is_a_warning() -> None:
    for of_rows, what in ((False, "image"), (True, "row")):
        shards = [dataclasses.replace(SHARD, records=0)]
        whole = in_order(["train"], everything(shards=shards))._replace(of_rows=of_rows)
        [warning] = whole.warnings({}, {"train": 1}, NO_CLASS)
        assert warning.code == "no_records"
        assert warning.text == (
            f"the dataset has no record: rejected.jsonl says why each {what} was left out"
        )
    assert in_order(["train"], everything()).warnings({}, {"train": 1}, NO_CLASS) == []
