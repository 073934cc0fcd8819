"""Runs a command as a whole process, with its wall time and the memory of its process tree.

Memory comes from `/proc`, so this needs Linux. The resident sets of all processes of the tree are
added up every 20 ms; a page that several of them share counts in each. The highest resident set of
a single process is the kernel's own high-water mark, which no sample can miss until the last 20 ms.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_PERIOD = 0.02  # seconds between samples


class Memory(NamedTuple):
    """Memory of one process in bytes; zeros when it has ended.

    Attributes:
        resident: now.
        peak: the highest so far.
    """

    resident: int
    peak: int


class Run(NamedTuple):
    """The time and memory of a command.

    Attributes:
        seconds: wall time, from before the process starts until it has ended.
        tree_bytes: highest sum of the resident sets of the process and all it started.
        process_bytes: highest resident set of one process of them.
        code: exit code; below zero, the signal that ended it.
        core_seconds: that all cores spent on it and on what it started and waited for.
    """

    seconds: float
    tree_bytes: int
    process_bytes: int
    code: int
    core_seconds: float = 0.0


def read_memory(pid: int | str = "self") -> Memory:
    """The memory of a process, as `/proc/PID/status` has it."""
    fields = {"VmRSS": 0, "VmHWM": 0}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in fields:
                fields[name] = int(value.split()[0]) * 1024
    return Memory(fields["VmRSS"], fields["VmHWM"])


def _parent(pid: int) -> int:
    """The parent of a process, or 0 when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])  # the name before may hold anything


class TreeSampler:
    """Adds up the memory of a process and its descendants; once one of them, always one of them.

    Attributes:
        tree_bytes: highest sum of a sample.
        process_bytes: highest resident set of one process.
    """

    def __init__(self, root: int) -> None:
        """Starts with the process `root` alone."""
        self.tree_bytes = 0
        self.process_bytes = 0
        self._members = {root}
        self._others: set[int] = set()

    def sample(self) -> None:
        """Takes one sample."""
        self._look_for_children()
        memories = [read_memory(pid) for pid in self._members]
        total = sum(memory.resident for memory in memories)
        self.process_bytes = max(self.process_bytes, *(memory.peak for memory in memories), 0)
        self.tree_bytes = max(self.tree_bytes, total, self.process_bytes)

    def _look_for_children(self) -> None:
        """Sorts processes that were not there before; only their parents need looking up."""
        present = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        self._members &= present
        self._others &= present
        parents = {pid: _parent(pid) for pid in present - self._members - self._others}
        while found := {pid for pid, parent in parents.items() if parent in self._members}:
            self._members |= found
            parents = {pid: parent for pid, parent in parents.items() if pid not in found}
        self._others |= parents.keys()


def _end_group(leader: int) -> None:
    """Ends what is left of a process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextlib.contextmanager
def _sampling(pid: int, timeout: float) -> Iterator[TreeSampler]:
    """Samples a process tree from a thread, and ends its group after `timeout` seconds."""
    sampler = TreeSampler(pid)
    is_over = threading.Event()
    deadline = time.monotonic() + timeout

    def sample() -> None:
        while True:
            sampler.sample()
            if is_over.wait(_PERIOD):
                return
            if time.monotonic() > deadline:
                _end_group(pid)

    thread = threading.Thread(target=sample, name="sampler")
    thread.start()
    try:
        yield sampler
    finally:
        is_over.set()
        thread.join()


def run(
    command: Sequence[str], *, log: Path, cwd: Path | None = None, timeout: float = 3600
) -> Run:
    """Runs a command to its end.

    Args:
        command: the program and its arguments.
        log: a file for what it prints.
        cwd: the folder it runs in.
        timeout: seconds after which it is ended.

    Returns:
        Its time, memory and exit code, which the caller must check.
    """
    with log.open("wb") as output:
        before = _core_seconds()
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with _sampling(process.pid, timeout) as sampler:
                code = process.wait()  # without a timeout it does not poll, so it is exact
                seconds = time.perf_counter() - start
        finally:
            _end_group(process.pid)
            process.wait()
    cores = _core_seconds() - before
    return Run(seconds, sampler.tree_bytes, sampler.process_bytes, code, cores)


def _environment() -> dict[str, str]:
    """The variables of a command: all, but Python may keep what it compiles, as it does by default.

    Without that, every run compiles all modules that are newer than their compiled files.
    """
    kept = dict(os.environ)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept


def _core_seconds() -> float:
    """Seconds that all cores spent on children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def last_line(log: Path) -> str:
    """The last line that a command printed, or a note that there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
