"""Lists of up to 100 million names are cut by counting requests, without any storage."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import rest_slow
from transforms.core.planning.name_ranges import LISTED_NAMES, MAX_RANGES, range_starts

PAGE = 1000


class Names(NamedTuple):
    """Sorted names that are computed, not stored."""

    count: int
    name: Callable[[int], str]

    def at(self, text: str) -> int:
        """The position of the first name at or after a text."""
        return bisect.bisect_left(range(self.count), text, key=self.name)


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
    ranges = [("", names.count)]
    pages, probes, in_turn, widest = [], [0], 0, 1
    for limit in (*LISTED_NAMES, names.count):
        handed_on: list[tuple[str, int]] = []
        longest = 0
        for start, end in ranges:
            at = names.at(start)
            listed = min(limit, end - at)
            pages.append(max(1, -(-listed // PAGE)))
            longest = max(longest, pages[-1])
            if at + listed < end:
                cut, sent = rest_of(names, names.name(at + listed - 1), end)
                handed_on += cut
                probes.append(sent)
        in_turn += longest
        widest = max(widest, len(handed_on))
        ranges = handed_on
    assert not ranges
    return Listing(sum(pages), sum(probes), in_turn, max(probes), widest)


def rest_of(names: Names, start: str, end: int) -> tuple[list[tuple[str, int]], int]:
    """The ranges of a list from a text on, and the requests that cut it."""
    sent = 0

    def first_at(text: str) -> str:
        nonlocal sent
        sent += 1
        at = names.at(text)
        return names.name(at) if at < end else ""

    starts = range_starts(first_at, start)
    ends = [*(names.at(text) for text in starts[1:]), end]
    return list(zip(starts, ends, strict=True)), sent


def numbered(count: int) -> Names:
    """The names of a flat folder."""
    return Names(count, lambda at: f"photos/img_{at:09}.jpg")


def hashed(count: int) -> Names:
    """The names that are digests."""
    return Names(count, lambda at: f"{at * (16**12 // count):012x}.jpg")


def in_classes(count: int) -> Names:
    """A thousand folders."""
    each = count // 1000
    return Names(count, lambda at: f"train/n{at // each * 7 + 1440764:08}/{at % each:06}.JPEG")


def uneven(count: int) -> Names:
    """Nine of ten names are in one of a hundred folders."""
    few = count // 1000

    def name(at: int) -> str:
        if at < 50 * few:
            return f"p/{at // few:02}/{at % few:08}.jpg"
        if at < 951 * few:
            return f"p/50/{at - 50 * few:08}.jpg"
        at -= 951 * few
        return f"p/{51 + at // few:02}/{at % few:08}.jpg"

    return Names(count - count % few, name)


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
