"""What the packages may import, and what the graph may carry."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from setuptools import find_packages

import pipeline
import transforms
import transforms.core
from pipeline.graph import build
from tests.transforms.beam import make_config, make_pipeline
from transforms.add_totals import AddTotals, Part
from transforms.core.dataset.ledger import PlanTotals, ShardSummary
from transforms.core.records import (
    BucketDuplicates,
    Count,
    FingerprintBatch,
    JoinSide,
    ShardImage,
)
from transforms.core.rejections import Rejection
from transforms.core.tables.csv_rows import CsvColumns
from transforms.gather import Gather
from transforms.name_inputs import NameInputs

ROOT = Path(transforms.__file__).parents[1]
CORE = sorted((ROOT / "transforms/core").rglob("*.py"))
STORAGE = sorted((ROOT / "transforms/storage").rglob("*.py"))
STEPS_OF_GRAPH = sorted(set((ROOT / "transforms").rglob("*.py")) - {*CORE, *STORAGE})
TRANSFORMS = [*STORAGE, *STEPS_OF_GRAPH]
PIPELINE = sorted((ROOT / "pipeline").rglob("*.py"))
MODULES = [path for path in [*CORE, *TRANSFORMS, *PIPELINE] if path.name != "__init__.py"]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def room_of(name: str) -> str:
    """The package of a module."""
    return name.rpartition(".")[0]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


class RunTime(ast.NodeTransformer):
    """Leaves out what only the type checker reads."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            return node.orelse
        return self.generic_visit(node)


@functools.cache
def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(RunTime().visit(parsed(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(str(node.module))
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def top_levels(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_core_is_without_beam(path: Path) -> None:
    assert not top_levels(path) & {"apache_beam", "pipeline"}
    ours = {name for name in imported(path) if name.startswith("transforms.")}
    assert all(name.startswith("transforms.core") for name in ours)


def test_no_module_of_core_brings_beam_or_tensorflow() -> None:
    script = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    for heavy in ("apache_beam", "tensorflow"):
        assert heavy not in sys.modules, f"{name} imports {heavy}"
"""
    names = [name_of(path) for path in CORE]
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_modules_import_tensorflow_where_they_call_it() -> None:
    """Its import takes seconds, which a command that decodes nothing does not spend."""
    at_top = {
        name_of(path)
        for path in MODULES
        for node in RunTime().visit(parsed(path)).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.match(r"(import|from) (tensorflow|keras)\b", ast.unparse(node))
    }
    assert at_top == set()


def ours_in(path: Path) -> set[str]:
    """The modules of ours that a file imports."""
    return imported(path) & {name_of(module) for module in MODULES}


@pytest.mark.parametrize("path", STORAGE, ids=name_of)
def test_storage_knows_nothing_of_the_steps(path: Path) -> None:
    """It counts what an operator watches, with names that import nothing of ours."""
    below = ("transforms.core.", "transforms.storage.")
    above = {name for name in ours_in(path) if not name.startswith(below)}
    assert above <= {"transforms.metrics"}


def test_what_storage_counts_with_imports_nothing_of_ours() -> None:
    assert not ours_in(ROOT / "transforms/metrics.py")


def test_the_walk_follows_into_rooms() -> None:
    names = {name_of(path) for path in MODULES}
    assert {
        "transforms.core.images.check",
        "transforms.storage.gcs_storage",
        "transforms.write_shards",
        "pipeline.flags.options",
    } <= names
    assert {name_of(path).split(".")[0] for path in MODULES} == {"transforms", "pipeline"}


def test_no_two_modules_have_the_same_name() -> None:
    counted = Counter(path.stem for path in MODULES)
    assert [name for name, count in counted.items() if count > 1] == []


def test_rooms_are_small() -> None:
    """Small enough to be read at a glance, and no room for one or two modules."""
    rooms = Counter(room_of(name_of(path)) for path in MODULES)
    # The steps and the commands are flat, each in a list that the architecture shows.
    flat = {"transforms", "pipeline"}
    assert {room: size for room, size in rooms.items() if size > 14 and room not in flat} == {}
    assert {room: size for room, size in rooms.items() if size < 3} == {}
    assert rooms["transforms.core"] <= 12


def test_rooms_of_core_import_each_other_one_way() -> None:
    graph: dict[str, set[str]] = {}
    for path in CORE:
        name = name_of(path)
        # Modules straight in `transforms.core` are rooms of their own.
        room = place_in_core(name)
        graph.setdefault(room, set()).update(
            other for other in map(place_in_core, ours_in(path)) if other != room
        )
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def place_in_core(name: str) -> str:
    """The room of a module of `transforms.core`, or the module if it is in none."""
    return ".".join(name.split(".")[:3])


def test_every_room_is_a_package_and_every_data_file_is_packaged() -> None:
    """What `setup.py` does not name is missing from a wheel, and so on Dataflow."""
    [call] = (
        node.value
        for node in parsed(ROOT / "setup.py").body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "setup"
    )
    words = {keyword.arg: keyword.value for keyword in call.keywords}
    data = ast.literal_eval(words["package_data"])
    for top in ("transforms", "pipeline"):
        packages = [top, *(f"{top}.{name}" for name in find_packages(str(ROOT / top)))]
        packaged = {
            file
            for package in packages
            for pattern in ["*.py", *data.get(package, [])]
            for file in ROOT.joinpath(*package.split(".")).glob(pattern)
        }
        there = {
            path
            for path in (ROOT / top).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there == packaged


@pytest.mark.parametrize("path", TRANSFORMS, ids=name_of)
def test_transforms_know_nothing_of_commands(path: Path) -> None:
    assert not top_levels(path) & {"pipeline", "argparse"}


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", [*CORE, *TRANSFORMS], ids=name_of)
def test_only_commands_print_and_exit(path: Path) -> None:
    assert not set(calls(path)) & {"print", "exit", "quit", "sys.exit", "os._exit", "input"}
    assert "SystemExit" not in path.read_text()


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
        self.found.append(Step(applied, any(not is_ours(p) for p in parents(applied))))


def parents(applied: AppliedPTransform) -> Iterator[AppliedPTransform]:
    while applied.parent is not None and applied.parent.full_label:
        applied = applied.parent
        yield applied


def is_ours(applied: AppliedPTransform) -> bool:
    module = type(applied.transform).__module__
    return module.split(".")[0] in ("transforms", "pipeline")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of a conversion with a CSV."""
    folder = tmp_path_factory.mktemp("graph")
    config = make_config(
        folder,
        folder / "out",
        label_from="csv",
        csv_paths=("labels.csv",),
        columns=CsvColumns(",", True, 0, 1, "id", "label", 2),
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
        "Find images/Join labels/Group by key",
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
        # The globs, spread over the workers; and what is gathered, see the next test.
        if NameInputs in above or Gather in above:
            continue
        [pcollection] = applied.inputs
        if AddTotals in above:
            # Counts, however many images there are.
            assert pcollection.element_type == convert_to_beam_type(Part)
            continue
        assert set(fields(pcollection.element_type)) <= {str, int, bool, None, type(None)}
        values.append(pcollection.element_type.tuple_types[1])
    assert sorted(value.__name__ for value in values) == sorted(
        kind.__name__ for kind in (JoinSide, ShardImage, FingerprintBatch)
    )


def test_what_is_gathered_are_summaries(steps: list[Step]) -> None:
    gathered = [
        each.element_type.__name__
        for applied, _ in steps
        if isinstance(applied.transform, Gather)
        for each in applied.inputs
    ]
    kinds = (ShardSummary, PlanTotals, Rejection, Count, BucketDuplicates)
    assert {*gathered} == {kind.__name__ for kind in kinds}


class Loaded(NamedTuple):
    path: str
    data: bytes


def test_that_the_search_for_pixels_sees_bytes() -> None:
    assert set(fields(typehints.Tuple[int, Loaded])) == {int, str, bytes}


def declared() -> set[str]:
    """The distributions of setup.py, normalised."""
    source = parsed(ROOT / "setup.py")
    [requires] = (
        node.value
        for node in source.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INSTALL_REQUIRES"
    )
    return {re.split(r"[\[<>=~]", text)[0].lower() for text in ast.literal_eval(requires)}


def test_everything_imported_is_declared() -> None:
    distributions = metadata.packages_distributions()
    ours = {"pipeline", "transforms"}
    for path in [*CORE, *TRANSFORMS, *PIPELINE]:
        for name in top_levels(path) - sys.stdlib_module_names - ours:
            owners = {re.sub("[-_.]+", "-", owner).lower() for owner in distributions[name]}
            assert owners & declared(), f"{path.name} imports {name}, which setup.py does not list"
