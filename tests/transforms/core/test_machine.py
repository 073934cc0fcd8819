"""Cores and memory count as a machine or a container allows them, and processes share them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.machine import (
    PROCESSES_VARIABLE,
    machine_processes,
    share_of_cores,
    usable_cores,
    usable_memory,
)
from transforms.storage.read_ahead import read_ahead_bytes

GROUPS = "sys/fs/cgroup"
IN_A_SLICE = "0::/batch.slice/job.scope\n"


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        pytest.param({}, 16, id="no groups"),
        pytest.param({f"{GROUPS}/cpu.max": "200000 100000\n"}, 16, id="no group of its own"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", f"{GROUPS}/cpu.max": "200000 100000\n"},
            2,
            id="container",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", f"{GROUPS}/cpu.max": "250000 100000\n"},
            3,
            id="part of a core",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", f"{GROUPS}/cpu.max": "max 100000\n"}, 16, id="no quota"
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", f"{GROUPS}/cpu.max": "9900000 100000\n"},
            16,
            id="quota above the machine",
        ),
        pytest.param(
            {
                "proc/self/cgroup": IN_A_SLICE,
                f"{GROUPS}/batch.slice/job.scope/cpu.max": "max 100000\n",
                f"{GROUPS}/batch.slice/cpu.max": "400000 100000\n",
            },
            4,
            id="quota of the group around it",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/0a1b\n0::/\n",
                f"{GROUPS}/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
                f"{GROUPS}/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            1,
            id="version 1, as a container sees it",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "3:cpu:/jobs/7\n",
                f"{GROUPS}/cpu/jobs/7/cpu.cfs_quota_us": "600000\n",
                f"{GROUPS}/cpu/jobs/7/cpu.cfs_period_us": "100000\n",
                f"{GROUPS}/cpu/cpu.cfs_quota_us": "-1\n",
                f"{GROUPS}/cpu/cpu.cfs_period_us": "100000\n",
            },
            6,
            id="version 1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "3:cpuset:/jobs/7\n0::/jobs/7\n",
                f"{GROUPS}/unified/jobs/7/cpu.max": "300000 100000\n",
            },
            3,
            id="both versions",
        ),
        pytest.param(
            {"proc/self/cgroup": "damaged\n0::/../..\n", f"{GROUPS}/cpu.max": "0 0 0"},
            16,
            id="unreadable",
        ),
    ],
)
def test_usable_cores(files: Mapping[str, str], cores: int, tmp_path: Path) -> None:
    assert usable_cores(write(tmp_path, files), schedulable=16) == cores


def test_usable_cores_are_those_that_the_scheduler_allows(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        pytest.param({}, None, id="unknown"),
        pytest.param({"proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 7 kB\n"}, 8192, id="all"),
        pytest.param(
            {
                "proc/meminfo": "MemTotal:  8388608 kB\n",
                "proc/self/cgroup": "0::/pod\n",
                f"{GROUPS}/pod/memory.max": f"{2 << 30}\n",
                f"{GROUPS}/memory.max": "max\n",
            },
            2048,
            id="container",
        ),
        pytest.param(
            {
                "proc/meminfo": "MemTotal:  8388608 kB\n",
                "proc/self/cgroup": "5:memory:/docker/0a1b\n",
                f"{GROUPS}/memory/memory.limit_in_bytes": f"{1 << 30}\n",
            },
            1024,
            id="version 1",
        ),
    ],
)
def test_usable_memory(files: Mapping[str, str], megabytes: int | None, tmp_path: Path) -> None:
    memory = usable_memory(write(tmp_path, files))
    assert (memory and memory >> 20) == megabytes


def portable(**options: Any) -> dict[str, str]:
    """The variables of a worker of a portable runner."""
    named = {f"beam:option:{name}:v1": value for name, value in options.items()}
    return {"PIPELINE_OPTIONS": json.dumps(named)}


DATAFLOW = {"runner": "DataflowRunner", "experiments": ["use_runner_v2"]}
ONE_PROCESS = {**DATAFLOW, "experiments": ["no_use_multiple_sdk_containers"]}


@pytest.mark.parametrize(
    ("environment", "processes"),
    [
        ({}, 1),
        ({"PIPELINE_OPTIONS": "no JSON"}, 1),
        ({"PIPELINE_OPTIONS": "[]"}, 1),
        ({PROCESSES_VARIABLE: "24"}, 24),
        ({PROCESSES_VARIABLE: "24", **portable(**DATAFLOW)}, 24),
        ({PROCESSES_VARIABLE: "0"}, 1),
        ({PROCESSES_VARIABLE: "many"}, 1),
        (portable(sdk_worker_parallelism="8"), 8),
        (portable(sdk_worker_parallelism=0.0), 96),
        (portable(sdk_worker_parallelism=-2), 1),
        (portable(sdk_worker_parallelism=None), 1),
        ({"PIPELINE_OPTIONS": json.dumps({"options": DATAFLOW})}, 96),
        (portable(**DATAFLOW), 96),
        ({"PIPELINE_OPTIONS": json.dumps({"options": ONE_PROCESS})}, 1),
    ],
)
def test_processes_of_a_machine(environment: Mapping[str, str], processes: int) -> None:
    assert machine_processes(environment, 96) == processes


def test_options_of_a_job_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text(portable(sdk_worker_parallelism=3)["PIPELINE_OPTIONS"])
    environment = {"PIPELINE_OPTIONS": "{}", "PIPELINE_OPTIONS_FILE": str(path)}
    assert machine_processes(environment, 8) == 3
    path.unlink()
    assert machine_processes(environment, 8) == 1


@given(st.integers(1, 512), st.integers(1, 512))
def test_processes_together_use_every_core_and_few_more(cores: int, processes: int) -> None:
    share = share_of_cores(cores, processes)
    assert cores <= share * processes < cores + processes


@pytest.mark.parametrize(
    ("processes", "decoders", "read_ahead"),
    [
        pytest.param(1, 96, 64 << 20, id="threads"),
        pytest.param(24, 96, 1536 << 20, id="--workers 24"),
        pytest.param(96, 96, 1536 << 20, id="Dataflow"),
    ],
)
def test_96_cores_have_96_decoders(processes: int, decoders: int, read_ahead: int) -> None:
    """Not 96 in each of 96 processes, which were 9,216, with 6 GB of read-ahead."""
    cores = share_of_cores(96, processes)
    assert cores * processes == decoders
    assert read_ahead_bytes(processes, cores) * processes == read_ahead
