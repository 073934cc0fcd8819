"""Enough names on every engine to pass each timer and each buffer of bytes on their way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines import environments
from tests.engines.conftest import Portable, made
from tests.engines.conversions import Conversion, convert
from tests.engines.engines import ENGINES, PORTABLE, PRISM

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    "engine", ["FnApiRunner, 2 threads", "FnApiRunner, 2 processes", "DirectRunner"]
)
def test_beams_own_runners(
    engine: str, many: Path, expected_of_many: Conversion, tmp_path: Path
) -> None:
    check(convert(many, tmp_path / "out", *ENGINES[engine].flags), expected_of_many)


def test_prism(many: Path, expected_of_many: Conversion, tmp_path: Path) -> None:
    location = f"--prism_location={made(environments.prism)}"
    check(convert(many, tmp_path / "out", *ENGINES[PRISM].flags, location), expected_of_many)


def test_a_job_service_with_a_worker_pool(
    portable: Portable, many: Path, expected_of_many: Conversion, tmp_path: Path
) -> None:
    where = [
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
    ]
    check(convert(many, tmp_path / "out", *ENGINES[PORTABLE].flags, *where), expected_of_many)


def check(done: Conversion, expected: Conversion) -> None:
    """Checks that a run left the same files."""
    assert done.code == 0, done.err
    assert done.files == expected.files
