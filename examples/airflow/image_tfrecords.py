"""For Airflow 3: creates one version of a dataset per day. See docs/airflow.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param
from image_tfrecords_tasks import (
    BUCKET,
    DEFAULT_ARGS,
    IMAGE,
    PARAMS,
    PROJECT,
    REGION,
    PipelineOperator,
    VerifyOperator,
    find_former,
    output_of,
    publish,
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
        **with_former_version(context),
    }


def with_former_version(context: Any) -> dict[str, Any]:
    """The flags of the run; by default with class ids and records of the version before."""
    own = dict(context["params"]["flags"])
    former = dict(context["ti"].xcom_pull(task_ids="find_former"))
    if own.get("layout") == "rows":
        former = {}
    if "class_names" in own or own.get("label_from") == "none":
        former.pop("class_names", None)
    elif "class_names" in former:
        former["new_classes"] = "append"
    else:
        # The first version has no known classes.
        own.pop("new_classes", None)
    return {**former, **own}


with DAG(
    "image_tfrecords",
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(days=1),
    default_args=DEFAULT_ARGS,
    tags=["image-tfrecords", "beam"],
    params={**PARAMS, "runner": Param("FnApiRunner", enum=list(RUNNERS))},
    doc_md=__doc__,
):
    plan = PipelineOperator(
        task_id="plan",
        command="plan",
        runner="FnApiRunner",
        pipeline_options=flags,
        execution_timeout=timedelta(hours=1),
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
    verify = VerifyOperator(task_id="verify", dataset="{{ params.base }}/{{ ds }}")
    former = find_former("{{ params.base }}", "{{ ds }}")
    former >> plan >> convert >> verify >> publish("{{ params.base }}", "{{ ds }}")
