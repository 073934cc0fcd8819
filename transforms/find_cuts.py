"""FindCuts: divides lines of records, in the order of their hashes, at given ranks."""

from __future__ import annotations

import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.balance.hash_cuts import (
    Bins,
    CutBins,
    Cuts,
    Draw,
    Place,
    Ranks,
    bin_of,
    find_bins,
    find_cuts,
)

# Counts or hashes that a bundle holds before they are sent.
_HELD = 100_000

# Bins whose counts cross the shuffle together.
_TOGETHER = 4096

# Where numbers belong: a line, and the number of one of its bins or of some of them. Or the name of
# what records add, and `~part`.
_Place: TypeAlias = tuple[str, int]

# What is found: the cuts of a line, or what records add to each part, by its name.
_CUTS, _ADDED = 0, 1

# What `_dumps` made.
_Packed: TypeAlias = tuple[_Place, bytes]
_OfLine: TypeAlias = tuple[str, bytes]


class Lines(Protocol):
    """The lines that elements are in; picklable. `prepare` is called before the others."""

    def prepare(self, known: Any, *before: Cuts) -> None:
        """Takes what is known of all records, and for `rule` the cuts that were found before."""

    def draws(self, element: Any) -> Iterable[Draw]:
        """The draws of an element: an image, a group, or a batch."""

    def bins(self, line: str) -> int:
        """The bins of a line, see `bin_count`."""

    def rule(self, line: str) -> Any:
        """What `ranks` needs for a line: numbers."""

    def ranks(self, line: str, rule: Any, records: int) -> Ranks:
        """Where a line with so many records is divided. It is called without `prepare`."""


class FindCuts(beam.PTransform):
    """Finds the cuts of all lines, in two passes: counts in bins, then hashes of bins with cuts.

    Input: elements of `lines`. Output: one `Cuts`. About twice the root of records times cuts
    crosses the shuffle for each line, as numbers; no worker needs a whole line.

    What a step needs of a line comes with its elements, not as a side input: each side input is
    another path from here to the inputs, and Flink's optimizer walks along all of them.
    """

    def __init__(
        self, lines: Lines, known: beam.PCollection[Any], before: Sequence[AsSingleton] = ()
    ) -> None:
        """Takes the lines.

        Args:
            lines: they say which records are where.
            known: one element, which `Lines.prepare` takes.
            before: the cuts that were found before, which it takes, too.
        """
        super().__init__()
        self._lines = lines
        self._known = AsSingleton(known)
        self._before = before

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Cuts]:
        lines, known = self._lines, self._known
        bins = (
            elements
            | "Count bins"
            >> beam.ParDo(_CountBinsFn(lines), known, *self._before).with_output_types(_Packed)
            | "Group counts" >> beam.GroupByKey()
            | "Add up bins" >> beam.Map(_add_up_bins).with_output_types(_OfLine)
            | "Group bins by line" >> beam.GroupByKey()
            | "Find bins with cuts" >> beam.ParDo(_FindBinsFn(lines)).with_output_types(_Packed)
            | "Merge bins" >> beam.CombineGlobally(MergeLines())
            | "Name bins" >> beam.Map(_cut_bins).with_output_types(CutBins)
        )
        return (
            elements
            | "Pick hashes"
            >> beam.ParDo(_PickFn(lines), known, AsSingleton(bins)).with_output_types(_Packed)
            | "Group hashes by place" >> beam.GroupByKey()
            | "Cut bins" >> beam.FlatMap(_cut).with_output_types(_Packed)
            | "Group cuts by line" >> beam.GroupByKey()
            | "Add up cuts" >> beam.Map(_add_up).with_output_types(_Packed)
            | "Merge cuts" >> beam.CombineGlobally(MergeLines())
            | "Name cuts" >> beam.Map(_cuts).with_output_types(Cuts)
        )


def _dumps(value: Any) -> bytes:
    # Beam would encode each number by itself.
    return marshal.dumps(value)


class _Held:
    """Numbers that the elements of a bundle bring to places of lines, until they are sent."""

    def __init__(self) -> None:
        self.places: defaultdict[_Place, Counter[Any]] = defaultdict(Counter)
        self._added = 0

    def add(self, place: _Place, what: Any, number: int) -> None:
        """Adds to the number of something in a place."""
        self.places[place][what] += number
        self._added += 1

    @property
    def is_full(self) -> bool:
        """Whether they should be sent before the bundle ends."""
        return self._added >= _HELD


class _CountBinsFn(beam.DoFn):
    """Counts the records in each bin, in a bundle first."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def start_bundle(self) -> None:
        self._held = _Held()

    def process(self, element: Any, *known: Any) -> Iterable[_Packed]:
        self._lines.prepare(*known)
        for line, hash_, records, _ in self._lines.draws(element):
            number = bin_of(hash_, self._lines.bins(line))
            self._held.add((line, number // _TOGETHER), number, records)
        return self._packed() if self._held.is_full else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._packed())

    def _packed(self) -> Iterator[_Packed]:
        places = self._held.places
        self.start_bundle()
        for (line, part), counts in places.items():
            of_line = (self._lines.bins(line), self._lines.rule(line), dict(counts))
            yield (line, part), _dumps(of_line)


def _add_up_bins(group: tuple[_Place, Iterable[bytes]]) -> _OfLine:
    return group[0][0], _sum_of_bins(group[1])


def _sum_of_bins(packed: Iterable[bytes]) -> bytes:
    added: Counter[int] = Counter()
    for each in packed:
        bins, rule, counts = marshal.loads(each)
        added.update(counts)
    return _dumps((bins, rule, dict(added)))


class _FindBinsFn(beam.DoFn):
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def process(self, group: tuple[str, Iterable[bytes]]) -> Iterator[_Packed]:
        line = group[0]
        bins, rule, counts = marshal.loads(_sum_of_bins(group[1]))
        ranks = self._lines.ranks(line, rule, sum(counts.values()))
        yield (line, _CUTS), _dumps(tuple(find_bins(counts, ranks, bins)))


class MergeLines(beam.CombineFn):
    """Merges what was found of all lines."""

    def create_accumulator(self) -> dict[_Place, bytes]:
        return {}

    def add_input(self, accumulator: dict[_Place, bytes], found: _Packed) -> dict[_Place, bytes]:
        accumulator[found[0]] = found[1]
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[_Place, bytes]]
    ) -> dict[_Place, bytes]:
        return {line: found for each in accumulators for line, found in each.items()}

    def extract_output(self, accumulator: dict[_Place, bytes]) -> dict[_Place, bytes]:
        return accumulator


def _cut_bins(found: dict[_Place, bytes]) -> CutBins:
    return CutBins({line: Bins(*marshal.loads(bins)) for (line, _), bins in found.items()})


class _PickFn(beam.DoFn):
    """Picks the hashes in bins with cuts, and adds up what all records add to parts."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def start_bundle(self) -> None:
        self._held = _Held()

    def process(self, element: Any, known: Any, bins: CutBins) -> Iterable[_Packed]:
        self._lines.prepare(known)
        self._bins = bins
        for line, hash_, records, added in self._lines.draws(element):
            number = bins.lines[line].number(hash_)
            if number >= 0:
                self._held.add((line, number), (hash_, None), records)
                for name, images in added:
                    self._held.add((line, number), (hash_, name), images)
            else:
                for name, images in added:
                    self._held.add((name, number), (0, name), images)
        return self._packed() if self._held.is_full else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._packed())

    def _packed(self) -> Iterator[_Packed]:
        places = self._held.places
        self.start_bundle()
        for (line, number), held in places.items():
            place = self._bins.lines[line].place(number) if number >= 0 else Place(~number)
            yield (line, number), _dumps((tuple(place), dict(held)))


def _cut(group: tuple[_Place, Iterable[bytes]]) -> Iterator[_Packed]:
    hashes: Counter[int] = Counter()
    added: Counter[tuple[int, str]] = Counter()
    for each in group[1]:
        place, held = marshal.loads(each)
        for (hash_, name), number in held.items():
            if name is None:
                hashes[hash_] += number
            else:
                added[hash_, name] += number
    cuts, names = find_cuts(Place(*place), hashes, added)
    if cuts:
        yield (group[0][0], _CUTS), _dumps(dict(Counter(cuts)))
    for name, parts in names.items():
        yield (name, _ADDED), _dumps(dict(parts))


def _add_up(group: tuple[_Place, Iterable[bytes]]) -> _Packed:
    numbers: Counter[int] = Counter()
    for each in group[1]:
        numbers.update(marshal.loads(each))
    return group[0], _dumps(dict(numbers))


def _cuts(found: dict[_Place, bytes]) -> Cuts:
    cuts, added = {}, {}
    for (name, kind), numbers in found.items():
        if kind == _ADDED:
            added[name] = marshal.loads(numbers)
        else:
            cuts[name] = Counter(marshal.loads(numbers)).elements()
    return Cuts.of(cuts, added)
