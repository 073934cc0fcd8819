"""The DAGs of `examples/airflow`, run by `airflow dags test`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_metadata import PARAMETERS, accepts
from tests.images import picture, saved
from tests.pipeline.commands import convert, make_dataset, nameless
from tests.scheduling.airflow_runs import Airflow, Ran, kill_converter, start_airflow
from tests.servers.dataflow import DataflowServer, serve_dataflow
from tests.servers.gcs import GcsServer
from tests.servers.google_api import serve_google_api

pytestmark = pytest.mark.airflow

DAG, FLEX = "image_tfrecords", "image_tfrecords_flex"
BUCKET = "scheduled"
PLACE = f"gs://{BUCKET}"
DAY, LATER = "2024-01-02", "2024-01-09"
FLAGS: dict[str, Any] = {"splits": "train=0.5,test=0.5", "num_shards": 2, "max_rejected": "50%"}
SETTINGS = {
    "IMAGE_TFRECORDS_PROJECT": "my-project",
    "IMAGE_TFRECORDS_REGION": "europe-west4",
    "IMAGE_TFRECORDS_BUCKET": BUCKET,
    "IMAGE_TFRECORDS_IMAGE": "europe-docker.pkg.dev/my-project/r/convert:1",
}


@pytest.fixture(scope="module")
def folder(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, one empty image, and labels."""
    folder = tmp_path_factory.mktemp("scheduling")
    shutil.copytree(photos, folder / "photos")
    (folder / "photos" / "cat" / "empty.jpg").touch()
    return folder


@pytest.fixture(scope="module")
def labels(folder: Path) -> dict[str, str]:
    """The class of each image."""
    return {path.stem: path.parent.name for path in sorted(folder.glob("photos/*/*"))}


@pytest.fixture(scope="module")
def reference(folder: Path, labels: dict[str, str]) -> dict[str, bytes]:
    """The shards that `convert` makes without Airflow."""
    (folder / "labels.csv").write_text(csv(labels))
    flags = {"images": f"{folder}/photos/*/*.jpg", "labels": folder / "labels.csv", **FLAGS}
    dataset = make_dataset(folder / "reference", **flags)
    names = dataset.shards()
    assert len(names) == 4
    return {name: (dataset.folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def dataflow(
    gcs_server: GcsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DataflowServer]:
    """Takes jobs, and launches of a template."""
    with serve_dataflow(tmp_path_factory.mktemp("jobs"), gcs_server.environment) as dataflow:
        yield dataflow


@pytest.fixture(scope="module")
def airflow(
    dataflow: DataflowServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Airflow]:
    """One process runs all DAGs. It knows Dataflow by one name only."""
    folder = tmp_path_factory.mktemp("airflow")
    with (
        serve_google_api(folder, dataflow.port) as google,
        start_airflow(folder, {**SETTINGS, **google}) as airflow,
    ):
        yield airflow


@pytest.fixture
def bucket(gcs: GcsServer, folder: Path, labels: dict[str, str]) -> GcsServer:
    """A bucket of the same inputs."""
    gcs.make_bucket(BUCKET)
    gcs.put(BUCKET, "labels.csv", csv(labels).encode())
    for path in folder.glob("photos/*/*"):
        gcs.put(BUCKET, path.relative_to(folder).as_posix(), path.read_bytes())
    return gcs


def csv(labels: dict[str, str]) -> str:
    """The text of a CSV of labels."""
    return "\n".join(["id,label", *(f"{stem},{label}" for stem, label in labels.items())])


def inputs(place: str | Path, base: str, **flags: Any) -> dict[str, Any]:
    """Parameters of a run over the inputs in a folder or bucket."""
    return {
        "images": f"{place}/photos/*/*.jpg",
        "labels": f"{place}/labels.csv",
        "base": f"{place}/{base}",
        "flags": {**FLAGS, **flags},
    }


def objects_below(gcs: GcsServer, prefix: str) -> dict[str, bytes]:
    """Content of the objects below a prefix, by the rest of their names."""
    names = [name for name in gcs.names(BUCKET) if name.startswith(prefix)]
    return {name.removeprefix(prefix): gcs.get(BUCKET, name) for name in names}


def check_published(
    ran: Ran, gcs: GcsServer, base: str, reference: dict[str, bytes], latest: str = DAY
) -> None:
    """Checks that a run made the version of the day, and what the marker names."""
    assert ran.code == 0, ran.log
    assert "every image decodes" in ran.log
    made = objects_below(gcs, f"{base}/")
    assert {name.split("/")[0] for name in made} == {"LATEST", DAY}
    assert not [name for name in made if ".staging" in name]
    shards = {name: data for name, data in made.items() if ".tfrecord" in name}
    assert shards == {f"{DAY}/{name}": data for name, data in reference.items()}
    assert made["LATEST"].decode() == f"{latest}\n"
    assert f"{PLACE}/{base}/LATEST names {latest}" in ran.log


def test_a_retry_goes_on_after_a_kill_and_the_next_day_opens_only_new_images(
    airflow: Airflow, bucket: GcsServer, labels: dict[str, str], reference: dict[str, bytes]
) -> None:
    """The converter is killed once its first shard is staged, in a bucket that answers slowly.

    The next day one image is new, one has another label, and one is gone. The new image has a class
    that is before the others in the alphabet.
    """
    params = inputs(PLACE, "days")
    bucket.set_latency(get_ms=10, other_ms=200)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(airflow.run, DAG, DAY, bucket.environment, **params)
        while not any(
            "/.staging/" in name and "-of-" in name and name.endswith(".json")
            for name in bucket.names(BUCKET)
        ):
            assert not future.done(), future.result().log
            time.sleep(0.1)
        kill_converter(f"{PLACE}/days/{DAY}")
        bucket.set_latency()
        ran = future.result()
    check_published(ran, bucket, "days", reference)
    assert "return code -9" in ran.log
    assert ran.tries("convert") >= 2
    assert "images   19 matched = 18 written + 1 rejected" in ran.log
    # Images of finished shards, of which there is one at least, are not read again.
    reads = {name: n for name, n in bucket.media_gets().items() if name.startswith("photos/")}
    assert len(reads) == 19
    assert 1 in reads.values()

    bucket.delete(BUCKET, "photos/cat/cat-0.jpg")
    bucket.delete(BUCKET, "photos/cat/empty.jpg")
    bucket.put(BUCKET, "photos/ant/new.jpg", saved(picture("RGB", 12, 16, seed=100), "JPEG"))
    kept = {stem: label for stem, label in labels.items() if stem not in ("cat-0", "empty")}
    bucket.put(BUCKET, "labels.csv", csv({**kept, "dog-1": "fox", "new": "ant"}).encode())
    bucket.reset()
    ran = airflow.run(DAG, LATER, bucket.environment, **params)
    assert ran.code == 0, ran.log
    assert [name for name in bucket.media_gets() if name.startswith("photos/")] == [
        "photos/ant/new.jpg"
    ]
    assert "reused   17 images from their records (--reuse)" in ran.log
    assert "new classes    1 class" in ran.log
    made = {day: objects_below(bucket, f"days/{day}/") for day in (DAY, LATER)}
    assert [made[day]["labels.txt"] for day in made] == [
        b"cat\ndog\nfox\n",
        b"cat\ndog\nfox\nant\n",
    ]
    del params["base"], params["flags"]
    former = {"class_names": f"{PLACE}/days/{DAY}", "new_classes": "append"}
    fresh = convert(output=f"{PLACE}/fresh/{LATER}", **params, **FLAGS, **former)
    assert fresh.code == 0, fresh.err
    expected = objects_below(bucket, f"fresh/{LATER}/")
    assert len(expected) > 10
    for name in made[LATER].keys() | expected.keys():
        assert nameless(name, made[LATER][name]) == nameless(name, expected[name])


def test_a_wrong_glob_is_reported_at_once(airflow: Airflow, folder: Path) -> None:
    params = {**inputs(folder, "wrong"), "images": f"{folder}/photos/*.png"}
    ran = airflow.run(DAG, DAY, {}, **params)
    assert ran.code == 1
    assert f"plan: no file matches --images '{folder}/photos/*.png'" in ran.log
    assert "exit code 2: see the last line of the command" in ran.log
    assert (ran.tries("plan"), ran.tries("convert")) == (1, 0)
    assert not (folder / "wrong").exists()


def test_a_wrong_parameter_is_reported_before_any_task(airflow: Airflow, folder: Path) -> None:
    ran = airflow.run(DAG, DAY, {}, **{**inputs(folder, "none"), "base": "versions"})
    assert ran.code == 1
    assert "Invalid input for param base: 'versions' does not match" in ran.log
    assert ran.tries("plan") == 0


def test_dataflow_takes_labels_of_the_job_beside_our_labels(
    airflow: Airflow,
    bucket: GcsServer,
    dataflow: DataflowServer,
    reference: dict[str, bytes],
) -> None:
    """Airflow adds `--labels`, a label of the job, to every command."""
    params = inputs(PLACE, "job", dataflow_endpoint=dataflow.url)
    ran = airflow.run(DAG, DAY, bucket.environment, **params, runner="DataflowRunner")
    check_published(ran, bucket, "job", reference)
    (job,) = (job for job in dataflow.jobs if "airflow-version" in job.description["labels"])
    assert job.description["name"].startswith("convert-20240102-")


def test_a_backfill_is_launched_with_parameters_that_a_template_takes(
    airflow: Airflow,
    bucket: GcsServer,
    dataflow: DataflowServer,
    reference: dict[str, bytes],
) -> None:
    """A later version is there already, and stays the latest."""
    bucket.put(BUCKET, "template/LATEST", f"{LATER}\n".encode())
    ran = airflow.run(FLEX, DAY, bucket.environment, **inputs(PLACE, "template"))
    check_published(ran, bucket, "template", reference, latest=LATER)
    (launch,) = dataflow.launches
    parameters = launch["parameters"]
    assert {"images", "labels", "output", "sdk_container_image", *FLAGS} <= set(parameters)
    for name, value in parameters.items():
        assert name in PARAMETERS
        assert accepts(name, value), f"{name}={value}"
    assert {name for name, each in PARAMETERS.items() if not each.is_optional} <= set(parameters)
