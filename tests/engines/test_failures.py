"""A failure on an engine's workers is reported as on this machine: one line and an exit code."""

from pathlib import Path

import pytest

from tests.engines import dataset
from tests.engines.conftest import Portable
from tests.engines.conversions import convert
from tests.engines.engines import ENGINES, PORTABLE

pytestmark = pytest.mark.cluster

# More than the launcher reads of a label file before the job.
MANY = 50_000


def flags(portable: Portable) -> list[str]:
    return [
        *ENGINES[PORTABLE].flags,
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
    ]


def error(err: str) -> str:
    """The line that tells what went wrong."""
    assert "Traceback" not in err
    return [line for line in err.splitlines() if line.startswith("convert: ")][-1]


def test_labels_that_no_launcher_saw(portable: Portable, tmp_path: Path) -> None:
    inputs = dataset.make_inputs(tmp_path / "in", images=20)
    with (inputs / "boxes.csv").open("ab") as file:
        file.write(b"absent,cat,1,2,1,2,1\n" * MANY + b"\xff,cat,1,2,1,2,1\n")
    done = convert(inputs, tmp_path / "out", *flags(portable))
    assert done.code == 2, done.err
    assert f"{inputs}/boxes.csv is not utf-8 at line " in error(done.err)
    assert "manifest.json" not in done.files


def test_too_many_rejected(portable: Portable, inputs: Path, tmp_path: Path) -> None:
    done = convert(inputs, tmp_path / "out", *flags(portable), "--max_rejected=1")
    assert done.code == 3, done.err
    assert "images rejected, more than --max_rejected (1)" in error(done.err)
    assert "manifest.json" not in done.files
