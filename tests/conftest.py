"""Inputs that many tests share. They are made once; tests read them and leave them as they are."""

import functools
import gc as collector
import os
import re
import tempfile
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from examples.make_sample import make_sample
from tests.images import picture, saved
from tests.privileges import reachable_folder
from tests.servers.gcs import GcsServer, serve_gcs
from transforms import write_report as report_images
from transforms.images.guard import DecodingChild
from transforms.labels import csv_tables
from transforms.storage.gcs_requests import _connections, client

CLASSES = ("cat", "dog", "fox")
PER_CLASS = 6

# A quick run tries a quarter of the examples of each property, and CI all of them.
settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("full", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# Modules that take longest, in this order: last, one process would run them while others wait.
LONGEST = (
    "engines/test_flink.py",
    "crash/test_killed.py",
    "hostile/test_images.py",
    "benchmarks/test_readme.py",
    "crash/test_decoder.py",
    "crash/test_interrupt.py",
    "hostile/test_paths.py",
    "tests/test_docs.py",
    "dataflow/test_submission.py",
    "hostile/test_csv.py",
)


# Marks of tests that run in suites of their own, and the mark that hypothesis gives to properties.
SUITES = ("airflow", "cluster", "fresh", "slow")
PROPERTIES = "hypothesis"


@functools.cache
def words_of(path: Path) -> frozenset[str]:
    """The words of a module."""
    return frozenset(re.findall(r"[a-z]+", path.read_text("utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m "SUITE or SUITE"`, modules that name none are not imported, which takes seconds."""
    suites = set(config.getoption("markexpr").split()) - {"or"}
    if suites and suites <= {*SUITES, PROPERTIES} and collection_path.suffix == ".py":
        return suites.isdisjoint(words_of(collection_path)) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Modules of tests have no doctests: pytest would search each a second time, for seconds."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest modules come first, then others with a slow test.

    Raises:
        UsageError: a module does not name the suite of one of its tests.
    """
    for suite in SUITES:
        for path in {item.path for item in items if item.get_closest_marker(suite)}:
            if suite not in words_of(path):
                raise pytest.UsageError(f"{path} has tests marked {suite}: name it there")
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> tuple[int, bool]:
        path = item.path.as_posix()
        ranks = [rank for rank, name in enumerate(LONGEST) if path.endswith(name)]
        return (*ranks, len(LONGEST))[0], item.path not in slow

    items.sort(key=place)


def pytest_collection() -> None:
    """What is imported stays until the end: the garbage collector need not visit it each time."""
    collector.disable()


def pytest_collection_finish() -> None:
    """The collector visits what tests make."""
    collector.freeze()
    collector.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_disks() -> Iterator[None]:
    """What tests of this process write need not outlive the machine.

    A conversion waits for a disk 30 times, which takes longer than the rest of a small one.
    """
    with pytest.MonkeyPatch.context() as patch:
        # It fails for what is no open file, too.
        patch.setattr(os, "fsync", os.fstat)
        yield


class KeptChild(DecodingChild):
    """Stays for the next report, until the tests end."""

    def close(self) -> None:
        """Does nothing."""


@pytest.fixture(autouse=True)
def _nothing_grew() -> None:
    """What a test read counts for no other test."""
    csv_tables.GROWN.clear()


@pytest.fixture(scope="session", autouse=True)
def _one_process_for_rejected_images() -> Iterator[None]:
    """A report decodes them in a process of its own.

    Its start takes twice as long as a small conversion. `test_write_report.py` has the real one.
    """
    child = KeptChild()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_images, "DecodingChild", lambda: child)
        yield
    DecodingChild.close(child)


def draw(path: Path, *, seed: int = 0) -> None:
    """Draws a JPEG of a few hundred bytes; another seed is another picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(saved(picture("RGB", 12, 16, seed=seed), "JPEG"))


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample of `examples/make_sample.py`: `images/<class>/<name>` and `labels.csv`."""
    folder = tmp_path_factory.mktemp("sample")
    make_sample(folder)
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`<class>/<class>-<n>.jpg` for the three classes, all of them fine."""
    folder = tmp_path_factory.mktemp("photos")
    for at, name in enumerate(CLASSES):
        for number in range(PER_CLASS):
            draw(folder / name / f"{name}-{number}.jpg", seed=at * PER_CLASS + number)
    return folder


@pytest.fixture(scope="session")
def stems(photos: Path) -> dict[str, str]:
    """The class of each photo by its stem."""
    return {path.stem: path.parent.name for path in sorted(photos.glob("*/*.jpg"))}


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user of the machine can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(dir=reachable_folder()) as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """Google Cloud Storage on this machine. Tests take `gcs`, which tidies up after them."""
    with serve_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server
        forget_client()


def forget_client() -> None:
    """Closes the process's client of Google Cloud Storage and its connections, if there are any."""
    if client.cache_info().currsize:
        client().close()
        client.cache_clear()
    _connections.cache_clear()


@pytest.fixture
def gcs(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsServer]:
    """The server without faults and with zero counts, which the environment points to.

    The buckets that a test makes are removed.
    """
    gcs_server.reset()
    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    if client.cache_info().currsize and client().api_endpoint != gcs_server.url:
        # Another test of this process had a server of its own.
        forget_client()
    kept = set(gcs_server.buckets())
    yield gcs_server
    gcs_server.reset()
    for bucket in set(gcs_server.buckets()) - kept:
        gcs_server.remove_bucket(bucket)


@pytest.fixture
def dropped_sockets() -> Iterator[None]:
    """Collects the sockets that urllib3 leaves open when a server drops connections."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield
        collector.collect()


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A working directory with packages of the names of ours."""
    folder = tmp_path / "project"
    for name in ("pipeline", "transforms"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    return folder
