"""Cuts are found in two passes, in any number of bundles."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsSingleton

from tests.transforms.beam import collect
from transforms import stratify_splits as find_cuts
from transforms.dataset.ledger import PlanTotals
from transforms.selection.hash_cuts import Cuts, Draw, Ranks, bin_count
from transforms.stratify_splits import FindCuts


class Halves:
    """Lines of draws that are divided in the middle."""

    def prepare(self, totals: PlanTotals, *before: Cuts) -> None:
        self._images = totals.images
        self._skipped = sum(sum(parts) for cuts in before for parts in cuts.added.values())

    def draws(self, element: str) -> Iterable[Draw]:
        return [Draw(*json.loads(element))]

    def bins(self, line: str) -> int:
        return bin_count(self._images[line], 1)

    def rule(self, line: str) -> int:
        return self._skipped

    def ranks(self, line: str, rule: int, records: int) -> Ranks:
        return Ranks([(records << 63) + (rule << 64)])


def found(draws: list[Draw]) -> list[Any]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        images = Counter[str]()
        for draw in draws:
            images[draw.line] += draw.records
        totals = pipeline | "Totals" >> beam.Create([PlanTotals(images)])
        drawn = pipeline | "Draws" >> beam.Create([*map(json.dumps, draws)])
        return {"cuts": drawn | FindCuts(Halves(), Halves.draws, totals)}

    return collect(construct)["cuts"]


@pytest.mark.parametrize(("held", "together"), [(100, 100), (3, 3)])
def test_lines_are_halved(held: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_cuts, "_TOGETHER", together)
    monkeypatch.setattr(find_cuts, "_HELD", held)
    spread = [Draw("a", number << 57, 1) for number in range(100)]
    last = [Draw("b", 2**64 - 1 - number, 1) for number in range(8)]
    [cuts] = found([*spread, *last, Draw("c", 7, 1)])
    # Half of one is none: all of it is after the cut.
    assert cuts == Cuts({"a": (50 << 57,), "b": (2**64 - 4,), "c": (7,)})


def test_nothing_to_divide() -> None:
    assert found([]) == [Cuts({})]


def test_what_records_add_to_parts_is_known_with_the_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In bins with a cut, and in those between them; later cuts may depend on it."""
    monkeypatch.setattr(find_cuts, "_HELD", 3)
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
    assert cuts.lines == {"a": (32 << 58,), "b": (2,)}
    singles = {f"{number}": [1] if number < 32 else [0, 1] for number in range(64)}
    assert cuts.added == {"x": [64, 64], "y": [2, 3], **singles}
    # 128 + 5 + 64 are more than there are: the cut is after all.
    assert collected["again"] == [
        Cuts({"a": (2**64,)}, {"x": [128], **dict.fromkeys(singles, [1])})
    ]
