"""The dataset, what the in-process runner makes of it, and the servers of the other engines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from tests.engines import environments, table
from tests.engines.conversions import Conversion, convert
from tests.engines.dataset import make_inputs
from tests.engines.engines import ENGINES, REFERENCE
from tests.engines.servers import FlinkCluster, job_service, left_processes, wait_until, worker_pool
from tests.needs import skip_unless

Made = TypeVar("Made")


def made(make: Callable[[], Made]) -> Made:
    """What an environment needs; a test that cannot have it is skipped, but not in CI."""
    try:
        return make()
    except environments.NotThereError as error:
        skip_unless(False, str(error))
        raise


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images and rows that every engine gets."""
    return make_inputs(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="session")
def reference(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    """What the in-process runner makes of them."""
    output = tmp_path_factory.mktemp("engines-out") / "reference"
    done = convert(inputs, output, *ENGINES[REFERENCE].flags)
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="session")
def rows(reference: Conversion) -> Iterator[dict[str, table.Row]]:
    """Rows of the conformance table; the session's end writes them when asked to."""
    version = ENGINES[REFERENCE].version
    found = {REFERENCE: table.Row(REFERENCE, version, reference.seconds, True)}
    yield found
    if os.environ.get("ENGINES_TABLE"):
        table.write(found, list(ENGINES))


class Portable(NamedTuple):
    """A job service and a worker pool."""

    job_port: int
    pool_port: int


@pytest.fixture(scope="session")
def pool_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A worker pool."""
    with worker_pool(tmp_path_factory.mktemp("pool")) as port:
        yield port


@pytest.fixture(scope="session")
def portable(pool_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portable]:
    """A job service, and a worker pool next to it."""
    with job_service(tmp_path_factory.mktemp("jobs")) as port:
        yield Portable(port, pool_port)


class Flink(NamedTuple):
    """A cluster, the job server's jar and what starts a worker."""

    cluster: FlinkCluster
    jar: Path
    boot: Path

    def flags(self, *, parallelism: int) -> list[str]:
        """The engine's flags of `convert`."""
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.cluster.master}",
            f"--flink_job_server_jar={self.jar}",
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps({'command': str(self.boot)})}",
            # Workers outlive a stage, and need not import Beam for each.
            "--environment_cache_millis=60000",
            f"--parallelism={parallelism}",
            # A minute, the default, can pass on a busy machine before the job server answers.
            "--job_server_timeout=600",
        ]


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """A session cluster with two TaskManagers."""
    home, jar = made(environments.flink), made(environments.flink_job_server)
    folder = tmp_path_factory.mktemp("flink")
    boot = folder / "boot.sh"
    # The variables are those of the TaskManager that starts it.
    boot.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.engines.boot "$@"\n')
    boot.chmod(0o755)
    with FlinkCluster(home, folder) as cluster:
        yield Flink(cluster, jar, boot)


@pytest.fixture(scope="session", autouse=True)
def nothing_left() -> Iterator[None]:
    """After the last test, and after the servers: no process is left behind."""
    yield
    wait_until(lambda: not left_processes(), None, f"the end of processes {left_processes()}")
