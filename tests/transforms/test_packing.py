"""Records that cross a shuffle come back as they were, in few, small and evenly spread parts."""

import ast
import inspect
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.portability.common_urns import primitives
from apache_beam.typehints import typehints
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.transforms.beam import collect, make_pipeline, step_named
from transforms import packing
from transforms.core import records
from transforms.core.records import JoinSide, NameRange, Plain, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels.vocabulary import LabelCells
from transforms.packing import (
    PARTS,
    AddTogether,
    AddUp,
    Gather,
    RecordCoder,
    SpreadElements,
    grouped_sides,
    pack,
    pack_sides,
    packing_records,
    packing_sides,
    part_of,
    unpack,
)

PROJECT = Path(__file__).parents[2]
RECORDS = [
    *(kind for _, kind in inspect.getmembers(records, inspect.isclass) if issubclass(kind, tuple)),
    Rejection,
    LabelCells,
]
# A cell may be in any encoding, and a version has 63 bits.
VALUES: dict[Any, Any] = {str: "a\udcff한", int: -(2**63), bool: True, bytes: b"\0\xff"}
VALUES[Plain] = (*VALUES.values(), None, ((1, "x"),))
VALUES[dict[str, Any]] = {"file": "index/a.parquet", "records": 3}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_keep_their_class(kind: type) -> None:
    record = kind(*(VALUES[each] for each in kind.__annotations__.values()))
    for hint, value in ((kind, record), (typehints.Tuple[int, kind], (7, record))):
        coder = beam.coders.registry.get_coder(hint)
        assert "Pickle" not in str(coder) and "FastPrimitives" not in str(coder)
        found = coder.decode(coder.encode(value))
        assert found == value
        assert type(found if hint is kind else found[1]) is kind


@pytest.mark.slow
def test_a_worker_reads_what_another_wrote() -> None:
    """Its coder comes with the graph, as bytes."""
    record = records.Count("images_found", 3)
    coder = RecordCoder(records.Count)
    code = (
        "from apache_beam.internal import pickler;"
        f"record = pickler.loads({pickler.dumps(coder)!r}).decode({coder.encode(record)!r});"
        "print(type(record).__module__, record)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"transforms.core.records {record}"


WHOLE = st.integers(-(2**63), 2**63 - 1)
# Surrogates, too.
TEXT = st.text(st.characters(), max_size=20)


def drawn(kind: type) -> st.SearchStrategy[Any]:
    plain = st.tuples(TEXT, WHOLE, st.binary(max_size=16), st.none() | st.tuples(WHOLE, TEXT))
    types = {str: TEXT, int: WHOLE, bool: st.booleans(), Plain: st.just(()) | plain}
    return st.builds(kind, *(types[each] for each in kind.__annotations__.values()))


@pytest.mark.parametrize("kind", [JoinSide, PlannedImage])
@given(st.data())
def test_packed_records_come_back(kind: type, data: st.DataObject) -> None:
    packed = data.draw(st.lists(drawn(kind), max_size=5))
    found: list[Any] = [*unpack(pack(packed), kind)]
    assert found == packed
    assert {type(each) for each in found} <= {kind}
    types = [[type(field) for each in one for field in each] for one in (found, packed)]
    assert types[0] == types[1]


@given(st.lists(st.lists(st.tuples(TEXT, drawn(JoinSide)), max_size=4), max_size=4))
def test_sides_are_grouped_by_their_keys(batches: list[list[tuple[str, JoinSide]]]) -> None:
    expected: dict[str, list[JoinSide]] = {}
    for key, side in (each for batch in batches for each in batch):
        expected.setdefault(key, []).append(side)
    found = grouped_sides(map(pack_sides, batches))
    assert found == expected
    assert {type(side) for sides in found.values() for side in sides} <= {JoinSide}


def test_long_cells_take_less_space() -> None:
    """Segmentations are long: the runner holds each batch several times."""
    cells = [json.dumps([[[at, *range(1000)]]]) for at in range(5)]
    rows = [("key", JoinSide("", 0, 0, "", "a.json:1", cells=each)) for each in cells]
    images = [PlannedImage(0, "k", "p", 1, 1, "", split="train", cells=each) for each in cells]
    assert max(len(pack_sides(rows)), len(pack(images))) < sum(map(len, cells)) / 2


LONG = "1" * (1 << 20)


@cases(
    # 25 MB, and not 25 GB.
    (("key", JoinSide("", 0, 0, "", "a.json:1", cells=LONG)), 30, packing_sides, [5, 25]),
    # A batch is whole in memory where its images get their shards: 4 MB, and not 4 GB.
    (PlannedImage(0, "k", "p", 1, 1, "", cells=LONG), 9, packing_records, [1, 4, 4]),
)
def test_few_long_names_are_held(element: Any, count: int, step: Any, sizes: list[int]) -> None:
    found = collect(lambda p: {"all": p | beam.Create([element] * count, False) | step()})["all"]
    if step is packing_sides:
        batches: list[Any] = [grouped_sides([each])["key"] for _, each in found]
    else:
        batches = [[*unpack(each, PlannedImage)] for each in found]
        assert {each for batch in batches for each in batch} == {element}
    assert sorted(map(len, batches)) == sizes


def test_parts_are_the_same_in_every_process_and_of_about_one_size() -> None:
    # Not `hash`, which differs between processes.
    assert [part_of(key) for key in ("", "cat/1.jpg", "한강")] == [0, 241, 902]
    sizes = [0] * PARTS
    for number in range(100 * PARTS):
        sizes[part_of(f"class_{number % 10}_{number:08d}")] += 1
    assert 50 < min(sizes) <= max(sizes) < 200


ROW = Rejection("row", "no_label", "the cell is empty", "a.csv:2", "a.png")


def test_whole_collections_are_one_element_of_few_small_parts(sizes: list[int]) -> None:
    """A runner that keeps a group in memory keeps little of it."""
    many = [ROW._replace(key=f"{number:0100}") for number in range(1000)]

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        rows = pipeline | beam.Create(many, reshuffle=False).with_output_types(Rejection)
        nothing = pipeline | "Nothing" >> beam.Create([])
        gathered = {"rows": rows, "nothing": nothing} | Gather()
        return {"all": gathered | beam.Map(lambda found: [found["nothing"], *found["rows"]])}

    [[nothing, *rows]] = collect(construct)["all"]
    assert (nothing, sorted(rows)) == ([], many)
    assert {type(row) for row in rows} == {Rejection}
    # A part has 256 elements.
    assert 4 <= len(sizes) < 10 and sum(sizes) < 100 * 1000 / 4


def test_no_step_reads_a_collection_that_grows_as_a_side_input() -> None:
    """`AsSingleton` is one element of opaque bytes, which Beam's Java writes whole."""
    iterables = {"AsIter", "AsList", "AsDict", "AsMultiMap"}
    for file in [*PROJECT.glob("transforms/**/*.py"), *PROJECT.glob("pipeline/**/*.py")]:
        text = file.read_text("utf-8")
        if not any(name in text for name in iterables):
            continue
        nodes = [*ast.walk(ast.parse(text))]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not names & iterables, f"{file}: see transforms/packing.py"


RANGES = [NameRange("gs://b/*.jpg", f"{number:03}", f"{number + 1:03}") for number in range(100)]


def test_every_element_comes_once_from_one_of_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, elements stay where they are."""
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    found = collect(lambda p: {"all": p | beam.Create(RANGES) | SpreadElements()})
    assert sorted(found["all"]) == RANGES


def groupings(pipeline: beam.Pipeline) -> int:
    """How often a graph groups its elements."""
    steps = pipeline.to_runner_api().components.transforms.values()
    return [step.spec.urn for step in steps].count(primitives.GROUP_BY_KEY.urn)


def test_two_spreads_in_a_row_group_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink's batch engine leaves out the second of two reshuffles."""
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    pipeline = make_pipeline()
    created = pipeline | beam.Create(RANGES, reshuffle=False)
    _ = created | "1" >> SpreadElements() | "2" >> SpreadElements()
    choosing = step_named(pipeline, "Choose parts")
    parts = {part for each in RANGES for part, _ in choosing.process(each)}
    assert len(parts) > 90
    assert groupings(pipeline) == 2


@pytest.mark.parametrize(("in_process", "count"), [(True, 1), (False, 2)])
def test_machines_add_up_in_many_places_before_one_does(
    in_process: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that has all gets one sum from each place; a bundle tried again has its place."""
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)
    pipeline = make_pipeline()
    adder = AddUp(Counter, Counter.update, Counter.update)
    _ = {"letters": pipeline | beam.Create(["abc"])} | AddTogether(adder)
    assert groupings(pipeline) == count
    adding: Any = step_named(pipeline, "Add up letters")

    def added(*letters: str) -> tuple[int, Counter[str]]:
        adding.start_bundle()
        for letter in letters:
            adding.process(letter)
        [sent] = adding.finish_bundle()
        return sent.value

    bundles = [(f"{number}", "a", "a") for number in range(999)]
    sent = [added(*bundle) for bundle in bundles]
    assert len({place for place, _ in sent}) == (1 if in_process else 64)
    assert all(sums["a"] == 2 for _, sums in sent)
    assert [added(*bundle) for bundle in bundles] == sent
    assert added() == (0, {})
