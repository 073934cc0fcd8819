"""Ctrl-C at any moment is one line, whatever process is being started."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign import size
from tests.images import picture, saved
from tests.pipeline.commands import ROOT, Ran, arguments, take_interrupts

WORKERS = ["--workers=2"]
TFX_BSL = "Error importing tfx_bsl_extension.coders. Some tfx_bsl functionalities are not available"
MESSAGES = {
    "",
    "interrupted",
    "convert: interrupted; run the same command to resume",
}


# As `python -m pipeline.convert`, with one byte written once the package is imported: while Python
# itself starts, it answers SIGINT in its own way, and no code of ours runs.
STARTED = """
import os, runpy, sys
words, sys.argv = sys.argv[2:], ["-m"]
import pipeline
os.write(int(os.environ["STARTED"]), b".")
sys.argv = ["-m", *words]
runpy._run_module_as_main("pipeline.convert")
"""


def interrupt(
    words: list[str], is_due: Callable[[int], bool], tmp: Path, *, group: bool = True
) -> Ran:
    """Runs `convert` and sends SIGINT to it, as a terminal does to its group, when it is due."""
    started, to_started = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, "-m", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp), "STARTED": str(to_started)},
        pass_fds=[to_started],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=take_interrupts,
    )
    os.close(to_started)
    try:
        with open(started, "rb", buffering=0) as reader:
            assert reader.read(1) == b"."
        while process.poll() is None and not is_due(process.pid):
            time.sleep(0.002)
        if process.poll() is None:
            (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Ran(process.returncode, out, err)


def check_quiet(ran: Ran) -> None:
    """It said that it was interrupted, or it had ended before."""
    # This library turns an interrupt of its import into a line of its own.
    assert ran.err.replace(TFX_BSL, "").strip() in MESSAGES, ran.err
    # Python ends itself by the signal where no command runs yet.
    assert ran.code in (0, 130, -signal.SIGINT), ran


def after(seconds: float) -> Callable[[int], bool]:
    """Due when the process has run for so long."""
    started = time.monotonic()
    return lambda _: time.monotonic() - started >= seconds


def command_lines(group: int) -> list[str]:
    """The command lines of the descendants of a process."""
    parents, found = {group}, []
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in parents:
                parents.add(int(path.name))
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


def runs(name: str) -> Callable[[int], bool]:
    """Due when a descendant has a name in its command line: it imports its modules then."""
    return lambda process: any(name in line for line in command_lines(process))


@pytest.fixture
def words(photos: Path, tmp_path: Path) -> list[str]:
    return arguments(images=f"{photos}/*/*.jpg", output=tmp_path / "out", num_shards=3)


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False], ids=["group", "process"])
def test_a_run_is_interrupted(words: list[str], tmp_path: Path, group: bool) -> None:
    staging = tmp_path / "out" / ".staging"
    ran = interrupt(words, lambda _: staging.exists(), tmp_path, group=group)
    check_quiet(ran)
    assert ran.code == 130 and ran.err


@pytest.mark.slow
def test_a_command_that_imports_is_interrupted(words: list[str], tmp_path: Path) -> None:
    check_quiet(interrupt(words, after(0.3), tmp_path))


@pytest.mark.slow
def test_the_child_that_decodes_is_not_interrupted(words: list[str], tmp_path: Path) -> None:
    """The report decodes a rejected image there."""
    (tmp_path / "bad.jpg").write_bytes(saved(picture("RGB"), "JPEG")[:-50])
    words += [f"--images={tmp_path}/bad.jpg", "--max_rejected=1"]
    ran = interrupt(words, runs("images.guard"), tmp_path)
    check_quiet(ran)
    assert ran.code == 130


@pytest.mark.slow
def test_workers_that_import_are_not_interrupted(words: list[str], tmp_path: Path) -> None:
    ran = interrupt([*words, *WORKERS], runs("beam_compat"), tmp_path)
    check_quiet(ran)
    assert ran.code == 130


@pytest.mark.slow
def test_at_random_times(photos: Path, tmp_path: Path) -> None:
    rng = random.Random(15)
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 3}
    started = time.monotonic()
    words = [*arguments(output=tmp_path / "whole", **flags), *WORKERS]
    whole = interrupt(words, lambda _: False, tmp_path)
    length = time.monotonic() - started
    assert whole.code == 0
    for number in range(size(1, 10)):
        output = tmp_path / f"out-{number}"
        due = after(rng.uniform(0.02, 1.0) * length)
        check_quiet(interrupt([*arguments(output=output, **flags), *WORKERS], due, tmp_path))
