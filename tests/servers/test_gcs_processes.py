"""The processes of the loopback Google Cloud Storage: they start, and none outlives its tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.servers import gcs as gcs_module
from tests.servers.gcs import HOST, ROOT, GcsError, GcsServer, ask, serve_gcs


def answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/_internal/healthcheck").status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_both_processes_end_with_tests_that_are_killed(
    gcs_server: GcsServer, tmp_path: Path
) -> None:
    script = """
import pathlib, sys, time
from tests.servers.gcs import serve_gcs
with serve_gcs(pathlib.Path(sys.argv[1])) as server:
    print(server.port, server.upstream_port, flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ports = [int(word) for word in process.stdout.readline().split()]
        assert all(answers(port) for port in ports)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while any(answers(port) for port in ports) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(ports) == 2
    assert not any(answers(port) for port in ports)


def test_a_server_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs_module, "free_ports", lambda _: [1, 70000])
    with pytest.raises(GcsError, match="fake-gcs-server ended with 1:\n.*port 70000"):
        with serve_gcs(tmp_path):
            pass


@pytest.mark.slow
def test_a_port_that_was_taken_meanwhile_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_ports = gcs_module.free_ports
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        offered = [[*free_ports(1), taken.getsockname()[1]]]
        monkeypatch.setattr(
            gcs_module, "free_ports", lambda count: offered.pop() if offered else free_ports(count)
        )
        with serve_gcs(tmp_path) as server:
            assert not offered and answers(server.port) and answers(server.upstream_port)


def test_the_server_is_on_this_machine_alone(server: GcsServer) -> None:
    assert server.url == f"http://{HOST}:{server.port}"
    assert os.environ["STORAGE_EMULATOR_HOST"] == server.url
    listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = [line.split()[1] for line in listening if line.split()[3] == "0A"]
    for port in (server.port, server.upstream_port):
        assert [each for each in local if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
