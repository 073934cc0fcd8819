"""Label files and the output folder are never images, whatever the globs match."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, plan
from tests.pipeline.decided_table import block
from tests.pipeline.reading import labels


@pytest.fixture
def photos_and_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(3):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    (tmp_path / "in" / "labels.csv").write_text("id,label\n0,a\n1,b\n2,a\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


GLOBS = ["in/*", "./in/*", "{cwd}/in/*"]
CSVS = ["in/labels.csv", "{cwd}/in/labels.csv", "in/l*.csv"]
# One glob and one CSV in each way of writing, then the other pairs.
PAIRS = list(zip(GLOBS, CSVS, strict=True))
PAIRS += [pair for pair in itertools.product(GLOBS, CSVS) if pair not in PAIRS]


@pytest.mark.parametrize(("images", "csv"), rest_slow(PAIRS, 3))
def test_a_label_file_is_no_image(photos_and_csv: Path, images: str, csv: str) -> None:
    cwd = str(photos_and_csv)
    flags = {"images": images.replace("{cwd}", cwd), "labels": csv.replace("{cwd}", cwd)}
    ran = plan(**flags, output="out")
    assert "images   3 matched = 3 to convert + 0 rejected" in ran.out
    (line,) = [line for line in block(ran) if line.startswith("left out")]
    assert "in/labels.csv" in line and "--images matches it" in line


def test_the_output_inside_of_the_glob_is_left_out(photos_and_csv: Path) -> None:
    flags = {"images": "in/**", "labels": "in/labels.csv", "output": "in/out"}
    for _ in range(2):
        ran = convert(**flags)
        assert ran.code == 0, ran.err
        assert any(line.startswith("left out       in/out/ ") for line in block(ran))
    assert ran.out.startswith("up to date")
    dataset = Dataset(Path("in/out"))
    assert labels(dataset) == {"0": "a", "1": "b", "2": "a"}
    assert dataset.rejected == []
    assert convert(**flags, overwrite=True, seed=2).code == 0
    assert dataset.ledger["images_matched"] == 3


def test_nothing_is_left_out_that_no_glob_matches(photos_and_csv: Path) -> None:
    ran = plan(images="in/*.jpg", labels="in/labels.csv", output="in/out")
    assert not any(line.startswith("left out") for line in block(ran))


@pytest.mark.slow
def test_a_few_bad_files_of_a_small_dataset_are_published(photos_and_csv: Path) -> None:
    (photos_and_csv / "in" / "1.jpg").write_bytes(b"")
    ran = convert(images="in/*.jpg", labels="in/labels.csv", output="out")
    assert (ran.code, Dataset(Path("out")).ledger["images_rejected"]) == (0, 1)
    for number in (0, 2):
        (photos_and_csv / "in" / f"{number}.jpg").write_bytes(b"")
    ran = convert(images="in/*.jpg", labels="in/labels.csv", output="none")
    assert ran.code == 3
    assert "3 of 3 images rejected, more than --max_rejected (1% or 10)" in ran.error()
