"""Counts of a run: in any order, and whether all rejections are listed or counted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from tests.transforms.added import added_to
from transforms.core import rejections
from transforms.core.records import Count, RejectedPart
from transforms.core.rejections import Rejection, RejectionTotals
from transforms.dataset.ledger import (
    Gathered,
    LedgerError,
    PlanTotals,
    RunTotals,
    ShardSummary,
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


def gathered(*lines: int, shard: ShardSummary = SHARD) -> Gathered:
    """What is gathered with parts of `rejected.jsonl` of so many lines; none for a plan."""
    run = added_to(RunTotals(), [*PLANNED, *COUNTS, shard])
    found: dict[str, list[Any]] = {"totals": [TOTALS], "shards": [shard], "run": [run]}
    if lines:
        parts = [RejectedPart(number, "", each, 1, "") for number, each in enumerate(lines) if each]
        found["parts"] = parts
    return in_order(["train"], found)


def test_totals_stand_for_what_is_not_listed() -> None:
    found = gathered(len(ALL))
    assert found.failed == (1, 7)
    assert found.reasons == Counter((each.subject, each.reason) for each in ALL)
    assert found.run.planned.digest == RejectionTotals.of(PLANNED).digest
    assert found.unlisted == 0
    assert found.run.sample == sorted(ALL)
    found.check()
    assert found.ledger.rows_unmatched == 30
    assert gathered().ledger == found.ledger


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
        "run": [added_to(RunTotals(), [MALFORMED, row, row, *counts, *shards])],
    }
    gathered = in_order(["b", "a"], found)
    assert [shard.file[:7] for shard in gathered.shards] == ["b-00000", "a-00002", "a-00010"]
    assert gathered.run.planned.digest == RejectionTotals.of([row, MALFORMED, row]).digest
    assert gathered.run.sample == sorted([DAMAGED, MALFORMED, row, row])
    ledger = gathered.ledger
    assert (ledger.images_matched, ledger.records_written, ledger.images_rejected) == (8, 6, 1)
    assert (ledger.rows_read, ledger.rows_used, ledger.rows_repeated) == (11, 2, 0)
    assert (ledger.rows_unmatched, ledger.rows_rejected) == (2, 6)


def test_a_part_that_is_lost_is_an_error() -> None:
    gathered(len(ALL) - 2, 2).check()
    with pytest.raises(LedgerError, match="31 of 33 lines of rejected.jsonl written"):
        gathered(len(ALL) - 2).check()


def test_too_many_rejections_have_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL))
    assert gathered(len(ALL)).unlisted == 0
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL) - 1)
    found = gathered(0)
    found.check()
    assert found.unlisted == len(ALL)
    # A plan lists none.
    assert gathered().unlisted == 0


def test_a_dataset_without_records_is_a_warning() -> None:
    for of_rows, what in ((False, "image"), (True, "row")):
        shard = dataclasses.replace(SHARD, records=0)
        whole = gathered(shard=shard)._replace(of_rows=of_rows)
        [warning] = whole.warnings({}, {"train": 1}, NO_CLASS)
        assert warning.code == "no_records"
        assert warning.text == (
            f"the dataset has no record: rejected.jsonl says why each {what} was left out"
        )
    assert gathered().warnings({}, {"train": 1}, NO_CLASS) == []
