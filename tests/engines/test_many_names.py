"""Many names of a bucket on every engine, listed in ranges where there are workers.

They pass each timer and each buffer of bytes on their way. `test_flink.py` has Flink.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.engines import environments
from tests.engines.conftest import CheckMany, ConvertMany, Portable, made
from tests.engines.engines import ENGINES, PORTABLE, PRISM

pytestmark = pytest.mark.cluster

# Threads use the same data channels as processes, and DirectRunner is the in-process runner.
MORE = ["FnApiRunner, 2 threads", "DirectRunner"]


@pytest.mark.parametrize("engine", ["FnApiRunner, 2 processes", *(MORE if CAMPAIGN else [])])
def test_beams_own_runners(
    engine: str, convert_many: ConvertMany, check_many: CheckMany, tmp_path: Path
) -> None:
    check_many(convert_many(tmp_path / "out", *ENGINES[engine].flags))


def test_prism(convert_many: ConvertMany, check_many: CheckMany, tmp_path: Path) -> None:
    location = f"--prism_location={made(environments.prism)}"
    check_many(convert_many(tmp_path / "out", *ENGINES[PRISM].flags, location))


def test_a_job_service_with_a_worker_pool(
    portable: Portable, convert_many: ConvertMany, check_many: CheckMany, tmp_path: Path
) -> None:
    where = [
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
    ]
    check_many(convert_many(tmp_path / "out", *ENGINES[PORTABLE].flags, *where))
