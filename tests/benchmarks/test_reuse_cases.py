"""`reuse.py` compares what it times with a fresh run, byte for byte."""

from pathlib import Path

import pytest
import reuse
import reuse_cases
from jobs import Job, Result
from measure import Run
from reuse_cases import Case, FailedError, Measured, run_case


def test_other_bytes_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(job: Job, work: Path) -> Result:
        (work / "logs").mkdir(exist_ok=True)
        (work / "logs" / f"{job.name}.log").write_text("images   9\nreused   8 images from\n")
        return Result([Run(1.0, 1, 1, 0)], "")

    monkeypatch.setattr(reuse_cases, "run_job", run)
    files = {"manifest.json": "a", "labels.txt": "b"}
    removed: list[int] = []
    case = Case("new", "new", [], 8, lambda: files, lambda: removed.append(1))
    counts = iter([5, 12])
    measured, hashes = run_case(case, {}, tmp_path, lambda: next(counts))
    assert (measured.requests, hashes, removed) == (7, files, [1])
    with pytest.raises(FailedError, match=r"new: labels.txt is not that of a fresh run"):
        run_case(case, {**files, "labels.txt": "c"}, tmp_path, lambda: 0)
    with pytest.raises(FailedError, match="new: 8 images are from records instead of 9"):
        run_case(case._replace(reused=9), files, tmp_path, lambda: 0)


def test_targets_are_ratios_within_rounds() -> None:
    def runs(*values: tuple[float, int]) -> list[Measured]:
        return [Measured(Run(seconds, 1, 1, 0, 1.0), count) for seconds, count in values]

    results = {
        "bucket-fresh": runs((10, 1000), (20, 1000), (40, 1000)),
        "bucket-new": runs((1, 101), (5, 102), (8, 100)),
    }
    times, requests = reuse.find_targets(results)
    assert (times.value, times.holds) == (pytest.approx(0.2), True)
    assert (requests.value, requests.holds) == (pytest.approx(0.101), False)
