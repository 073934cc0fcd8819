"""The engines of the conformance table: their flags, and the services that they need."""

from typing import NamedTuple

import apache_beam

from tests.engines.environments import FLINK, FLINK_RUNNER


class Engine(NamedTuple):
    """One engine.

    Attributes:
        version: what the table says.
        flags: of `convert`; those that name a server are added when it runs.
    """

    version: str
    flags: tuple[str, ...]


_BEAM = apache_beam.__version__
_TWO_WORKERS = ("--runner=FnApiRunner", "--direct_num_workers=2")

REFERENCE = "FnApiRunner, in process"
PORTABLE = "PortableRunner, worker pool"
DATAFLOW = "Dataflow, its staged graph"
PRISM = "PrismRunner"
FLINK_CLUSTER = "FlinkRunner, session cluster"

ENGINES = {
    REFERENCE: Engine(_BEAM, ("--runner=FnApiRunner",)),
    "FnApiRunner, 2 threads": Engine(
        _BEAM, (*_TWO_WORKERS, "--direct_running_mode=multi_threading")
    ),
    "FnApiRunner, 2 processes": Engine(
        _BEAM, (*_TWO_WORKERS, "--direct_running_mode=multi_processing")
    ),
    "DirectRunner": Engine(_BEAM, ("--runner=DirectRunner",)),
    PRISM: Engine(_BEAM, ("--runner=PrismRunner",)),
    PORTABLE: Engine(_BEAM, ("--runner=PortableRunner", "--environment_type=EXTERNAL")),
    DATAFLOW: Engine(
        _BEAM,
        (
            "--runner=DataflowRunner",
            "--project=my-project",
            "--region=europe-west4",
            "--job_name=convert-engines-0",
            "--no_save_main_session",
            "--sdk_container_image=convert:1",
        ),
    ),
    FLINK_CLUSTER: Engine(f"{FLINK}, runner {FLINK_RUNNER.rpartition(':')[2]}", ()),
}
