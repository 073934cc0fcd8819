"""`run_dataflow.sh` from end to end: staged, accepted, installed and run by a worker, compared.

All jobs run at once, for each waits for Beam's five-second naps more than it works.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.dataflow_metrics import DataflowMetrics
from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient
from google.cloud.dataflow import JobType

from tests.dataflow.submitting import ROOT, Submitted, copy_tree, files_of, run, run_dataflow
from tests.pipeline.commands import SMALL_FILES, nameless
from tests.servers.dataflow import DataflowServer, Job, serve_dataflow
from tests.servers.gcs import CREDENTIALS, GcsServer
from transforms.storage.metrics import NAMESPACE

pytestmark = pytest.mark.slow

BUCKET = "dataflow-submission"
IMAGE = "europe-docker.pkg.dev/my-project/r/convert:1"
VARIABLES = {
    "PROJECT": "my-project",
    "REGION": "europe-west4",
    "BUCKET": BUCKET,
    "SDK_IMAGE": IMAGE,
}
FLAGS = [
    f"--images=gs://{BUCKET}/photos/**/*.jpg",
    "--splits=train=0.5,test=0.5",
    "--num_shards=2",
    "--max_rejected=50%",
    "--progress=off",
]
DATASET = sorted(
    [
        *SMALL_FILES,
        *(
            f"index/{split}-{n:05}-of-00002.parquet"
            for split in ("test", "train")
            for n in range(2)
        ),
        *(f"{split}-{n:05}-of-00002.tfrecord" for split in ("test", "train") for n in range(2)),
    ]
)

# More than the launcher reads of a label file before the job.
MANY = 50_000


class World(NamedTuple):
    """What is left after all submissions.

    Attributes:
        gcs: Holds the bucket.
        dataflow: Took the jobs.
        results: By name: `local` ran on this machine, `right` on Dataflow; the labels of `bad` are
            not UTF-8.
        folder: The trees that submitted, by name, and the output of `local`.
        former: Files of a tree before it submits.
    """

    gcs: GcsServer
    dataflow: DataflowServer
    results: dict[str, Submitted]
    folder: Path
    former: set[str]

    def job(self, name: str) -> Job:
        """The job of a submission."""
        jobs = {job.description["name"].split("-")[1]: job for job in self.dataflow.jobs}
        return jobs[name]

    def published(self, name: str) -> dict[str, bytes]:
        """Content of each file that a submission published."""
        start = f"out/{name}/"
        return {
            path.removeprefix(start): self.gcs.get(BUCKET, path)
            for path in self.gcs.names(BUCKET)
            if path.startswith(start) and "/.staging/" not in path
        }

    def staged(self, name: str) -> dict[str, bytes]:
        """Content of each file that a submission staged."""
        start = f"staging/{self.job(name).description['name']}."
        return {
            path.rpartition("/")[2]: self.gcs.get(BUCKET, path)
            for path in self.gcs.names(BUCKET)
            if path.startswith(start)
        }


def fill_bucket(gcs: GcsServer, photos: Path) -> None:
    """Stores photos, one empty image, labels, and labels that are not UTF-8 far down."""
    gcs.make_bucket(BUCKET)
    rows = ["id,label", "empty,cat"]
    gcs.put(BUCKET, "photos/cat/empty.jpg", b"")
    for path in sorted(photos.glob("*/*.jpg")):
        gcs.put(BUCKET, f"photos/{path.relative_to(photos).as_posix()}", path.read_bytes())
        rows.append(f"{path.stem},{path.parent.name}")
    gcs.put(BUCKET, "labels.csv", "\n".join(rows).encode())
    rows += [f"absent-{number},cat" for number in range(MANY)]
    gcs.put(BUCKET, "bad.csv", "\n".join(rows).encode() + b"\n\xff,cat\n")


@pytest.fixture(scope="module")
def world(
    gcs_server: GcsServer, photos: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Submits two jobs, of which one must fail, and converts what the other does here."""
    folder = tmp_path_factory.mktemp("dataflow")
    fill_bucket(gcs_server, photos)
    trees = {name: copy_tree(folder / name) for name in ("right", "bad")}
    former = files_of(trees["right"])
    with serve_dataflow(folder / "jobs", gcs_server.environment) as dataflow:

        def submit(name: str) -> Submitted:
            labels = "bad.csv" if name == "bad" else "labels.csv"
            words = [*FLAGS, f"--labels=gs://{BUCKET}/{labels}"]
            if name == "local":
                command = [sys.executable, "-m", "pipeline.convert", *words, "--output=local"]
                return run(command, gcs_server.environment, folder)
            words.append(f"--output=gs://{BUCKET}/out/{name}")
            words.append(f"--dataflow_endpoint={dataflow.url}")
            return run_dataflow(trees[name], *words, **gcs_server.environment, **VARIABLES)

        names = ["local", *trees]
        with ThreadPoolExecutor(len(names)) as pool:
            results = dict(zip(names, pool.map(submit, names), strict=True))
        yield World(gcs_server, dataflow, results, folder, former)
    gcs_server.remove_bucket(BUCKET)


def test_output_equals_that_of_a_local_run(world: World) -> None:
    for name in ("local", "right"):
        assert world.results[name].code == 0, world.results[name].err
    folder = world.folder / "local"
    assert sorted(files_of(folder)) == DATASET
    published = {name: nameless(name, data) for name, data in world.published("right").items()}
    assert published == {name: nameless(name, (folder / name).read_bytes()) for name in DATASET}
    ledger = json.loads((folder / "manifest.json").read_bytes())["ledger"]
    assert ledger["images_rejected"] == 1
    message = f"images   {ledger['images_matched']} matched = {ledger['records_written']} written"
    assert message in world.results["right"].out


def test_the_worker_runs_what_was_staged_and_nothing_else(world: World) -> None:
    job = world.job("right")
    installed = job.folder / "installed"
    assert {
        "transforms.images.check",
        "transforms.storage.gcs_storage",
        "transforms.write_shards",
    } <= set(job.modules)
    for name, file in job.modules.items():
        assert Path(file).is_relative_to(installed), f"{name} is from {file}"
    tree = world.folder / "right"
    sources = {path for path in world.former if path.startswith(("pipeline/", "transforms/"))}
    assert {"pipeline/py.typed", "transforms/images/check.py"} <= sources
    for path in sources:
        assert (installed / path).read_bytes() == (tree / path).read_bytes()


def test_counters_come_back(world: World, gcs: GcsServer) -> None:
    job = world.job("right")
    options = PipelineOptions(
        [
            f"--dataflow_endpoint={world.dataflow.url}",
            f"--project={VARIABLES['PROJECT']}",
            f"--region={VARIABLES['REGION']}",
        ]
    )
    client = DataflowApplicationClient(options, f"gs://{BUCKET}/staging")
    results = DataflowMetrics(client).all_metrics(job.resource["id"])
    counters = {
        result.key.metric.name: result.committed
        for result in results
        if result.key.metric.namespace == NAMESPACE
    }
    ledger = json.loads(world.published("right")["manifest.json"])["ledger"]
    assert counters["images_found"] == ledger["images_matched"]
    assert counters["images_written"] == ledger["records_written"]
    assert counters["images_rejected"] == 1
    assert counters["shards_written"] == 4
    assert counters["rows_read"] == ledger["rows_read"]


def test_the_job_is_a_batch_with_our_settings(world: World) -> None:
    description = world.job("right").description
    environment = description["environment"]
    (pool,) = environment["workerPools"]
    assert description["type"] == JobType.JOB_TYPE_BATCH
    assert not [name for name in environment["experiments"] if "streaming" in name]
    assert [each["containerImage"] for each in pool["sdkHarnessContainerImages"]] == [IMAGE]
    assert pool["machineType"] == "n2-standard-4"
    assert pool["diskSizeGb"] == 30
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 8
    assert pool["numThreadsPerWorker"] == 2
    assert environment["tempStoragePrefix"].startswith(f"storage.googleapis.com/{BUCKET}/tmp/")
    assert environment["sdkPipelineOptions"]["options"]["save_main_session"] is False
    assert "pickled_main_session" not in {package["name"] for package in pool["packages"]}


def test_a_job_carries_no_image_and_no_credentials(world: World, photos: Path) -> None:
    staged = world.staged("right")
    assert {"pipeline.pb", "workflow.tar.gz"} <= set(staged)
    sent = {"": json.dumps(world.job("right").description).encode(), **staged}
    images = [path.read_bytes() for path in photos.glob("*/*.jpg")]
    for name, data in sent.items():
        # The code of the packages, compressed, is most of it: 45,000 lines.
        assert len(data) < (620_000 if name == "workflow.tar.gz" else 400_000), name
        assert CREDENTIALS["token"].encode() not in data
        assert str(world.gcs.credentials).encode() not in data
        assert not any(image in data for image in images)


def test_what_the_build_leaves_in_the_tree_is_ignored_by_git(world: World) -> None:
    left = files_of(world.folder / "right") - world.former
    assert left
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin", "--no-index"],
        cwd=ROOT,
        input="\n".join(left),
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(ignored.stdout.splitlines()) == left


def test_a_failure_on_a_worker_is_reported(world: World) -> None:
    failed = world.results["bad"]
    assert failed.code == 1
    assert world.job("bad").state == "JOB_STATE_FAILED"
    assert f"gs://{BUCKET}/bad.csv is not utf-8 at line " in failed.last_line()
    assert failed.last_line().startswith("convert: the Dataflow job failed: ")
    assert "Traceback" not in failed.err
    assert not world.published("bad")


def test_the_job_can_be_found(world: World) -> None:
    link = "https://console.cloud.google.com/dataflow/jobs/europe-west4/"
    (message,) = [line for line in world.results["right"].err.splitlines() if link in line]
    assert message.endswith("?project=my-project")


def test_the_summary_has_the_counters(world: World) -> None:
    message = [line for line in world.results["right"].out.splitlines() if line[:9] == "metrics  "]
    assert len(message) == 1
    assert "images_rejected 1" in message[0] and "shards_written 4" in message[0]
    assert "metrics  " not in world.results["local"].out
