"""Job services, worker pools and a Flink cluster on this machine, stopped by their PIDs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.servers.gcs import HOST, Running, ask, free_ports

# In the environment of every process that these tests start, and so of what those start.
MARK = "IMAGE_TFRECORDS_ENGINES"

# Further variables of every process that these tests start.
VARIABLES: dict[str, str] = {}

# Seconds; on a busy machine Java and Python take their time.
START_SECONDS = 180.0
STOP_SECONDS = 20.0

# Java compiles little of what runs for a minute: without this, compilers take half of the time.
_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
_CONFIG = {
    "env.java.opts.all": " ".join(
        [
            *_JAVA,
            *(f"--add-opens=java.base/java.{opened}=ALL-UNNAMED" for opened in _OPENED),
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        ]
    ),
    "jobmanager.bind-host": HOST,
    "jobmanager.rpc.address": HOST,
    "jobmanager.memory.process.size": "900m",
    # Beam is loaded from Flink's own `lib`.
    "classloader.resolve-order": "parent-first",
    "rest.address": HOST,
    "rest.bind-address": HOST,
    "taskmanager.bind-host": HOST,
    "taskmanager.host": HOST,
    "taskmanager.memory.process.size": "1400m",
    # Sixty steps that exchange data need more buffers than a small heap brings.
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "taskmanager.network.sort-shuffle.min-buffers": 64,
    "taskmanager.numberOfTaskSlots": 2,
    # A lost TaskManager is noticed in seconds.
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 15000,
}


def environment() -> dict[str, str]:
    """Variables of a process: what it asks of the outside fails at once."""
    folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        MARK: str(os.getpid()),
        # Beam's worker pool starts `python`.
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": f"{HOST},localhost",
        **VARIABLES,
    }


def left_processes() -> list[int]:
    """The processes that were started by these tests, or by what they started, and still run."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@contextmanager
def started(command: list[str | Path], log: Path, **variables: str) -> Iterator[Running]:
    """Runs a program in a session of its own, and stops the whole session in the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env={**environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Running(process, log)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)


def wait_until(
    is_so: Any, running: Running | None, what: str, seconds: float = START_SECONDS
) -> Any:
    """Waits for something true, and returns it.

    Raises:
        RuntimeError: it takes too long, or the program that it depends on ended.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            if found := is_so():
                return found
        if running is not None and running.process.poll() is not None:
            break
        time.sleep(0.05)
    message = running.tail() if running is not None else ""
    raise RuntimeError(f"waited in vain for {what}\n{message}")


def is_listening(port: int) -> bool:
    """Whether a program takes connections on a port."""
    with socket.create_connection(("localhost", port), timeout=1):
        return True


def job_service_program() -> str:
    """The program of docs/engines.md that starts a job service."""
    text = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
    return text.split("<<'PROGRAM'\n")[1].split("PROGRAM\n")[0]


@contextmanager
def job_service(folder: Path) -> Iterator[int]:
    """Beam's local job service, started as docs/engines.md says; its port."""
    file = folder / "job_service.port"
    command: list[str | Path] = [sys.executable, "-c", job_service_program(), "--port_file", file]
    with started(command, folder / "job_service.log") as running:
        yield int(wait_until(file.read_text, running, "the job service"))


@contextmanager
def worker_pool(folder: Path) -> Iterator[int]:
    """Beam's worker pool, which starts Python workers on request; its port."""
    (port,) = free_ports(1)
    module = "apache_beam.runners.worker.worker_pool_main"
    command: list[str | Path] = [sys.executable, "-m", module, "--service_port", str(port)]
    with started(command, folder / "worker_pool.log") as running:
        wait_until(lambda: is_listening(port), running, "the worker pool")
        yield port


@contextmanager
def flink_job_service(jar: Path, master: str, folder: Path) -> Iterator[int]:
    """Beam's job service for a Flink cluster; its port.

    Args:
        jar: starts it.
        master: host and port of the cluster.
        folder: where it writes.
    """
    ports = free_ports(3)
    flags = dict(zip(("job", "artifact", "expansion"), ports, strict=True))
    command: list[str | Path] = ["java", *_JAVA, "-jar", jar, "--flink-master", f"http://{master}"]
    command += [f"--{name}-port={port}" for name, port in flags.items()]
    command += [f"--artifacts-dir={folder / 'artifacts'}"]
    with started(command, folder / "flink_jobs.log") as running:
        wait_until(lambda: is_listening(ports[0]), running, "Flink's job service")
        yield ports[0]


class FlinkCluster:
    """One JobManager, which `--flink_master` names, and TaskManagers.

    Attributes:
        master: host and port of its REST API.
        task_managers: their processes.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._stack = ExitStack()
        rest, rpc, blob = free_ports(3)
        self._rest = rest
        self.master = f"{HOST}:{rest}"
        self.task_managers: list[Running] = []
        conf = folder / "conf"
        shutil.copytree(home / "conf", conf)
        ports = {"rest.port": rest, "jobmanager.rpc.port": rpc, "blob.server.port": blob}
        temporary = {"io.tmp.dirs": folder / "tmp"}
        lines = (f"{name}: {value}\n" for name, value in {**_CONFIG, **ports, **temporary}.items())
        (conf / "config.yaml").write_text("".join(lines))

    def __enter__(self) -> FlinkCluster:
        with ExitStack() as stack:
            self._job_manager = stack.enter_context(self._start("jobmanager", 0))
            self._stack = stack
            for _ in range(2):
                self.add_task_manager()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_task_manager(self) -> None:
        """Starts another TaskManager, and waits until Flink knows it."""
        number = len(self.task_managers)
        self.task_managers.append(self._stack.enter_context(self._start("taskmanager", number)))
        log = self._folder / f"taskmanager-{number}.log"
        wait_until(
            lambda: "Successful registration at resource manager" in log.read_text(),
            self.task_managers[-1],
            "Flink",
        )

    def kill_task_manager(self) -> None:
        """Kills a TaskManager, as the kernel would."""
        process = next(e.process for e in self.task_managers if e.process.poll() is None)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ask(self, target: str) -> dict[str, Any]:
        """What the REST API says."""
        answer: dict[str, Any] = json.loads(ask(self._rest, "GET", target).body)
        return answer

    def _start(self, kind: str, number: int) -> Any:
        command: list[str | Path] = ["bash", self._home / "bin" / f"{kind}.sh", "start-foreground"]
        variables = {"FLINK_HOME": self._home, "FLINK_CONF_DIR": self._folder / "conf"}
        variables |= {"FLINK_LOG_DIR": self._folder, "FLINK_PID_DIR": self._folder}
        return started(
            command,
            self._folder / f"{kind}-{number}.log",
            **{name: str(value) for name, value in variables.items()},
        )
