"""Divides draws that are all in memory, by the functions that the steps call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from transforms.selection.hash_cuts import Cuts, Draw, Place, Ranks, bin_of, find_bins, find_cuts


def ranks_of(lines: Any) -> Callable[[str, int], Ranks]:
    """Where lines divide a line with so many records, from their rule for it."""
    return lambda line, records: lines.ranks(line, lines.rule(line), records)


def divide(
    draws: Iterable[Draw],
    ranks: Callable[[str, int], Ranks],
    bins: Callable[[str], int],
) -> Cuts:
    """The cuts of all lines, from the ranks of a line with so many records and its bins."""
    drawn = sorted(draws)
    lines: dict[str, list[int]] = {}
    added: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for line in {draw.line for draw in drawn}:
        own, count = [draw for draw in drawn if draw.line == line], bins(line)
        counts: Counter[int] = Counter()
        for draw in own:
            counts[bin_of(draw.hash, count)] += draw.records
        found = find_bins(counts, ranks(line, counts.total()), count)
        hashes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        adds: defaultdict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
        for draw in own:
            number = found.number(draw.hash)
            hashes[number][draw.hash] += draw.records
            adds[number].update({(draw.hash, name): images for name, images in draw.added})
        cuts: list[int] = []
        for number in hashes:
            place = found.place(number) if number >= 0 else Place(~number)
            its_cuts, names = find_cuts(place, hashes[number], adds[number])
            cuts += its_cuts
            for name, parts in names.items():
                added[name].update(parts)
        lines[line] = cuts
    return Cuts.of(lines, added)
