"""The progress of a job on Dataflow comes from its metrics, requested while it runs."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.dataflow_metrics import DataflowMetrics
from apache_beam.runners.dataflow.dataflow_runner import DataflowPipelineResult, DataflowRunner
from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient
from google.cloud.dataflow import Job as ApiJob

from pipeline.run import progress
from tests.servers.dataflow import Job, serve_dataflow
from transforms.storage.metrics import NAMESPACE, PROGRESS, Stage

JOB_ID = "2026-01-01_00_00_00-1"


def result_of(url: str) -> Any:
    """What the Dataflow runner gives the launcher of a job that runs."""
    flags = [f"--dataflow_endpoint={url}", "--project=my-project", "--region=europe-west4"]
    options = PipelineOptions(flags)
    runner = DataflowRunner()
    runner.dataflow_client = DataflowApplicationClient(options, "gs://bucket/staging")
    result = DataflowPipelineResult(ApiJob(id=JOB_ID, current_state="JOB_STATE_RUNNING"), runner)
    result.metric_results = DataflowMetrics(runner.dataflow_client, result)
    return result


def wait_for(stage: Stage) -> None:
    deadline = time.monotonic() + 60
    while stage not in PROGRESS.stages():
        assert time.monotonic() < deadline, f"{stage} is not in {PROGRESS.stages()}"
        threading.Event().wait(0.01)


@pytest.mark.usefixtures("gcs")
def test_a_running_job_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_POLL_SECONDS", 0.02)
    with serve_dataflow(tmp_path, {}) as server:
        job = Job({"id": JOB_ID, "currentState": "JOB_STATE_RUNNING"}, {}, tmp_path)
        job.ended.set()
        server.jobs.append(job)
        result = result_of(server.url)

        def count(**counters: int) -> None:
            job.counters = [(NAMESPACE, name, value) for name, value in counters.items()]
            job.counters += [("others", "images_written", 99)]

        PROGRESS.clear()
        with progress.poll_metrics(lambda: progress.read_counters(result)):
            count(images_found=40, rows_read=41)
            wait_for(Stage("listing", "images", 0, 40, 0))
            wait_for(Stage("reading", "rows", 0, 41, 0))
            count(images_found=40, rows_read=41, images_written=7, images_rejected=1)
            wait_for(Stage("converting", "images", 40, 8, 1))
        assert progress.read_counters(result) == {
            "images_found": 40,
            "images_rejected": 1,
            "images_written": 7,
            "rows_read": 41,
        }


def test_a_service_that_does_not_answer_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_POLL_SECONDS", 0.01)
    answers = iter([OSError("gone"), {"images_found": 3}])

    def read() -> dict[str, int]:
        answer = next(answers, {"images_found": 3})
        if isinstance(answer, Exception):
            raise answer
        return answer

    PROGRESS.clear()
    with progress.poll_metrics(read):
        wait_for(Stage("listing", "images", 0, 3, 0))
