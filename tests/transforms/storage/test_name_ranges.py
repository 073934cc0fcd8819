"""Lists of up to 100 million names are cut by counting requests, without any storage."""

from __future__ import annotations

import bisect
from collections.abc import Callable

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

MANY = 10**8


# Computing the names takes seconds for the largest.
@pytest.mark.parametrize("shape", rest_slow([numbered, hashed, uneven, in_classes], quick=3))
def test_no_worker_lists_long_at_100_million(shape: Callable[[int], Names]) -> None:
    rounds = listing_rounds(shape(MANY))
    each = [listed for ranges in rounds for listed in ranges]
    # Pages that one worker lists; one worker alone would list 100,000.
    assert sum(max(listed.pages for listed in ranges) for ranges in rounds) <= 300
    assert max(map(len, rounds)) >= 1000
    assert sum(listed.pages for listed in each) < 1.1 * MANY // PAGE
    # Requests for single names, of one cut and of all; they run 32 at once.
    assert max(listed.probes for listed in each) <= 400
    assert sum(listed.probes for listed in each) < 0.3 * MANY // PAGE


def test_a_short_list_is_not_cut() -> None:
    [[listed]] = listing_rounds(numbered(LISTED_NAMES[0]))
    assert (listed.pages, listed.probes) == (16, 0)


def test_ranges_of_even_names_are_even() -> None:
    names = numbered(64_000)
    ranges, sent = rest_of(names, names.name(0), names.count)
    sizes = [end - names.at(start) for start, end in ranges]
    assert (len(sizes), sum(sizes)) == (64, 64_000)
    assert max(sizes) <= 2 * min(sizes)
    assert sent < 4 * 64


texts = st.text(st.sampled_from("ab/ 가\ud7ff\U0010ffff"), max_size=6)


@given(st.lists(texts, unique=True), texts)
def test_every_name_is_in_one_range(names: list[str], start: str) -> None:
    sent = []

    def first_at(text: str) -> str:
        sent.append(text)
        return min((name for name in names if name >= max(text, start)), default="")

    starts = range_starts(first_at, start)
    assert starts[0] == start
    assert starts == sorted(set(starts))
    assert 1 <= len(starts) <= MAX_RANGES
    assert len(sent) == len(set(sent))


def test_a_few_names_are_ranges_of_their_own() -> None:
    names = ["a", "a b", "ab", "abc", "b", "가"]
    starts = range_starts(lambda text: next((name for name in names if name >= text), ""), "a")
    assert [bisect.bisect_left(names, start) for start in starts] == [*range(len(names))]
