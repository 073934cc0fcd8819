"""A record that crosses a shuffle is of its own class on the other side."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.typehints import typehints

from transforms.core import records
from transforms.core.rejections import Rejection
from transforms.labels.vocabulary import LabelCells
from transforms.packing import RecordCoder

RECORDS = [
    *(kind for _, kind in inspect.getmembers(records, inspect.isclass) if issubclass(kind, tuple)),
    Rejection,
    LabelCells,
]
# A cell may be in any encoding, and a version has 63 bits.
VALUES: dict[Any, Any] = {str: "a\udcff한", int: -(2**63), bool: True, bytes: b"\0\xff"}
VALUES[records.Plain] = (*VALUES.values(), None, ((1, "x"),))
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


def test_a_worker_reads_what_another_wrote() -> None:
    """Its coder comes with the graph, as bytes."""
    record = records.Count("images_found", 3)
    payload = pickler.dumps(RecordCoder(records.Count))
    code = (
        "import sys; from apache_beam.internal import pickler;"
        f"coder = pickler.loads({payload!r});"
        f"record = coder.decode({RecordCoder(records.Count).encode(record)!r});"
        "print(type(record).__module__, record)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"transforms.core.records {record}"
