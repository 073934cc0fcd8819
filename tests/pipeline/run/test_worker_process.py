"""A worker process leaves errors to its launcher, which says them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.pipeline.commands import run_process


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
