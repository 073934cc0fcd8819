"""The DAG of `examples/airflow` on Flink: Airflow launches, the cluster converts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.engines.conftest import Flink
from tests.engines.servers import MARK
from tests.pipeline.commands import make_dataset
from tests.scheduling.airflow_runs import install_airflow
from tests.scheduling.stories import DAG, DAY, FLAGS, inputs

pytestmark = pytest.mark.cluster


def states(flink: Flink) -> dict[str, str]:
    """The states of the jobs that the cluster had, by their ids."""
    return {job["jid"]: job["state"] for job in flink.cluster.ask("/jobs/overview")["jobs"]}


def test_the_dag_converts_on_flink(flink: Flink, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    rows = [f"{path.stem},{path.parent.name}" for path in sorted(photos.glob("*/*"))]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows]))
    airflow = install_airflow(tmp_path)
    cluster = dict(flag.removeprefix("--").split("=", 1) for flag in flink.flags(parallelism=2))
    runner = cluster.pop("runner")
    params = {**inputs(tmp_path, "versions", **cluster), "runner": runner}
    former = states(flink)
    ran = airflow.run(DAG, DAY, {MARK: str(os.getpid())}, **params)
    assert ran.code == 0, ran.log
    # It was the cluster that converted.
    assert [state for job, state in states(flink).items() if job not in former] == ["FINISHED"]
    made = tmp_path / "versions"
    assert (made / "LATEST").read_text() == f"{DAY}\n"
    reference = make_dataset(
        tmp_path / "reference",
        images=f"{tmp_path}/photos/*/*.jpg",
        labels=tmp_path / "labels.csv",
        **FLAGS,
    )
    assert reference.shards()
    for name in reference.shards():
        assert (made / DAY / name).read_bytes() == (reference.folder / name).read_bytes()
