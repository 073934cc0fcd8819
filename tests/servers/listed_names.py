"""Sorted names of up to 100 million objects, computed and not stored."""

import bisect
from collections.abc import Callable
from typing import NamedTuple

from transforms.storage.gcs_storage import range_starts
from transforms.storage.interface import LISTED_NAMES

PAGE = 1000


class Names(NamedTuple):
    """Sorted names that are computed, not stored."""

    count: int  # type: ignore[assignment]
    name: Callable[[int], str]

    def at(self, text: str) -> int:
        """The position of the first name at or after a text."""
        return bisect.bisect_left(range(self.count), text, key=self.name)


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


def in_folders(count: int, folders: int) -> Names:
    """Folders `c000000`, `c000001` … with the same number of images each, or one less."""

    def name(at: int) -> str:
        folder = at * folders // count
        return f"photos/c{folder:06}/{at:09}.jpg"

    return Names(count, name)


class ListedRange(NamedTuple):
    """The requests of one range: for pages, and for single names, which cut the rest of it."""

    pages: int
    probes: int


def listing_rounds(names: Names) -> list[list[ListedRange]]:
    """Simulates the rounds of a listing, by counting requests."""
    ranges, rounds = [("", names.count)], []
    for limit in (*LISTED_NAMES, names.count):
        handed_on: list[tuple[str, int]] = []
        listed_ranges = []
        for start, end in ranges:
            at = names.at(start)
            listed, sent = min(limit, end - at), 0
            if at + listed < end:
                cut, sent = rest_of(names, names.name(at + listed - 1), end)
                handed_on += cut
            listed_ranges.append(ListedRange(max(1, -(-listed // PAGE)), sent))
        if listed_ranges:
            rounds.append(listed_ranges)
        ranges = handed_on
    assert not ranges
    return rounds


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
