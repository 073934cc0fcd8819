"""The indexes of holdouts: what cannot be read ends the run, and what is read is reported."""

from __future__ import annotations

import errno

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import Lineage

from transforms import find_holdouts
from transforms.core.duplicates.holdouts import Holdout
from transforms.core.file_errors import TransientError
from transforms.core.label_errors import LabelsError
from transforms.find_holdouts import HoldoutFingerprints, holdout_indexes

HOLDOUT = Holdout("gs://bucket/bench", "", "", 1)


def test_a_holdout_that_is_gone_ends_the_run_unless_it_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(find_holdouts, "read_manifest", fail)
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
    with pytest.raises(LabelsError, match=r"^cannot read --holdout gs://bucket/bench: .*'x'$"):
        next(holdout_indexes(HOLDOUT))
    error = OSError(errno.ETIMEDOUT, "timed out", "x")
    with pytest.raises(TransientError):
        next(holdout_indexes(HOLDOUT))


def test_a_holdout_is_a_source_of_the_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_holdouts, "holdout_indexes", lambda _: iter(()))
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | HoldoutFingerprints((HOLDOUT,), 8)
    result = pipeline.run()
    result.wait_until_finish()
    assert set(Lineage.query(result.metrics(), Lineage.SOURCE)) == {"gcs:bucket.bench"}
