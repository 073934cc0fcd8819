"""Arrays are those of `pyarrow.array`, which imports pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.records.record_index import to_array

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TYPES = {
    "string": (pa.string(), TEXTS),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bytes": (pa.binary(8), st.binary(min_size=8, max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
    "structs": (
        pa.list_(pa.struct([("a", pa.string()), ("b", pa.binary(8))])),
        st.lists(
            st.fixed_dictionaries(
                {"a": st.none() | TEXTS, "b": st.none() | st.binary(min_size=8, max_size=8)}
            ),
            max_size=3,
        ),
    ),
    "numbers": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_values_come_back(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    drawn: list[Any] = data.draw(st.lists(st.none() | values, max_size=20))
    array = to_array(drawn, type_)
    array.validate(full=True)
    assert array.equals(pa.array(drawn, type_)) and array.to_pylist() == drawn


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(OverflowError):
        to_array([2**31], pa.int32())


@pytest.mark.slow
def test_an_index_is_written_and_read_without_pandas() -> None:
    script = """
import sys
from tests.transforms.records.test_record_index import photos
from transforms.records.record_index import read_index
for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
    del sys.modules[name]
read_index(photos(3), "x").to_pylist()
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
