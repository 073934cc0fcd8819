"""The owner of a lock, and whether that process has certainly ended.

Host name and process id are not enough: two containers often have the same host name (`web`,
or that of the machine), and in each of them the command is process 1 or 7. One process can check
another by its id only if both run on the same kernel and in the same pid namespace; and an id may
have been reused for a new process since.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")

# Positions of the state and of the start time in `/proc/PID/stat`, after the command's name.
_STATE, _STARTED = 0, 19


class Owner(NamedTuple):
    """A process on some machine.

    Attributes:
        host: name of the machine, for messages.
        pid: its id in its namespace.
        boot: the boot of the kernel it runs on; empty where the system does not say (not Linux).
        namespace: of the process ids, such as `pid:[4026531836]`; empty where it is not known.
        started: ticks between the boot and its start; 0 when it is not known.
    """

    host: str
    pid: int
    boot: str = ""
    namespace: str = ""
    started: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether the process has certainly ended; False if that cannot be known here."""
        here = this_process()
        if not (self.boot and self.namespace and self.started):
            return False
        if (self.boot, self.namespace) != (here.boot, here.namespace):
            return False
        state, started = _state_and_start(self.pid)
        if (self.pid, self.started) == (here.pid, here.started):
            # Left by an earlier run in this very process.
            return True
        return state in ("", "Z") or started not in (0, self.started)

    @classmethod
    def from_text(cls, text: bytes) -> Owner:
        """The owner that a lock names; an unknown owner if another program wrote the lock."""
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                return cls(
                    *(str(found.get("host", "?")), _number(found.get("pid"))),
                    *(str(found.get("boot", "")), str(found.get("namespace", ""))),
                    started=_number(found.get("started")),
                )
        return cls("?", 0)


def this_process() -> Owner:
    """The current process."""
    boot = namespace = ""
    with contextlib.suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    pid = os.getpid()
    return Owner(socket.gethostname(), pid, boot, namespace, _state_and_start(pid)[1])


def _state_and_start(pid: int) -> tuple[str, int]:
    """The letter of a process's state, empty when there is no process; its start time in ticks.

    `Z` is one that has ended and whose parent has not noticed, as happens in containers. The time
    is 0, and the state `?`, if the process exists but cannot be inspected.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return fields[_STATE], int(fields[_STARTED])
    except (OSError, ValueError, IndexError):
        return ("?", 0) if _exists(pid) else ("", 0)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _number(value: object) -> int:
    """A whole number above 0, or 0: `os.kill` treats others as process groups."""
    return value if isinstance(value, int) and value > 0 else 0
