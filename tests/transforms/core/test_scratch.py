"""What killed processes leave in the folder for temporary files is removed, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from transforms.core import machine as scratch
from transforms.core.machine import scratch_folder, sweep, temporary_files_in

HOLD = """
from transforms.core.machine import scratch_folder
with scratch_folder() as folder:
    open(f"{folder}/file", "w").close()
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def age(path: Path) -> None:
    """Lets a folder look as if it were made two minutes ago."""
    os.utime(path, (time.time() - 120,) * 2)


def test_a_folder_goes_with_its_block(temporary: Path) -> None:
    with pytest.raises(KeyError), scratch_folder() as folder:
        Path(folder, "file").touch()
        assert os.stat(folder).st_mode & 0o777 == 0o700
        raise KeyError
    assert not any(temporary.iterdir())


def test_what_a_killed_process_left_is_removed(temporary: Path) -> None:
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        age(folder)
        sweep()
        assert folder.exists()  # its owner lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    sweep()
    assert not folder.exists()


def test_nothing_else_is_removed(temporary: Path) -> None:
    prefix = scratch._prefix()
    precious = temporary / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (temporary / f"{prefix}link").symlink_to(precious)
    (temporary / f"{prefix}file").touch()
    os.mkfifo(temporary / f"{prefix}fifo")
    (temporary / f"{prefix}young").mkdir(mode=0o700)
    (temporary / f"{prefix}open").mkdir()
    (temporary / f"{prefix}open").chmod(0o777)
    (temporary / "beam-pipeline-temp1").mkdir(mode=0o700)
    for path in temporary.iterdir():
        if path.is_dir() and "young" not in path.name:
            age(path)
    before = {path.name for path in temporary.iterdir()}
    sweep()
    assert {path.name for path in temporary.iterdir()} == before
    assert (precious / "file").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_is_another_users_stays(temporary: Path) -> None:
    folder = temporary / f"{scratch._prefix()}theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    age(folder)
    sweep()
    assert folder.exists()


def test_others_make_theirs_in_it(temporary: Path) -> None:
    with scratch_folder() as folder:
        with temporary_files_in(folder):
            assert os.path.dirname(tempfile.mkdtemp()) == folder
        assert tempfile.gettempdir() == str(temporary)
