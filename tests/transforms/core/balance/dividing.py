"""Divides draws that are all in memory, by the functions that the steps call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from transforms.core.balance.hash_cuts import (
    NOWHERE,
    CutBins,
    Cuts,
    Draw,
    Ranks,
    bin_end,
    bin_of,
    complete,
    find_bins,
    find_cut,
)


def divide(
    draws: Iterable[Draw],
    ranks: Callable[[str, int], Ranks],
    bins: Callable[[str], int],
) -> Cuts:
    """The cuts of all lines, from the ranks of a line with so many records and its bins."""
    drawn = sorted(draws)
    lines, found = {}, {}
    for line in {draw.line for draw in drawn}:
        own, count = [draw for draw in drawn if draw.line == line], bins(line)
        counts: Counter[int] = Counter()
        for draw in own:
            counts[bin_of(draw.hash, count)] += draw.records
        lines[line] = find_bins(counts, ranks(line, counts.total()), count)
        for place in {*lines[line].places} - {NOWHERE}:
            hashes: Counter[int] = Counter()
            for draw in own:
                if bin_of(draw.hash, count) == place.bin:
                    hashes[draw.hash] += draw.records
            end, rounding = bin_end(place.bin, count), lines[line].rounding
            found[line, place] = find_cut(hashes, place.rank, rounding, end)
    return complete(CutBins(lines), found)
