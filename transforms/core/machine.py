"""Cores, memory, processes and scratch folders of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

# The cores and the memory that this machine allows, and this process's share of them.
#
# A machine may run several worker processes: those of `--workers`, or on Dataflow one for each
# core. All threads, semaphores and buffers are sized by `process_cores`, so that together the
# processes use the machine as one would.

PROCESSES_VARIABLE = "IMAGE_TFRECORDS_PROCESSES"
"""The environment variable with the number of worker processes that a local run starts."""

_ROOT = Path("/")

# Where control groups are mounted: version 2, also next to version 1, and the folders of version 1.
_CGROUPS = "sys/fs/cgroup"
_VERSION_2 = ("", "unified")

# Prefix and suffix of an option's name among the options that a worker gets from its runner.
_PORTABLE_NAME = re.compile(r"beam:option:(?P<name>.*):v1")


def usable_cores(root: Path = _ROOT, *, schedulable: int | None = None) -> int:
    """The number of cores that this process may use at once, at least 1.

    That is the number the scheduler allows, or less if a control group (of a container, a service
    or a batch job) has a quota. A part of a core counts as one.

    Args:
        root: the folder with `proc` and `sys`.
        schedulable: the cores that the scheduler allows; None to ask it.
    """
    cores = _schedulable_cores() if schedulable is None else schedulable
    for folder in _groups(root, "cpu"):
        quota = _quota(folder)
        if quota is not None:
            cores = min(cores, quota)
    return max(1, cores)


def usable_memory(root: Path = _ROOT) -> int | None:
    """The bytes of memory of this machine, or of a control group if fewer; None if unknown."""
    limits = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        total = (root / "proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
        limits.append(int(total) << 10)
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                limits.append(int((folder / name).read_text()))
    return min(limits, default=None)


def machine_processes(environment: Mapping[str, str], cores: int) -> int:
    """The number of worker processes that share the machine of this one, at least 1.

    A local run passes it in `PROCESSES_VARIABLE`. For other runners it comes from the
    options of the job: on Dataflow there is one process for each core, unless the experiment
    `no_use_multiple_sdk_containers` requests a single one, and portable runners have the option
    `sdk_worker_parallelism`.

    Args:
        environment: the variables of this process.
        cores: of the machine.
    """
    if environment.get(PROCESSES_VARIABLE, "").isdecimal():
        return max(1, int(environment[PROCESSES_VARIABLE]))
    options = _runner_options(environment)
    if str(options.get("runner")).rpartition(".")[2] == "DataflowRunner":
        return 1 if "no_use_multiple_sdk_containers" in str(options.get("experiments")) else cores
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        # Numbers come as text or as floats; 0 means one for each core.
        return max(1, int(float(options.get("sdk_worker_parallelism", 1))) or cores)
    return 1


def share_of_cores(cores: int, processes: int) -> int:
    """The cores of one of several processes, rounded up.

    >>> share_of_cores(32, 8), share_of_cores(10, 4), share_of_cores(4, 8)
    (4, 3, 1)
    """
    return -(-cores // processes)


@functools.cache
def process_cores() -> int:
    """This process's share of the machine's cores."""
    return share_of_cores(usable_cores(), process_count())


@functools.cache
def process_count() -> int:
    """The number of processes that share this machine with this one."""
    return machine_processes(os.environ, usable_cores())


def _schedulable_cores() -> int:
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups and of those around them, as mounted here.

    A container sees its own group as the outermost one, or under a name that is not mounted.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:
            mounts = _VERSION_2
        elif controller in controllers.split(","):
            mounts = (controllers, controller)
        else:
            continue
        parts = [part for part in PurePosixPath(name).parts[1:] if part != ".."]
        for mount in dict.fromkeys(mounts):
            base = root / _CGROUPS / mount
            yield from (base.joinpath(*parts[:count]) for count in range(len(parts), -1, -1))


def _quota(folder: Path) -> int | None:
    """The cores that a control group allows, rounded up; None without a quota."""
    with contextlib.suppress(OSError, ValueError):
        try:
            parts = (folder / "cpu.max").read_text().split()
        except OSError:
            parts = [(folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
        quota, period = map(int, parts)
        return -(-quota // period) if quota > 0 and period > 0 else None
    return None


def _runner_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """The options of the job, by name; empty in a process that no runner started."""
    text = environment.get("PIPELINE_OPTIONS", "{}")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if path := environment.get("PIPELINE_OPTIONS_FILE"):
            text = Path(path).read_text(encoding="utf-8")
        options = json.loads(text)
        # Dataflow nests them.
        named = dict(options.get("options", options))
        return {
            found["name"] if (found := _PORTABLE_NAME.fullmatch(name)) else name: value
            for name, value in named.items()
        }
    return {}


# What only Linux says of processes and mounts, in `/proc`. Without it, as on macOS, these functions
# return what leads to no decision.

PROC = Path("/proc")
"""The folder, which exists on Linux alone."""

# Positions of the state and of the start time in `/proc/PID/stat`, after the command's name.
_STATE, _STARTED = 0, 19


def boot_and_namespace() -> tuple[str, str]:
    """The boot of the kernel and the namespace of process ids; empty texts if they are unknown."""
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return boot, os.readlink(PROC / "self/ns/pid")
    return "", ""


def state_and_start(pid: int) -> tuple[str, int]:
    """The letter of a process's state, empty when there is no process; its start time in ticks.

    `Z` is one that has ended and whose parent has not noticed, as happens in containers. The time
    is 0, and the state `?`, if the process exists but cannot be inspected.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return fields[_STATE], int(fields[_STARTED])
    except (OSError, ValueError, IndexError):
        with contextlib.suppress(PermissionError):
            try:
                os.kill(pid, 0)
            except (ProcessLookupError, OverflowError):
                return "", 0
        return "?", 0


def kill_processes(variable: str, value: str) -> None:
    """Kills the processes that started with a variable of this value; none without `/proc`."""
    mark = f"{variable}={value}".encode()
    for folder in PROC.glob("[0-9]*"):
        # Those of other users cannot be read.
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def mapped_bytes() -> int | None:
    """The address space that this process has mapped; None if the system does not report it."""
    try:
        pages = (PROC / "self/statm").read_text().split()[0]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def mounts() -> list[str]:
    """The lines of this process's `mountinfo`; none without `/proc`."""
    with contextlib.suppress(OSError):
        return (PROC / "self/mountinfo").read_text(errors="replace").splitlines()
    return []


def peak_memory() -> int:
    """The peak memory of this process, or of its largest child, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(usage.ru_maxrss for usage in usages) * unit


# Folders for temporary files, which do not accumulate if processes are killed.
#
# The owner of a folder holds a lock on it (`flock`), which the kernel releases with the process
# and its forks. Before a new folder is made, those of this user's dead processes are removed.

# A younger folder may belong to a process that has not locked it yet.
_MADE_SECONDS = 60


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that only this user may enter; it is removed at the end of the block."""
    _sweep_once()
    folder = tempfile.mkdtemp(prefix=_prefix())
    try:
        with opened_folder(folder) as descriptor:
            # Without locks, as on some network file systems, it only stays behind after a kill.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def temporary_files_in(folder: str) -> Iterator[None]:
    """Makes `tempfile` use a folder within the block."""
    former = tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = former


def sweep() -> None:
    """Removes the folders of this user's dead processes; anything else stays."""
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_prefix()}*"):
            with contextlib.suppress(OSError), opened_folder(folder) as descriptor:
                age = time.time() - os.fstat(descriptor).st_mtime
                if is_private(descriptor) and age >= _MADE_SECONDS:
                    # It fails if the owner is alive, or if locks are not supported.
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)


_sweep_once = functools.lru_cache(maxsize=1)(sweep)


def _prefix() -> str:
    return f"image-tfrecords-scratch-{os.getuid()}-"


@contextlib.contextmanager
def opened_folder(path: str | Path) -> Iterator[int]:
    """A descriptor of a folder.

    Raises:
        OSError: it is not a folder, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_private(descriptor: int) -> bool:
    """Whether an opened folder belongs to this user alone."""
    status = os.fstat(descriptor)
    return status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
