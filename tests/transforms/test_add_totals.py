"""The totals of a plan from their parts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability.common_urns import primitives

from tests.transforms.beam import RUNNER, collect, step_named
from transforms import add_totals
from transforms.add_totals import AddTotals, Part, part
from transforms.core.messages import LabelsError
from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.vocabulary import LabelCells


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
    one = PlanTotals(Counter(train=1), Counter(train=10), Counter(cat=1), 1, 2, 1)
    other = PlanTotals(Counter(train=1, test=3), Counter(train=10, test=5), Counter(dog=4), 4, 0, 2)
    cells = PlanTotals(cells=LabelCells(others=5))
    [found] = totals([one, other], [cells], rules=ANY_LABELS)
    assert found == PlanTotals(
        Counter(train=2, test=3),
        Counter(train=20, test=5),
        Counter(cat=1, dog=4),
        5,
        2,
        3,
        cells=LabelCells(others=5),
        label_kind="text",
    )


@pytest.mark.parametrize(
    ("read", "labels", "kind"),
    [
        # A row relabels one record, and the others keep names or numbers.
        (LabelCells(integers=1), {"7": 1, "cat": 8, "": 2}, "text"),
        (LabelCells(integers=9), {"7": 9, "": 2}, "integer"),
        (LabelCells(), {"7": 9}, "integer"),
        (LabelCells(others=9), {"cat": 1, "dog": 2}, "text"),
        (LabelCells(others=1), {"cat": 1, "7": 2}, "text"),
    ],
)
def test_labels_of_records_count_for_the_kind(
    read: LabelCells, labels: dict[str, int], kind: str
) -> None:
    [found] = totals([PlanTotals(labels=Counter(labels), cells=read)], rules=ANY_LABELS)
    assert found.label_kind == kind


def test_nearly_all_numbers_of_records_are_ambiguous() -> None:
    found = PlanTotals(labels=Counter({"cat": 1, "7": 9}), cells=LabelCells(integers=1))
    with pytest.raises(LabelsError, match=r"^9 of 10 labels are integers, but 'cat' \(of a record"):
        totals([found], rules=ANY_LABELS)


@pytest.mark.parametrize(("in_process", "groupings"), [(True, 1), (False, 2)])
def test_machines_add_up_in_many_places_before_one_does(
    in_process: bool, groupings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that has all totals gets one sum from each place, however many parts there are."""
    monkeypatch.setattr(add_totals, "runs_in_process", lambda _: in_process)
    pipeline = beam.Pipeline(runner=RUNNER)
    parts = pipeline | beam.Create([part(PlanTotals())]).with_output_types(Part)
    _ = (parts,) | AddTotals()
    steps = pipeline.to_runner_api().components.transforms.values()
    assert [step.spec.urn for step in steps].count(primitives.GROUP_BY_KEY.urn) == groupings
    assert len(steps) < 40
    if not in_process:
        choosing = step_named(pipeline, "Choose places")
        places = {place for _ in range(999) for place, _ in choosing.process(part(PlanTotals()))}
        assert 8 < len(places) < 100


@pytest.mark.parametrize("in_process", [True, False])
def test_there_are_totals_of_nothing(in_process: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_totals, "runs_in_process", lambda _: in_process)
    assert totals([]) == [PlanTotals()]
