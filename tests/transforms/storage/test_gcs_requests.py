"""Errors of requests to a bucket, and the pauses after them."""

from __future__ import annotations

import errno
import heapq
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import SimpleNamespace

import pytest
import requests
from google.api_core import exceptions
from google.api_core.exceptions import (
    NotFound,
    RetryError,
    ServiceUnavailable,
    TooManyRequests,
)
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.cloud.storage.exceptions import InvalidResponse

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


def translated(error: Exception) -> OSError:
    """What the caller of a request gets for an error."""
    with pytest.raises(OSError) as raised, translate_errors(URI):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    ("status", "kind", "number", "says"),
    [
        (404, FileNotFoundError, errno.ENOENT, "no such object"),
        (412, OSError, errno.ESTALE, "it was overwritten meanwhile"),
        (401, PermissionError, errno.EACCES, "no permission: the reason"),
        (403, PermissionError, errno.EACCES, "no permission: the reason"),
        # The service understood these, and refuses them again.
        (400, OSError, errno.EIO, "the reason"),
        (405, OSError, errno.EIO, "the reason"),
        (409, OSError, errno.EIO, "the reason"),
        (416, OSError, errno.EIO, "the reason"),
    ],
)
def test_refusals_are_final(status: int, kind: type[OSError], number: int, says: str) -> None:
    error = translated(exceptions.from_http_status(status, "the reason\nand more"))
    assert isinstance(error, kind)
    assert (error.errno, error.strerror, error.filename) == (number, says, URI)
    assert is_final(error)


@pytest.mark.parametrize(
    "error",
    [
        *(
            exceptions.from_http_status(status, "the reason")
            for status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, 500, 502, 503)
        ),
        TransportError("the reason"),
        requests.ConnectionError("the reason"),
        requests.exceptions.ChunkedEncodingError("the reason"),
    ],
)
def test_what_may_pass_is_not_final(error: Exception) -> None:
    made = translated(error)
    assert (made.errno, made.strerror, made.filename) == (errno.EIO, "the reason", URI)
    assert not is_final(made)


def test_retries_that_end_name_their_time_and_the_last_error() -> None:
    last = exceptions.ServiceUnavailable("the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert (error.errno, error.filename) == (errno.ETIMEDOUT, URI)
    assert error.strerror == "no answer in 120 s of retries: the reason"
    assert not is_final(error)


def test_refusals_of_ten_minutes_say_what_helps() -> None:
    last = exceptions.TooManyRequests("the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert error.strerror == "the bucket refused requests (429) for 10 minutes: try fewer workers"
    assert not is_final(error)


def test_refusals_of_uploads_say_the_same() -> None:
    response = requests.Response()
    response.status_code = 429
    last = InvalidResponse(response, "the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert error.strerror == "the bucket refused requests (429) for 10 minutes: try fewer workers"


def test_an_answer_that_is_no_json_is_an_error_of_its_status() -> None:
    response = requests.Response()
    response.status_code = 404
    response.request = requests.Request("GET", "http://storage/1.jpg").prepare()
    with pytest.raises(FileNotFoundError, match="no such object"), translate_errors(URI):
        raise InvalidResponse(response)


def test_a_bucket_that_is_missing_is_named_as_one() -> None:
    error = translated(exceptions.NotFound("The specified bucket does not exist."))
    assert error.strerror == "no such bucket"
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        with translate_errors(URI, missing="no such bucket"):
            raise exceptions.NotFound("Not Found")


@pytest.mark.parametrize("kind", [DefaultCredentialsError, RefreshError])
def test_missing_credentials_say_the_command(kind: type[Exception]) -> None:
    error = translated(kind("the reason"))
    assert str(error) == "no Google credentials: run `gcloud auth application-default login`"
    passing = kind("the reason", retryable=True)  # type: ignore[call-arg]
    assert translated(passing).strerror == "the reason"


def test_a_bucket_whose_requester_pays_says_what_to_do() -> None:
    refusal = exceptions.BadRequest("Bucket is a requester pays bucket but no user project")
    assert translated(refusal).strerror == (
        "the bucket is requester-pays: copy the objects to a bucket of your own"
    )


def test_an_error_without_a_message_is_named() -> None:
    assert translated(requests.ConnectionError()).strerror == "ConnectionError"


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


def test_an_open_gate_lets_everyone_through(gate: ThrottleGate, clock: Clock) -> None:
    assert [gate.wait() for _ in range(3)] == [100.0] * 3
    gate.accepted(100.0)
    assert clock.slept == []
    assert gate.shut_seconds == 0


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


def test_the_service_may_ask_for_a_longer_pause(gate: ThrottleGate) -> None:
    gate.refused(gate.wait(), 5)
    assert gate.shut_seconds == 5


def test_answers_make_the_pause_shorter_again(gate: ThrottleGate, clock: Clock) -> None:
    for _ in range(3):
        gate.refused(gate.wait())
    assert gate.shut_seconds == 1 + 2 + 4
    for _ in range(3):
        sent = gate.wait()
        clock.now += 0.01
        for _ in range(32):
            gate.accepted(sent)
    gate.refused(gate.wait())
    assert gate.shut_seconds == 1 + 2 + 4 + 1


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
        if error := next(answers, None):
            raise error
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


def test_pauses_are_no_part_of_the_time_for_other_failures(gate: ThrottleGate) -> None:
    answers = iter([*[TooManyRequests("x")] * 8, ServiceUnavailable("x"), None])

    def send() -> str:
        if error := next(answers):
            raise error
        return "read"

    assert retry(send)() == "read"
    assert gate.shut_seconds > RETRY_SECONDS


def test_failures_after_a_pause_end_with_their_time(gate: ThrottleGate, clock: Clock) -> None:
    """The pause of 32 seconds is added, and no more."""
    answers = iter([TooManyRequests("x", response=SimpleNamespace(headers={"Retry-After": "32"}))])

    def fail() -> None:
        raise next(answers, ServiceUnavailable("x"))

    with pytest.raises(RetryError) as raised:
        retry(fail)()
    assert isinstance(raised.value.cause, ServiceUnavailable)
    assert clock.now - 100 < RETRY_SECONDS + 1.5 * 32


def test_refusals_of_ten_minutes_are_not_repeated(gate: ThrottleGate, clock: Clock) -> None:
    def refuse() -> None:
        raise TooManyRequests("x")

    with pytest.raises(RetryError):
        retry(refuse)()
    assert clock.now - 100 < THROTTLED_SECONDS + 70


def test_a_request_that_is_refused_for_minutes_is_sent_until_it_is_not(
    gate: ThrottleGate, clock: Clock
) -> None:
    """A request that is refused for five minutes is sent until it is not."""
    asked = []

    def refuse() -> str:
        asked.append(clock.now)
        if clock.now < 400:
            raise TooManyRequests("x")
        return "read"

    assert retry(refuse)() == "read"
    assert 5 < len(asked) < 15


def test_a_request_that_is_refused_for_ten_minutes_fails(gate: ThrottleGate, clock: Clock) -> None:
    def refuse() -> None:
        raise TooManyRequests("x")

    with pytest.raises(RetryError) as raised:
        retry(refuse)()
    assert isinstance(raised.value.cause, TooManyRequests)
    assert 700 <= clock.now < 770


class Process:
    """A worker process with some reading threads, at a simulated time."""

    def __init__(self, number: int, clock: Clock, threads: int) -> None:
        self.gate = ThrottleGate()
        self.begun = [0.0] * threads
        self._clock = clock
        self._spread = random.Random(number).random

    def passes(self, now: float) -> float:
        """When a thread that wants to send a request now may do so."""
        self._clock.now, self._clock.spread = now, self._spread
        return self.gate.wait()


def test_many_workers_share_a_bucket_and_none_waits_for_ten_minutes(
    clock: Clock,
) -> None:
    """10 processes want thirty times what a bucket allows at first.

    That is an eightieth of 800 vCPUs at a bucket with 5,000 reads a second.
    """
    allowed, threads, work, seconds = 62, 32, 0.16, 400
    processes = [Process(number, clock, threads) for number in range(10)]
    due = [(0.0, at, thread) for at in range(len(processes)) for thread in range(threads)]
    served: Counter[int] = Counter()
    longest = 0.0
    while due[0][0] < seconds:
        now, at, thread = heapq.heappop(due)
        process = processes[at]
        goes_on = process.passes(now)
        if goes_on == now and served[int(now)] < allowed:
            served[int(now)] += 1
            process.gate.accepted(now)
            longest = max(longest, now - process.begun[thread])
            goes_on = process.begun[thread] = now + work
        elif goes_on == now:
            process.gate.refused(now)
            goes_on = process.passes(now)
        heapq.heappush(due, (goes_on, at, thread))
    # Without time of their own for pauses, some would have failed.
    assert RETRY_SECONDS < longest < THROTTLED_SECONDS
    assert served.total() > 0.7 * allowed * seconds


@pytest.mark.parametrize("error", [NotFound("x"), ServiceUnavailable("x"), ConnectionError()])
def test_other_failures_hold_nobody_back(gate: ThrottleGate, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises((type(error), RetryError)):
        retry(fail)()
    assert gate.shut_seconds == 0


def test_the_header_of_an_answer_is_heeded(gate: ThrottleGate, clock: Clock) -> None:
    class Response:
        headers = {"Retry-After": "7"}

    def refuse() -> Iterator[None]:
        raise TooManyRequests("x", response=Response())

    with pytest.raises(RetryError):
        retry(refuse)()
    assert next(iter(clock.slept)) == 7 + 0.5 * 7
