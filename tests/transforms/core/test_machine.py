"""Cores, memory and the folder for temporary files, as a machine or a container allows them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core import machine as machine_module
from transforms.core.machine import (
    PROCESSES_VARIABLE,
    machine_processes,
    scratch_folder,
    share_of_cores,
    sweep,
    temporary_files_in,
    usable_cores,
    usable_memory,
)
from transforms.storage.read_ahead import read_ahead_bytes

GROUPS = "sys/fs/cgroup"
IN_A_SLICE = "0::/batch.slice/job.scope\n"


def machine(root: Path, groups: str, limits: Mapping[str, str], *, total: str = "") -> Path:
    """The files of a machine: the groups of this process, limits of groups, and the memory."""
    files = {f"{GROUPS}/{name}": text for name, text in limits.items()}
    for name, text in {**files, "proc/self/cgroup": groups, "proc/meminfo": total}.items():
        if text:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


def version_1(folder: str, quota: int) -> dict[str, str]:
    files = {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"}
    return {f"{folder}/{name}": text for name, text in files.items()}


TWO, NONE, JOB = "200000 100000\n", "max 100000\n", "batch.slice/job.scope"
AROUND = {f"{JOB}/cpu.max": NONE, "batch.slice/cpu.max": "400000 100000\n"}
BOTH = {"unified/jobs/7/cpu.max": "300000 100000\n"}


@cases(
    pytest.param("", {}, 16, id="no groups"),
    pytest.param("", {"cpu.max": TWO}, 16, id="no group of its own"),
    pytest.param("0::/\n", {"cpu.max": TWO}, 2, id="container"),
    pytest.param("0::/\n", {"cpu.max": "250000 100000\n"}, 3, id="part of a core"),
    pytest.param("0::/\n", {"cpu.max": NONE}, 16, id="no quota"),
    pytest.param("0::/\n", {"cpu.max": "9900000 100000\n"}, 16, id="above the machine"),
    pytest.param(IN_A_SLICE, AROUND, 4, id="quota of the group around it"),
    pytest.param(
        "3:cpu,cpuacct:/docker/0a1b\n0::/\n", version_1("cpu,cpuacct", 50_000), 1, id="docker"
    ),
    pytest.param(
        "3:cpu:/jobs/7\n", version_1("cpu/jobs/7", 600_000) | version_1("cpu", -1), 6, id="job"
    ),
    pytest.param("3:cpuset:/jobs/7\n0::/jobs/7\n", BOTH, 3, id="both versions"),
    pytest.param("damaged\n0::/../..\n", {"cpu.max": "0 0 0"}, 16, id="unreadable"),
)
def test_usable_cores(groups: str, limits: Mapping[str, str], cores: int, tmp_path: Path) -> None:
    assert usable_cores(machine(tmp_path, groups, limits), schedulable=16) == cores


def test_usable_cores_are_those_that_the_scheduler_allows(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, allowed)


TOTAL = "MemTotal:  8388608 kB\nMemFree: 7 kB\n"
POD = {"pod/memory.max": f"{2 << 30}\n", "memory.max": "max\n"}
OLD = {"memory/memory.limit_in_bytes": f"{1 << 30}\n"}


@cases(
    pytest.param("", "", {}, None, id="unknown"),
    pytest.param(TOTAL, "", {}, 8192, id="all"),
    pytest.param(TOTAL, "0::/pod\n", POD, 2048, id="container"),
    pytest.param(TOTAL, "5:memory:/docker/0a1b\n", OLD, 1024, id="version 1"),
)
def test_usable_memory(
    total: str, groups: str, limits: Mapping[str, str], megabytes: int | None, tmp_path: Path
) -> None:
    memory = usable_memory(machine(tmp_path, groups, limits, total=total))
    assert (memory and memory >> 20) == megabytes


def portable(**options: Any) -> dict[str, str]:
    """The variables of a worker of a portable runner."""
    named = {f"beam:option:{name}:v1": value for name, value in options.items()}
    return {"PIPELINE_OPTIONS": json.dumps(named)}


DATAFLOW = {"runner": "DataflowRunner", "experiments": ["use_runner_v2"]}
ONE_PROCESS = {**DATAFLOW, "experiments": ["no_use_multiple_sdk_containers"]}


@cases(
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


@cases(
    pytest.param(1, 96, 64 << 20, id="threads"),
    pytest.param(24, 96, 1536 << 20, id="--workers 24"),
    pytest.param(96, 96, 1536 << 20, id="Dataflow"),
)
def test_96_cores_have_96_decoders(processes: int, decoders: int, read_ahead: int) -> None:
    """Not 96 in each of 96 processes, which were 9,216, with 6 GB of read-ahead."""
    cores = share_of_cores(96, processes)
    assert cores * processes == decoders
    assert read_ahead_bytes(processes, cores) * processes == read_ahead


# What killed processes leave in the folder for temporary files is removed, and nothing else.

HOLD = """
from transforms.core.machine import scratch_folder
with scratch_folder() as folder:
    open(f"{folder}/file", "w").close()
    print(folder, flush=True)
    input()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def age(path: Path) -> None:
    """Lets a folder look as if it were made two minutes ago."""
    os.utime(path, (time.time() - 120,) * 2)


def test_a_folder_goes_with_its_block(temporary: Path) -> None:
    with pytest.raises(KeyError), scratch_folder() as folder:
        Path(folder, "file").touch()
        assert os.stat(folder).st_mode & 0o777 == 0o700
        raise KeyError
    assert not any(temporary.iterdir())


@pytest.mark.usefixtures("temporary")
def test_what_a_killed_process_left_is_removed() -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", HOLD], text=True, **pipes) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        age(folder)
        sweep()
        assert folder.exists()  # its owner lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    sweep()
    assert not folder.exists()


def beginning() -> str:
    """What the paths of all folders begin with."""
    with scratch_folder() as folder:
        return folder.rpartition("-")[0] + "-"


def test_nothing_else_is_removed(temporary: Path) -> None:
    precious, prefix = temporary / "precious", beginning()
    for folder in (precious, *(Path(f"{prefix}{name}") for name in ("young", "open"))):
        folder.mkdir(mode=0o700)
    (precious / "file").touch()
    Path(f"{prefix}link").symlink_to(precious)
    Path(f"{prefix}file").touch()
    os.mkfifo(f"{prefix}fifo")
    Path(f"{prefix}open").chmod(0o777)
    (temporary / "beam-pipeline-temp1").mkdir(mode=0o700)
    for path in temporary.iterdir():
        if path.is_dir() and "young" not in path.name:
            age(path)
    before = {path.name for path in temporary.iterdir()}
    sweep()
    assert {path.name for path in temporary.iterdir()} == before
    assert (precious / "file").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_is_another_users_stays(temporary: Path) -> None:
    folder = Path(f"{beginning()}theirs")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    age(folder)
    sweep()
    assert folder.exists()


def test_others_make_theirs_in_it(temporary: Path) -> None:
    with scratch_folder() as folder:
        with temporary_files_in(folder):
            assert os.path.dirname(tempfile.mkdtemp()) == folder
        assert tempfile.gettempdir() == str(temporary)


def test_no_proc_tells_of_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: no process is taken for dead, killed or limited, and every file is ordinary."""
    monkeypatch.setattr(machine_module, "PROC", tmp_path)
    assert machine_module.boot_and_namespace() == ("", "")
    assert [machine_module.state_and_start(pid) for pid in (os.getpid(), 2**22 + 1)] == [
        ("?", 0),
        ("", 0),
    ]
    machine_module.kill_processes("PATH", os.environ["PATH"])
    assert (machine_module.mapped_bytes(), machine_module.mounts()) == (None, [])
    assert usable_memory(tmp_path) is None and usable_cores(tmp_path) >= 1
