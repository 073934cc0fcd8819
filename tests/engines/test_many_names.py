"""Enough names on every engine to pass each timer and each buffer of bytes on their way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import dataset, environments
from tests.engines.conftest import Flink, Portable, made
from tests.engines.conversions import Conversion, convert
from tests.engines.engines import ENGINES, PORTABLE, PRISM, REFERENCE
from tests.pipeline.commands import Dataset

pytestmark = pytest.mark.cluster

# A buffer is flushed after 10 MB, and by a timer after a second: these are 17 MB, for seconds.
NAMES = 100_000
_KEY = "absent/{:0100}"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few images and many rows; each row that no image has is a rejection."""
    folder = dataset.make_inputs(tmp_path_factory.mktemp("many"), images=30)
    with (folder / "boxes.csv").open("a") as rows:
        rows.writelines(f"{_KEY.format(at)},cat,1,9,2,8,1\n" for at in range(NAMES))
    return folder


@pytest.fixture(scope="module")
def expected(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversion]:
    """What the in-process runner makes of them."""
    output = tmp_path_factory.mktemp("many-out") / "reference"
    done = convert(many, output, *ENGINES[REFERENCE].flags)
    assert done.code == 0, done.err
    # The row without an image of the small dataset is one more.
    assert Dataset(output).ledger["rows_unmatched"] == NAMES + 1
    yield done


@pytest.mark.parametrize(
    "engine", ["FnApiRunner, 2 threads", "FnApiRunner, 2 processes", "DirectRunner"]
)
def test_beams_own_runners(engine: str, many: Path, expected: Conversion, tmp_path: Path) -> None:
    check(convert(many, tmp_path / "out", *ENGINES[engine].flags), expected)


def test_prism(many: Path, expected: Conversion, tmp_path: Path) -> None:
    location = f"--prism_location={made(environments.prism)}"
    check(convert(many, tmp_path / "out", *ENGINES[PRISM].flags, location), expected)


def test_a_job_service_with_a_worker_pool(
    portable: Portable, many: Path, expected: Conversion, tmp_path: Path
) -> None:
    where = [
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
    ]
    check(convert(many, tmp_path / "out", *ENGINES[PORTABLE].flags, *where), expected)


def test_a_flink_cluster(flink: Flink, many: Path, expected: Conversion, tmp_path: Path) -> None:
    check(convert(many, tmp_path / "out", *flink.flags(parallelism=2)), expected)


def check(done: Conversion, expected: Conversion) -> None:
    """Checks that a run left the same files."""
    assert done.code == 0, done.err
    assert done.files == expected.files
