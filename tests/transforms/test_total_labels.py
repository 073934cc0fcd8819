"""Totals: of the images of a plan, and added up in many places."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability.common_urns import primitives

from tests.transforms.beam import RUNNER, collect, step_named
from transforms import packing
from transforms.core.messages import LabelsError
from transforms.core.records import PlannedImage
from transforms.dataset.ledger import PlanTotals
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.vocabulary import LabelCells
from transforms.packing import AddTogether, AddUp
from transforms.plan_shards import TotalLabels

ADDER = AddUp(Counter, Counter.update, Counter.update)


def totals(labels: dict[str, int], *cells: LabelCells) -> PlanTotals:
    """The totals of images with these labels."""
    images = [
        PlannedImage(
            number, f"{number}", f"{number}.jpg", 10, 1, label, split="train", rows=bool(label)
        )
        for number, label in enumerate(Counter(labels).elements())
    ]

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | "Images" >> beam.Create(images).with_output_types(PlannedImage)
        read = pipeline | "Cells" >> beam.Create(cells).with_output_types(LabelCells)
        return {"totals": created | TotalLabels(read if cells else None, ANY_LABELS)}

    [found] = collect(construct)["totals"]
    assert isinstance(found, PlanTotals)
    return found


def test_images_and_cells_are_added_up() -> None:
    found = totals({"cat": 2, "dog": 1}, LabelCells(others=3), LabelCells(others=2))
    assert found == PlanTotals(
        Counter(train=3),
        Counter(train=30),
        Counter(cat=2, dog=1),
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
    assert totals(labels, read).label_kind == kind


def test_nearly_all_numbers_of_records_are_ambiguous() -> None:
    with pytest.raises(LabelsError, match=r"^9 of 10 labels are integers, but 'cat' \(of a record"):
        totals({"cat": 1, "7": 9}, LabelCells(integers=1))


def test_there_are_totals_of_nothing() -> None:
    assert totals({}) == PlanTotals()


@pytest.mark.parametrize(("in_process", "groupings"), [(True, 1), (False, 2)])
def test_machines_add_up_in_many_places_before_one_does(
    in_process: bool, groupings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that has all gets one sum from each place, however many bundles there are."""
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)
    pipeline = beam.Pipeline(runner=RUNNER)
    _ = {"letters": pipeline | beam.Create(["abc"])} | AddTogether(ADDER)
    steps = pipeline.to_runner_api().components.transforms.values()
    assert [step.spec.urn for step in steps].count(primitives.GROUP_BY_KEY.urn) == groupings
    adding: Any = step_named(pipeline, "Add up letters")
    places, sums = set(), Counter[str]()
    for _ in range(999):
        adding.start_bundle()
        for letter in "aab":
            adding.process(letter)
        [sent] = adding.finish_bundle()
        places.add(sent.value[0])
        sums.update(sent.value[1])
    assert len(places) == (1 if in_process else 64)
    assert sums == {"a": 1998, "b": 999}
