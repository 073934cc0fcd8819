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
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from transforms.core.planning.splits import HASH_SPACE

MAX_BINS = 2**20
"""Bins of a line: their counts are in one worker, 16 bytes each in the shuffle."""

Added = tuple[tuple[str, int], ...]
"""What records add to the part that they are in: names with numbers, such as classes."""


class Draw(NamedTuple):
    """Records that are divided as one.

    Attributes:
        line: the name of their line.
        hash: their hash, in 0..2**64-1.
        records: how many there are.
        added: what they add to their part.
    """

    line: str
    hash: int
    records: int
    added: Added = ()


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
    """The place of some hashes, in the order of a line.

    Attributes:
        before: the cuts of the line that are before it.
        ranks: the records in it before each of its own cuts, in 2**64ths, ascending.
        rounding: see `Ranks`.
        end: the first hash after it, if it has cuts.
    """

    before: int
    ranks: Sequence[int] = ()
    rounding: int = 0
    end: int = 0


class Bins(NamedTuple):
    """The cuts of one line, before the hashes in their bins are compared.

    Attributes:
        bins: of the line.
        numbers: the bin of each cut, ascending.
        ranks: the records of its bin before each cut, in 2**64ths.
        rounding: see `Ranks`.
    """

    bins: int
    numbers: Sequence[int]
    ranks: Sequence[int]
    rounding: int = 0

    def number(self, hash_: int) -> int:
        """The bin of a hash, if it has cuts; else `~before`, with the cuts that are before it."""
        number = bin_of(hash_, self.bins)
        before = bisect_left(self.numbers, number)
        has_cuts = before < len(self.numbers) and self.numbers[before] == number
        return number if has_cuts else ~before

    def place(self, number: int) -> Place:
        """The place that is a bin with cuts."""
        before, after = bisect_left(self.numbers, number), bisect_right(self.numbers, number)
        return Place(before, self.ranks[before:after], self.rounding, bin_end(number, self.bins))


@dataclasses.dataclass(frozen=True)
class CutBins:
    """The bins with cuts of every line; a side input of one element."""

    lines: Mapping[str, Bins]


@dataclasses.dataclass(frozen=True)
class Cuts:
    """The cuts of every line that has some.

    Attributes:
        lines: the first hash after each cut, in order; 2**64 if no hash is after it.
        added: by name, what the records of all lines add to each part, see `Draw`.
    """

    lines: Mapping[str, tuple[int, ...]]
    added: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, lines: Mapping[str, Iterable[int]], added: Mapping[str, Mapping[int, int]]) -> Cuts:
        """The cuts of lines, in any order, and what is added, by name and part."""
        return cls(
            {line: tuple(sorted(cuts)) for line, cuts in lines.items()},
            {
                name: [parts.get(part, 0) for part in range(max(parts) + 1)]
                for name, parts in added.items()
            },
        )

    def part(self, line: str, hash_: int) -> int:
        """The part of its line that a hash is in, from 0.

        >>> Cuts({"cat": (5, 9)}).part("cat", 4), Cuts({"cat": (5, 9)}).part("cat", 9)
        (0, 2)
        """
        return bisect_right(self.lines.get(line, ()), hash_)


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
        counts: records in each bin that has some; one at least has.
        ranks: where the line is divided.
        count: bins of the line.
    """
    numbers = sorted(counts)
    ends = list(accumulate(counts[number] for number in numbers))
    found = []
    for rank in ranks.before:
        # A cut after all hashes is at the end of the last bin.
        at = min(bisect_right(ends, rank // HASH_SPACE), len(ends) - 1)
        number = numbers[at]
        found.append((number, rank - (ends[at] - counts[number]) * HASH_SPACE))
    return Bins(count, [each for each, _ in found], [each for _, each in found], ranks.rounding)


def find_cuts(
    place: Place, hashes: Mapping[int, int], added: Mapping[tuple[int, str], int]
) -> tuple[list[int], dict[str, Counter[int]]]:
    """The cuts in a place, and what its records add to each part of the line.

    Args:
        place: where all of the hashes are.
        hashes: the records of each.
        added: what they add, by hash and name; any hash, if the place has no cuts.

    Returns:
        the first hash after each cut; by name, the numbers that are added to parts.

    >>> half, hashes, added = 2**63, {3: 1, 5: 4, 9: 1}, {(5, "cat"): 4, (9, "cat"): 1}
    >>> find_cuts(Place(0, (2 * half, 3 * half), 0, 10), hashes, added)
    ([5, 5], {'cat': Counter({2: 5})})
    >>> find_cuts(Place(1, (5 * half, 6 * half), half, 10), hashes, added)
    ([5, 9], {'cat': Counter({2: 4, 3: 1})})
    """
    in_order = sorted(hashes.items())
    cuts = [_find_cut(in_order, rank, place) for rank in place.ranks]
    names: dict[str, Counter[int]] = {}
    for (hash_, name), number in added.items():
        names.setdefault(name, Counter())[place.before + bisect_right(cuts, hash_)] += number
    return cuts, names


def _find_cut(hashes: Iterable[tuple[int, int]], rank: int, place: Place) -> int:
    for hash_, records in hashes:
        size = records * HASH_SPACE
        if rank + place.rounding * records < size:
            return hash_
        rank -= size
    return place.end
