"""The totals of a plan from their parts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam

from tests.transforms.beam import collect
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


def test_parts_are_added_up() -> None:
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


def test_there_are_totals_of_nothing() -> None:
    assert totals([]) == [PlanTotals()]
