"""Label files and the output folder are never images, whatever the globs match."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conftest import draw
from tests.pipeline.commands import plan
from tests.pipeline.decided_table import block


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


def test_nothing_is_left_out_that_no_glob_matches(photos_and_csv: Path) -> None:
    ran = plan(images="in/*.jpg", labels="in/labels.csv", output="in/out")
    assert not any(line.startswith("left out") for line in block(ran))
