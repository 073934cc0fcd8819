"""Steps of the graph: labelled, and only names cross their shuffles."""

import re
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.typehints import typehints

from pipeline.graph import build
from tests.transforms.beam import make_config, make_pipeline
from transforms.core.records import (
    BucketDuplicates,
    FileBatch,
    FingerprintBatch,
    JoinSide,
    Plain,
    PlannedImage,
    RejectedPart,
)
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import PlanTotals, RunTotals, ShardSummary
from transforms.labels.label_rows import Column, CsvColumns
from transforms.packing import AddTogether, Gather, NameBatch


class Step(NamedTuple):
    applied: AppliedPTransform
    inside_beam: bool


class Steps(PipelineVisitor):
    """All steps of a graph, and whether a transform of Beam's own brought them."""

    def __init__(self) -> None:
        self.found: list[Step] = []

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        self._add(transform_node)

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self._add(transform_node)

    def _add(self, applied: AppliedPTransform) -> None:
        modules = (type(parent.transform).__module__ for parent in parents(applied))
        is_ours = all(each.split(".")[0] in ("transforms", "pipeline") for each in modules)
        self.found.append(Step(applied, not is_ours))


def parents(applied: AppliedPTransform) -> Iterator[AppliedPTransform]:
    while applied.parent is not None and applied.parent.full_label:
        applied = applied.parent
        yield applied


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of a conversion with a CSV."""
    folder = tmp_path_factory.mktemp("graph")
    config = make_config(
        folder,
        folder / "out",
        label_from="csv",
        csv_paths=("labels.csv",),
        columns=CsvColumns(Column(0, "id"), Column(1, "label"), 2),
    )
    graph = make_pipeline()
    build(graph, config)
    visitor = Steps()
    graph.visit(visitor)
    return visitor.found


def test_labels_of_the_graph_are_words(steps: list[Step]) -> None:
    ours = [step.applied.full_label for step in steps if not step.inside_beam]
    named = [label.split("/")[-1] for label in ours if label]
    assert len(named) >= 20
    # The text of a `with_outputs` is Beam's; what is inside it is in `inside_beam`.
    assert [label for label in named if not re.fullmatch(r"[A-Z][A-Za-z ]+", label)] == []
    assert not [label for label in ours if "lambda" in label]


def fields(kind: Any) -> Iterator[Any]:
    """The scalar types in a type of elements."""
    if isinstance(kind, typehints.TupleConstraint):
        for part in kind.tuple_types:
            yield from fields(part)
    elif hasattr(kind, "_fields"):
        for part in typing.get_type_hints(kind).values():
            yield from fields(part)
    else:
        yield kind


def test_no_pixel_crosses_a_shuffle(steps: list[Step]) -> None:
    """What is grouped are names: every element is built of texts and numbers alone."""
    values = []
    for applied, _ in steps:
        if not isinstance(applied.transform, beam.GroupByKey):
            continue
        above = [type(parent.transform) for parent in parents(applied)]
        # The globs and the files to publish, spread over the workers; counts, however many images
        # there are; and what is gathered, see the next test.
        if {AddTogether, Gather, beam.Reshuffle} & {*above}:
            continue
        [pcollection] = applied.inputs
        values.append((above[0].__name__, pcollection.element_type.tuple_types[1]))
    # Batches of names, see the next test.
    batches = [(step, NameBatch) for step in ("JoinLabels", "PlanShards", "ListRejections")]
    others = {("FindEqualImages", FingerprintBatch), ("PublishDataset", FileBatch)}
    assert set(values) == {*batches, *others}
    assert {*fields(FingerprintBatch), *fields(FileBatch)} == {str, bytes, int}


def test_what_is_packed_are_names(steps: list[Step]) -> None:
    packed = [
        each.element_type
        for applied, _ in steps
        if "/Pack " in applied.full_label
        and applied.outputs[None].element_type in (NameBatch, typehints.Tuple[int, NameBatch])
        for each in applied.inputs
    ]
    assert {kind for kind in packed if hasattr(kind, "_fields")} == {PlannedImage, Rejection}
    assert [kind.tuple_types[1] for kind in packed if not hasattr(kind, "_fields")] == [JoinSide]
    # The images of a batch are packed again, by shard.
    for kind in (*packed, PlannedImage):
        assert set(fields(kind)) <= {str, int, bool, None, type(None), Plain}
    # What an index says of a record, see `test_a_record_crosses_the_shuffle_in_few_bytes`.
    plain = {
        name
        for kind in (JoinSide, PlannedImage)
        for name, type_ in typing.get_type_hints(kind).items()
        if type_ == Plain
    }
    assert plain == {"record", "stored", "partners"}


def test_what_is_gathered_are_summaries(steps: list[Step]) -> None:
    gathered = [
        each.element_type.__name__
        for applied, _ in steps
        if isinstance(applied.transform, Gather)
        for each in applied.inputs
    ]
    kinds = (ShardSummary, PlanTotals, RunTotals, RejectedPart, BucketDuplicates)
    assert {*gathered} == {kind.__name__ for kind in kinds}
