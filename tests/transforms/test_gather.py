"""Gather: what a step that runs once gets of whole collections."""

from __future__ import annotations

import ast
import zlib
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from tests.transforms.beam import make_pipeline
from transforms.core.rejections import Rejection
from transforms.packing import Everything, Gather

PROJECT = Path(__file__).parents[2]
ROW = Rejection("row", "no_label", "the cell is empty", "a.csv:2", "a.png")


def test_whole_collections_in_one_element() -> None:
    with beam.Pipeline() as pipeline:
        numbers = pipeline | "Numbers" >> beam.Create(range(100))
        rows = pipeline | "Rows" >> beam.Create([ROW])
        nothing = pipeline | "Nothing" >> beam.Create([])
        gathered = {"numbers": numbers, "rows": rows, "nothing": nothing} | Gather()
        as_expected = gathered | beam.Map(_sorted)
        assert_that(as_expected, equal_to([(list(range(100)), [ROW], [])]))


def test_many_elements_are_few_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that keeps a group in memory keeps little of it."""
    sizes: list[int] = []
    compress = zlib.compress

    def measured(*arguments: Any, **options: Any) -> bytes:
        packed = compress(*arguments, **options)
        sizes.append(len(packed))
        return packed

    many = [ROW._replace(key=f"{number:0100}") for number in range(1000)]
    pipeline = make_pipeline()
    rows = pipeline | beam.Create(many, reshuffle=False).with_output_types(Rejection)
    everything = {"rows": rows} | Gather()
    assert_that(everything | beam.Map(_rows), equal_to([many]))
    monkeypatch.setattr(zlib, "compress", measured)
    pipeline.run().wait_until_finish()
    # A part has 256 elements; those of the check are few.
    assert 4 <= len(sizes) < 10 and sum(sizes) < 100 * 1000 / 4


def _rows(everything: Everything) -> list[Rejection]:
    assert all(type(row) is Rejection for row in everything["rows"])
    return sorted(everything["rows"])


def test_no_step_reads_a_collection_that_grows_as_a_side_input() -> None:
    """`AsSingleton` is one element of opaque bytes, which Beam's Java writes whole."""
    iterables = {"AsIter", "AsList", "AsDict", "AsMultiMap"}
    for file in [*PROJECT.glob("transforms/**/*.py"), *PROJECT.glob("pipeline/**/*.py")]:
        names = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Name | ast.Attribute)
        }
        assert not names & iterables, f"{file}: see transforms/packing.py"


def _sorted(everything: Everything) -> tuple[list[int], list[Rejection], list[object]]:
    return sorted(everything["numbers"]), everything["rows"], everything["nothing"]
