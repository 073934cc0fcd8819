"""Creates one version of a dataset per day: plan, convert, verify, publish. See docs/airflow.md."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param
from image_tfrecords_tasks import (
    BUCKET,
    IMAGE,
    PARAMS,
    PROJECT,
    REGION,
    PipelineOperator,
    output_of,
    publish,
    verify,
)

# Options of Beam for each runner.
RUNNERS: dict[str, dict[str, Any]] = {
    "FnApiRunner": {},
    "FlinkRunner": {
        "flink_master": "jobmanager:8081",
        "environment_type": "EXTERNAL",
        "environment_config": "localhost:50000",
        "environment_cache_millis": 600_000,
    },
    "DataflowRunner": {
        "temp_location": f"gs://{BUCKET}/tmp",
        "staging_location": f"gs://{BUCKET}/staging",
        "sdk_container_image": IMAGE,
        "worker_machine_type": "n2-standard-4",
        "disk_size_gb": 30,
        "max_num_workers": 8,
        "number_of_worker_harness_threads": 2,
    },
}


def flags(context: Any, **_: Any) -> dict[str, Any]:
    """Flags of `plan` and `convert`. Airflow calls it instead of rendering a template."""
    params = context["params"]
    return {
        "images": params["images"],
        # The operator reserves the name `labels` for labels of the job.
        "label_file": params["labels"],
        "output": output_of(context),
        **RUNNERS[params["runner"]],
        **params["flags"],
    }


with DAG(
    "image_tfrecords",
    schedule="@daily",
    start_date=datetime(2024, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    params={**PARAMS, "runner": Param("FnApiRunner", enum=list(RUNNERS))},
    doc_md=__doc__,
):
    plan = PipelineOperator(
        task_id="plan", command="plan", runner="FnApiRunner", pipeline_options=flags
    )
    convert = PipelineOperator(
        task_id="convert",
        command="convert",
        runner="{{ params.runner }}",
        pipeline_options=flags,
        dataflow_config={
            "job_name": "convert-{{ ds_nodash }}",
            "project_id": PROJECT,
            "location": REGION,
        },
    )
    plan >> convert >> verify() >> publish("{{ params.base }}", "{{ ds }}")
