"""What the DAGs are run for: each function is one story with `airflow dags test`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.dataflow.submitting import copy_tree
from tests.images import picture, saved
from tests.pipeline.commands import ROOT, arguments, snapshot
from tests.scheduling.airflow_runs import Airflow, Ran, ended, kill_converter
from tests.servers.dataflow import DataflowServer
from tests.servers.gcs import GcsServer, serve_gcs
from tests.servers.google_api import serve_google_api

DAG, FLEX = "image_tfrecords", "image_tfrecords_flex"
BUCKET = "scheduled"
DAY, LATER = "2024-01-02", "2024-01-09"
FLAGS: dict[str, Any] = {"splits": "train=0.5,test=0.5", "num_shards": 2, "max_rejected": "50%"}
SETTINGS = {
    "IMAGE_TFRECORDS_PROJECT": "my-project",
    "IMAGE_TFRECORDS_REGION": "europe-west4",
    "IMAGE_TFRECORDS_BUCKET": BUCKET,
    "IMAGE_TFRECORDS_IMAGE": "europe-docker.pkg.dev/my-project/r/convert:1",
}


class Site(NamedTuple):
    """The place in which the DAGs run.

    Attributes:
        folder: `photos/CLASS/NAME`, of which one is empty, and `labels.csv`.
        airflow: runs them.
        gcs: has `BUCKET` with the same inputs.
        dataflow: takes jobs, and launches of a template.
    """

    folder: Path
    airflow: Airflow
    gcs: GcsServer
    dataflow: DataflowServer


class Twice(NamedTuple):
    """Two runs for one date, and what was in the folder of all versions after each."""

    first: Ran
    made: dict[str, tuple[int, bytes]]
    second: Ran
    kept: dict[str, tuple[int, bytes]]


class Stored(NamedTuple):
    """A run that wrote to a bucket.

    Attributes:
        ran: how it ended.
        objects: content of what is in the folder of all versions, by name.
        reads: how often each image was requested.
    """

    ran: Ran
    objects: dict[str, bytes]
    reads: dict[str, int]


class Days(NamedTuple):
    """Runs for two dates.

    Attributes:
        first: of the earlier date.
        second: of the later date; `objects` has the versions of both.
        fresh: what `convert` makes on that date without records of the first.
    """

    first: Ran
    second: Stored
    fresh: Stored


def fill_bucket(gcs: GcsServer, folder: Path) -> None:
    """Stores the inputs."""
    gcs.make_bucket(BUCKET)
    for path in [folder / "labels.csv", *folder.glob("photos/*/*")]:
        gcs.put(BUCKET, path.relative_to(folder).as_posix(), path.read_bytes())


def inputs(place: str | Path, base: str, **flags: Any) -> dict[str, Any]:
    """Parameters of a run over the inputs in a folder or bucket."""
    return {
        "images": f"{place}/photos/*/*.jpg",
        "labels": f"{place}/labels.csv",
        "base": f"{place}/{base}",
        "flags": {**FLAGS, **flags},
    }


def stored(ran: Ran, gcs: GcsServer, base: str) -> Stored:
    """What a run left in the bucket."""
    objects = {
        name.removeprefix(f"{base}/"): gcs.get(BUCKET, name)
        for name in gcs.names(BUCKET)
        if name.startswith(f"{base}/")
    }
    reads = {name: n for name, n in gcs.media_gets().items() if name.startswith("photos/")}
    return Stored(ran, objects, reads)


def on_this_disk(site: Site) -> Twice:
    """Two runs for one date."""
    base = site.folder / "versions"
    params = inputs(site.folder, "versions")
    first = site.airflow.run(DAG, DAY, {}, **params)
    made = snapshot(base)
    second = site.airflow.run(DAG, DAY, {}, **params)
    return Twice(first, made, second, snapshot(base))


def day_after_day(site: Site) -> Days:
    """On the second day, of 100 images one is new, one has another label, and one is gone.

    The new image has a class that is before the others in the alphabet.
    """
    directory = site.folder / "days"
    directory.mkdir()
    place = f"gs://{BUCKET}"
    labels = {f"{number:03}": ("dog", "fox")[number % 2] for number in range(100)}
    params = inputs(place, "days")
    with serve_gcs(directory) as gcs:
        gcs.make_bucket(BUCKET)
        for number, stem in enumerate(labels):
            image = saved(picture("RGB", 12, 16, seed=number), "JPEG")
            gcs.put(BUCKET, f"photos/all/{stem}.jpg", image)
        put_labels(gcs, labels)
        first = site.airflow.run(DAG, DAY, gcs.environment, **params)
        gcs.delete(BUCKET, "photos/all/050.jpg")
        gcs.put(BUCKET, "photos/all/new.jpg", saved(picture("RGB", 12, 16, seed=100), "JPEG"))
        del labels["050"]
        put_labels(gcs, {**labels, "007": "dog", "new": "ant"})
        gcs.reset()
        second = stored(site.airflow.run(DAG, LATER, gcs.environment, **params), gcs, "days")
        flags = {name: params[name] for name in ("images", "labels")}
        former = {"class_names": f"{place}/days/{DAY}", "new_classes": "append"}
        words = arguments(**flags, **FLAGS, **former, output=f"{place}/fresh/{LATER}")
        fresh = subprocess.run(
            [sys.executable, "-m", "pipeline.convert", *words],
            cwd=ROOT,
            env={**os.environ, **gcs.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        ran = Ran(fresh.returncode, fresh.stdout + fresh.stderr)
        return Days(first, second, stored(ran, gcs, "fresh"))


def put_labels(gcs: GcsServer, labels: dict[str, str]) -> None:
    """Stores the CSV."""
    rows = [f"{stem},{label}" for stem, label in labels.items()]
    gcs.put(BUCKET, "labels.csv", "\n".join(["id,label", *rows]).encode())


def with_a_wrong_glob(site: Site) -> Ran:
    """No file matches."""
    params = inputs(site.folder, "wrong")
    params["images"] = f"{site.folder}/photos/*.png"
    return site.airflow.run(DAG, DAY, {}, **params)


def with_too_many_rejected(site: Site) -> Ran:
    """One image is broken, and none may be."""
    return site.airflow.run(DAG, DAY, {}, **inputs(site.folder, "strict", max_rejected=0))


def with_a_relative_path(site: Site) -> Ran:
    """Relative to what?"""
    return site.airflow.run(DAG, DAY, {}, **{**inputs(site.folder, "none"), "base": "versions"})


def killed_while_it_converts(site: Site) -> Stored:
    """The converter is killed once its first shard is staged, in a bucket that answers slowly."""
    base = f"gs://{BUCKET}/killed"
    directory = site.folder / "killed"
    directory.mkdir()
    with serve_gcs(directory) as gcs:
        fill_bucket(gcs, site.folder)
        gcs.set_latency(get_ms=10, other_ms=200)
        params = inputs(f"gs://{BUCKET}", "killed")
        with site.airflow.start(DAG, DAY, gcs.environment, **params) as process:
            while not any("/.staging/" in n and n.endswith(".json") for n in shards(gcs)):
                assert process.poll() is None, process.communicate()[0]
                time.sleep(0.1)
            kill_converter(f"{base}/{DAY}")
            gcs.set_latency()
            return stored(ended(process), gcs, "killed")


def shards(gcs: GcsServer) -> list[str]:
    """Objects of shards."""
    return [name for name in gcs.names(BUCKET) if "-of-" in name]


def on_dataflow(site: Site) -> Stored:
    """The job goes to the service's stand-in."""
    tree = copy_tree(site.folder / "tree")
    place = f"gs://{BUCKET}"
    params = inputs(
        place, "job", dataflow_endpoint=site.dataflow.url, setup_file=str(tree / "setup.py")
    )
    return in_the_cloud(site, DAG, "job", {**params, "runner": "DataflowRunner"})


def by_a_template(site: Site) -> Stored:
    """A later version is there already."""
    site.gcs.put(BUCKET, "template/LATEST", f"{LATER}\n".encode())
    return in_the_cloud(site, FLEX, "template", inputs(f"gs://{BUCKET}", "template"))


def in_the_cloud(site: Site, dag: str, base: str, params: dict[str, Any]) -> Stored:
    """A run for which Airflow itself asks Dataflow, which it knows by one name only."""
    directory = site.folder / f"{base}-proxy"
    directory.mkdir()
    with serve_google_api(directory, site.dataflow.port) as google:
        environment = {**site.gcs.environment, **SETTINGS, **google}
        return stored(site.airflow.run(dag, DAY, environment, **params), site.gcs, base)


STORIES = (
    killed_while_it_converts,
    on_dataflow,
    by_a_template,
    day_after_day,
    on_this_disk,
    with_a_wrong_glob,
    with_too_many_rejected,
    with_a_relative_path,
)
