"""The lock of an output folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.errors import DatasetError, UsageError, input_error
from pipeline.run.supervise import in_thread
from transforms.core.machine import boot_and_namespace, state_and_start
from transforms.core.messages import one_line
from transforms.dataset.output_names import LOCK, STAGING
from transforms.storage.files import join, storage_of
from transforms.storage.interface import Stored

# The owner of a lock, and whether that process has certainly ended.
#
# Host name and process id are not enough: two containers often have the same host name (`web`, or
# that of the machine), and in each of them the command is process 1 or 7. One process can check
# another by its id only if both run on the same kernel and in the same pid namespace; and an id
# may have been given to a new process since.


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
        is_known = self.boot and self.namespace and self.started
        if not is_known or (self.boot, self.namespace) != (here.boot, here.namespace):
            return False
        state, started = state_and_start(self.pid)
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
    pid = os.getpid()
    return Owner(socket.gethostname(), pid, *boot_and_namespace(), state_and_start(pid)[1])


def _number(value: object) -> int:
    """A whole number above 0, or 0: `os.kill` treats others as process groups."""
    return value if isinstance(value, int) and value > 0 else 0


# Allows one run at a time for an output folder; the lock of a dead run expires soon.

# Interrupts a run that another one took over.
_TAKEN_OVER = signal.SIGUSR1

# Seconds between two heartbeats in a bucket, and without one until a run counts as dead.
BEAT_SECONDS = 10.0
PATIENCE_SECONDS = 45.0

# Limit for the text in a lock.
_MAX_BYTES = 1 << 20


@contextlib.contextmanager
def hold_output(output: str) -> Iterator[str]:
    """Keeps other runs away from an output folder until the block ends.

    A local folder is locked with `flock`, which ends with its process. A bucket gets an object
    that is rewritten periodically; if its generation stops changing, its run is dead. Other
    file systems have no lock.

    Yields:
        the name of this run in a bucket's lock; empty without such a lock.

    Raises:
        DatasetError: another run holds it, or took it over because this one had no heartbeat.
    """
    storage = storage_of(output)
    if storage.has_generations:
        lock = BucketLock(join(output, STAGING, LOCK))
        with lock.held():
            yield lock.run
    elif storage.has_folders:
        with _locked_folder(output):
            yield ""
    else:
        yield ""


@contextlib.contextmanager
def _locked_folder(output: str) -> Iterator[None]:
    try:
        os.makedirs(output, exist_ok=True)
        folder = os.open(output, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"cannot write to --output {output}: {one_line(error)}") from error
    try:
        # Some network file systems have no locks.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DatasetError(_busy(output, "")) from None
        yield
    finally:
        os.close(folder)


def _busy(output: str, who: str) -> str:
    return (
        f"another run{who} is writing to --output {output}; wait for it, or choose another --output"
    )


class BucketLock:
    """An object that only one run at a time may replace.

    Attributes:
        run: the name of this run in the lock.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._storage = storage_of(uri)
        self._owner = this_process()
        self.run = uuid.uuid4().hex
        self._beats = 0
        self._generation = 0
        self._is_lost = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Takes the lock, sends heartbeats, and releases it at the end.

        Raises:
            DatasetError: see `hold_output`.
        """
        output = self._uri.removesuffix(f"/{STAGING}/{LOCK}")
        try:
            self._take(output)
        except OSError as error:
            raise input_error(f"cannot write to --output {output}", error) from error
        # Not SIGINT, which is ignored in what a shell starts in the background. A supervised
        # process has a handler, which also ends its workers.
        former = signal.getsignal(_TAKEN_OVER)
        if not callable(former):
            signal.signal(_TAKEN_OVER, signal.default_int_handler)
        try:
            with in_thread(self._keep_beating, "lock"):
                yield
        except KeyboardInterrupt as interrupt:
            if not self._is_lost:
                raise
            reason = str(interrupt) or "stopped"
            raise DatasetError(
                f"another run took over --output {output}, since this one did not renew its lock "
                f"for {PATIENCE_SECONDS:.0f} s; {reason}"
            ) from None
        finally:
            if not callable(former):
                signal.signal(_TAKEN_OVER, former)
            if not self._is_lost:
                # An unreachable bucket must not hide why the run ends.
                with contextlib.suppress(OSError):
                    self._storage.remove(self._uri, generation=self._generation)

    def _take(self, output: str) -> None:
        while True:
            found = self._storage.find(self._uri)
            if found is not None and not self._is_dead(found, output):
                continue
            with contextlib.suppress(FileExistsError):
                self._write(found.version if found else 0)
                return

    def _write(self, former: int) -> None:
        self._beats += 1
        text = json.dumps({**self._owner._asdict(), "run": self.run, "beats": self._beats})
        self._generation = self._storage.write_whole(self._uri, text.encode(), generation=former)

    def _is_dead(self, lock: Stored, output: str) -> bool:
        """Whether the run that wrote the lock has ended without releasing it.

        Returns:
            False if the lock is gone in the meantime.

        Raises:
            DatasetError: it is alive.
        """
        try:
            text = self._storage.read_listed(
                self._uri, size=lock.size, version=lock.version, max_bytes=_MAX_BYTES
            )
            owner = Owner.from_text(text)
        except OSError:
            owner = Owner.from_text(b"")
        if owner.has_ended:
            return True
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = self._storage.find(self._uri)
            if found is None:
                return False
            if found.version != lock.version:
                who = f" (process {owner.pid} on {owner.host})"
                raise DatasetError(_busy(output, who))
            time.sleep(BEAT_SECONDS / 10)
        return True

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_SECONDS):
            # An unreachable bucket may come back; the next heartbeat may succeed.
            with contextlib.suppress(OSError):
                try:
                    self._write(self._generation)
                except FileExistsError:
                    # Gone with the staging folder: the dataset is published.
                    if self._storage.find(self._uri) is not None:
                        self._is_lost = True
                        # Like Ctrl-C, but unlike `_thread.interrupt_main`, it also ends a wait.
                        main = threading.main_thread().ident
                        assert main is not None
                        signal.pthread_kill(main, _TAKEN_OVER)
                    return
