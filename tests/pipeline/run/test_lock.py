"""One run at a time for an output folder, on disk and in a bucket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import DatasetError
from pipeline.run import lock
from pipeline.run.lock import BucketLock, hold_output, this_process
from tests.pipeline.commands import convert, digests
from tests.servers.gcs import GcsServer

BUCKET = "gs://datasets"
LOCK = f"{BUCKET}/out/.staging/lock.json"
HOLD = """
import sys, time
from pipeline.run import lock
lock.BEAT_SECONDS = 0.05
with lock.hold_output(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(output: str) -> subprocess.Popen[str]:
    """Another process that holds the lock of an output folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, output], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


class TestFolder:
    def test_the_second_run_is_reported_and_changes_nothing(
        self, photos: Path, tmp_path: Path
    ) -> None:
        """A folder that is open twice is locked once, be it in one process or two."""
        output = tmp_path / "out"
        with hold_output(str(output)):
            ran = convert(images=f"{photos}/*/*.jpg", output=output)
        assert ran.code == 1
        assert f"another run is writing to --output {output}; wait for it" in ran.error()
        assert not list(output.glob("*.tfrecord"))

    @pytest.mark.slow
    def test_the_lock_of_a_killed_run_is_free_at_once(self, tmp_path: Path) -> None:
        kill(holder(str(tmp_path / "out")))
        with hold_output(str(tmp_path / "out")):
            pass
        assert not os.listdir(tmp_path / "out")

    @pytest.mark.slow
    def test_two_runs_at_once_leave_one_whole_dataset(self, photos: Path, tmp_path: Path) -> None:
        """Different options: the second run is refused, and their outputs never mix."""
        output = tmp_path / "out"
        command = [sys.executable, "-m", "pipeline.convert", "--progress=off"]
        command += [f"--images={photos}/*/*.jpg", f"--output={output}"]
        runs = [
            subprocess.Popen([*command, f"--num_shards={n}"], stderr=subprocess.PIPE, text=True)
            for n in (2, 3)
        ]
        errors = [run.communicate()[1] for run in runs]
        assert sorted(run.returncode for run in runs) in ([0, 1], [0, 2]), errors
        shards = 2 + [run.returncode for run in runs].index(0)
        assert len(list(output.glob("*.tfrecord"))) == shards
        reference = tmp_path / "reference"
        flags: dict[str, Any] = {"images": f"{photos}/*/*.jpg", "num_shards": shards}
        assert convert(output=reference, **flags).code == 0
        assert digests(output) == digests(reference)


class TestBucket:
    @pytest.fixture(autouse=True)
    def bucket(self, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
        monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
        gcs.make_bucket("datasets")
        return gcs

    def test_it_goes_with_the_run(self, bucket: GcsServer) -> None:
        with hold_output(f"{BUCKET}/out"):
            assert bucket.names("datasets") == ["out/.staging/lock.json"]
        assert bucket.names("datasets") == []

    @pytest.mark.slow
    @pytest.mark.usefixtures("dropped_sockets")
    def test_a_second_run_is_reported_who_holds_it(self) -> None:
        process = holder(f"{BUCKET}/out")
        message = rf"\(process {process.pid} on .*\) is writing to --output {BUCKET}/out;"
        try:
            with pytest.raises(DatasetError, match=message), BucketLock(LOCK).held():
                pass
        finally:
            kill(process)

    def test_a_run_that_gives_no_sign_of_life_is_dead(
        self, bucket: GcsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.3)
        put_lock(bucket, {"host": "another machine", "pid": 1, "beats": 7})
        with BucketLock(LOCK).held():
            assert json.loads(bucket.get("datasets", "out/.staging/lock.json"))["pid"] == (
                os.getpid()
            )
        assert bucket.names("datasets") == []

    @pytest.mark.slow
    @pytest.mark.usefixtures("dropped_sockets")
    def test_the_lock_of_a_killed_run_of_this_machine_is_free_at_once(
        self, bucket: GcsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lock, "PATIENCE_SECONDS", 3600)
        kill(holder(f"{BUCKET}/out"))
        assert bucket.names("datasets") == ["out/.staging/lock.json"]
        with BucketLock(LOCK).held():
            pass

    @pytest.mark.usefixtures("dropped_sockets")
    def test_the_live_lock_of_another_container_with_this_host_name_is_respected(
        self, bucket: GcsServer
    ) -> None:
        """Its processes have numbers of their own: there is none with this one here."""
        owner = this_process()._replace(pid=2**22 + 1, namespace="pid:[4026532999]")
        put_lock(bucket, owner._asdict())
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(0.05):
                put_lock(bucket, owner._asdict())

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            with (
                pytest.raises(DatasetError, match=rf"\(process {owner.pid} on {owner.host}\)"),
                BucketLock(LOCK).held(),
            ):
                pass
        finally:
            ended.set()
            beating.join()

    def test_a_run_that_was_taken_over_stops(self, bucket: GcsServer) -> None:
        with (
            pytest.raises(DatasetError, match="another run took over --output gs://datasets/out"),
            BucketLock(LOCK).held(),
        ):
            put_lock(bucket, {"host": "another machine", "pid": 1, "beats": 1})
            threading.Event().wait(60)
        assert bucket.names("datasets") == ["out/.staging/lock.json"]

    def test_an_interrupt_ends_the_workers_of_a_run_that_holds_the_lock(
        self, bucket: GcsServer
    ) -> None:
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

    def test_a_published_dataset_takes_the_lock_along(self, bucket: GcsServer) -> None:
        with BucketLock(LOCK).held():
            bucket.delete("datasets", "out/.staging/lock.json")
            beats = [t for t in threading.enumerate() if t.name == "lock"]
            beats[0].join(60)
            assert not beats[0].is_alive()


def put_lock(bucket: GcsServer, owner: dict[str, Any]) -> None:
    bucket.put("datasets", "out/.staging/lock.json", json.dumps(owner).encode())
