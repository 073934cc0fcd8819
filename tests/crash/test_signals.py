"""What a run that is ended from outside says and leaves."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.pipeline.commands import ROOT, digests, make_dataset, take_interrupts


def start(photos: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Starts a run in a session of its own, which has begun to work when this returns."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pipeline.convert", "--progress=off", "--num_shards=3"]
    command += [f"--images={photos}/*/*.jpg", f"--output={folder}/out", *words]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=take_interrupts,
    )
    known = set(scratch(folder))
    while process.poll() is None and set(scratch(folder)) <= known:
        time.sleep(0.005)
    return process


def scratch(folder: Path) -> list[Path]:
    """The folders that runs have made for temporary files."""
    return list((folder / "tmp").glob("image-tfrecords-scratch-*"))


@pytest.mark.slow
def test_killed_runs_leave_nothing_that_piles_up(photos: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with start(photos, tmp_path) as process:
            os.killpg(process.pid, signal.SIGKILL)
        for path in scratch(tmp_path):
            os.utime(path, (0, 0))
    assert scratch(tmp_path)
    with start(photos, tmp_path) as process:
        assert process.wait(60) == 0
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the child", "the parent"])
def test_a_killed_process_leaves_no_worker(photos: Path, tmp_path: Path, whom: str) -> None:
    """The kernel kills one process when memory is short; workers would wait for it for a minute."""
    with start(photos, tmp_path, "--workers=2") as process:
        workers = wait_for_workers(process.pid)
        [child] = children(process.pid)
        os.kill(child if whom == "the child" else process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 45
        _, said = process.communicate(timeout=45)
    if whom == "the child":
        assert process.returncode == 128 + signal.SIGKILL
        assert said.startswith("the run was killed (SIGKILL)") and said.count("\n") == 1
    while time.monotonic() < deadline and any(map(is_running, workers)):
        time.sleep(0.1)
    assert not any(map(is_running, workers))


def children(process: int) -> list[int]:
    """What its threads have started."""
    files = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def wait_for_workers(process: int) -> list[int]:
    """The two worker processes of a run, by now or soon."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found, todo = [], [process]
        while todo:
            each = todo.pop()
            with suppress(OSError):
                todo += children(each)
                command = Path(f"/proc/{each}/cmdline").read_bytes()
                found += [each] if b"beam_compat" in command else []
        if len(found) >= 2:
            return found
        time.sleep(0.05)
    raise AssertionError("no worker was started")


def is_running(process: int) -> bool:
    with suppress(OSError):
        stat = Path(f"/proc/{process}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize(("error", "is_printed"), [("RpcError", False), ("KeyError", True)])
def test_threads_that_lose_a_worker_print_nothing(error: str, is_printed: bool) -> None:
    """Beam's threads that read from it fail, too; what the run says of it is one line."""
    code = f"""
import threading
from pipeline.run.supervise import supervise

RpcError = type("RpcError", (Exception,), {{}})

def fail():
    raise {error}("x")

def command():
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    return 0

raise SystemExit(supervise(command))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, is_printed), done.stderr


@pytest.mark.slow
def test_closed_standard_streams(photos: Path, tmp_path: Path) -> None:
    """A file that is opened next would get their numbers, and what libraries print."""
    command = f"{sys.executable} -m pipeline.convert --progress=plain --num_shards=3"
    command += f" '--images={photos}/*/*.jpg' --output={tmp_path}/out <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    expected = make_dataset(tmp_path / "expected", images=f"{photos}/*/*.jpg", num_shards=3)
    same = {
        name: digest for name, digest in digests(expected.folder).items() if "report" not in name
    }
    found = digests(tmp_path / "out")
    assert {name: found[name] for name in same} == same
