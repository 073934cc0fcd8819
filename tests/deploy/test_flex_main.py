"""What a Flex Template launches, as its launcher calls it."""

import json
import sys
from pathlib import Path

import pytest
from google.cloud.dataflow import JobType

from tests.dataflow.submitting import ROOT, Submitted, run
from tests.servers.gcs import GcsServer

BUCKET = "flex-template"
IMAGE = "europe-docker.pkg.dev/p/r/convert:1"
LAUNCHER = [
    "--runner=DataflowRunner",
    "--project=my-project",
    "--region=europe-west4",
    "--job_name=from-template",
    f"--temp_location=gs://{BUCKET}/tmp",
    f"--staging_location=gs://{BUCKET}/staging",
    f"--template_location=gs://{BUCKET}/launches/job_object",
    '--labels={"goog-dataflow-provided-template-type": "flex"}',
    "--max_num_workers=4",
]


def launch(gcs: GcsServer, tmp_path: Path, **parameters: str) -> Submitted:
    """Runs the file with the parameters of a template, from a folder without the project."""
    words = [f"--{name}={value}" for name, value in parameters.items()]
    command = [sys.executable, str(ROOT / "deploy" / "flex_main.py"), *LAUNCHER, *words]
    return run(command, gcs.environment, tmp_path)


@pytest.fixture
def bucket(gcs: GcsServer, photos: Path) -> GcsServer:
    """A server with photos in a bucket."""
    gcs.make_bucket(BUCKET)
    gcs.put_folder(BUCKET, "photos/", photos)
    return gcs


@pytest.mark.slow
def test_parameters_become_a_job(bucket: GcsServer, tmp_path: Path) -> None:
    launched = launch(
        bucket,
        tmp_path,
        images=f"gs://{BUCKET}/photos/**/*.jpg",
        output=f"gs://{BUCKET}/out",
        label_from="directory",
        overwrite="false",
        num_shards="",
        sdk_container_image=IMAGE,
        number_of_worker_harness_threads="2",
    )
    assert launched.code == 0, launched.err
    job = json.loads(bucket.get(BUCKET, "launches/job_object"))
    assert JobType[job["type"]] == JobType.JOB_TYPE_BATCH
    assert job["name"] == "from-template"
    assert job["labels"] == {"goog-dataflow-provided-template-type": "flex"}
    (pool,) = job["environment"]["workerPools"]
    assert [each["containerImage"] for each in pool["sdkHarnessContainerImages"]] == [IMAGE]
    assert (pool["numThreadsPerWorker"], pool["autoscalingSettings"]["maxNumWorkers"]) == (2, 4)
    # The image has the code.
    assert "workflow.tar.gz" not in str(bucket.names(BUCKET))
    assert any(name.endswith("/pipeline.pb") for name in bucket.names(BUCKET))


@pytest.mark.slow
def test_a_wrong_parameter_is_one_line(bucket: GcsServer, tmp_path: Path) -> None:
    launched = launch(bucket, tmp_path, images=f"gs://{BUCKET}/none/*.jpg", output="gs://b/out")
    assert launched.code == 2
    assert launched.err.startswith(
        f"flex_main: no file matches --images 'gs://{BUCKET}/none/*.jpg'"
    )
    assert launched.err.count("\n") == 1
