"""For Airflow 3: the same workflow with the Flex Template of deploy/. See docs/airflow.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.google.cloud.operators.dataflow import DataflowStartFlexTemplateOperator
from airflow.sdk import DAG
from image_tfrecords_tasks import (
    BUCKET,
    DEFAULT_ARGS,
    IMAGE,
    PARAMS,
    PROJECT,
    REGION,
    VerifyOperator,
    output_of,
    publish,
)


def parameter(value: Any) -> str:
    """A flag's value as the text of a template parameter."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def body(context: Any, **_: Any) -> dict[str, Any]:
    """The request that launches the job. Airflow calls it instead of rendering a template."""
    params = context["params"]
    flags = {
        "images": params["images"],
        "labels": params["labels"],
        "output": output_of(context),
        "sdk_container_image": IMAGE,
        "number_of_worker_harness_threads": 2,
        **params["flags"],
    }
    return {
        "launchParameter": {
            "jobName": f"convert-{context['ds_nodash']}",
            "containerSpecGcsPath": f"gs://{BUCKET}/templates/convert.json",
            "parameters": {k: parameter(v) for k, v in flags.items() if v is not None},
            "environment": {
                "tempLocation": f"gs://{BUCKET}/tmp",
                "stagingLocation": f"gs://{BUCKET}/staging",
                "machineType": "n2-standard-4",
                "maxWorkers": 8,
            },
        }
    }


with DAG(
    "image_tfrecords_flex",
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(days=1),
    default_args=DEFAULT_ARGS,
    tags=["image-tfrecords", "dataflow"],
    params=PARAMS,
    doc_md=__doc__,
):
    convert = DataflowStartFlexTemplateOperator(
        task_id="convert", body=body, project_id=PROJECT, location=REGION
    )
    verify = VerifyOperator(task_id="verify", dataset="{{ params.base }}/{{ ds }}")
    convert >> verify >> publish("{{ params.base }}", "{{ ds }}")
