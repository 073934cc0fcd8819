"""Cuts are found in bins, in any number of bundles."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsSingleton

from tests.transforms.beam import collect
from transforms import plan_shards as find_cuts
from transforms.dataset.ledger import PlanTotals
from transforms.plan_shards import FindCuts
from transforms.selection import hash_cuts
from transforms.selection.hash_cuts import Cuts, Draw, Ranks, bin_count


class Halves:
    """Lines of draws that are divided in the middle."""

    def prepare(self, totals: PlanTotals, *before: Cuts) -> None:
        self._images = totals.images
        self._skipped = sum(parts.total() for cuts in before for parts in cuts.added.values())

    def draws(self, element: str) -> Iterable[Draw]:
        return [Draw(*json.loads(element))]

    def bins(self, line: str) -> int:
        return bin_count(self._images[line])

    def ranks(self, line: str, records: int) -> Ranks:
        return Ranks([(records << 63) + (self._skipped << 64)])


def found(draws: list[Draw]) -> list[Any]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        images = Counter[str]()
        for draw in draws:
            images[draw.line] += draw.records
        totals = pipeline | "Totals" >> beam.Create([PlanTotals(images)])
        drawn = pipeline | "Draws" >> beam.Create([*map(json.dumps, draws)])
        return {"cuts": drawn | FindCuts(Halves(), Halves.draws, totals)}

    return collect(construct)["cuts"]


@pytest.mark.parametrize(("held", "in_bin"), [(100, 100), (3, 3)])
def test_lines_are_halved(held: int, in_bin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_cuts, "BIN_RECORDS", in_bin)
    monkeypatch.setattr(find_cuts, "_HELD", held)
    spread = [Draw("a", number << 57, 1) for number in range(100)]
    last = [Draw("b", 2**64 - 1 - number, 1) for number in range(8)]
    [cuts] = found([*spread, *last, Draw("c", 7, 1)])
    # Half of one is none: all of it is after the cut.
    assert cuts == Cuts({"a": [50 << 57], "b": [2**64 - 4], "c": [7]})


def test_nothing_to_divide() -> None:
    assert found([]) == [Cuts({})]


def test_what_records_add_to_parts_is_known_with_the_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In bins with a cut, and in those between them; later cuts may depend on it."""
    monkeypatch.setattr(hash_cuts, "BIN_RECORDS", 3)
    draws = [Draw("a", number << 58, 1, (("x", 2), (f"{number}", 1))) for number in range(64)]
    first = [Draw("b", number, 2, (("y", 1),)) for number in range(5)]

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        totals = pipeline | "Totals" >> beam.Create([PlanTotals(Counter({"a": 64, "b": 10}))])
        drawn = pipeline | "Draws" >> beam.Create([*map(json.dumps, [*draws, *first])])
        cuts = drawn | "First" >> FindCuts(Halves(), Halves.draws, totals)
        others = pipeline | "Others" >> beam.Create([json.dumps(each) for each in draws])
        again = others | "Again" >> FindCuts(Halves(), Halves.draws, totals, [AsSingleton(cuts)])
        return {"cuts": cuts, "again": again}

    collected = collect(construct)
    [cuts] = collected["cuts"]
    assert cuts.lines == {"a": [32 << 58], "b": [2]}
    singles = {f"{number}": Counter({int(number >= 32): 1}) for number in range(64)}
    assert cuts.added == {"x": Counter({0: 64, 1: 64}), "y": Counter({0: 2, 1: 3}), **singles}
    # 128 + 5 + 64 are more than there are: the cut is after all.
    assert collected["again"] == [
        Cuts(
            {"a": [(63 << 58) + 1]},
            {"x": Counter({0: 128}), **dict.fromkeys(singles, Counter({0: 1}))},
        )
    ]
