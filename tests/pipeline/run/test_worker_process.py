"""A worker process leaves errors and warnings to its launcher, which says them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.pipeline.commands import make_dataset, run_process


@pytest.mark.slow
def test_a_known_error_is_one_line(tmp_path: Path) -> None:
    for number in range(4):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    (tmp_path / "in" / "bad.jpg").write_bytes(b"no image")
    flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none", "num_shards": 2}
    flags |= {"output": tmp_path / "out", "workers": 2, "max_rejected": 0, "progress": "off"}
    ran = run_process("pipeline.convert", **flags)
    assert ran.code == 3
    [line] = ran.err.splitlines()
    assert line.startswith("convert: 1 of 5 images rejected, more than --max_rejected (0)")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_warning_is_a_line_without_its_module(workers: int, tmp_path: Path) -> None:
    for number in range(4):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none"}
    base = make_dataset(tmp_path / "base", **flags).folder
    index = base / "index" / "train-00000-of-00001.parquet"
    index.write_bytes(index.read_bytes()[:-1])
    flags |= {"output": tmp_path / "out", "workers": workers, "progress": "off", "reuse": base}
    ran = run_process("pipeline.convert", **flags)
    assert ran.code == 0
    assert ran.err.splitlines() == [
        f"--reuse {base} is not used further: {index} was changed since the dataset was written"
    ]
