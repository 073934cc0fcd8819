"""A lock's owner is taken for dead only when that is certain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.run.lock import Owner, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="no /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the test ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def owner_of(pid: int) -> Owner:
    """The owner that this process would record."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return this_process()._replace(pid=pid, started=int(fields[19]))


def test_a_neighbour_lives_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    owner = owner_of(child.pid)
    assert not owner.has_ended
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.has_ended  # a zombie
    child.wait()
    assert owner.has_ended


def test_a_number_that_another_process_got_since_is_no_sign_of_life(
    child: subprocess.Popen[bytes],
) -> None:
    owner = owner_of(child.pid)
    assert owner._replace(started=owner.started - 1).has_ended


GONE = 2**22 + 1
"""More than the largest number of a process."""


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"boot": "e3b0c442-98fc-4c14-9afb-f4c8996fb924"},
        {"namespace": "pid:[4026532999]"},
        {"boot": "", "namespace": ""},
        {"started": 0},
    ],
    ids=["another machine", "another container", "unknown", "an older version"],
)
@pytest.mark.parametrize("pid", [GONE, os.getpid()], ids=["no such process", "our number"])
def test_of_a_process_elsewhere_nothing_is_known(pid: int, elsewhere: dict[str, str]) -> None:
    """It has our host name, as two containers often have."""
    here = this_process()._replace(pid=pid, started=7)
    assert here.has_ended
    assert not here._replace(**elsewhere).has_ended


def test_what_an_earlier_run_of_this_process_left_is_free() -> None:
    assert this_process().has_ended


def test_it_is_written_and_read_back() -> None:
    owner = this_process()
    assert owner.boot and owner.namespace.startswith("pid:[") and owner.started > 0
    assert Owner.from_text(json.dumps(owner._asdict()).encode()) == owner


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"{",
        b"[" * 100_000,
        b'{"pid": "1"}',
        b'{"pid": -1}',
        b'{"pid": 0}',
    ],
)
def test_what_somebody_else_wrote_is_nobody(text: bytes) -> None:
    owner = Owner.from_text(text)
    assert (owner.host, owner.pid) == ("?", 0)
    assert not owner.has_ended


def test_a_number_that_is_none_asks_for_no_process() -> None:
    assert this_process()._replace(pid=10**30).has_ended
