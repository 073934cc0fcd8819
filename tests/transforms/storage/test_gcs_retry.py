"""After 429, all threads of a process pause together."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from google.api_core.exceptions import NotFound, ServiceUnavailable, TooManyRequests

from transforms.storage.gcs_retry import ThrottleGate, gated


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Passes the time."""
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> ThrottleGate:
    return ThrottleGate(clock=lambda: clock.now, sleep=clock.sleep, spread=lambda: 0.5)


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


def test_a_refusal_in_one_thread_holds_the_others_back() -> None:
    held, gone_on = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        held.set()
        assert gone_on.wait(5)
        clock.now += 10

    clock = Clock()
    gate = ThrottleGate(clock=lambda: clock.now, sleep=sleep)
    sent: list[float] = []

    def refused() -> None:
        raise TooManyRequests("slow down")

    with pytest.raises(TooManyRequests):
        gated(refused, gate)()
    other = threading.Thread(target=lambda: gated(lambda: sent.append(clock.now), gate)())
    other.start()
    assert held.wait(5)
    assert sent == []
    gone_on.set()
    other.join()
    assert sent == [110.0]


@pytest.mark.parametrize("error", [NotFound("x"), ServiceUnavailable("x"), ConnectionError()])
def test_other_failures_hold_nobody_back(gate: ThrottleGate, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        gated(fail, gate)()
    assert gate.shut_seconds == 0


def test_the_header_of_an_answer_is_heeded(gate: ThrottleGate) -> None:
    class Response:
        headers = {"Retry-After": "7"}

    def refuse() -> Iterator[None]:
        raise TooManyRequests("x", response=Response())

    with pytest.raises(TooManyRequests):
        gated(refuse, gate)()
    assert gate.shut_seconds == 7
