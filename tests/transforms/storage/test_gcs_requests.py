"""Errors of requests to a bucket, and the pauses after them."""

import errno
import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.api_core.exceptions import NotFound, RetryError, ServiceUnavailable, TooManyRequests
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.cloud.storage.exceptions import InvalidResponse

from tests.marks import cases
from transforms.core.messages import is_final
from transforms.storage import gcs_requests
from transforms.storage.gcs_requests import (
    RETRY_SECONDS,
    THROTTLED_SECONDS,
    ThrottleGate,
    retry,
    translate_errors,
)

# Every error of Google's packages is an `OSError` whose class says whether a retry may help.

URI = "gs://bucket/1.jpg"


def status(code: int, says: str = "the reason\nand more") -> Exception:
    error: Exception = exceptions.from_http_status(code, says)
    return error


def response(code: int, *says: str) -> Exception:
    """An answer that the client does not expect."""
    answer = requests.Response()
    answer.status_code = code
    answer.request = requests.Request("GET", "http://storage/1.jpg").prepare()
    return InvalidResponse(answer, *says)


def ended(last: Exception) -> Exception:
    """Retries that end with this error."""
    return RetryError("Timeout of 120.0s exceeded", cause=last)


DENIED = "no permission: the reason"
REFUSED = "the bucket refused requests (429) for 10 minutes: try fewer workers"
UNANSWERED = "no answer in 120 s of retries: the reason"
PAYS = "the bucket is requester-pays: copy the objects to a bucket of your own"
NO_BUCKET = NotFound("The specified bucket does not exist.")
CUT = requests.exceptions.ChunkedEncodingError("the reason")


@cases(
    (status(404), errno.ENOENT, "no such object", True),
    (response(404), errno.ENOENT, "no such object", True),
    (NO_BUCKET, errno.ENOENT, "no such bucket", True),
    (status(412), errno.ESTALE, "it was overwritten meanwhile", True),
    *((status(code), errno.EACCES, DENIED, True) for code in (401, 403)),
    # The service understood these, and refuses them again.
    *((status(code), errno.EIO, "the reason", True) for code in (400, 405, 409, 416)),
    (status(400, "Bucket is a requester pays bucket"), errno.EIO, PAYS, True),
    # These may pass.
    *((status(code), errno.EIO, "the reason", False) for code in (408, 429, 500, 502, 503)),
    (TransportError("the reason"), errno.EIO, "the reason", False),
    (requests.ConnectionError("the reason"), errno.EIO, "the reason", False),
    (requests.ConnectionError(), errno.EIO, "ConnectionError", False),
    (CUT, errno.EIO, "the reason", False),
    (ended(status(503)), errno.ETIMEDOUT, UNANSWERED, False),
    (ended(status(429)), errno.EBUSY, REFUSED, False),
    (ended(response(429, "the reason")), errno.EBUSY, REFUSED, False),
)
def test_an_error_says_what_it_is(error: Exception, number: int, says: str, final: bool) -> None:
    # An errno has its class, such as `FileNotFoundError`.
    with pytest.raises(type(OSError(number, ""))) as raised, translate_errors(URI):
        raise error
    made: Any = raised.value
    assert made.__cause__ is error
    assert (made.errno, made.strerror, made.filename) == (number, says, URI)
    assert is_final(made) == final


@pytest.mark.parametrize("kind", [DefaultCredentialsError, RefreshError])
def test_missing_credentials_say_the_command(kind: type[Exception]) -> None:
    says = "no Google credentials: run `gcloud auth application-default login`"
    with pytest.raises(OSError, match=f"^{says}$"), translate_errors(URI):
        raise kind("the reason")
    with pytest.raises(OSError, match="the reason"), translate_errors(URI):
        raise kind("the reason", retryable=True)  # type: ignore[call-arg]


# After 429, all threads of a process pause together.


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.spread: Callable[[], float] = lambda: 0.5

    def sleep(self, seconds: float) -> None:
        """Passes the time."""
        self.slept.append(seconds)
        self.now += seconds

    def monotonic(self) -> float:
        """What time it is."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of all requests; a thread that waits continues half of a pause later."""
    clock = Clock()
    monkeypatch.setattr(gcs_requests, "time", clock)
    monkeypatch.setattr(random, "random", lambda: clock.spread())
    return clock


@pytest.fixture
def gate(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ThrottleGate:
    """The gate of all requests, at a simulated time."""
    monkeypatch.setattr(gcs_requests, "GATE", ThrottleGate())
    return gcs_requests.GATE


def test_each_wave_of_refusals_doubles_the_pause_once(gate: ThrottleGate, clock: Clock) -> None:
    pauses = []
    for _ in range(8):
        before = gate.shut_seconds
        sent = gate.wait()
        clock.now += 0.01
        for _ in range(32):  # all of them were under way
            gate.refused(sent)
        pauses.append(gate.shut_seconds - before)
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 32, 32])
    # Half of a pause later than the gate opens: waiting threads are spread over a pause.
    assert clock.slept == pytest.approx([1.5, 3, 6, 12, 24, 48, 48])


def test_answers_make_the_pause_shorter_again(gate: ThrottleGate, clock: Clock) -> None:
    # An open gate lets everyone through.
    assert [gate.wait() for _ in range(3)] == [100.0] * 3
    gate.accepted(100.0)
    for _ in range(3):
        gate.refused(gate.wait())
    assert (gate.shut_seconds, len(clock.slept)) == (1 + 2 + 4, 2)
    for _ in range(3):
        sent = gate.wait()
        clock.now += 0.01
        for _ in range(32):
            gate.accepted(sent)
    gate.refused(gate.wait())
    assert gate.shut_seconds == 1 + 2 + 4 + 1


@pytest.mark.parametrize(("asked", "pause"), [("7", 7), ("a date", 1), ("99", 32)])
def test_an_answer_says_how_long(gate: ThrottleGate, clock: Clock, asked: str, pause: int) -> None:
    answers = iter([refused_for(asked), None])
    assert retry(lambda: answer(next(answers)))() == "read"
    assert clock.slept == [1.5 * pause]


def refused_for(seconds: str) -> Exception:
    """A refusal that says for how long."""
    said = SimpleNamespace(headers={"Retry-After": seconds})
    return TooManyRequests("x", response=said)


def answer(error: Exception | None) -> str:
    """What a request gives, or raises."""
    if error:
        raise error
    return "read"


def test_a_refusal_in_one_thread_holds_the_others_back(
    gate: ThrottleGate, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, gone_on = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        held.set()
        assert gone_on.wait(60)
        clock.now += 10

    monkeypatch.setattr(clock, "sleep", sleep)
    sent: list[float] = []
    answers = iter([TooManyRequests("slow down")])

    def send() -> None:
        answer(next(answers, None))
        sent.append(clock.now)

    threads = [threading.Thread(target=retry(send)) for _ in range(2)]
    threads[0].start()
    assert held.wait(60)
    threads[1].start()
    assert sent == []
    gone_on.set()
    for thread in threads:
        thread.join()
    assert len(sent) == 2
    assert min(sent) >= 110


THROTTLED, LONG, BUSY = TooManyRequests("x"), refused_for("32"), ServiceUnavailable("x")


@cases(
    # Refusals of five minutes are waited for; those of ten minutes are not.
    (lambda now: THROTTLED if now < 400 else None, None, 300, 400),
    (lambda now: THROTTLED, THROTTLED, THROTTLED_SECONDS, THROTTLED_SECONDS + 70),
    # Pauses are no part of the time for other failures, and no more than they are added.
    (lambda now: THROTTLED if now < 250 else BUSY if now < 350 else None, None, 250, 400),
    (lambda now: LONG if now < 101 else BUSY, BUSY, RETRY_SECONDS, RETRY_SECONDS + 48),
    (lambda now: BUSY, BUSY, RETRY_SECONDS - 20, RETRY_SECONDS),
    ids=["five minutes", "ten minutes", "busy after pauses", "busy after one pause", "busy"],
)
def test_a_request_is_sent_again_for_a_while(
    answers: Callable[[float], Exception | None],
    last: Exception | None,
    least: float,
    most: float,
    gate: ThrottleGate,
    clock: Clock,
) -> None:
    sent: list[float] = []

    def send() -> str:
        sent.append(clock.now)
        return answer(answers(clock.now))

    if last is None:
        assert retry(send)() == "read"
    else:
        with pytest.raises(RetryError) as raised:
            retry(send)()
        assert raised.value.cause is last
    assert least <= clock.now - 100 <= most
    assert 5 < len(sent) < 50
    assert (gate.shut_seconds > 0) == (last is not BUSY or least == RETRY_SECONDS)


@pytest.mark.parametrize("error", [NotFound("x"), BUSY, ConnectionError()])
def test_other_failures_hold_nobody_back(gate: ThrottleGate, error: Exception) -> None:
    with pytest.raises((type(error), RetryError)):
        retry(lambda: answer(error))()
    assert gate.shut_seconds == 0
