"""Counts of shards and of a run add up in any order, and must balance."""

import dataclasses
import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.transforms.added import added_to, totals_of
from transforms.core import rejections
from transforms.core.messages import LabelsError
from transforms.core.records import Count, PlannedImage, RejectedPart
from transforms.core.rejections import Rejection
from transforms.dataset import ledger
from transforms.dataset.ledger import (
    Gathered,
    Ledger,
    LedgerError,
    PlanTotals,
    RunTotals,
    ShardSummary,
    count_reasons,
    in_order,
)
from transforms.labels.vocabulary import Vocabulary

MASKED = (("a.png", 7, 1),)
IMAGE = PlannedImage(0, "k", "k.jpg", 5, 0, "cat", split="train", rows=1)
IMAGES = st.lists(
    st.builds(
        IMAGE._replace,
        split=st.sampled_from(["train", "test"]),
        size=st.integers(0, 10**12),
        label=st.sampled_from(["", "cat", "dog"]),
        rows=st.integers(0, 3),
        partners=st.sampled_from([(), MASKED]),
    ),
    max_size=12,
)


def totals(*images: PlannedImage) -> PlanTotals:
    return added_to(PlanTotals(), images)


@given(IMAGES)
def test_totals_are_sums(images: list[PlannedImage]) -> None:
    added = totals(*images)
    for split in ("train", "test"):
        own = [image for image in images if image.split == split]
        assert added.images[split] == len(own)
        masks = sum(7 for image in own if image.partners)
        assert added.bytes[split] == sum(image.size for image in own) + masks
    assert added.partners_used == sum(image.partners == MASKED for image in images)
    assert added.labels == Counter(image.label for image in images)
    assert added.rows_used == sum(image.rows > 0 for image in images)
    assert added.rows_used + added.rows_repeated == sum(image.rows for image in images)


def test_rows_with_cells_are_used_one_by_one_and_an_image_counts_once_for_a_label() -> None:
    cells = '[["a.csv:2",["cat","dog"],[]],["a.csv:3",["cat"],[]]]'
    added = totals(IMAGE._replace(label="", rows=3, cells=cells))
    assert (added.rows_used, added.rows_repeated) == (2, 1)
    assert added.labels == {"": 1, "cat": 1, "dog": 1}


@given(IMAGES, IMAGES)
def test_totals_merge_into_one_alone(one: list[PlannedImage], others: list[PlannedImage]) -> None:
    merged, other = totals(*one), totals(*others)
    merged.merge(other)
    assert merged == totals(*one, *others)
    merged.add(IMAGE)
    assert other == totals(*others)


def test_a_summary_goes_through_json() -> None:
    rejection = Rejection("image", "empty_file", "0 bytes", "a.jpg", "a")
    rejected = (rejection, rejection._replace(detail='"quoted"\n'))
    summary = ShardSummary(
        *("train-00000-of-00001.tfrecord", "r", 3, 100, "0000abcd", 50, {"한강": 2, "": 1}),
        rejections=rejected,
    )
    text = summary.to_sidecar()
    assert ShardSummary.from_sidecar(text) == summary
    for changed in (text[:-9], text.replace("100", "101")):
        assert ShardSummary.from_sidecar(changed) is None
    empty = ShardSummary("f", "r")
    assert ShardSummary.from_sidecar(empty.to_sidecar()) == empty


# A ledger balances, or an error shows the sum.

IMAGES_COUNTED = {"images_matched": 10, "records_written": 7, "images_rejected": 3}
ROWS_COUNTED = {"rows_read": 15, "rows_used": 8, "rows_repeated": 4, "rows_unmatched": 2}
PARTNERS_COUNTED = {"partners_matched": 5, "partners_used": 2, "partners_unmatched": 1}
LEDGER = Ledger(
    **IMAGES_COUNTED, **ROWS_COUNTED, rows_rejected=1, **PARTNERS_COUNTED, partners_rejected=2
)


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Ledger)])
def test_any_number_that_is_wrong_is_found(field: str, by: int) -> None:
    LEDGER.check()
    wrong = dataclasses.replace(LEDGER, **{field: getattr(LEDGER, field) + by})
    of_rows = field.startswith("rows") and field != "rows_written"
    side = "rows read" if of_rows else "images matched"
    side = "masks and further images matched" if field.startswith("partners") else side
    with pytest.raises(LedgerError, match=f"does not balance: [0-9]+ {side}"):
        wrong.check()


LEFT_OUT = dataclasses.replace(
    LEDGER, images_matched=15, images_left_out=5, rows_read=17, rows_left_out=2
)


def of_rows(rejected: int, written: int) -> Ledger:
    """Nine rows of a dataset without images."""
    return Ledger(0, written, 0, 9, 0, 0, 0, rejected, rows_written=written)


@cases(
    (LEDGER, {}, ""),
    (LEDGER, {"rows_read": 99}, "99 rows read, but 8 used + 4 repeated + 2 unmatched + "),
    (LEDGER, {"rows_read": 99}, "2 unmatched + 1 rejected = 15"),
    (LEFT_OUT, {}, ""),
    (LEFT_OUT, {"images_matched": 16}, " 7 written + 3 rejected + 5 left out = 15"),
    (LEFT_OUT, {"rows_read": 16}, " 1 rejected + 2 left out = 17"),
    (of_rows(1, 8), {}, ""),
    (of_rows(0, 8), {}, "0 rejected + 8 written = "),
    (of_rows(1, 9), {}, "1 rejected + 9 written = "),
)
def test_a_ledger_shows_its_sum(found: Ledger, changes: dict[str, int], says: str) -> None:
    changed = dataclasses.replace(found, **changes)
    if not says:
        changed.check()
    else:
        with pytest.raises(LedgerError) as caught:
            changed.check()
        assert str(caught.value).startswith("the ledger does not balance: ")
        assert says in str(caught.value)


def test_what_is_left_out_is_listed_only_then() -> None:
    assert not {"images_left_out", "rows_left_out"} & set(LEDGER.to_manifest())
    assert LEDGER.to_manifest()["rows_written"] == 0
    assert Ledger(**LEFT_OUT.to_manifest()) == LEFT_OUT
    assert (LEFT_OUT.images_selected, LEDGER.images_selected) == (10, 10)


def test_too_many_classes_are_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of unique names is no column of labels."""
    monkeypatch.setattr(ledger, "MAX_CLASSES", 100)
    images = [IMAGE._replace(label=f"{number:03}") for number in range(101)]
    one, other = totals(*images[:100]), totals(*images[:100])
    one.merge(other)
    assert len(one.labels) == 100
    expected = r"more than 100 different labels \(such as '000', '001', '002'\), .*--label_column"
    with pytest.raises(LabelsError, match=expected):
        one.add(images[100])
    with pytest.raises(LabelsError, match=expected):
        other.merge(PlanTotals(labels=Counter(b=1)))


def test_the_totals_of_the_most_classes_are_an_element_of_less_than_100_mb() -> None:
    classes = 10_000
    added = PlanTotals(labels=Counter({f"a class of images {n:06}": 100 for n in range(classes)}))
    assert len(pickle.dumps(added)) * ledger.MAX_CLASSES / classes < 100e6


def test_count_reasons() -> None:
    images = {"unreadable": 2, "no_label": 1, "empty_file": 1, "bad_cell": 1}
    reasons = {("image", reason): count for reason, count in images.items()}
    counted = count_reasons(reasons | {("row", "no_label"): 2})
    expected = [("no_label", 3), ("unreadable", 2), ("bad_cell", 1), ("empty_file", 1)]
    assert list(counted.items()) == expected


# Counts of a run: in any order, and whether all rejections are listed or counted.

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
    found.check()
    assert found.failed == (1, 7)
    assert found.reasons == Counter((each.subject, each.reason) for each in ALL)
    assert found.run.rejected.digest == totals_of(PLANNED).digest
    assert found.unlisted == 0
    assert found.run.sample == sorted(ALL)
    assert found.ledger.rows_unmatched == 30
    assert gathered().ledger == found.ledger


def test_everything_is_put_in_order() -> None:
    shards = [
        ShardSummary("b-00000-of-00001.tfrecord", "", 3),
        ShardSummary("a-00010-of-00011.tfrecord", "", 2, rejections=(DAMAGED,)),
        ShardSummary("a-00002-of-00011.tfrecord", "", 1),
    ]
    row = ROWS[0]
    counts = [("images_found", 9), ("images_found_again", 2), ("images_found", 1)]
    counts += [("rows_read", 11), ("rows_rejected", 5)]
    run = [MALFORMED, row, row, *(Count(*each) for each in counts), *shards]
    plan = PlanTotals(Counter(train=2), Counter(), Counter(), 2)
    found = {"totals": [plan], "shards": shards, "run": [added_to(RunTotals(), run)]}
    gathered = in_order(["b", "a"], found)
    assert [shard.file[:7] for shard in gathered.shards] == ["b-00000", "a-00002", "a-00010"]
    assert gathered.run.rejected.digest == totals_of([row, MALFORMED, row]).digest
    assert gathered.run.sample == sorted([DAMAGED, MALFORMED, row, row])
    ledger = gathered.ledger
    assert (ledger.images_matched, ledger.records_written, ledger.images_rejected) == (8, 6, 1)
    assert (ledger.rows_read, ledger.rows_used, ledger.rows_repeated) == (11, 2, 0)
    assert (ledger.rows_unmatched, ledger.rows_rejected) == (2, 6)


def test_a_part_that_is_lost_is_an_error_and_too_many_rejections_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gathered(len(ALL) - 2, 2).check()
    with pytest.raises(LedgerError, match="31 of 33 lines of rejected.jsonl written"):
        gathered(len(ALL) - 2).check()
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL))
    assert gathered(len(ALL)).unlisted == 0
    monkeypatch.setattr(rejections, "MAX_LISTED", len(ALL) - 1)
    found = gathered(0)
    found.check()
    assert found.unlisted == len(ALL)
    # A plan lists none.
    assert gathered().unlisted == 0


@pytest.mark.parametrize(("is_of_rows", "what"), [(False, "image"), (True, "row")])
def test_a_dataset_without_records_is_a_warning(is_of_rows: bool, what: str) -> None:
    nothing, shard = Vocabulary.build([]), dataclasses.replace(SHARD, records=0)
    whole = gathered(shard=shard)._replace(of_rows=is_of_rows)
    text = f"the dataset has no record: rejected.jsonl says why each {what} was left out"
    assert whole.warnings({}, {"train": 1}, nothing) == [("no_records", text)]
    assert gathered().warnings({}, {"train": 1}, nothing) == []
