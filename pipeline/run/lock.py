"""Allows one run at a time for an output folder; the lock of a dead run expires soon."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator

from pipeline.errors import DatasetError, UsageError, input_error, one_line
from pipeline.run.lock_owner import Owner, this_process
from transforms.core.dataset.output_names import LOCK, STAGING
from transforms.storage.file_metadata import Stored
from transforms.storage.files import join, storage_of

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
        lock = BucketLock(join(output, STAGING, LOCK), beat=BEAT_SECONDS, patience=PATIENCE_SECONDS)
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
        uri: of the object.
        beat: seconds between two heartbeats.
        patience: seconds without a heartbeat until a run counts as dead.
        run: the name of this run in the lock.
    """

    def __init__(
        self, uri: str, *, beat: float = BEAT_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._uri = uri
        self._storage = storage_of(uri)
        self._beat = beat
        self._patience = patience
        self._owner = this_process()
        self.run = uuid.uuid4().hex
        self._beats = 0
        self._generation = 0
        self._is_lost = False
        self._ended = threading.Event()

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
        beating = threading.Thread(target=self._keep_beating, name="lock", daemon=True)
        # Not SIGINT, which is ignored in what a shell starts in the background. A supervised
        # process has a handler, which also ends its workers.
        former = signal.getsignal(_TAKEN_OVER)
        if not callable(former):
            signal.signal(_TAKEN_OVER, signal.default_int_handler)
        beating.start()
        try:
            yield
        except KeyboardInterrupt as interrupt:
            if not self._is_lost:
                raise
            reason = str(interrupt) or "stopped"
            raise DatasetError(
                f"another run took over --output {output}, since this one did not renew its lock "
                f"for {self._patience:.0f} s; {reason}"
            ) from None
        finally:
            self._ended.set()
            beating.join()
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
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            found = self._storage.find(self._uri)
            if found is None:
                return False
            if found.version != lock.version:
                who = f" (process {owner.pid} on {owner.host})"
                raise DatasetError(_busy(output, who))
            time.sleep(self._beat / 10)
        return True

    def _keep_beating(self) -> None:
        while not self._ended.wait(self._beat):
            # An unreachable bucket may come back; the next heartbeat may succeed.
            with contextlib.suppress(OSError):
                try:
                    self._write(self._generation)
                except FileExistsError:
                    # Gone with the staging folder: the dataset is published.
                    if self._storage.find(self._uri) is not None:
                        self._is_lost = True
                        _interrupt_main_thread()
                    return


def _interrupt_main_thread() -> None:
    """Interrupts like Ctrl-C: unlike `_thread.interrupt_main`, a signal also ends a wait."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, _TAKEN_OVER)
