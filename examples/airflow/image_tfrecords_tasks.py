"""Settings, parameters and tasks of both DAGs. See docs/airflow.md."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Param, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Settings of an installation. PYTHON is that of the environment with image-tfrecords, which
# is not Airflow's own.
PYTHON = os.environ.get("IMAGE_TFRECORDS_PYTHON", "/opt/image-tfrecords/bin/python")
PROJECT = os.environ.get("IMAGE_TFRECORDS_PROJECT", "my-project")
REGION = os.environ.get("IMAGE_TFRECORDS_REGION", "europe-west4")
BUCKET = os.environ.get("IMAGE_TFRECORDS_BUCKET", "my-bucket")
IMAGE = os.environ.get(
    "IMAGE_TFRECORDS_IMAGE", f"{REGION}-docker.pkg.dev/{PROJECT}/images/convert:0.2.0"
)

# Airflow chooses the working directory, so paths must be absolute or URLs.
_PATH = r"^(/|[a-z][a-z0-9+.-]*://).*[^/]$"
_OWN = ["images", "labels", "label_file", "output", "runner"]

PARAMS = {
    "images": Param(
        f"gs://{BUCKET}/images/**/*.jpg",
        type=["null", "string"],
        pattern=_PATH,
        description="Glob of the images; none where the CSV lists them",
    ),
    "labels": Param(None, type=["null", "string"], pattern=_PATH, description="CSV of the labels"),
    "base": Param(
        f"gs://{BUCKET}/datasets/images",
        type="string",
        pattern=_PATH,
        description="Folder of all versions; each is a folder named after its date",
    ),
    "flags": Param(
        {},
        type="object",
        propertyNames={"pattern": "^[a-z][a-z0-9_]*$", "not": {"enum": _OWN}},
        description='More flags of convert, such as {"splits": "train=0.9,test=0.1"}',
    ),
}


def output_of(context: Any) -> str:
    """The folder of this run's version. A retry has the same one."""
    return f"{context['params']['base']}/{context['ds']}"


class PipelineOperator(BeamRunPythonPipelineOperator):
    """Runs `python -m pipeline.COMMAND`, and retries only failures that a retry can fix."""

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(
            py_file=f"pipeline.{command}", py_options=["-m"], py_interpreter=PYTHON, **kwargs
        )

    def execute(self, context: Any) -> Any:
        try:
            return super().execute(context)
        except AirflowException as error:
            # 2: wrong flags or inputs; 3: more images rejected than --max_rejected.
            if str(error).endswith(("return code 2", "return code 3")):
                raise AirflowFailException(f"{error}: see its last line") from error
            raise


def verify() -> BashOperator:
    """Re-reads every shard. In the environment, a parameter cannot become a part of the command."""
    return BashOperator(
        task_id="verify",
        bash_command='"$PYTHON" -m pipeline.verify "$OUTPUT"',
        env={"PYTHON": PYTHON, "OUTPUT": "{{ params.base }}/{{ ds }}"},
        append_env=True,
    )


@task.external_python(python=PYTHON, expect_airflow=False)
def publish(base: str, version: str) -> None:
    """Writes the newest version to the file LATEST atomically; a backfill does not revert it."""
    from transforms.storage.files import join, storage_of

    latest = join(base, "LATEST")
    if version > (storage_of(latest).read_text(latest) or ""):
        storage_of(latest).write_whole(latest, f"{version}\n".encode())
    print(f"{latest} names {storage_of(latest).read_text(latest)}")
