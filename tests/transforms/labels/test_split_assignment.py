"""Split and order of an image follow from its key, its group, its row or its folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.rejections import Reason, RejectedImageError
from transforms.labels.keys import key_hashes
from transforms.labels.shards import SplitAssigner, Splits

HALVES = Splits([("train", 0.5), ("test", 0.5)])
KEYS = st.lists(st.text(min_size=1), min_size=1, unique=True)


def reason(assigner: SplitAssigner, *, split: str = "", group: str = "") -> Reason:
    with pytest.raises(RejectedImageError) as error:
        assigner.assign("k", split=split, group=group)
    return error.value.reason


@given(KEYS, st.text(min_size=1), st.integers(-(2**127), 2**127 - 1))
def test_a_group_never_straddles_splits(keys: list[str], group: str, seed: int) -> None:
    assigner = SplitAssigner(HALVES, seed=seed, by_group=True)
    placed = [assigner.assign(key, split="", group=group) for key in keys]
    assert len({split for split, _ in placed}) == 1
    assert [order for _, order in placed] == [key_hashes(key, seed=seed)[1] - 2**63 for key in keys]


def test_groups_fill_every_split() -> None:
    assigner = SplitAssigner(HALVES, seed=0, by_group=True)
    splits = [assigner.assign("k", split="", group=f"group {at}")[0] for at in range(200)]
    assert 70 < splits.count("train") < 130


def test_another_seed_puts_groups_elsewhere() -> None:
    groups = [f"group {at}" for at in range(40)]
    first, other = (
        [
            SplitAssigner(HALVES, seed=seed, by_group=True).assign("k", split="", group=group)[0]
            for group in groups
        ]
        for seed in (0, 1)
    )
    assert first != other


def test_the_key_decides_by_default() -> None:
    split_hash, _ = key_hashes("k", seed=3)
    for source in ("hash", "csv", "directory"):
        assigner = SplitAssigner(HALVES, seed=3, split_from=source)
        assert assigner.assign("k", split="", group="ignored")[0] == HALVES.of(split_hash)
    assert SplitAssigner(HALVES, seed=3).assign("k", split="else", group="")[0] == HALVES.of(
        split_hash
    )


def test_a_row_or_a_folder_decides() -> None:
    assigner = SplitAssigner(HALVES, seed=3, split_from="csv", by_group=True)
    assert assigner.assign("k", split="holdout", group="")[0] == "holdout"
    for at in range(20):
        group = f"group {at}"
        expected = HALVES.of(key_hashes(group, seed=3)[0])
        assert assigner.assign("k", split="", group=group)[0] == expected


def test_what_cannot_be_placed_is_rejected() -> None:
    assert reason(SplitAssigner(HALVES, seed=0, split_from="csv"), split="a b") is Reason.BAD_SPLIT
    # No file could be named after it.
    assert (
        reason(SplitAssigner(HALVES, seed=0, split_from="csv"), split="s" * 101) is Reason.BAD_SPLIT
    )
    assert (
        reason(SplitAssigner(HALVES, seed=0, split_from="directory"), split=".") is Reason.BAD_SPLIT
    )
    assert reason(SplitAssigner(HALVES, seed=0, by_group=True)) is Reason.NO_GROUP


def test_the_detail_names_the_key_without_a_group() -> None:
    with pytest.raises(RejectedImageError) as caught:
        SplitAssigner(HALVES, seed=0, by_group=True).assign("k", split="", group="")
    assert caught.value.detail == "no row has a group for 'k'"
