"""The Dataflow API (v1b3) on the loopback interface: takes jobs, and runs them on this machine.

Beam speaks HTTP to an endpoint only if it is called `localhost`, not `127.0.0.1`.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.gcs import HOST

WORKER = Path(__file__).with_name("dataflow_worker.py")
JOBS = re.compile(r"/v1b3/projects/([^/]+)/locations/([^/]+)/jobs(?:/([^/]+))?(?:/(\w+))?")
LAUNCH = re.compile(r"/v1b3/projects/([^/]+)/locations/([^/]+)/flexTemplates:launch")
LAUNCHER = Path(__file__).parents[2] / "deploy" / "flex_main.py"

# How long an answer waits for the end of a job: Beam sleeps five seconds between two questions.
LONG_POLL_SECONDS = 20.0


@dataclass
class Job:
    """A job that was submitted, and what became of it.

    Attributes:
        resource: Identifiers, name, type and state, as the API shows them.
        description: The JSON that was submitted.
        folder: The worker's: `staged`, `installed`, and its working directory, `work`.
        error: What the worker wrote, if it failed.
        counters: Namespace, name and value of each counter.
        modules: File of each module of the project that the worker imported, by name.
        ended: Set when the state is final.
    """

    resource: dict[str, str]
    description: dict[str, Any]
    folder: Path
    error: str = ""
    counters: list[tuple[str, str, int]] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    _worker: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> str:
        """Such as `JOB_STATE_RUNNING`."""
        return self.resource["currentState"]

    def run(self, environment: Mapping[str, str]) -> None:
        """Lets a worker execute the job."""
        log = self.folder / "worker.log"
        try:
            report = json.loads(self._work(environment, log))
            self.counters = [(space, name, value) for space, name, value in report["counters"]]
            self.modules = report["modules"]
            self.resource["currentState"] = "JOB_STATE_DONE"
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            self.error = log.read_text("utf-8") if log.exists() else str(error)
            self.resource["currentState"] = "JOB_STATE_FAILED"
        finally:
            self.ended.set()

    def _work(self, environment: Mapping[str, str], log: Path) -> bytes:
        path = self.folder / "job.json"
        path.write_text(json.dumps(self.description, indent=1), "utf-8")
        command = [sys.executable, "-I", str(WORKER), "install", str(path), str(self.folder)]
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], "TMPDIR": str(self.folder), **environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            ) as self._worker,
        ):
            printed = self._worker.communicate()[0]
        if self._worker.returncode:
            raise subprocess.CalledProcessError(self._worker.returncode, command)
        return printed

    def stop(self) -> None:
        """Ends the worker and what it started."""
        if self._worker is not None and self._worker.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGTERM)

    def messages(self) -> dict[str, Any]:
        """What `messages.list` says."""
        message = {"id": "1", "time": now(), "messageText": self.error}
        return {
            "jobMessages": [{**message, "messageImportance": "JOB_MESSAGE_ERROR"}]
            if self.error
            else []
        }

    def metrics(self) -> dict[str, Any]:
        """What `jobs.getMetrics` says: every counter twice, attempted and committed."""
        return {
            "metricTime": now(),
            "metrics": [
                {
                    "name": {
                        "origin": "user",
                        "name": name,
                        "context": {"namespace": namespace, "step": "s1", **tentative},
                    },
                    "scalar": value,
                }
                for namespace, name, value in self.counters
                for tentative in ({"tentative": "true"}, {})
            ],
        }


def now() -> str:
    """The time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())


class DataflowServer:
    """A running server.

    Attributes:
        jobs: In the order in which they were submitted.
        requests: Method and path of each request.
        launches: Parameters of each launch of a template.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        """Starts to listen; see `serve_dataflow`."""
        self.jobs: list[Job] = []
        self.requests: list[str] = []
        self.launches: list[dict[str, Any]] = []
        self._directory = directory
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._http = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._start(self._http.serve_forever)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The endpoint for Beam."""
        return f"http://localhost:{self.port}"

    def stop(self) -> None:
        """Ends every job, and stops listening."""
        for job in self.jobs:
            job.stop()
            job.ended.wait()
        self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            thread.join()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and content of the answer to a request."""
        self.requests.append(f"{method} {path}")
        if method == "POST" and (launch := LAUNCH.fullmatch(path)):
            return self._launch(launch[1], launch[2], json.loads(body)["launchParameter"])
        match = JOBS.fullmatch(path)
        project, location, job_id, part = match.groups() if match else ("", "", None, None)
        if match and method == "POST" and job_id is None:
            return 200, self._create(project, location, json.loads(body)).resource
        if match and method == "GET" and job_id is None:
            return 200, {"jobs": [job.resource for job in self.jobs]}
        job = next((each for each in self.jobs if each.resource["id"] == job_id), None)
        if method != "GET" or job is None or part not in (None, "messages", "metrics"):
            return 404, {"error": {"code": 404, "message": f"no {method} {path} here"}}
        if part == "messages":
            return 200, job.messages()
        if part == "metrics":
            return 200, job.metrics()
        job.ended.wait(LONG_POLL_SECONDS)
        return 200, job.resource

    def _create(self, project: str, location: str, description: dict[str, Any]) -> Job:
        with self._lock:
            number = len(self.jobs) + 1
            folder = self._directory / f"job-{number}"
            folder.mkdir(parents=True)
            resource = {
                "id": f"2026-01-01_00_00_00-{number}",
                "projectId": project,
                "location": location,
                "name": description["name"],
                "type": description["type"],
                "clientRequestId": description.get("clientRequestId", ""),
                "createTime": now(),
                "currentState": "JOB_STATE_RUNNING",
                "currentStateTime": now(),
            }
            job = Job(resource, description, folder)
            self.jobs.append(job)
        self._start(lambda: job.run(self._environment))
        return job

    def _launch(
        self, project: str, location: str, launch: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Does what the launcher of a Flex Template does, and runs the job that it describes."""
        self.launches.append(launch)
        with tempfile.TemporaryDirectory() as scratch:
            described = Path(scratch, "job.json")
            words = [
                "--runner=DataflowRunner",
                f"--project={project}",
                f"--region={location}",
                f"--job_name={launch['jobName']}",
                f"--temp_location={launch['environment']['tempLocation']}",
                f"--staging_location={launch['environment']['stagingLocation']}",
                f"--template_location={described}",
                '--labels={"goog-dataflow-provided-template-type": "flex"}',
                *(f"--{name}={value}" for name, value in launch["parameters"].items()),
            ]
            launched = subprocess.run(
                [sys.executable, str(LAUNCHER), *words],
                cwd=scratch,
                env={"PATH": os.environ["PATH"], **self._environment},
                capture_output=True,
                text=True,
                check=False,
            )
            if launched.returncode:
                return 400, {"error": {"code": 400, "message": launched.stderr}}
            job = self._create(project, location, json.loads(described.read_text("utf-8")))
        return 200, {"job": job.resource}

    def _start(self, target: Callable[[], object]) -> None:
        thread = threading.Thread(target=target)
        thread.start()
        self._threads.append(thread)


def _handler(server: DataflowServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content = server.answer(self.command, self.path.partition("?")[0], body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, *_: object) -> None:
            """Says nothing on stderr, which belongs to the tests."""

    return Handler


@contextmanager
def serve_dataflow(directory: Path, environment: Mapping[str, str]) -> Iterator[DataflowServer]:
    """Runs a server.

    Args:
        directory: Takes a folder for each job.
        environment: Of the workers, in addition to PATH.
    """
    server = DataflowServer(directory, environment)
    try:
        yield server
    finally:
        server.stop()
