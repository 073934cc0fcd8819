"""Cuts are found in two passes, in any number of bundles."""

from __future__ import annotations

import json
import marshal
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest

from tests.transforms.beam import collect
from transforms import find_cuts
from transforms.core.balance.hash_cuts import Bins, CutBins, Cuts, Draw, Place, Ranks, bin_count
from transforms.core.dataset.ledger import PlanTotals
from transforms.find_cuts import FindCuts, _CutFn


class Halves:
    """Lines of draws that are divided in the middle."""

    def prepare(self, totals: PlanTotals) -> None:
        self._images = totals.images

    def draws(self, element: str) -> Iterable[Draw]:
        return [Draw(*json.loads(element))]

    def bins(self, line: str) -> int:
        return bin_count(self._images[line], 1)

    def ranks(self, line: str, records: int) -> Ranks:
        return Ranks([records << 63])


def found(draws: list[Draw]) -> list[Any]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        images = Counter[str]()
        for draw in draws:
            images[draw.line] += draw.records
        totals = pipeline | "Totals" >> beam.Create([PlanTotals(images)])
        drawn = pipeline | "Draws" >> beam.Create([*map(json.dumps, draws)])
        return {"cuts": drawn | FindCuts(Halves(), totals)}

    return collect(construct)["cuts"]


@pytest.mark.parametrize(("in_process", "held"), [(True, 100), (False, 3)])
def test_lines_are_halved(in_process: bool, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_cuts, "runs_in_process", lambda _: in_process)
    monkeypatch.setattr(find_cuts, "_HELD", held)
    spread = [Draw("a", number << 57, 1) for number in range(100)]
    last = [Draw("b", 2**64 - 1 - number, 1) for number in range(8)]
    [cuts] = found([*spread, *last, Draw("c", 7, 1)])
    # Half of one is none: all of it is after the cut.
    assert cuts == Cuts({"a": (50 << 57,), "b": (2**64 - 4,), "c": (7,)})


def test_nothing_to_divide() -> None:
    assert found([]) == [Cuts({})]


class CountedPlaces(tuple[Place, ...]):
    """Places that count how often they are read."""

    read = 0

    def __iter__(self) -> Iterator[Place]:
        self.read += 1
        return super().__iter__()


def test_the_places_of_a_line_are_read_once_for_all_of_its_bins() -> None:
    """A split of 100,000 shards has as many places, in about as many bins."""
    one = 2**64
    places = CountedPlaces(Place(number, one) for number in range(50))
    known, fn = CutBins({"train": Bins(50, places)}), _CutFn()
    for number in range(50):
        hashes = [marshal.dumps({(number << 64) // 50 + each: 1 for each in (1, 2)})]
        [(line, found)] = fn.process((("train", number), hashes), known)
        assert (line, marshal.loads(found)) == ("train", (number, one, (number << 64) // 50 + 2))
    assert places.read == 1
    # The next bundle may have other side inputs.
    other = CutBins({"train": Bins(50, (Place(0, 0),))})
    [(_, found)] = fn.process((("train", 0), [marshal.dumps({7: 1})]), other)
    assert marshal.loads(found) == (0, 0, 7)
