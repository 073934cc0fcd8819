"""The dataset, what the in-process runner makes of it, and the servers of the other engines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from tests.engines import dataset, environments, table
from tests.engines.conversions import Conversion, convert
from tests.engines.engines import ENGINES, REFERENCE
from tests.engines.servers import (
    FlinkCluster,
    flink_job_service,
    job_service,
    left_processes,
    wait_until,
    worker_pool,
)
from tests.needs import skip_unless
from tests.pipeline.commands import Dataset

Made = TypeVar("Made")

# A buffer is flushed after 10 MB, and by a timer after a second: these are 17 MB, for seconds.
NAMES = 100_000


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
    return dataset.make_inputs(tmp_path_factory.mktemp("engines"))


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


CheckEngine = Callable[[str, Conversion], None]


@pytest.fixture
def check(reference: Conversion, rows: dict[str, table.Row]) -> CheckEngine:
    """Compares what an engine left with the reference, and notes it for the table."""

    def compare(engine: str, done: Conversion) -> None:
        is_equal = done.code == 0 and done.files == reference.files
        rows[engine] = table.Row(engine, ENGINES[engine].version, done.seconds, is_equal)
        assert done.code == 0, done.err
        assert done.files == reference.files

    return compare


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few images and many rows; each row that no image has is a rejection."""
    folder = dataset.make_inputs(tmp_path_factory.mktemp("many"), images=30)
    with (folder / "boxes.csv").open("a") as rows:
        rows.writelines(f"absent/{at:0100},cat,1,9,2,8,1\n" for at in range(NAMES))
    return folder


@pytest.fixture(scope="session")
def expected_of_many(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    """What the in-process runner makes of them."""
    output = tmp_path_factory.mktemp("many-out") / "reference"
    done = convert(many, output, *ENGINES[REFERENCE].flags)
    assert done.code == 0, done.err
    # The row without an image of the small dataset is one more.
    assert Dataset(output).ledger["rows_unmatched"] == NAMES + 1
    return done


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
    """A cluster, a job service, the job server's jar and what starts a worker."""

    cluster: FlinkCluster
    job_port: int
    jar: Path
    boot: Path

    def flags(self, *, parallelism: int, starts_service: bool = False) -> list[str]:
        """The engine's flags of `convert`.

        Args:
            starts_service: whether the launcher starts a job server of its own from the jar, as
                docs/engines.md does, or asks the one that serves all tests.
        """
        service = (
            # A minute, the default, can pass on a busy machine before the job server answers.
            [f"--flink_job_server_jar={self.jar}", "--job_server_timeout=600"]
            if starts_service
            else [f"--job_endpoint=localhost:{self.job_port}"]
        )
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.cluster.master}",
            *service,
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps({'command': str(self.boot)})}",
            # Workers outlive a stage, and need not import Beam for each.
            "--environment_cache_millis=600000",
            f"--parallelism={parallelism}",
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
    with (
        FlinkCluster(home, folder) as cluster,
        flink_job_service(jar, cluster.master, folder) as port,
    ):
        yield Flink(cluster, port, jar, boot)


@pytest.fixture(scope="session", autouse=True)
def nothing_left() -> Iterator[None]:
    """After the last test, and after the servers: no process is left behind."""
    yield
    wait_until(lambda: not left_processes(), None, f"the end of processes {left_processes()}")
