"""Images whose decoder may crash or hang: their turns, the child that decodes them, the guard."""

import io
import os
import pickle
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from PIL import Image

from tests.hostile.costly_files import tag_bomb
from tests.images import picture, saved
from tests.marks import cases
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import guard as guard_module
from transforms.images.check import check_image
from transforms.images.guard import Budget, DecoderGuard, DecodingChild, Turns
from transforms.images.pixel_options import Limits

LIMITS = Limits(10**6, 10**7)
BUDGET = Budget.of_pixels(10**6)
PHOTO = saved(picture("RGB"), "JPEG")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; a test that waits for somebody fails."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    former = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecodingChild]:
    """The child of the guards of a test, which is ended after it."""
    made = DecodingChild()
    monkeypatch.setattr(guard_module, "decoding_child", lambda: made)
    yield made
    made.close()


class TestHangs:
    def test_one_image_for_too_long_is_a_decoder_that_hangs(self) -> None:
        own = Turns(2)
        own.patience = 30
        other, place = own.begin(), own.begin()
        own.end(other)
        assert [own.has_hung(10) for _ in range(5)] == [False] * 4 + [True]
        own.end(place)
        assert not any(own.has_hung(10) for _ in range(9))
        # Other images in between are no hang.
        for _ in range(20):
            place = own.begin()
            assert not any(own.has_hung(10) for _ in range(3))
            own.end(place)

    @staticmethod
    def watched(hang: Callable[[], object]) -> int:
        """A process that watches itself, and has decoded an image for too long."""
        child = os.fork()
        if child == 0:
            own = Turns(8)
            own.patience = 0.1
            Thread(target=own.watch, daemon=True).start()
            own.begin()
            hang()
            os._exit(0)
        return child

    @pytest.mark.slow
    @pytest.mark.parametrize("hang", [signal.pause, lambda: re.match("(a*)*b", 100 * "a")])
    def test_a_process_ends_itself(self, hang: Callable[[], object], monkeypatch: Any) -> None:
        """Also if the decoder never lets another thread of Python run."""
        monkeypatch.setattr(guard_module, "_WATCH_SECONDS", 0.05)
        _, status = os.waitpid(self.watched(hang), 0)
        assert os.WTERMSIG(status) == guard_module.HANGS

    @pytest.mark.slow
    def test_a_process_that_is_stopped_does_not_hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard_module, "_WATCH_SECONDS", 0.5)
        child = self.watched(lambda: (os.kill(os.getpid(), signal.SIGSTOP), time.sleep(0.2)))
        os.waitpid(child, os.WUNTRACED)
        time.sleep(1.5)
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
        assert status == 0


class Patient(Budget):
    """Limits nothing but processor time, of which a busy machine gives little a second."""

    @property
    def clock_seconds(self) -> float:
        return 100.0


class TestChild:
    """What a child does to itself costs the image, and nothing else."""

    @pytest.mark.parametrize("format_", ["JPEG", pytest.param("GIF", marks=pytest.mark.slow)])
    def test_one_process_answers_many_calls(self, child: DecodingChild, format_: str) -> None:
        """Also if TensorFlow decodes, within the limits of a small image."""
        budget, data = Budget.of_pixels(2_000), saved(picture("RGB"), format_)
        for _ in range(5):
            found = child.call(budget, check_image, data, limits=LIMITS)
            assert found.format == format_.lower()
            with pytest.raises(RejectedImageError) as raised:
                child.call(budget, check_image, b"text", limits=LIMITS)
            assert raised.value.reason is Reason.NOT_AN_IMAGE
        assert child.started == 1

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
    def test_a_crash_costs_the_image(self, child: DecodingChild, number: signal.Signals) -> None:
        with pytest.raises(RejectedImageError) as raised:
            child.call(BUDGET, signal.raise_signal, number)
        assert raised.value.reason is Reason.DECODER_CRASH
        assert raised.value.detail == f"a decoder crashes with {number.name}"
        assert (child.call(BUDGET, len, b"on"), child.started) == (2, 2)

    @cases(
        (Budget(100 << 20, 60), (bytes, 200 << 20), "takes more than 100 MB of memory"),
        # All of its tags point at the same megabyte, which Pillow copies for each.
        (
            Budget(512 << 20, 60),
            (Image.open, io.BytesIO(tag_bomb(4000, 1 << 20))),
            "takes more than 512 MB of memory",
        ),
        (Patient(1 << 30, 0.2), (sum, range(10**12)), "of CPU time"),
        (Budget(1 << 30, 0.2), (time.sleep, 60), "does not end within 1 s"),
        ids=["memory", "tags", "processor", "clock"],
    )
    def test_limits(
        self, budget: Budget, call: tuple[Any, Any], message: str, child: DecodingChild
    ) -> None:
        with pytest.raises(RejectedImageError, match=message) as raised:
            child.call(budget, *call)
        assert raised.value.reason is Reason.TOO_COSTLY

    def test_each_call_has_its_own(self, child: DecodingChild) -> None:
        budget = Budget(100 << 20, 10)
        for _ in range(2):
            with pytest.raises(RejectedImageError, match="memory"):
                child.call(budget, bytes, 200 << 20)
            assert len(child.call(budget, bytes, 50 << 20)) == 50 << 20
            child.call(budget, sum, range(10**6))
        assert child.started == 1

    def test_other_errors_keep_their_kind(self, child: DecodingChild) -> None:
        with pytest.raises(ZeroDivisionError):
            child.call(BUDGET, divmod, 1, 0)
        with pytest.raises(RuntimeError, match="ended with exit code 3"):
            child.call(BUDGET, os._exit, 3)
        with pytest.raises((AttributeError, pickle.PicklingError)):
            child.call(BUDGET, lambda: 1)
        assert child.call(BUDGET, len, b"on") == 2

    def test_what_libraries_print_is_no_answer(self, child: DecodingChild, capfd: Any) -> None:
        assert child.call(BUDGET, os.write, 1, b"noise") == 5
        assert capfd.readouterr() == ("", "noise")

    def test_a_folder_of_the_same_name_is_not_imported(
        self, child: DecodingChild, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(folder)
        os.makedirs("transforms/images")
        assert child.call(BUDGET, len, b"on") == 2

    def test_a_picture_of_a_million_pixels_stays_in_its_budget(self, child: DecodingChild) -> None:
        data = saved(Image.effect_noise((1000, 1000), 40), "PNG")
        assert child.call(BUDGET, check_image, data, limits=LIMITS).height == 1000

    @cases((1, 60), (178_956_970, 60), (357_913_940, 120), (2**63, 3600))
    def test_the_budget_grows_with_the_pixels(self, pixels: int, seconds: float) -> None:
        budget = Budget.of_pixels(pixels)
        assert budget.seconds == seconds
        assert 512 << 20 <= budget.bytes <= (1 << 50)


def check(guard: DecoderGuard, number: int, data: bytes = PHOTO) -> str:
    return guard.call(f"{number}.jpg", check_image, data, limits=LIMITS).format


class TestGuard:
    """What a process may have died over before is decoded in a child, and nothing else."""

    @cases((False, [], 0), (False, ["7.jpg"], 1), (True, [], 1))
    def test_suspects_are_decoded_in_one_child(
        self, isolates: bool, suspects: list[str], started: int, child: DecodingChild
    ) -> None:
        guard = DecoderGuard(LIMITS.max_pixels, isolates=isolates)
        guard.suspects.update(suspects)
        for number in range(9):
            assert check(guard, number) == "jpeg"
            with pytest.raises(RejectedImageError, match="begins with the bytes 74 65"):
                check(guard, number, b"text")
        assert child.started == started

    def test_an_image_that_ends_the_child_is_rejected(self, child: DecodingChild) -> None:
        guard = DecoderGuard(LIMITS.max_pixels, isolates=True)
        with pytest.raises(RejectedImageError, match="SIGSEGV"):
            guard.call("1.jpg", signal.raise_signal, signal.SIGSEGV)
        assert (check(guard, 2), child.started) == ("jpeg", 2)

    def test_only_so_many_threads_decode_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others wait, and one that waits does not hang; there may be any number of them."""
        own = Turns(2)
        monkeypatch.setattr(guard_module, "turns", lambda: own)
        guard = DecoderGuard(LIMITS.max_pixels, isolates=False)
        go_on, decoding = threading.Semaphore(0), threading.Semaphore(0)

        def decode() -> None:
            decoding.release()
            go_on.acquire()

        threads = [
            Thread(target=guard.call, args=("1.jpg", decode), daemon=True) for _ in range(300)
        ]
        for thread in threads:
            thread.start()
        for _ in range(150):
            decoding.acquire()
            decoding.acquire()
            assert not decoding.acquire(timeout=0.001)
            assert not own.has_hung(1)
            go_on.release(2)
        for thread in threads:
            thread.join()
        own.begin()
        assert [own.has_hung(70) for _ in range(3)] == [False, False, True]
        assert own._free.qsize() == 1
