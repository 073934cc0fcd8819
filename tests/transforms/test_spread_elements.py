"""Elements are spread by a shuffle that no runner leaves out."""

from __future__ import annotations

import apache_beam as beam
import pytest

from tests.transforms.beam import collect, make_pipeline, step_named
from transforms import packing
from transforms.core.records import NameRange
from transforms.packing import SpreadElements

RANGES = [NameRange("gs://b/*.jpg", f"{number:03}", f"{number + 1:03}") for number in range(100)]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, elements stay where they are."""
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)


def test_every_element_comes_once_from_one_of_many_parts() -> None:
    found = collect(lambda p: {"all": p | beam.Create(RANGES) | SpreadElements()})
    assert sorted(found["all"]) == RANGES


def test_two_in_a_row_group_twice() -> None:
    """Flink's batch engine leaves out the second of two reshuffles."""
    pipeline = make_pipeline()
    _ = pipeline | beam.Create(RANGES) | "1" >> SpreadElements() | "2" >> SpreadElements()
    grouped = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, transform_node: object) -> None:
            grouped.append(str(transform_node))

    pipeline.visit(Visitor())
    choosing = step_named(pipeline, "Choose parts")
    parts = {part for each in RANGES for part, _ in choosing.process(each)}
    assert len(parts) > 90
    assert sum("/Group by part" in each for each in grouped) == 2
