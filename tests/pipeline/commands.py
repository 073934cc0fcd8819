"""Runs the commands in this process, as a shell would, and looks at the folders they leave."""

import contextlib
import hashlib
import importlib
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import run_command
from tests.remembered_beam import remember

ROOT = Path(__file__).parent.parent.parent

SMALL_FILES = [
    "dataset_info.json",
    "features.json",
    "image.class.label.labels.txt",
    "labels.txt",
    "manifest.json",
    "rejected.jsonl",
    "report.html",
    "schema.pbtxt",
    "statistics.json",
]
"""The files next to the shards of a dataset of the default layout, sorted."""


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def after_decided(self) -> list[str]:
        """What it printed without the blocks "Decided"."""
        lines = self.out.splitlines()
        return [line for line in lines if line != "Decided" and line[:2] != "  "]

    def error(self) -> str:
        """What it said on stderr: one line, meant for people."""
        lines = self.err.splitlines()
        assert len(lines) == 1, f"{len(lines)} lines on stderr:\n{self.err}"
        assert "Traceback" not in self.err
        return lines[0]


def check_ended(ran: Ran, code: int, *says: str) -> None:
    """Checks how a command ended, and that each of some texts is in what it printed."""
    printed = ran.out + ran.err
    assert (ran.code, [text for text in says if text not in printed]) == (code, []), printed


def take_interrupts() -> None:
    """A `preexec_fn`: background jobs of a shell and workers of xdist ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def arguments(**flags: Any) -> list[str]:
    """Flags as words: a list repeats its flag, True is a switch, None leaves a flag out."""
    words = []
    for name, value in {"progress": "off", **flags}.items():
        for each in value if isinstance(value, list) else [value]:
            if each is True:
                words.append(f"--{name}")
            elif each is not None:
                words.append(f"--{name}={each}")
    return words


def run_here(main: Callable[[list[str]], None], command: str, words: list[str]) -> Ran:
    """Runs a command in this process."""
    remember()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(lambda: main(words), command)
    return Ran(code, out.getvalue(), err.getvalue())


def run(command: str, *words: object) -> Ran:
    """Runs a command of `pipeline` in this process; words may be paths and numbers."""
    main = importlib.import_module(f"pipeline.{command}").main
    return run_here(main, command, [*map(str, words)])


def convert(*words: str, **flags: Any) -> Ran:
    """Runs `convert` in this process."""
    return run("convert", *arguments(**flags), *words)


def plan(*words: str, **flags: Any) -> Ran:
    """Runs `plan` in this process."""
    return run("plan", *arguments(**flags), *words)


def verify(*words: object) -> Ran:
    """Runs `verify` in this process."""
    return run("verify", *words, *arguments())


def show(*words: object) -> Ran:
    """Runs `show` in this process."""
    return run("show", *words)


def check_sound(folder: Path | str) -> None:
    """Checks that `verify` finds nothing wrong with a dataset."""
    ran = verify(folder)
    assert ran.code == 0, ran.out + ran.err


def write_layout(folder: Path, features: str) -> Path:
    """Writes the YAML file of a layout, `my.yaml`; the features are lines, indented."""
    path = folder / "my.yaml"
    path.write_text(f"features:\n{features}", "utf-8")
    return path


def run_process(module: str, *words: str, cwd: Path = ROOT, **flags: Any) -> Ran:
    """Runs `python -m module` from a folder."""
    command = [sys.executable, "-m", module, *arguments(**flags), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


class Dataset(NamedTuple):
    """A dataset that `convert` made."""

    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`."""
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        return manifest

    @property
    def ledger(self) -> dict[str, int]:
        """The ledger, without its zeros."""
        return {name: count for name, count in self.manifest["ledger"].items() if count}

    @property
    def rejected(self) -> list[dict[str, str]]:
        """The lines of `rejected.jsonl`."""
        lines = (self.folder / "rejected.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def classes(self) -> list[str]:
        """The names of the classes: the lines of `labels.txt` that are not empty."""
        lines = (self.folder / "labels.txt").read_text("utf-8").splitlines()
        return [line for line in lines if line]

    def shards(self, split: str = "*") -> list[str]:
        """Names of the shards, sorted."""
        return sorted(path.name for path in self.folder.glob(f"{split}-*-of-*.tfrecord*"))


def make_dataset(folder: Path, *words: str, **flags: Any) -> Dataset:
    """Runs `convert`, which must succeed."""
    ran = convert(*words, output=folder, **flags)
    assert ran.code == 0, ran.err
    return Dataset(folder)


def nameless(path: str, data: bytes) -> bytes:
    """A file of a dataset without the name of its folder, which is the title of `report.html`."""
    if not path.endswith("report.html"):
        return data
    return re.sub(rb"<title>[^<]* |<h1>.*?</h1>", b"", data)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, by relative path; see `nameless`."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            nameless(path.name, path.read_bytes())
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def index_rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each index without the versions of the files, which differ for copies."""
    # Tests of what a command imports use this module, too.
    import pyarrow.parquet as pq

    return {
        path.name: pq.read_table(path).drop_columns(["version"]).to_pylist()
        for path in sorted((folder / "index").iterdir())
    }


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: the time stamp and the content of each path."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }
