"""Counts of shards add up, and a ledger that does not balance is reported."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.core.records import PlannedImage
from transforms.core.rejections import Rejection
from transforms.dataset import ledger
from transforms.dataset.ledger import Ledger, LedgerError, PlanTotals, ShardSummary, count_reasons

MASKED = (("a.png", 7, 1),)
IMAGES = st.lists(
    st.builds(
        PlannedImage,
        split=st.sampled_from(["train", "test"]),
        order=st.just(0),
        key=st.text(max_size=2),
        path=st.just("a.jpg"),
        size=st.integers(0, 10**12),
        version=st.just(0),
        label=st.sampled_from(["", "cat", "dog"]),
        rows=st.integers(0, 3),
        cells=st.just(""),
        partners=st.sampled_from([(), MASKED]),
        stored=st.just(()),
        record=st.just(()),
    ),
    max_size=12,
)
REJECTION = Rejection("image", "empty_file", "0 bytes", "a.jpg", "a")


def totals(images: list[PlannedImage]) -> PlanTotals:
    added = PlanTotals()
    for image in images:
        added.add(image)
    return added


@given(IMAGES)
def test_totals_are_sums(images: list[PlannedImage]) -> None:
    added = totals(images)
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
    added = totals([PlannedImage(0, "k", "k.jpg", 1, 1, "", split="train", rows=3, cells=cells)])
    assert (added.rows_used, added.rows_repeated) == (2, 1)
    assert added.labels == {"": 1, "cat": 1, "dog": 1}


@given(IMAGES, IMAGES)
def test_totals_merge(one: list[PlannedImage], other: list[PlannedImage]) -> None:
    merged = totals(one)
    merged.merge(totals(other))
    assert merged == totals(one + other)


def test_merging_leaves_the_other_alone() -> None:
    image = PlannedImage(0, "k", "k.jpg", 5, 0, "cat", split="train", rows=1)
    one, other = PlanTotals(), totals([image])
    one.merge(other)
    one.add(image._replace(label="dog"))
    assert other == totals([image])


def test_a_summary_goes_through_json() -> None:
    summary = ShardSummary(
        file="train-00000-of-00001.tfrecord",
        recipe="r",
        records=3,
        bytes=100,
        crc32c="0000abcd",
        image_bytes=50,
        labels={"한강": 2, "": 1},
        rejections=(REJECTION, REJECTION._replace(detail='"quoted"\n')),
    )
    assert ShardSummary.from_sidecar(summary.to_sidecar()) == summary
    for changed in (summary.to_sidecar()[:-9], summary.to_sidecar().replace("100", "101")):
        assert ShardSummary.from_sidecar(changed) is None
    empty = ShardSummary("f", "r")
    assert ShardSummary.from_sidecar(empty.to_sidecar()) == empty


LEDGER = Ledger(
    images_matched=10,
    records_written=7,
    images_rejected=3,
    rows_read=15,
    rows_used=8,
    rows_repeated=4,
    rows_unmatched=2,
    rows_rejected=1,
    partners_matched=5,
    partners_used=2,
    partners_unmatched=1,
    partners_rejected=2,
)


def test_a_ledger_that_balances() -> None:
    LEDGER.check()


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Ledger)])
def test_any_number_that_is_wrong_is_found(field: str, by: int) -> None:
    wrong = dataclasses.replace(LEDGER, **{field: getattr(LEDGER, field) + by})
    of_rows = field.startswith("rows") and field != "rows_written"
    side = "rows read" if of_rows else "images matched"
    side = "masks and further images matched" if field.startswith("partners") else side
    with pytest.raises(LedgerError, match=f"does not balance: [0-9]+ {side}"):
        wrong.check()


@pytest.mark.parametrize(("read", "written", "rejected"), [(9, 8, 1), (9, 8, 0), (9, 9, 1)])
def test_rows_without_images_are_written_or_rejected(
    read: int, written: int, rejected: int
) -> None:
    ledger = Ledger(0, written, 0, read, 0, 0, 0, rejected, rows_written=written)
    if read == written + rejected:
        ledger.check()
        return
    with pytest.raises(LedgerError, match=f"{rejected} rejected \\+ {written} written = "):
        ledger.check()


def test_what_is_left_out_balances_and_is_listed_only_then() -> None:
    assert not {"images_left_out", "rows_left_out"} & set(LEDGER.to_manifest())
    assert LEDGER.to_manifest()["rows_written"] == 0
    left = dataclasses.replace(
        LEDGER, images_matched=15, images_left_out=5, rows_read=17, rows_left_out=2
    )
    left.check()
    assert Ledger(**left.to_manifest()) == left
    assert (left.images_selected, LEDGER.images_selected) == (10, 10)
    with pytest.raises(LedgerError, match=r" 7 written \+ 3 rejected \+ 5 left out = 15$"):
        dataclasses.replace(left, images_matched=16).check()
    with pytest.raises(LedgerError, match=r" 1 rejected \+ 2 left out = 17$"):
        dataclasses.replace(left, rows_read=16).check()


def test_the_message_shows_the_sum() -> None:
    with pytest.raises(LedgerError) as caught:
        dataclasses.replace(LEDGER, rows_read=99).check()
    assert str(caught.value) == (
        "the ledger does not balance: 99 rows read, but 8 used + 4 repeated + 2 unmatched + "
        "1 rejected = 15"
    )


def test_too_many_classes_are_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of unique names is no column of labels."""
    monkeypatch.setattr(ledger, "MAX_CLASSES", 100)
    images = [PlannedImage(0, "", "", 1, 0, f"{number:03}", split="train") for number in range(101)]
    one, other = totals(images[:100]), totals(images[:100])
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
    reasons = {
        ("image", "no_label"): 1,
        ("image", "unreadable"): 2,
        ("row", "no_label"): 2,
        ("image", "empty_file"): 1,
    }
    counted = count_reasons(reasons)
    assert list(counted.items()) == [("no_label", 3), ("unreadable", 2), ("empty_file", 1)]
