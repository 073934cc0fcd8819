"""Every image is in one split: by a share of all hashes, or as its row or its folder says."""

import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.core.rejections import Reason, RejectedImageError
from transforms.labels.keys import key_hashes
from transforms.labels.shards import (
    HASH_SPACE,
    SplitAssigner,
    Splits,
    parse_splits,
    split_text,
    splits_in_order,
)

THREE = (("train", 0.8), ("validation", 0.1), ("test", 0.1))
HALVES = Splits([("train", 0.5), ("test", 0.5)])
SPLIT_HASHES = st.integers(0, HASH_SPACE - 1)
KEYS = st.lists(st.text(min_size=1), min_size=1, unique=True)


@cases(
    ("train=0.8,validation=0.1,test=0.1", THREE),
    (" train = 80% , validation=10 %, test=.1 ", THREE),
    ("all=1", (("all", 1.0),)),
    ("a=100%", (("a", 1.0),)),
    ("a=33.3%,b=66.7%", (("a", 0.333), ("b", 0.667))),
    ("a=0.333333,b=0.333333,c=0.333333", (("a", 0.333333), ("b", 0.333333), ("c", 0.333333))),
    ("train_2=0.5,X=5e-1", (("train_2", 0.5), ("X", 0.5))),
)
def test_parse_splits(text: str, shares: tuple[tuple[str, float], ...]) -> None:
    assert parse_splits(text) == shares


@cases(
    ("", "'' has no '='"),
    ("train", "'train' has no '='"),
    ("train=1,", "'' has no '='"),
    ("train=", "'' is not a number"),
    ("train=most,test=0.1", "'most' is not a number"),
    ("train=%,test=0.1", "'' is not a number|'%' is not a number"),
    ("train=1,test=0", "test has the share 0"),
    ("train=1.1,test=-0.1", "test has the share -0.1"),
    ("train=nan", "train has the share nan"),
    ("train=inf", "train has the share inf"),
    ("train=1e999%", "train has the share 1e999%"),
    ("train=1e999999999999999999999%", "not a number"),
    ("a=0.5,a=0.5", "'a' is given twice"),
    ("Test=0.5,test=0.5", "'test' is given twice"),
    ("1st=1", "'1st' is not a name"),
    ("a-b=1", "'a-b' is not a name"),
    ("한강=1", "is not a name"),
    ("=1", "'' is not a name"),
    (f"{'a' * 101}=1", "a name of 101 characters is too long; use at most 100"),
    ("train=0.8,test=0.1", "add up to 0.9; make them add up to 1"),
    ("train=0.8,test=0.200002", "add up to 1"),
    ("train=80,test=20", "add up to 100"),
    (",".join(f"a{n}=0.005" for n in range(200)), r"a0=.*\.\.\.': 200 splits are more than"),
)
def test_wrong_splits_are_reported_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse_splits(text)
    assert "--" not in str(caught.value)
    assert "\n" not in str(caught.value)


@st.composite
def some_shares(draw: st.DrawFn) -> tuple[tuple[str, float], ...]:
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
    return tuple((f"s{at}", weight / sum(weights)) for at, weight in enumerate(weights))


@given(shares=some_shares(), split_hash=SPLIT_HASHES)
@example(shares=(("a", 0.5), ("b", 0.25), ("c", 0.25)), split_hash=2**63)
@example(shares=THREE, split_hash=HASH_SPACE - 1)
@example(shares=tuple((f"s{at}", 0.1) for at in range(10)), split_hash=HASH_SPACE - 1)
def test_every_hash_is_in_one_split(shares: tuple[tuple[str, float], ...], split_hash: int) -> None:
    splits = Splits(shares)
    assert splits.names == tuple(name for name, _ in shares)
    lower, holders = 0, []
    for (name, share), upper in zip(shares, itertools.accumulate(splits.shares), strict=True):
        assert lower < upper <= HASH_SPACE
        assert (upper - lower) / HASH_SPACE == pytest.approx(share, abs=1e-12)
        assert splits.of(lower) == splits.of(upper - 1) == name
        holders += [name] if lower <= split_hash < upper else []
        lower = upper
    assert lower == HASH_SPACE
    assert holders == [splits.of(split_hash)]


@pytest.mark.parametrize("shares", [(), (("a", 0.0),), (("a", 1.5), ("b", -0.5))])
def test_splits_need_shares(shares: tuple[tuple[str, float], ...]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Splits(shares)


@cases(
    ("TRAIN", "train"),
    ("TRAINING", "train"),
    (" Test ", "test"),
    ("", ""),
    ("Unassigned", ""),
    ("dev", "dev"),
)
def test_what_a_row_says_of_its_split(said: str, split: str) -> None:
    assert split_text(said) == split


def test_known_splits_come_first() -> None:
    assert splits_in_order(["z", "test", "a", "train", "z"]) == ("train", "test", "a", "z")
    with pytest.raises(LabelsError, match="'A' and 'a' differ in upper and lower case only"):
        splits_in_order(["a", "A"])


# Split and order of an image follow from its key, its group, its row or its folder.


@given(KEYS, st.text(min_size=1), st.integers(-(2**127), 2**127 - 1))
def test_a_group_never_straddles_splits(keys: list[str], group: str, seed: int) -> None:
    assigner = SplitAssigner(HALVES, seed=seed, by_group=True)
    placed = [assigner.assign(key, split="", group=group) for key in keys]
    assert {split for split, _ in placed} == {HALVES.of(key_hashes(group, seed=seed)[0])}
    assert [order for _, order in placed] == [key_hashes(key, seed=seed)[1] - 2**63 for key in keys]


BY_KEY, BY_GROUP = (HALVES.of(key_hashes(name, seed=3)[0]) for name in ("k", "group 3"))


@cases(
    *[({"split_from": each}, "", "ignored", BY_KEY) for each in ("hash", "csv", "directory")],
    ({}, "else", "", BY_KEY),
    ({"split_from": "csv", "by_group": True}, "holdout", "", "holdout"),
    ({"split_from": "csv", "by_group": True}, "", "group 3", BY_GROUP),
    ({"split_from": "csv"}, "a b", "", Reason.BAD_SPLIT),
    # No file could be named after it.
    ({"split_from": "csv"}, "s" * 101, "", Reason.BAD_SPLIT),
    ({"split_from": "directory"}, ".", "", Reason.BAD_SPLIT),
    ({"by_group": True}, "", "", Reason.NO_GROUP),
)
def test_rules_decide(
    rules: dict[str, Any], split: str, group: str, expected: str | Reason
) -> None:
    assert BY_KEY != BY_GROUP
    assigner = SplitAssigner(HALVES, seed=3, **rules)
    if isinstance(expected, str):
        assert assigner.assign("k", split=split, group=group)[0] == expected
        return
    with pytest.raises(RejectedImageError) as caught:
        assigner.assign("k", split=split, group=group)
    assert caught.value.reason is expected
    assert (caught.value.detail == "no row has a group for 'k'") == (expected is Reason.NO_GROUP)
