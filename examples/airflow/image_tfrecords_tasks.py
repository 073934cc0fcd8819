"""Settings, parameters and tasks of both DAGs, for Airflow 3. See docs/airflow.md."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.apache.beam.hooks.beam import BeamHook, beam_options_to_args
from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import Asset, BaseOperator, Param, task
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

# What another DAG can wait for: schedule=[DATASET]. It stands for the default of `base`.
DATASET = Asset(name="image_tfrecords", uri=f"gs://{BUCKET}/datasets/images")

# Of each task that has no other value.
DEFAULT_ARGS = {
    "retries": 3,
    "retry_delay": timedelta(minutes=5),
    "execution_timeout": timedelta(hours=12),
}

# Exit codes that a retry cannot change: wrong flags or inputs, and more images rejected than
# --max_rejected.
FINAL_EXIT_CODES = (2, 3)

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


def check_exit_code(code: int) -> None:
    """Fails the task if its command failed; Airflow retries only what a retry can fix."""
    if code in FINAL_EXIT_CODES:
        raise AirflowFailException(f"exit code {code}: see the last line of the command")
    if code:
        raise AirflowException(f"exit code {code}")


class CommandHook(BeamHook):
    """Runs a pipeline like BeamHook, which reports the exit code only in a message."""

    def __init__(self, runner: str, process: SubprocessHook) -> None:
        super().__init__(runner=runner)
        self.process = process

    def _start_pipeline(
        self, variables: dict[str, Any], command_prefix: list[str], **_: Any
    ) -> None:
        flags = beam_options_to_args(variables)
        command = [*command_prefix, f"--runner={self.runner}", *flags]
        check_exit_code(self.process.run_command(command).exit_code)


class PipelineOperator(BeamRunPythonPipelineOperator):
    """Runs `python -m pipeline.COMMAND` with flags, and ends it when the task is killed."""

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(
            py_file=f"pipeline.{command}", py_options=["-m"], py_interpreter=PYTHON, **kwargs
        )

    def _init_pipeline_options(self, *args: Any, **kwargs: Any) -> Any:
        options = super()._init_pipeline_options(*args, **kwargs)
        self.beam_hook = CommandHook(self.runner, self.process)
        return options

    @cached_property
    def process(self) -> SubprocessHook:
        return SubprocessHook()

    def on_kill(self) -> None:
        self.process.send_sigterm()
        super().on_kill()


class VerifyOperator(BaseOperator):
    """Runs `python -m pipeline.verify DATASET`, which reads every shard again."""

    template_fields = ("dataset",)

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    @cached_property
    def process(self) -> SubprocessHook:
        return SubprocessHook()

    def execute(self, context: Any) -> None:
        command = [PYTHON, "-m", "pipeline.verify", self.dataset]
        check_exit_code(self.process.run_command(command).exit_code)

    def on_kill(self) -> None:
        self.process.send_sigterm()


@task.external_python(python=PYTHON, expect_airflow=False, execution_timeout=timedelta(minutes=10))
def find_former(base: str, version: str) -> dict[str, str]:
    """The flags that name the newest earlier version; none for the first one.

    Later versions do not count, so a run that is repeated finds the same one. Integer labels that
    labels.txt cannot list are their own ids. Records that another release wrote in another format
    are not reused, nor those of rows without images.
    """
    import glob
    import re

    from transforms.dataset.manifest import ManifestError
    from transforms.storage.files import join, read_manifest, storage_of

    found = storage_of(base).list_files(join(glob.escape(base), "*", "manifest.json"))
    days = [file.uri.split("/")[-2] for file in found]
    earlier = [
        day for day in days if re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}", day) and day < version
    ]
    if not earlier:
        return {}
    former, flags = join(base, max(earlier)), {}
    try:
        manifest = read_manifest(join(former, "manifest.json"))
        if manifest and manifest["options"].get("key") != "row":
            flags["reuse"] = former
    except ManifestError as error:
        print(f"no record is reused: {error}")
    labels = storage_of(former).find(join(former, "labels.txt"))
    if labels and labels.size:
        flags["class_names"] = former
    return flags


@task.external_python(
    python=PYTHON,
    expect_airflow=False,
    execution_timeout=timedelta(minutes=10),
    outlets=[DATASET],
)
def publish(base: str, version: str) -> None:
    """Writes the newest version to the file LATEST atomically; a backfill does not revert it."""
    from transforms.storage.files import join, storage_of

    latest = join(base, "LATEST")
    if version > (storage_of(latest).read_text(latest) or ""):
        storage_of(latest).write_whole(latest, f"{version}\n".encode())
    print(f"{latest} names {storage_of(latest).read_text(latest)}")
