"""The guard: an image that was decoded when a process died is decoded in a child, until it proves
to be sound."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images import picture, saved
from tests.transforms.core.deaths import kill_over
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import guard as decoder_guard
from transforms.images.check import check_image
from transforms.images.guard import (
    Budget,
    DecoderFailure,
    DecoderGuard,
    DecodingChild,
    InFlight,
    Suspects,
    image_note,
)
from transforms.images.pixel_options import Limits

LIMITS = Limits(10**6, 10**6)
PHOTO = saved(picture("RGB"), "JPEG")


@pytest.fixture(autouse=True)
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DecodingChild]:
    """The child of the guards of a test, whose folder for temporary files is its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = DecodingChild()
    monkeypatch.setattr(decoder_guard, "decoding_child", lambda: made)
    yield made
    made.close()


def note(number: int) -> bytes:
    return image_note(f"{number}.jpg", 1)


def check(guard: DecoderGuard, number: int, data: bytes = PHOTO) -> str:
    return guard.call(note(number), check_image, data, limits=LIMITS).format


def test_after_ten_kills_one_child_decodes_what_was_in_flight_once(
    child: DecodingChild, tmp_path: Path
) -> None:
    for kill in range(10):
        kill_over(note(2 * kill), note(2 * kill + 1))
    assert len(Suspects().notes) == 20
    guard = DecoderGuard(LIMITS.max_pixels)
    for number in range(100):
        assert check(guard, number) == "jpeg"
    assert child.started == 1
    # Nothing is left of them for the next run.
    assert Suspects().notes == frozenset()
    again = DecoderGuard(LIMITS.max_pixels)
    child.close()
    for number in range(100):
        assert check(again, number) == "jpeg"
    assert child.started == 1
    # But that of this process.
    assert len([*tmp_path.rglob("notes")]) <= 1


def test_without_a_death_no_child_is_started(child: DecodingChild) -> None:
    assert check(DecoderGuard(LIMITS.max_pixels), 1) == "jpeg"
    assert child.started == 0


def test_an_image_that_is_rejected_soundly_is_cleared(child: DecodingChild) -> None:
    kill_over(note(1))
    guard = DecoderGuard(LIMITS.max_pixels)
    for _ in range(2):
        with pytest.raises(RejectedImageError) as raised:
            check(guard, 1, b"text")
        assert raised.value.reason is Reason.NOT_AN_IMAGE
    assert child.started == 1
    assert Suspects().notes == frozenset()


def test_an_image_that_ends_the_child_stays_a_suspect(
    child: DecodingChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_over(note(1), note(2), note(3))
    guard = DecoderGuard(LIMITS.max_pixels)
    monkeypatch.setattr(guard, "_budget", Budget(100 << 20, 0.2))
    with pytest.raises(DecoderFailure, match="SIGSEGV"):
        guard.call(note(1), signal.raise_signal, signal.SIGSEGV)
    with pytest.raises(DecoderFailure, match="does not end"):
        guard.call(note(2), time.sleep, 60)
    with pytest.raises(DecoderFailure, match="memory"):
        guard.call(note(3), bytes, 200 << 20)
    assert Suspects().notes == {note(1), note(2), note(3)}
    assert child.started == 3


def test_threads_that_wait_take_no_note() -> None:
    guard = DecoderGuard(LIMITS.max_pixels)
    own = guard._in_flight = InFlight(2)
    go_on, decoding = threading.Event(), threading.Semaphore(0)

    def decode() -> None:
        decoding.release()
        go_on.wait()

    threads = [
        threading.Thread(target=guard.call, args=(note(number), decode)) for number in range(32)
    ]
    for thread in threads:
        thread.start()
    for _ in range(2):
        decoding.acquire()
    held = {bytes(own._notes[at : at + 16]) for at in range(0, 4096, 16)} - {bytes(16)}
    assert len(held) == 2
    go_on.set()
    for thread in threads:
        thread.join()
    assert bytes(own._notes[:4096]) == bytes(4096)
    os.close(own._descriptor)


def test_an_image_on_its_way_costs_no_system_call(tmp_path: Path) -> None:
    """The test counts the calls that Python reports: files, processes, sleeps."""
    guard = DecoderGuard(LIMITS.max_pixels)
    check(guard, 1)
    seen: list[str] = []
    is_counted = True

    def hook(event: str, _: object) -> None:
        if is_counted and not event.startswith(("object.", "code.", "sys.")):
            seen.append(event)

    sys.addaudithook(hook)
    try:
        for number in range(50):
            check(guard, number)
    finally:
        is_counted = False
    assert seen == []
