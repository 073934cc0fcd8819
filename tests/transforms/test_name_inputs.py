"""The inputs of a job as elements."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest

from tests.transforms.beam import collect
from transforms.packing import NameInputs


@pytest.mark.parametrize("names", [["a"], ["b", "a", "b"]])
def test_names_are_elements(names: list[str]) -> None:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        found = pipeline | NameInputs(names)
        assert found.element_type is str
        return {"names": found}

    assert sorted(collect(construct)["names"]) == sorted(names)
