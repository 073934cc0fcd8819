"""FindCuts: divides lines of records, in the order of their hashes, at given ranks."""

from __future__ import annotations

import dataclasses
import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.balance.hash_cuts import (
    Bins,
    CutBins,
    Cuts,
    Draw,
    Place,
    Ranks,
    bin_end,
    bin_of,
    complete,
    find_bins,
    find_cut,
)
from transforms.runners import runs_in_process

# Counts or hashes that a bundle holds before they are sent.
_HELD = 100_000

# Places in which several machines merge lines before one merges the rest.
_FANOUT = 16

# A line, and the number of one of its bins.
_Bin = tuple[str, int]


class Lines(Protocol):
    """The lines that elements are in; picklable. `prepare` is called before the others."""

    def prepare(self, known: Any) -> None:
        """Takes what is known of all records."""

    def draws(self, element: Any) -> Iterable[Draw]:
        """The draws of an element: an image, a group, or a batch."""

    def bins(self, line: str) -> int:
        """The bins of a line, see `bin_count`."""

    def ranks(self, line: str, records: int) -> Ranks:
        """Where a line with so many records is divided."""


class FindCuts(beam.PTransform):
    """Finds the cuts of all lines, in two passes: counts in bins, then hashes of bins with cuts.

    Input: elements of `lines`. Output: one `Cuts`. About twice the root of records times cuts
    crosses the shuffle for each line, as numbers; no worker needs a whole line.
    """

    def __init__(self, lines: Lines, known: beam.PCollection[Any]) -> None:
        """Takes the lines.

        Args:
            lines: they say which records are where.
            known: one element, which `Lines.prepare` takes.
        """
        super().__init__()
        self._lines = lines
        self._known = known

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Cuts]:
        known = beam.pvalue.AsSingleton(self._known)
        fanout = 0 if runs_in_process(elements.pipeline) else _FANOUT
        bins = (
            elements
            | "Count bins"
            >> beam.ParDo(_CountBinsFn(self._lines), known).with_output_types(tuple[_Bin, int])
            | "Add up bins" >> beam.CombinePerKey(sum)
            | "Name lines" >> beam.Map(_line_first).with_output_types(tuple[str, tuple[int, int]])
            | "Group bins by line" >> beam.GroupByKey()
            | "Find bins with cuts"
            >> beam.ParDo(_FindBinsFn(self._lines), known).with_output_types(tuple[str, bytes])
            | "Merge bins" >> _globally(MergeBins(), fanout)
        )
        wanted = beam.pvalue.AsSingleton(bins)
        return (
            elements
            | "Pick hashes"
            >> beam.ParDo(_PickFn(self._lines), known, wanted).with_output_types(tuple[_Bin, bytes])
            | "Group hashes by bin" >> beam.GroupByKey()
            | "Cut bins" >> beam.ParDo(_CutFn(), wanted).with_output_types(tuple[str, bytes])
            | "Merge cuts" >> _globally(MergeCuts(), fanout)
            | "Complete cuts" >> beam.Map(_complete, wanted).with_output_types(Cuts)
        )


def _globally(merge: beam.CombineFn, fanout: int) -> beam.PTransform:
    combine = beam.CombineGlobally(merge)
    return combine.with_fanout(fanout) if fanout else combine


def _line_first(count: tuple[_Bin, int]) -> tuple[str, tuple[int, int]]:
    (line, number), records = count
    return line, (number, records)


class _CountBinsFn(beam.DoFn):
    """Counts the records in each bin, in a bundle first."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def start_bundle(self) -> None:
        self._counts: Counter[_Bin] = Counter()

    def process(self, element: Any, known: Any) -> Iterable[tuple[_Bin, int]]:
        self._lines.prepare(known)
        for line, hash_, records in self._lines.draws(element):
            self._counts[line, bin_of(hash_, self._lines.bins(line))] += records
        return () if len(self._counts) < _HELD else self._counted()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._counted())

    def _counted(self) -> Iterable[tuple[_Bin, int]]:
        counts = self._counts
        self.start_bundle()
        return counts.items()


class _FindBinsFn(beam.DoFn):
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def process(
        self, group: tuple[str, Iterable[tuple[int, int]]], known: Any
    ) -> Iterator[tuple[str, bytes]]:
        self._lines.prepare(known)
        line, counts = group[0], dict(group[1])
        ranks = self._lines.ranks(line, sum(counts.values()))
        bins = find_bins(counts, ranks, self._lines.bins(line))
        places = [tuple(place) for place in bins.places]
        yield line, marshal.dumps((bins.bins, places, bins.rounding))


class MergeBins(beam.CombineFn):
    """Merges the bins of all lines."""

    def create_accumulator(self) -> dict[str, Bins]:
        return {}

    def add_input(self, accumulator: dict[str, Bins], found: tuple[str, bytes]) -> dict[str, Bins]:
        line, data = found
        count, places, rounding = marshal.loads(data)
        accumulator[line] = Bins(count, tuple(Place(*place) for place in places), rounding)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[str, Bins]]) -> dict[str, Bins]:
        return {line: bins for each in accumulators for line, bins in each.items()}

    def extract_output(self, accumulator: dict[str, Bins]) -> CutBins:
        return CutBins(accumulator)


class _PickFn(beam.DoFn):
    """Picks the hashes that are in bins with cuts."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._bins: CutBins | None = None

    def start_bundle(self) -> None:
        self._picked: defaultdict[_Bin, Counter[int]] = defaultdict(Counter)
        self._held = 0

    def process(self, element: Any, known: Any, bins: CutBins) -> Iterable[tuple[_Bin, bytes]]:
        self._lines.prepare(known)
        if bins is not self._bins:
            self._bins = bins
            self._wanted = {
                line: (count, {place.bin for place in places})
                for line, (count, places, _) in bins.lines.items()
            }
        for line, hash_, records in self._lines.draws(element):
            count, wanted = self._wanted[line]
            number = bin_of(hash_, count)
            if number in wanted:
                self._picked[line, number][hash_] += records
                self._held += 1
        return () if self._held < _HELD else self._packed()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._packed())

    def _packed(self) -> list[tuple[_Bin, bytes]]:
        packed = [(each, marshal.dumps(dict(hashes))) for each, hashes in self._picked.items()]
        self.start_bundle()
        return packed


class _CutFn(beam.DoFn):
    """Finds the cuts in each bin."""

    def __init__(self) -> None:
        self._bins: CutBins | None = None

    def process(
        self, group: tuple[_Bin, Iterable[bytes]], bins: CutBins
    ) -> Iterator[tuple[str, bytes]]:
        if bins is not self._bins:
            self._bins = bins
            self._places: dict[str, dict[int, set[Place]]] = {}
        line, number = group[0]
        hashes: Counter[int] = Counter()
        for part in group[1]:
            hashes.update(marshal.loads(part))
        count, places, rounding = bins.lines[line]
        # A line may have as many bins with cuts as it has places.
        if line not in self._places:
            self._places[line] = _by_bin(places)
        for place in self._places[line][number]:
            cut = find_cut(hashes, place.rank, rounding, bin_end(number, count))
            yield line, marshal.dumps((*place, cut))


def _by_bin(places: Iterable[Place]) -> dict[int, set[Place]]:
    found: defaultdict[int, set[Place]] = defaultdict(set)
    for place in places:
        found[place.bin].add(place)
    return found


@dataclasses.dataclass(frozen=True)
class FoundCuts:
    """The cuts of places in bins."""

    cuts: dict[tuple[str, Place], int]


class MergeCuts(beam.CombineFn):
    """Merges the cuts of all lines."""

    def create_accumulator(self) -> dict[tuple[str, Place], int]:
        return {}

    def add_input(
        self, accumulator: dict[tuple[str, Place], int], found: tuple[str, bytes]
    ) -> dict[tuple[str, Place], int]:
        line, data = found
        number, rank, cut = marshal.loads(data)
        accumulator[line, Place(number, rank)] = cut
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[tuple[str, Place], int]]
    ) -> dict[tuple[str, Place], int]:
        return {place: cut for each in accumulators for place, cut in each.items()}

    def extract_output(self, accumulator: dict[tuple[str, Place], int]) -> FoundCuts:
        return FoundCuts(accumulator)


def _complete(found: FoundCuts, bins: CutBins) -> Cuts:
    return complete(bins, found.cuts)
