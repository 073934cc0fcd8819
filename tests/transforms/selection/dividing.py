"""Divides draws that are all in memory, by the functions that the steps call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from transforms.selection.hash_cuts import Cuts, Draw, Ranks, bin_of, find_cuts, find_places


def divide(
    draws: Iterable[Draw], ranks: Callable[[str, int], Ranks], bins: Callable[[str], int]
) -> Cuts:
    """The cuts of all lines, from the ranks of a line with so many records and its bins."""
    lines: defaultdict[str, defaultdict[int, list[Draw]]] = defaultdict(lambda: defaultdict(list))
    for draw in draws:
        lines[draw.line][bin_of(draw.hash, bins(draw.line))].append(draw)
    cuts = Cuts()
    for line, own in lines.items():
        counts = Counter({at: sum(draw.records for draw in each) for at, each in own.items()})
        for number, place in find_places(counts, ranks(line, counts.total())).items():
            cuts.merge(find_cuts(place, own[number]))
    return cuts
