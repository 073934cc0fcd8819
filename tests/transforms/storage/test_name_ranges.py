"""Lists of up to 100 million names are cut by counting requests, without any storage."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import rest_slow
from tests.servers.listed_names import (
    PAGE,
    Names,
    hashed,
    in_classes,
    listing_rounds,
    numbered,
    rest_of,
    uneven,
)
from transforms.storage.gcs_storage import range_starts
from transforms.storage.interface import LISTED_NAMES, MAX_RANGES


class Listing(NamedTuple):
    """What it takes to list names in ranges.

    Attributes:
        pages: requests for pages, of all workers.
        probes: requests for single names, of all workers.
        in_turn: pages that one worker lists, summed over the rounds.
        cut: probes of one cut, at most.
        widest: ranges of the round with the most.
    """

    pages: int
    probes: int
    in_turn: int
    cut: int
    widest: int


def listing(names: Names) -> Listing:
    """Simulates the rounds of a listing, each range by its own worker."""
    rounds = listing_rounds(names)
    each = [listed for ranges in rounds for listed in ranges]
    return Listing(
        pages=sum(listed.pages for listed in each),
        probes=sum(listed.probes for listed in each),
        in_turn=sum(max(listed.pages for listed in ranges) for ranges in rounds),
        cut=max(listed.probes for listed in each),
        widest=max(map(len, rounds)),
    )


# Computing the names takes seconds for the largest.
@pytest.mark.parametrize(
    ("shape", "count"),
    rest_slow([(numbered, 10**8), (hashed, 10**8), (uneven, 10**8), (in_classes, 10**8)], quick=3),
)
def test_no_worker_lists_long_at_100_million(shape: Callable[[int], Names], count: int) -> None:
    found = listing(shape(count))
    # One worker alone would list 100,000 pages.
    assert found.in_turn <= 300
    assert found.widest >= 1000
    assert found.pages < 1.1 * count // PAGE
    # They run 32 at once.
    assert found.cut <= 400
    assert found.probes < 0.3 * count // PAGE


def test_a_short_list_is_not_cut() -> None:
    assert listing(numbered(LISTED_NAMES[0])) == Listing(16, 0, 16, 0, 1)


def test_ranges_of_even_names_are_even() -> None:
    names = numbered(64_000)
    ranges, sent = rest_of(names, names.name(0), names.count)
    sizes = [end - names.at(start) for start, end in ranges]
    assert (len(sizes), sum(sizes)) == (64, 64_000)
    assert max(sizes) <= 2 * min(sizes)
    assert sent < 4 * 64


texts = st.text(st.sampled_from("ab/ 가\ud7ff\U0010ffff"), max_size=6)


@given(st.lists(texts, unique=True), texts)
def test_every_name_is_in_one_range(listed: list[str], start: str) -> None:
    listed = sorted(listed)
    sent = []

    def first_at(text: str) -> str:
        sent.append(text)
        return next((name for name in listed if name >= max(text, start)), "")

    starts = range_starts(first_at, start)
    assert starts[0] == start
    assert starts == sorted(set(starts))
    assert 1 <= len(starts) <= MAX_RANGES
    assert len(sent) == len(set(sent))


def test_a_few_names_are_ranges_of_their_own() -> None:
    listed = ["a", "a b", "ab", "abc", "b", "가"]

    def first_at(text: str) -> str:
        return next((name for name in listed if name >= text), "")

    starts = range_starts(first_at, "a")
    assert [bisect.bisect_left(listed, start) for start in starts] == [*range(len(listed))]
