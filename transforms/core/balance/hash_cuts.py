"""Cuts: the hashes at which records, in the order of their hashes, are divided at given ranks.

No worker needs all hashes for that. They are counted in bins, which are equal ranges of hashes. The
counts say which bins hold a cut, and only the hashes in these bins are compared. The result is
exact and the same for any order of the records.

Records are divided line by line: a line is all records of a class, or of a split. Several records
may share a hash, such as those of a group: they stay together. If a cut would divide them, they are
before it if a large enough part of them is, by a number of the line: for many lines together, the
parts are then right, also if each line is a single group. Always taking the nearer end would give
each of these lines to the largest part.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from transforms.core.planning.splits import HASH_SPACE

MAX_BINS = 2**20
"""Bins of a line: their counts are in one worker, 16 bytes each in the shuffle."""


class Draw(NamedTuple):
    """Records that are divided as one.

    Attributes:
        line: the name of their line.
        hash: their hash, in 0..2**64-1.
        records: how many there are.
    """

    line: str
    hash: int
    records: int


class Ranks(NamedTuple):
    """Where a line is divided.

    Attributes:
        before: the records before each cut, in 2**64ths of a record, ascending.
        rounding: in 0..2**64-1. Records that share a hash, and that a cut would divide, are before
            it if this and their part before it, in 2**64ths, add up to 2**64. So 0 rounds down.
    """

    before: Sequence[int]
    rounding: int = 0


class Place(NamedTuple):
    """The place of a cut.

    Attributes:
        bin: the bin that holds it; -1 if it is before all hashes.
        rank: the records of the bin that are before it, in 2**64ths.
    """

    bin: int
    rank: int


NOWHERE = Place(-1, 0)
"""The place of a cut before all hashes."""


class Bins(NamedTuple):
    """The cuts of one line, before the hashes in their bins are compared.

    Attributes:
        bins: of the line.
        places: of the cuts, in order.
        rounding: see `Ranks`.
    """

    bins: int
    places: tuple[Place, ...]
    rounding: int = 0


@dataclasses.dataclass(frozen=True)
class CutBins:
    """The bins with cuts of every line; a side input of one element."""

    lines: Mapping[str, Bins]


@dataclasses.dataclass(frozen=True)
class Cuts:
    """The cuts of every line.

    Attributes:
        lines: the first hash after each cut, in order; 2**64 if no hash is after it.
    """

    lines: Mapping[str, tuple[int, ...]]

    def part(self, line: str, hash_: int) -> int:
        """The part of its line that a hash is in, from 0.

        >>> Cuts({"cat": (5, 9)}).part("cat", 4), Cuts({"cat": (5, 9)}).part("cat", 9)
        (0, 2)
        """
        return bisect_right(self.lines[line], hash_)


def bin_count(records: int, cuts: int) -> int:
    """The bins of a line: as many as there are hashes in all bins with a cut.

    >>> bin_count(100_000_000, 1), bin_count(100_000_000, 999), bin_count(3, 0)
    (10000, 316069, 1)
    """
    return max(1, min(MAX_BINS, math.isqrt(records * cuts)))


def bin_of(hash_: int, count: int) -> int:
    """The bin of a hash.

    >>> bin_of(0, 10), bin_of(2**64 - 1, 10)
    (0, 9)
    """
    return (hash_ * count) >> 64


def bin_end(number: int, count: int) -> int:
    """The first hash after a bin; 2**64 after the last one.

    >>> bin_end(9, 10) == 2**64, bin_of(bin_end(3, 10), 10), bin_of(bin_end(3, 10) - 1, 10)
    (True, 4, 3)
    """
    return -(-(number + 1) * HASH_SPACE // count)


def find_bins(counts: Mapping[int, int], ranks: Ranks, count: int) -> Bins:
    """The bins with cuts.

    Args:
        counts: records in each bin that has some.
        ranks: where the line is divided.
        count: bins of the line.
    """
    numbers = sorted(counts)
    ends = list(accumulate(counts[number] for number in numbers))
    places = []
    for rank in ranks.before:
        at = bisect_right(ends, rank // HASH_SPACE)
        if rank <= 0:
            places.append(NOWHERE)
        elif at == len(ends):
            # After all hashes: at the end of the last bin.
            last = numbers[-1] if numbers else -1
            places.append(Place(last, counts.get(last, 0) * HASH_SPACE))
        else:
            number = numbers[at]
            places.append(Place(number, rank - (ends[at] - counts[number]) * HASH_SPACE))
    return Bins(count, tuple(places), ranks.rounding)


def find_cut(hashes: Mapping[int, int], rank: int, rounding: int, end: int) -> int:
    """The first hash after a cut.

    Args:
        hashes: records of each hash in the bin of the cut.
        rank: the records of the bin that should be before it, in 2**64ths.
        rounding: see `Ranks`.
        end: the first hash after the bin.

    >>> half, hashes = 2**63, {3: 1, 5: 4, 9: 1}
    >>> find_cut(hashes, 2 * half, 0, 10), find_cut(hashes, 3 * half, 0, 10)
    (5, 5)
    >>> find_cut(hashes, 5 * half, half, 10), find_cut(hashes, 6 * half, half, 10)
    (5, 9)
    """
    for hash_, records in sorted(hashes.items()):
        size = records * HASH_SPACE
        if rank + rounding * records < size:
            return hash_
        rank -= size
    return end


def complete(bins: CutBins, found: Mapping[tuple[str, Place], int]) -> Cuts:
    """The cuts of every line, from the results of `find_cut`."""
    return Cuts(
        {
            line: tuple(0 if place == NOWHERE else found[line, place] for place in places)
            for line, (_, places, _) in bins.lines.items()
        }
    )
