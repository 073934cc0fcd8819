"""Each source is declared once, and computed in one place."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import pipeline
import transforms
from transforms.examples.encoder import VALUES
from transforms.examples.layouts import EMBEDDING, LAYOUTS, SOURCES, Feature, Role, source_of

PACKAGES = [Path(str(package.__file__)).parent for package in (transforms, pipeline)]
# The registry, the presets, what computes values, and the columns of an index with the same values.
PLACES = {"layouts.py", "encoder.py", "row_features.py", "decoder.py", "record_index.py"}


def test_sources_are_named_where_they_are_declared_and_computed() -> None:
    """Everything else asks the registry for a role or a need."""
    places = Counter(
        path.name
        for package in PACKAGES
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in SOURCES
    )
    assert set(places) <= PLACES
    assert places["layouts.py"] and places["encoder.py"]


def test_every_source_of_a_layout_file_is_documented() -> None:
    text = (PACKAGES[0].parent / "docs" / "layouts.md").read_text("utf-8")
    assert [name for name in {*SOURCES} - {EMBEDDING} if f"`{name}`" not in text] == []


def test_every_source_is_computed_once() -> None:
    """The encoder has what an image and its label give; rows, what is in their cells."""
    of_rows = {name for name, source in SOURCES.items() if source.is_list}
    assert set(VALUES) == set(SOURCES) - of_rows
    presets = {feature.source for features in LAYOUTS.values() for feature in features}
    assert of_rows <= presets


def test_class_ids_know_the_source_of_their_texts() -> None:
    for source in SOURCES.values():
        assert bool(source.texts) == (source.role is Role.CLASS_ID)
        if source.texts:
            texts = SOURCES[source.texts]
            assert texts.role is Role.CLASS_TEXT
            assert texts[2:6] == (Role.CLASS_TEXT, *source[3:6])


@pytest.mark.parametrize("name", ["csv.image.bytes", "csv.", "image.Bytes", ""])
def test_other_names_have_no_role(name: str) -> None:
    source = source_of(name)
    assert (source.name, source.dtype, source.role) == (name, "", Role.OTHER)
    assert Feature("a", name, "").from_rows == name.startswith("csv.")
