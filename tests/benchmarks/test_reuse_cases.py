"""`reuse.py` compares what it times with a fresh run, byte for byte."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
import reuse
import reuse_cases
from jobs import Job, Result
from measure import Run
from photos import photo_name
from reuse_cases import (
    Case,
    FailedError,
    Measured,
    difference,
    edit_photos,
    folder_cases,
    run_case,
    without,
)

import pipeline.convert
from tests.conftest import draw
from tests.pipeline.commands import run_here

COUNT = 9


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder as `build_photos` makes it."""
    rows = [photo_name(index)[::-1] for index in range(COUNT)]
    for number, (stem, label) in enumerate(rows):
        draw(tmp_path / "photos" / "images" / label / f"{stem}.jpg", seed=number)
    with (tmp_path / "photos" / "labels.csv").open("w", newline="") as table:
        csv.writer(table).writerows([("id", "label"), *rows])
    return tmp_path / "photos"


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions without processes of their own."""

    def run(job: Job, work: Path) -> Result:
        log = work / "logs" / f"{job.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        ran = run_here(pipeline.convert.main, "convert", job.command[3:])
        log.write_text(ran.out + ran.err)
        return Result([Run(1.0, 1, 1, 0)], "" if ran.code == 0 else ran.err)

    monkeypatch.setattr(reuse_cases, "run_job", run)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_every_change_gives_the_bytes_of_a_fresh_run(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARK_WARM_UP", "0")
    work = tmp_path / "work"
    cases = folder_cases(edit_photos(photos, work / "edited"), work)
    results = reuse.run_rounds(cases, 1, work, requests=lambda: 0, say=print)
    assert [*results] == ["fresh", "relabelled", "new", "copied", "kept", "rerun"]
    assert all(len(runs) == 1 for runs in results.values())


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


def test_a_part_of_the_photos_is_new_and_every_label_is_another(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def labels(path: Path) -> dict[str, str]:
        with path.open(newline="") as table:
            return {row["id"]: row["label"] for row in csv.DictReader(table)}

    monkeypatch.setattr(reuse_cases, "_EVERY", 4)
    edited = edit_photos(photos, tmp_path / "edited")
    every, older, other = map(labels, (edited.photos.labels, edited.older, edited.other))
    assert every.keys() - older.keys() == {path.stem for path in edited.new}
    assert (edited.photos.total, len(older)) == (COUNT, COUNT - 3)
    assert other.keys() == every.keys()
    assert not other.items() & every.items()


def test_moved_files_keep_their_times(photos: Path, tmp_path: Path) -> None:
    path = min((photos / "images").glob("*/*.jpg"))
    os.utime(path, ns=(1, 7))
    with without([path], tmp_path / "aside"):
        assert not path.exists()
    assert path.stat().st_mtime_ns == 7


def test_difference_names_the_file() -> None:
    same = {"manifest.json": "a", "s": "b"}
    assert difference(same, same) == ""
    assert difference({**same, "t": "c"}, same) == "t is not that of a fresh run"
    assert difference({"manifest.json": "a"}, same) == "s is missing"
    assert difference({}, {}) == "manifest.json is missing"


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
