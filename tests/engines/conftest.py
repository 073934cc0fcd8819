"""The dataset, what the in-process runner makes of it, and the servers of the other engines."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from tests.campaign import size
from tests.engines import dataset, environments, servers, table
from tests.engines.conversions import Conversion, convert, convert_flags
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
from tests.pipeline.commands import Dataset, arguments, digests, make_dataset
from tests.pipeline.commands import convert as convert_here
from tests.servers.gcs_listing import BUCKET, ListingServer, serve_names

Made = TypeVar("Made")

# A buffer is flushed after 10 MB, and by a timer after a second: these are 15 MB, for seconds.
NAMES = size(100_000, 200_000)

# Images of each class are enough for a part of each split.
IMAGES_IN_ARCHIVES = 80

# One image in so many has a row; the others are left out without being opened.
LABELLED = 10_000


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
def reference_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of the in-process runner."""
    return tmp_path_factory.mktemp("engines-out") / "reference"


@pytest.fixture(scope="session")
def reference(inputs: Path, reference_folder: Path) -> Conversion:
    """What the in-process runner makes of them."""
    done = convert(inputs, reference_folder, *ENGINES[REFERENCE].flags)
    assert done.code == 0, done.err
    return done


Rows = dict[str, table.Row]


@pytest.fixture(scope="session")
def rows(reference: Conversion) -> Iterator[Rows]:
    """Rows of the conformance table; the session's end writes them if asked to."""
    version = ENGINES[REFERENCE].version
    found = {REFERENCE: table.Row(REFERENCE, version, reference.seconds, True)}
    yield found
    if os.environ.get("ENGINES_TABLE"):
        table.write(found, list(ENGINES))


CheckEngine = Callable[[str, Conversion], None]
CheckMany = Callable[[Conversion], None]


class Reuse(NamedTuple):
    """Few images in archives, most of which are only in the records of a dataset.

    Attributes:
        inputs: `dataset.pack` made them. The images in `base`, and most of their masks, have other
            bytes than those that were converted, with the same sizes and times: opened, they are
            rejected.
        base: a dataset of most of the images, with other labels, keys, splits, shards, layout.
        expected: the files of a conversion before, without `base`.
    """

    inputs: Path
    base: Path
    expected: dict[str, str]


@pytest.fixture(scope="session")
def reuse(tmp_path_factory: pytest.TempPathFactory) -> Reuse:
    """What every engine converts with `--reuse`."""
    folder = tmp_path_factory.mktemp("engines-reuse")
    inputs = dataset.pack(dataset.make_inputs(folder / "in", images=IMAGES_IN_ARCHIVES))
    base = make_dataset(
        folder / "base",
        images=dataset.packed(inputs, "photo-*.jpg"),
        masks=inputs / "masks" / "photo-*_mask.png",
        label_from="none",
        splits="a=0.5,b=0.5",
        num_shards=2,
        # With other limits, its images were checked otherwise, and none is reused.
        max_pixels=dataset.MAX_PIXELS,
    )
    # A record of another dataset is not theirs.
    for mask in inputs.glob("masks/photo-*[147]_mask.png"):
        os.utime(mask, ns=(1, 1))
    fresh = Dataset(folder / "fresh")
    ran = convert_here(*dataset.flags(inputs, fresh.folder))
    assert ran.code == 0, ran.err
    assert {line["reason"] for line in fresh.rejected} == dataset.REASONS_IN_ARCHIVES
    in_base = base.ledger["records_written"]
    assert dataset.damage(inputs) == in_base > IMAGES_IN_ARCHIVES / 2
    assert fresh.ledger["records_written"] > in_base
    return Reuse(inputs, base.folder, digests(fresh.folder))


CheckReuse = Callable[[str, Callable[..., Conversion]], None]


@pytest.fixture
def check_reuse(reuse: Reuse, rows: Rows, tmp_path: Path) -> CheckReuse:
    """Converts with `--reuse` on an engine, after `check`, and compares with a fresh conversion.

    The function takes the inputs, the output and further words, and runs the engine.
    """

    def check(engine: str, run: Callable[..., Conversion]) -> None:
        done = run(reuse.inputs, tmp_path / "reused", f"--reuse={reuse.base}")
        is_equal = done.code == 0 and done.files == reuse.expected
        rows[engine] = rows[engine]._replace(reuses_equally=is_equal)
        assert done.code == 0, done.err
        assert done.files == reuse.expected

    return check


@pytest.fixture
def check(reference: Conversion, rows: Rows) -> CheckEngine:
    """Compares what an engine left with the reference, and notes it for the table."""

    def compare(engine: str, done: Conversion) -> None:
        is_equal = done.code == 0 and done.files == reference.files
        rows[engine] = table.Row(engine, ENGINES[engine].version, done.seconds, is_equal)
        _compare(reference, done)

    return compare


@pytest.fixture
def check_many(expected_of_many: Conversion) -> CheckMany:
    """Compares what an engine left of many names with the reference."""
    return functools.partial(_compare, expected_of_many)


def _compare(expected: Conversion, done: Conversion) -> None:
    assert done.code == 0, done.err
    assert done.files == expected.files


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListingServer]:
    """A bucket of many images, which all processes that are started from now on can read."""
    with serve_names(NAMES, tmp_path_factory.mktemp("bucket")) as server:
        servers.VARIABLES.update(server.environment)
        yield server
        servers.VARIABLES.clear()


ConvertMany = Callable[..., Conversion]


@pytest.fixture(scope="session")
def convert_many(bucket: ListingServer) -> ConvertMany:
    """Converts the bucket with the flags of an engine; nearly all images are left out."""
    labels = bucket.folder / "labels.csv"
    rows = (f"{number:09},{number % 3}\n" for number in range(0, NAMES, LABELLED))
    labels.write_text(f"id,label\nabsent,1\n{''.join(rows)}")

    def run(output: Path, *words: str) -> Conversion:
        flags = arguments(
            images=f"gs://{BUCKET}/photos/*/*.jpg",
            labels=labels,
            num_shards=4,
            max_rejected="100%",
            output=output,
        )
        return convert_flags(flags, output, *words)

    return run


@pytest.fixture(scope="session")
def expected_of_many(
    convert_many: ConvertMany, tmp_path_factory: pytest.TempPathFactory
) -> Conversion:
    """What the in-process runner makes of them."""
    output = tmp_path_factory.mktemp("many-out") / "reference"
    done = convert_many(output, *ENGINES[REFERENCE].flags)
    assert done.code == 0, done.err
    ledger = Dataset(output).ledger
    assert ledger["images_matched"] == NAMES
    assert ledger["records_written"] == NAMES // LABELLED
    assert ledger["rows_unmatched"] == 1
    return done


class Portable(NamedTuple):
    """A job service and a worker pool."""

    job_port: int
    pool_port: int


@pytest.fixture(scope="session")
def pool_port(bucket: ListingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A worker pool, whose workers can read the bucket."""
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
def flink(bucket: ListingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """A session cluster with two TaskManagers, whose workers can read the bucket."""
    home, jar = made(environments.flink), made(environments.flink_job_server)
    folder = tmp_path_factory.mktemp("flink")
    boot = folder / "boot.sh"
    # The variables are those of the TaskManager that starts it. Its requests to the bucket name it.
    boot.write_text(
        "#!/bin/sh\nexport STORAGE_EMULATOR_HOST=$STORAGE_EMULATOR_HOST/$PPID\n"
        f'exec {sys.executable} -m tests.engines.boot "$@"\n'
    )
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
