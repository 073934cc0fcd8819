"""Shares are read from text, and every hash is in exactly one split."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels.keys import key_hashes
from transforms.labels.shards import HASH_SPACE, Splits, parse_splits, split_text, splits_in_order

THREE = (("train", 0.8), ("validation", 0.1), ("test", 0.1))
SPLIT_HASHES = st.integers(0, HASH_SPACE - 1)


@st.composite
def some_shares(draw: st.DrawFn) -> tuple[tuple[str, float], ...]:
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
    return tuple((f"s{at}", weight / sum(weights)) for at, weight in enumerate(weights))


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("train=0.8,validation=0.1,test=0.1", THREE),
        (" train = 80% , validation=10 %, test=.1 ", THREE),
        ("all=1", (("all", 1.0),)),
        ("a=100%", (("a", 1.0),)),
        ("a=33.3%,b=66.7%", (("a", 0.333), ("b", 0.667))),
        ("a=0.333333,b=0.333333,c=0.333333", (("a", 0.333333), ("b", 0.333333), ("c", 0.333333))),
        ("train_2=0.5,X=5e-1", (("train_2", 0.5), ("X", 0.5))),
    ],
)
def test_parse_splits(text: str, shares: tuple[tuple[str, float], ...]) -> None:
    assert parse_splits(text) == shares


@pytest.mark.parametrize(
    ("text", "problem"),
    [
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
        (
            ",".join(f"a{n}=0.005" for n in range(200)),
            r"a0=.*\.\.\.': 200 splits are more than 100",
        ),
    ],
)
def test_wrong_splits_are_reported_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse_splits(text)
    assert "--" not in str(caught.value)
    assert "\n" not in str(caught.value)


def bounds(splits: Splits) -> list[tuple[str, int]]:
    """Each split with the first hash above it."""
    return [*zip(splits.names, itertools.accumulate(splits.shares), strict=True)]


def test_bounds_are_exact() -> None:
    splits = Splits([("a", 0.5), ("b", 0.25), ("c", 0.25)])
    assert splits.names == ("a", "b", "c")
    assert bounds(splits) == [("a", 2**63), ("b", 2**63 + 2**62), ("c", 2**64)]


@pytest.mark.parametrize("shares", [(), (("a", 0.0),), (("a", 1.5), ("b", -0.5))])
def test_splits_need_shares(shares: tuple[tuple[str, float], ...]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Splits(shares)


@given(shares=some_shares(), split_hash=SPLIT_HASHES)
@example(shares=THREE, split_hash=HASH_SPACE - 1)
@example(shares=tuple((f"s{at}", 0.1) for at in range(10)), split_hash=HASH_SPACE - 1)
def test_every_hash_is_in_exactly_one_split(
    shares: tuple[tuple[str, float], ...], split_hash: int
) -> None:
    splits = Splits(shares)
    lower, holders = 0, []
    for name, upper in bounds(splits):
        assert lower <= upper <= HASH_SPACE
        holders += [name] if lower <= split_hash < upper else []
        lower = upper
    assert lower == HASH_SPACE
    assert holders == [splits.of(split_hash)]


@given(shares=some_shares())
def test_the_edges_of_each_split_are_its_own(shares: tuple[tuple[str, float], ...]) -> None:
    splits, lower = Splits(shares), 0
    for name, upper in bounds(splits):
        assert splits.of(lower) == splits.of(upper - 1) == name
        lower = upper


@given(shares=some_shares())
def test_each_split_is_as_wide_as_its_share(shares: tuple[tuple[str, float], ...]) -> None:
    splits = Splits(shares)
    assert [each / HASH_SPACE for each in splits.shares] == [
        pytest.approx(share, abs=1e-12) for _, share in shares
    ]


def test_keys_fill_the_splits_by_their_shares() -> None:
    splits, count = Splits(THREE), 10_000
    names = [splits.of(key_hashes(f"image{at}", seed=0)[0]) for at in range(count)]
    for name, share in THREE:  # four standard deviations
        assert abs(names.count(name) - share * count) < 4 * (count * share * (1 - share)) ** 0.5


@given(keys=st.lists(st.text(), unique=True), more=st.lists(st.text()))
def test_adding_images_moves_none(keys: list[str], more: list[str]) -> None:
    def place(all_keys: list[str]) -> dict[str, str]:
        splits = Splits(THREE)
        return {key: splits.of(key_hashes(key, seed=5)[0]) for key in all_keys}

    before = place(keys)
    assert before.items() <= place(more + keys).items()


def test_a_percentage_is_the_same_split_as_its_number() -> None:
    one, other = Splits(parse_splits("a=33.3%,b=66.7%")), Splits(parse_splits("a=.333,b=.667"))
    assert one.shares == other.shares


def test_splits_travel_to_workers() -> None:
    splits = pickle.loads(pickle.dumps(Splits(THREE)))
    assert bounds(splits) == bounds(Splits(THREE))
    assert splits.of(0) == "train"


@pytest.mark.parametrize(
    ("said", "split"),
    [
        ("TRAIN", "train"),
        ("TRAINING", "train"),
        (" Test ", "test"),
        ("", ""),
        ("Unassigned", ""),
        ("dev", "dev"),
    ],
)
def test_what_a_row_says_of_its_split(said: str, split: str) -> None:
    assert split_text(said) == split


def test_known_splits_come_first() -> None:
    assert splits_in_order(["z", "test", "a", "train", "z"]) == ("train", "test", "a", "z")
    with pytest.raises(LabelsError, match="'A' and 'a' differ in upper and lower case only"):
        splits_in_order(["a", "A"])
