"""The totals of a plan from their parts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest

from tests.transforms.beam import RUNNER, collect
from transforms import add_totals
from transforms.add_totals import AddTotals, Part, part
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.labels.label_kinds import LabelCells
from transforms.core.labels.vocabulary import ANY_LABELS


def totals(*collections: list[PlanTotals], **given: Any) -> list[PlanTotals]:
    """What comes out for collections of parts."""

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        parts = tuple(
            pipeline | f"{at}" >> beam.Create([*map(part, parts)]).with_output_types(Part)
            for at, parts in enumerate(collections)
        )
        return {"totals": parts | AddTotals(**given)}

    return list(collect(construct)["totals"])


@pytest.mark.parametrize("in_process", [True, False])
def test_parts_are_added_up(in_process: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_totals, "runs_in_process", lambda _: in_process)
    one = PlanTotals(Counter(train=1), Counter(train=10), Counter(cat=1), 1, 2)
    other = PlanTotals(Counter(train=1, test=3), Counter(train=10, test=5), Counter(dog=4), 4, 0)
    cells = PlanTotals(cells=LabelCells(others=5))
    [found] = totals([one, other], [cells], rules=ANY_LABELS)
    assert found == PlanTotals(
        Counter(train=2, test=3),
        Counter(train=20, test=5),
        Counter(cat=1, dog=4),
        5,
        2,
        LabelCells(others=5),
        "text",
    )


@pytest.mark.parametrize(("in_process", "places"), [(True, 0), (False, add_totals._FANOUT)])
def test_machines_add_up_in_many_places_before_one_does(
    in_process: bool, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that has all totals gets one sum from each place, however many parts there are."""
    monkeypatch.setattr(add_totals, "runs_in_process", lambda _: in_process)
    fanouts = []
    with_fanout = beam.CombineGlobally.with_fanout

    def counted(combine: beam.CombineGlobally, fanout: int) -> Any:
        fanouts.append(fanout)
        return with_fanout(combine, fanout)

    monkeypatch.setattr(beam.CombineGlobally, "with_fanout", counted)
    pipeline = beam.Pipeline(runner=RUNNER)
    parts = pipeline | beam.Create([part(PlanTotals())]).with_output_types(Part)
    _ = (parts,) | AddTotals()
    steps = [step.unique_name for step in pipeline.to_runner_api().components.transforms.values()]
    assert fanouts == [places] * (places > 0)
    assert any("PreCombineFn" in name for name in steps) == (places > 0)
    assert len(steps) < 40


@pytest.mark.parametrize("in_process", [True, False])
def test_there_are_totals_of_nothing(in_process: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_totals, "runs_in_process", lambda _: in_process)
    assert totals([]) == [PlanTotals()]
