"""The DAGs of `examples/airflow`, run by `airflow dags test`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_metadata import PARAMETERS, accepts
from tests.pipeline.commands import make_dataset, nameless
from tests.scheduling import stories
from tests.scheduling.airflow_runs import install_airflow
from tests.scheduling.stories import DAY, FLAGS, LATER, Site
from tests.servers.dataflow import serve_dataflow
from tests.servers.gcs import GcsServer

pytestmark = pytest.mark.airflow

# Each waits more than it works.
RUNS_AT_ONCE = 3

Runs = Callable[[Callable[[Site], Any]], Any]


@pytest.fixture(scope="module")
def folder(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, one empty image, and labels."""
    folder = tmp_path_factory.mktemp("scheduling")
    shutil.copytree(photos, folder / "photos")
    (folder / "photos" / "cat" / "empty.jpg").touch()
    rows = [f"{path.stem},{path.parent.name}" for path in sorted(folder.glob("photos/*/*"))]
    (folder / "labels.csv").write_text("\n".join(["id,label", *rows]))
    return folder


@pytest.fixture(scope="module")
def site(folder: Path, gcs_server: GcsServer) -> Iterator[Site]:
    """The place in which the DAGs run."""
    airflow = install_airflow(folder)
    stories.fill_bucket(gcs_server, folder)
    with serve_dataflow(folder / "jobs", gcs_server.environment) as dataflow:
        yield Site(folder, airflow, gcs_server, dataflow)
    gcs_server.remove_bucket(stories.BUCKET)


@pytest.fixture(scope="module")
def runs(site: Site) -> Iterator[Runs]:
    """What a story came to; all begin at once."""
    with ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        begun: dict[Any, Future[Any]] = {
            story: pool.submit(story, site) for story in stories.STORIES
        }
        yield lambda story: begun[story].result()


@pytest.fixture(scope="module")
def reference(folder: Path) -> dict[str, bytes]:
    """The shards that `convert` makes without Airflow."""
    flags = {"images": f"{folder}/photos/*/*.jpg", "labels": folder / "labels.csv", **FLAGS}
    dataset = make_dataset(folder / "reference", **flags)
    names = dataset.shards()
    assert len(names) == 4
    return {name: (dataset.folder / name).read_bytes() for name in names}


def shards_of(objects: dict[str, bytes]) -> dict[str, bytes]:
    """The shards of the version of the day."""
    found = {name.removeprefix(f"{DAY}/"): data for name, data in objects.items()}
    assert not [name for name in found if ".staging" in name]
    return {name: data for name, data in found.items() if ".tfrecord" in name}


def test_a_version_is_made_verified_and_published(runs: Runs, reference: dict[str, bytes]) -> None:
    ran, made, *_ = runs(stories.on_this_disk)
    assert ran.code == 0, ran.log
    assert "images   19 matched = 18 written + 1 rejected" in ran.log
    assert "every image decodes" in ran.log
    objects = {name: data for name, (_, data) in made.items()}
    assert shards_of(objects) == reference
    assert objects["LATEST"].decode() == f"{DAY}\n"
    assert {name.split("/")[0] for name in objects} == {"LATEST", DAY}


def test_a_second_run_for_the_same_date_changes_nothing(runs: Runs) -> None:
    _, made, ran, kept = runs(stories.on_this_disk)
    assert ran.code == 0, ran.log
    assert "up to date: " in ran.log
    assert kept == made


def test_the_next_day_opens_only_new_images_and_keeps_the_class_ids(runs: Runs) -> None:
    first, second, fresh = runs(stories.day_after_day)
    for ran in (first, second.ran, fresh.ran):
        assert ran.code == 0, ran.log
    assert set(second.reads) == {"photos/all/new.jpg"}
    assert "reused   99 images from their records (--reuse)" in second.ran.log
    assert "new classes    1 class" in second.ran.log
    labels = {day: second.objects[f"{day}/labels.txt"].decode() for day in (DAY, LATER)}
    assert labels == {DAY: "dog\nfox\n", LATER: "dog\nfox\nant\n"}

    def version(objects: dict[str, bytes]) -> dict[str, bytes]:
        return {
            name: nameless(name, data)
            for name, data in objects.items()
            if name.startswith(f"{LATER}/")
        }

    assert len(version(fresh.objects)) > 10
    assert version(second.objects) == version(fresh.objects)


def test_a_wrong_glob_is_reported_at_once(runs: Runs, folder: Path) -> None:
    ran = runs(stories.with_a_wrong_glob)
    assert ran.code == 1
    assert f"plan: no file matches --images '{folder}/photos/*.png'" in ran.log
    assert "exit code 2: see the last line of the command" in ran.log
    assert (ran.tries("plan"), ran.tries("convert")) == (1, 0)
    assert not (folder / "wrong").exists()


def test_too_many_rejected_images_are_not_tried_again(runs: Runs, folder: Path) -> None:
    ran = runs(stories.with_too_many_rejected)
    assert ran.code == 1
    assert "convert: 1 of 19 images rejected, more than --max_rejected" in ran.log
    assert ran.tries("convert") == 1
    assert not (folder / "strict" / "LATEST").exists()


def test_a_wrong_parameter_is_reported_before_any_task(runs: Runs) -> None:
    ran = runs(stories.with_a_relative_path)
    assert ran.code == 1
    assert "Invalid input for param base: 'versions' does not match" in ran.log
    assert ran.tries("plan") == 0


def test_a_retry_goes_on_where_the_killed_try_stopped(
    runs: Runs, reference: dict[str, bytes]
) -> None:
    ran, objects, reads = runs(stories.killed_while_it_converts)
    assert ran.code == 0, ran.log
    assert "return code -9" in ran.log
    assert ran.tries("convert") >= 2
    assert shards_of(objects) == reference
    assert objects["LATEST"].decode() == f"{DAY}\n"
    # Images of finished shards, of which there is one at least, are not read again.
    assert len(reads) == 19
    assert [name for name, number in reads.items() if number == 1]


def test_dataflow_takes_labels_of_the_job_beside_our_labels(
    runs: Runs, site: Site, reference: dict[str, bytes]
) -> None:
    """Airflow adds `--labels`, a label of the job, to every command."""
    ran, objects, _ = runs(stories.on_dataflow)
    assert ran.code == 0, ran.log
    assert shards_of(objects) == reference
    assert objects["LATEST"].decode() == f"{DAY}\n"
    (job,) = (job for job in site.dataflow.jobs if "airflow-version" in labels_of(job))
    assert job.description["name"].startswith("convert-20240102-")


def labels_of(job: Any) -> dict[str, str]:
    """Labels of a job."""
    labels: dict[str, str] = job.description.get("labels", {})
    return labels


def test_a_template_is_launched_with_parameters_that_it_takes(
    runs: Runs, site: Site, reference: dict[str, bytes]
) -> None:
    ran, objects, _ = runs(stories.by_a_template)
    assert ran.code == 0, ran.log
    (launch,) = site.dataflow.launches
    parameters = launch["parameters"]
    assert {"images", "labels", "output", "sdk_container_image", *FLAGS} <= set(parameters)
    for name, value in parameters.items():
        assert name in PARAMETERS
        assert accepts(name, value), f"{name}={value}"
    assert {name for name, each in PARAMETERS.items() if not each.is_optional} <= set(parameters)
    assert shards_of(objects) == reference


def test_a_backfill_does_not_turn_the_marker_back(runs: Runs) -> None:
    ran, objects, _ = runs(stories.by_a_template)
    assert f"{DAY}/manifest.json" in objects
    assert objects["LATEST"].decode() == f"{LATER}\n"
    assert f"LATEST names {LATER}" in ran.log
