"""The same bytes on every engine: one dataset, converted by the real command on each of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.dataflow.submitting import ROOT, run
from tests.engines import dataset, environments, table
from tests.engines.conftest import CheckEngine, CheckReuse, Portable, Reuse, made
from tests.engines.conversions import Conversion, convert, plan
from tests.engines.engines import DATAFLOW, ENGINES, PORTABLE, PRISM, REFERENCE
from tests.pipeline.commands import Dataset, digests
from tests.servers.dataflow import serve_dataflow
from tests.servers.gcs import GcsServer


@pytest.mark.cluster
def test_the_dataset_has_every_kind_of_reject(
    reference: Conversion, reference_folder: Path, check_reuse: CheckReuse
) -> None:
    assert reference.code == 0, reference.err
    made_here = Dataset(reference_folder)
    assert {line["reason"] for line in made_here.rejected} == dataset.REASONS
    assert made_here.ledger["images_matched"] == dataset.IMAGES
    assert len(made_here.shards()) == dataset.SHARDS
    assert len(made_here.manifest["splits"]) == 3
    check_reuse(REFERENCE, partial(convert_on, ENGINES[REFERENCE].flags))


def convert_on(flags: Sequence[str], inputs: Path, output: Path, *words: str) -> Conversion:
    """Converts with the flags of an engine."""
    return convert(inputs, output, *flags, *words)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "engine", ["FnApiRunner, 2 threads", "FnApiRunner, 2 processes", "DirectRunner"]
)
def test_beams_own_runners(
    engine: str, inputs: Path, tmp_path: Path, check: CheckEngine, check_reuse: CheckReuse
) -> None:
    run = partial(convert_on, ENGINES[engine].flags)
    check(engine, run(inputs, tmp_path / "out"))
    check_reuse(engine, run)


@pytest.mark.cluster
@pytest.mark.skipif(not CAMPAIGN, reason="to build Prism takes minutes of a core")
def test_prism(inputs: Path, tmp_path: Path, check: CheckEngine, check_reuse: CheckReuse) -> None:
    location = f"--prism_location={made(environments.prism)}"
    run = partial(convert_on, [*ENGINES[PRISM].flags, location])
    check(PRISM, run(inputs, tmp_path / "out"))
    check_reuse(PRISM, run)


@pytest.mark.cluster
def test_a_job_service_with_a_worker_pool(
    portable: Portable,
    inputs: Path,
    tmp_path: Path,
    check: CheckEngine,
    check_reuse: CheckReuse,
) -> None:
    where = [
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
    ]
    run = partial(convert_on, [*ENGINES[PORTABLE].flags, *where])
    check(PORTABLE, run(inputs, tmp_path / "out"))
    check_reuse(PORTABLE, run)


@pytest.mark.cluster
def test_plan_on_a_job_service(portable: Portable, reuse: Reuse, tmp_path: Path) -> None:
    """Of images in archives, whose groups are stratified."""
    flags = dataset.flags(reuse.inputs, tmp_path / "out")
    where = [
        f"--job_endpoint=localhost:{portable.job_port}",
        f"--environment_config=localhost:{portable.pool_port}",
        f"--temp_location={tmp_path}",
    ]
    there, _ = plan(*flags, *ENGINES[PORTABLE].flags, *where)
    here, error = plan(*flags, *ENGINES[REFERENCE].flags)
    assert error == ""
    assert there == here
    assert here.endswith(f"nothing written; convert would write {tmp_path / 'out'}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.cluster
def test_the_staged_graph_of_a_dataflow_job(
    gcs_server: GcsServer,
    inputs: Path,
    tmp_path: Path,
    check: CheckEngine,
    check_reuse: CheckReuse,
) -> None:
    """The workers are on this machine, so the folders may be local. Their image has the code."""
    bucket = "gs://engines-dataflow"
    gcs_server.make_bucket(bucket.removeprefix("gs://"))
    environment = {"PYTHONPATH": str(ROOT), **gcs_server.environment}
    with serve_dataflow(tmp_path / "jobs", gcs_server.environment) as dataflow:

        def run_there(inputs: Path, output: Path, *words: str) -> Conversion:
            started = time.monotonic()
            done = run(
                [
                    *(sys.executable, "-m", "pipeline.convert", *dataset.flags(inputs, output)),
                    *ENGINES[DATAFLOW].flags,
                    f"--dataflow_endpoint={dataflow.url}",
                    f"--temp_location={bucket}/tmp",
                    *words,
                ],
                environment,
                tmp_path,
            )
            return Conversion(done.code, done.err, time.monotonic() - started, digests(output))

        check(DATAFLOW, run_there(inputs, tmp_path / "out"))
        check_reuse(DATAFLOW, run_there)
    gcs_server.remove_bucket(bucket.removeprefix("gs://"))


def test_the_table_lists_every_engine() -> None:
    assert table.listed_engines() == list(ENGINES)
    assert table.is_complete()
    assert "**no**" not in table.DOCUMENT.read_text("utf-8")
