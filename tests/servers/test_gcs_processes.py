"""The processes of the loopback Google Cloud Storage: they start, and none outlives its tests."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.servers.gcs import ROOT, GcsServer, ask


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
