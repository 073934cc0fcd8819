"""Steps of the graph: annotated, described, labelled, and only names cross their shuffles."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.typehints import typehints

import pipeline
import transforms
import transforms.core
from pipeline.graph import build
from tests.test_layering import PIPELINE, TRANSFORMS, name_of, parsed
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


def classes(package: Any) -> Iterator[type]:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        loaded = importlib.import_module(module.name)
        for _, value in inspect.getmembers(loaded, inspect.isclass):
            if value.__module__ == module.name:
                yield value


OURS = [*classes(transforms), *classes(pipeline)]
STEPS = [each for each in OURS if issubclass(each, beam.DoFn | beam.PTransform | beam.CombineFn)]


def test_dofns_are_private_and_named_so() -> None:
    fns = [each.__name__ for each in OURS if issubclass(each, beam.DoFn)]
    assert len(fns) >= 6
    assert all(re.fullmatch(r"_[A-Z]\w+Fn", name) for name in fns)
    assert not [each for each in OURS if each.__name__.endswith("Fn") and each.__name__[0] != "_"]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps_are_annotated_and_described(step: type) -> None:
    methods = {"expand", "process", "setup", "teardown", "add_input", "merge_accumulators"}
    for name in methods & set(vars(step)):
        function = vars(step)[name]
        annotated = set(typing.get_type_hints(function))
        parameters = set(inspect.signature(function).parameters) - {"self"}
        assert annotated == parameters | {"return"}, f"{step.__name__}.{name}"
    if issubclass(step, beam.PTransform):
        words = (step.__doc__ or "").split()
        assert {"Input:", "Output:"} <= set(words)


def is_transform(node: ast.expr, transform_names: set[str]) -> bool:
    """Whether an expression, such as `beam.ParDo(fn).with_outputs()`, makes a transform."""
    if not isinstance(node, ast.Call):
        return False  # `int | beam.pvalue.TaggedOutput` is a type
    while isinstance(node, ast.Call | ast.Attribute):
        inner = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(inner, ast.Name):
            return inner.id == "beam" or inner.id in transform_names
        node = inner
    return False


@pytest.mark.parametrize("path", [*TRANSFORMS, *PIPELINE], ids=name_of)
def test_every_step_has_a_label(path: Path) -> None:
    names = {each.__name__ for each in OURS if issubclass(each, beam.PTransform)}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            assert not is_transform(node.right, names), f"{path.name}:{node.lineno}: no label"


def test_that_the_search_for_labels_sees_missing_ones() -> None:
    for code, expected in {
        "a | beam.Create([1])": True,
        "a | beam.ParDo(fn).with_outputs('x', main='y')": True,
        "a | WriteShards(1)": True,
        "a | 'Label' >> beam.Create([1])": False,
        "a | set(b)": False,
        "a | beam.pvalue.TaggedOutput": False,
    }.items():
        node = ast.parse(code, mode="eval").body
        assert isinstance(node, ast.BinOp)
        assert is_transform(node.right, {"WriteShards"}) == expected


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


def test_labels_name_the_shuffles(steps: list[Step]) -> None:
    labels = {step.applied.full_label for step in steps}
    assert {
        "Join labels/Group by key",
        "Plan images/Plan shards/Group names by shard",
    } <= labels


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


class Loaded(NamedTuple):
    path: str
    data: bytes


def test_that_the_search_for_pixels_sees_bytes() -> None:
    assert set(fields(typehints.Tuple[int, Loaded])) == {int, str, bytes}
