"""Retries requests to Google Cloud Storage, and slows all threads of the process down together.

A failed request is retried with growing pauses. After 429 (too many requests) all
threads of the process pause: if each thread only backed off for its own requests, the others
would continue, and the service would refuse more and more of them. A bucket takes minutes to allow
more, and with many workers a request may be refused several times: its pauses after 429 are no part
of the time for which other failures are retried.
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from transforms.storage.gcs.gcs_errors import RETRY_SECONDS, THROTTLED_SECONDS, status_of

# Seconds of the first pause after 429, and of the longest. Each wave of refusals doubles it.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 32.0


class ThrottleGate:
    """Pauses the requests of all threads while a service refuses them.

    Attributes:
        shut_seconds: how long it was shut during the life of the process.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """Starts open.

        Args:
            clock: seconds, of any origin.
            sleep: waits for some seconds.
            spread: 0..1, how far into the time after a pause a waiting thread continues.
        """
        self._clock = clock
        self._sleep = sleep
        self._spread = spread
        self._lock = threading.Lock()
        self._opens = 0.0
        self._pause = 0.0
        self._changed = 0.0
        self.shut_seconds = 0.0

    def wait(self) -> float:
        """Waits until requests may be sent.

        Returns:
            the time, for `refused` and `accepted`.
        """
        now = self._clock()
        while now < self._opens:
            # If all continued at once, they would be refused again.
            self._sleep(self._opens - now + self._spread() * self._pause)
            now = self._clock()
        return now

    def refused(self, sent: float, retry_after: float = 0.0) -> None:
        """Shuts the gate, for longer each time.

        Args:
            sent: when the request was sent; concurrent requests count once.
            retry_after: seconds that the service requests.
        """
        with self._lock:
            if sent < self._changed:
                return
            now = self._clock()
            doubled = max(2 * self._pause, _FIRST_PAUSE, retry_after)
            self._pause = min(doubled, _LONGEST_PAUSE)
            self.shut_seconds += now + self._pause - max(self._opens, now)
            self._opens = now + self._pause
            self._changed = now

    def accepted(self, sent: float) -> None:
        """Makes the next pause shorter."""
        if self._pause:
            with self._lock:
                if sent >= self._changed:
                    self._pause = self._pause / 2 if self._pause > _FIRST_PAUSE else 0.0
                    self._changed = self._clock()


GATE = ThrottleGate()
"""Of this process."""


def count_since(shut_seconds: float) -> float:
    """Counts how long the gate was shut, for the step that this thread runs.

    Dataflow's autoscaler reads the count while a step runs: more workers would be refused, too.

    Args:
        shut_seconds: of the gate, up to which it was counted.

    Returns:
        `shut_seconds` of the gate now.
    """
    now = GATE.shut_seconds
    if now > shut_seconds:
        # Readers of a dataset come without Beam.
        from transforms.metrics import count_throttled

        count_throttled(now - shut_seconds)
    return now


@contextlib.contextmanager
def throttling_counted() -> Iterator[None]:
    """Counts how long the gate is shut in a block, also by requests of other threads."""
    shut = GATE.shut_seconds
    try:
        yield
    finally:
        count_since(shut)


@functools.lru_cache(maxsize=1)
def retry() -> Any:
    """The retry policy of Google's client, for `RETRY_SECONDS` without pauses after 429.

    Every request of this package names a generation or is idempotent.
    """
    from google.api_core.exceptions import RetryError
    from google.api_core.retry import Retry
    from google.cloud.storage.retry import DEFAULT_RETRY

    class SharedRetry(Retry):
        """A retry whose requests pass the gate of the process."""

        def __call__(self, func: Any, on_error: Any = None) -> Any:
            request = gated(func, GATE)
            first = super().__call__(request, on_error)

            @functools.wraps(func)
            def send(*arguments: Any, **keywords: Any) -> Any:
                shut = GATE.shut_seconds
                try:
                    return first(*arguments, **keywords)
                except RetryError as error:
                    paused = min(GATE.shut_seconds - shut, RETRY_SECONDS)
                    if not paused or status_of(error.cause) == HTTPStatus.TOO_MANY_REQUESTS:
                        raise
                # Google's time for retries includes the pauses: they are given back once.
                again = Retry.__call__(self.with_timeout(paused), request, on_error)
                return again(*arguments, **keywords)

            return send

    return SharedRetry(
        DEFAULT_RETRY._predicate, initial=0.2, maximum=20, multiplier=2, timeout=RETRY_SECONDS
    )


def gated(request: Callable[..., Any], gate: ThrottleGate = GATE) -> Callable[..., Any]:
    """A request that waits at a gate, and shuts it when the service answers with 429.

    It is sent again until it is not refused, for `THROTTLED_SECONDS`.
    """

    @functools.wraps(request)
    def send(*arguments: Any, **keywords: Any) -> Any:
        begun = gate.wait()
        sent = begun
        while True:
            try:
                result = request(*arguments, **keywords)
            except Exception as error:
                if status_of(error) != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                gate.refused(sent, _retry_after(error))
                sent = gate.wait()
                if sent - begun > THROTTLED_SECONDS:
                    raise
                continue
            gate.accepted(sent)
            return result

    return send


def _retry_after(error: Exception) -> float:
    """The seconds that the service requests in `Retry-After`."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    seconds = headers.get("Retry-After", "")
    # A date is allowed too; GCS sends seconds.
    return float(seconds) if seconds.isdecimal() else 0.0
