"""Packed names come back as they were, each key in one part."""

from __future__ import annotations

import json
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.beam import collect
from transforms.core.records import JoinSide, Plain, PlannedImage
from transforms.packing import (
    PARTS,
    PackRecords,
    PackSides,
    grouped_sides,
    pack,
    pack_sides,
    part_of,
    unpack,
)

WHOLE = st.integers(-(2**63), 2**63 - 1)
# Surrogates, too: a key may be a cell in any encoding.
TEXT = st.text(st.characters(), max_size=20)


def records(kind: type) -> st.SearchStrategy[Any]:
    plain = st.tuples(TEXT, WHOLE, st.binary(max_size=16), st.none() | st.tuples(WHOLE, TEXT))
    types = {str: TEXT, int: WHOLE, bool: st.booleans(), Plain: st.just(()) | plain}
    return st.builds(kind, *(types[each] for each in kind.__annotations__.values()))


@pytest.mark.parametrize("kind", [JoinSide, PlannedImage])
@given(st.data())
def test_records_come_back(kind: type, data: st.DataObject) -> None:
    packed = data.draw(st.lists(records(kind), max_size=5))
    found = [*unpack(pack(packed), kind)]
    assert found == packed
    assert {type(each) for each in found} <= {kind}
    assert [type(field) for each in found for field in each] == [
        type(field) for each in packed for field in each
    ]


@given(st.lists(st.lists(st.tuples(TEXT, records(JoinSide)), max_size=4), max_size=4))
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
    images = [
        PlannedImage(at, "k", "p", 1, 1, "", split="train", cells=each)
        for at, each in enumerate(cells)
    ]
    sides, names = pack_sides(rows), pack(images)
    assert max(len(sides), len(names)) < sum(map(len, cells)) / 2
    assert grouped_sides([sides]) == {"key": [side for _, side in rows]}
    assert [*unpack(names, PlannedImage)] == images


def test_few_long_sides_are_held() -> None:
    side = ("key", JoinSide("", 0, 0, "", "a.json:1", cells="1" * (1 << 20)))
    found = collect(lambda p: {"all": p | beam.Create([side] * 20, False) | PackSides()})["all"]
    # 13 MB, and not 13 GB.
    assert sorted(len(grouped_sides([each])["key"]) for _, each in found) == [7, 13]


def test_few_long_images_are_held() -> None:
    """A batch is whole in memory where its images get their shards."""
    image = PlannedImage(0, "k", "p", 1, 1, "", split="train", cells="1" * (1 << 20))
    found = collect(lambda p: {"all": p | beam.Create([image] * 9, False) | PackRecords()})["all"]
    batches = [[*unpack(each, PlannedImage)] for each in found]
    # 4 MB, and not 4 GB.
    assert sorted(map(len, batches)) == [1, 4, 4]
    assert {each for batch in batches for each in batch} == {image}


@given(TEXT)
def test_every_key_has_a_part(key: str) -> None:
    assert 0 <= part_of(key) < PARTS


def test_parts_are_the_same_in_every_process_and_of_about_one_size() -> None:
    # Not `hash`, which differs between processes.
    assert [part_of(key) for key in ("", "cat/1.jpg", "한강")] == [0, 241, 902]
    sizes = [0] * PARTS
    for number in range(100 * PARTS):
        sizes[part_of(f"class_{number % 10}_{number:08d}")] += 1
    assert 50 < min(sizes) <= max(sizes) < 200
