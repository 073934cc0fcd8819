"""One run at a time for an output folder, on disk and in a bucket."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import DatasetError
from pipeline.run import lock
from pipeline.run.lock import BucketLock, Owner, hold_output, this_process
from tests.pipeline.commands import check_ended, convert, digests
from tests.servers.gcs import GcsServer

BUCKET = "gs://datasets"
NAME = "out/.staging/lock.json"
LOCK = f"{BUCKET}/{NAME}"
HOLD = """
import sys, time
from pipeline.run import lock
lock.BEAT_SECONDS = 0.05
with lock.hold_output(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def holder(output: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of an output folder, and is killed at the end."""
    command = [sys.executable, "-c", HOLD, output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


# Of a folder.


def test_the_second_run_is_reported_and_changes_nothing(photos: Path, tmp_path: Path) -> None:
    """A folder that is open twice is locked once, be it in one process or two."""
    output = tmp_path / "out"
    with hold_output(str(output)):
        ran = convert(images=f"{photos}/*/*.jpg", output=output)
    check_ended(ran, 1, f"another run is writing to --output {output}; wait for it")
    assert not list(output.glob("*.tfrecord"))


@pytest.mark.slow
def test_the_lock_of_a_killed_run_is_free_at_once(tmp_path: Path) -> None:
    with holder(str(tmp_path / "out")):
        pass
    with hold_output(str(tmp_path / "out")):
        pass
    assert not os.listdir(tmp_path / "out")


@pytest.mark.slow
def test_two_runs_at_once_leave_one_whole_dataset(photos: Path, tmp_path: Path) -> None:
    """Different options: the second run is refused, and their outputs never mix."""
    output, images = tmp_path / "out", f"{photos}/*/*.jpg"
    command = [sys.executable, "-m", "pipeline.convert", "--progress=off"]
    command += [f"--images={images}", f"--output={output}"]
    runs = [
        subprocess.Popen([*command, f"--num_shards={n}"], stderr=subprocess.PIPE, text=True)
        for n in (2, 3)
    ]
    errors = [run.communicate()[1] for run in runs]
    assert sorted(run.returncode for run in runs) in ([0, 1], [0, 2]), errors
    shards = 2 + [run.returncode for run in runs].index(0)
    assert len(list(output.glob("*.tfrecord"))) == shards
    assert convert(output=tmp_path / "alone", images=images, num_shards=shards).code == 0
    assert digests(output) == digests(tmp_path / "alone")


# Of a bucket.


@pytest.fixture
def bucket(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    gcs.make_bucket("datasets")
    return gcs


def put_lock(bucket: GcsServer, **owner: Any) -> None:
    bucket.put("datasets", NAME, json.dumps(owner).encode())


def test_it_goes_with_the_run(bucket: GcsServer) -> None:
    with hold_output(f"{BUCKET}/out"):
        assert bucket.names("datasets") == [NAME]
    assert bucket.names("datasets") == []


@pytest.mark.slow
@pytest.mark.usefixtures("dropped_sockets")
def test_who_holds_it_is_said_and_a_killed_run_frees_it(
    bucket: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 3600)
    with holder(f"{BUCKET}/out") as process:
        said = rf"\(process {process.pid} on .*\) is writing to --output {BUCKET}/out;"
        with pytest.raises(DatasetError, match=said), BucketLock(LOCK).held():
            pass
    assert bucket.names("datasets") == [NAME]
    with BucketLock(LOCK).held():
        pass


def test_a_run_that_gives_no_sign_of_life_is_dead(bucket: GcsServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.3)
    put_lock(bucket, host="another machine", pid=1, beats=7)
    with BucketLock(LOCK).held():
        assert json.loads(bucket.get("datasets", NAME))["pid"] == os.getpid()
    assert bucket.names("datasets") == []


@pytest.mark.usefixtures("dropped_sockets")
def test_the_live_lock_of_another_container_with_this_host_name_is_respected(
    bucket: GcsServer,
) -> None:
    """Its processes have numbers of their own: there is none with this one here."""
    owner = this_process()._replace(pid=2**22 + 1, namespace="pid:[4026532999]")
    put_lock(bucket, **owner._asdict())
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.05):
            put_lock(bucket, **owner._asdict())

    beating = threading.Thread(target=beat)
    beating.start()
    said = rf"\(process {owner.pid} on {owner.host}\)"
    try:
        with pytest.raises(DatasetError, match=said), BucketLock(LOCK).held():
            pass
    finally:
        ended.set()
        beating.join()


def test_a_run_that_was_taken_over_stops(bucket: GcsServer) -> None:
    said = "another run took over --output gs://datasets/out"
    with pytest.raises(DatasetError, match=said), BucketLock(LOCK).held():
        put_lock(bucket, host="another machine", pid=1, beats=1)
        threading.Event().wait(60)
    assert bucket.names("datasets") == [NAME]


@pytest.mark.usefixtures("bucket")
def test_an_interrupt_ends_the_workers_of_a_run_that_holds_the_lock() -> None:
    """The supervisor's handler for this signal kills them; without it Beam waits for them."""
    received: list[int] = []

    def end_workers(number: int, _: object) -> None:
        received.append(number)
        # Another Ctrl-C would now end this process at once.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    former = signal.signal(signal.SIGUSR1, end_workers)
    try:
        with BucketLock(LOCK).held():
            signal.raise_signal(signal.SIGUSR1)
        assert received == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_published_dataset_takes_the_lock_along(bucket: GcsServer) -> None:
    with BucketLock(LOCK).held():
        bucket.delete("datasets", NAME)
        [beat] = [thread for thread in threading.enumerate() if thread.name == "lock"]
        beat.join(60)
        assert not beat.is_alive()


# An owner is taken for dead only when that is certain.

needs_proc = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="no /proc")


@needs_proc
def test_a_neighbour_lives_until_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        owner = this_process()._replace(pid=child.pid, started=int(fields[19]))
        assert not owner.has_ended
        # Its number was that of an earlier process.
        assert owner._replace(started=owner.started - 1).has_ended
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner.has_ended  # a zombie
        child.wait()
        assert owner.has_ended


@needs_proc
@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param({"boot": "e3b0c442-98fc-4c14-9afb-f4c8996fb924"}, id="another machine"),
        pytest.param({"namespace": "pid:[4026532999]"}, id="another container"),
        pytest.param({"boot": "", "namespace": ""}, id="unknown"),
        pytest.param({"started": 0}, id="an older version"),
    ],
)
@pytest.mark.parametrize("pid", [2**22 + 1, os.getpid()], ids=["no such process", "our number"])
def test_of_a_process_elsewhere_nothing_is_known(pid: int, elsewhere: dict[str, str]) -> None:
    """It has our host name, as two containers often have."""
    here = this_process()._replace(pid=pid, started=7)
    assert here.has_ended
    assert not here._replace(**elsewhere).has_ended


@needs_proc
def test_what_an_earlier_run_of_this_process_left_is_free() -> None:
    assert this_process().has_ended
    # A number that is none asks for no process.
    assert this_process()._replace(pid=10**30).has_ended


PIDS = [b'{"pid": "1"}', b'{"pid": -1}', b'{"pid": 0}']


@pytest.mark.parametrize("text", [b"", b"\xff", b"[]", b"7", b"{", b"[" * 100_000, *PIDS])
def test_what_somebody_else_wrote_is_nobody(text: bytes) -> None:
    owner = Owner.from_text(text)
    assert (owner.host, owner.pid, owner.has_ended) == ("?", 0, False)
