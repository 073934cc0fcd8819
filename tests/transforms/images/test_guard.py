"""Images whose decoder may crash or hang: their notes, the child that decodes them, the guard."""

from __future__ import annotations

import contextlib
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
from tests.needs import skip_unless
from tests.transforms.core.deaths import kill_over
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import guard as guard_module
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

LIMITS = Limits(10**6, 10**7)
BUDGET = Budget.of_pixels(10**6)
PHOTO = saved(picture("RGB"), "JPEG")
ONE, TWO = image_note("1.jpg", 1), image_note("2.jpg", 1)


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


@contextlib.contextmanager
def in_flight(places: int = 8) -> Iterator[InFlight]:
    """The notes of this process."""
    own = InFlight(places)
    own.patience = 30
    yield own
    os.close(own._descriptor)


def notes_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class TestNotes:
    """They are found after a death, cleared, and never anybody else's files."""

    def test_what_a_dead_process_left_is_found_until_it_is_cleared(self, folder: Path) -> None:
        for notes in [[ONE, TWO], [ONE], [ONE], []]:
            kill_over(*notes)
        for _ in range(2):
            assert Suspects().notes == {ONE, TWO}
        found = Suspects()
        found.clear(ONE)
        found.clear(ONE)
        assert ONE not in found and TWO in found and len(notes_files(folder)) == 1
        assert Suspects().notes == {TWO}
        found.clear(TWO)
        assert Suspects().notes == frozenset()
        # The file and the folder went with the last of them.
        assert list(folder.iterdir()) == []

    def test_what_runs_is_not_suspected(self) -> None:
        with in_flight() as own:
            own.begin(ONE)
            assert Suspects().notes == frozenset()

    def test_old_notes_and_files_without_any_are_removed(self, folder: Path) -> None:
        kill_over(ONE)
        [path] = notes_files(folder)
        os.utime(path, (0, time.time() - 8 * 24 * 3600))
        empty = folder / f"images-in-flight-{os.getuid()}-empty" / "notes"
        empty.parent.mkdir(0o700)
        empty.touch()
        assert Suspects().notes == frozenset()
        assert notes_files(folder) == [empty]
        os.utime(empty, (0, time.time() - 3600))
        Suspects()
        assert notes_files(folder) == []

    @pytest.mark.parametrize(
        "make",
        [
            os.mkfifo,
            lambda path: path.symlink_to("/dev/zero"),
            lambda path: path.symlink_to(path.parents[2] / "other"),
            lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 8 << 30),
            Path.mkdir,
        ],
        ids=["fifo", "endless", "link", "large", "folder"],
    )
    def test_no_other_files_are_opened_followed_or_removed(
        self, folder: Path, make: Callable[[Path], object]
    ) -> None:
        kill_over(ONE)
        [path] = notes_files(folder)
        (folder.parent / "other").write_bytes(TWO * 256)
        planted = folder / f"images-in-flight-{os.getuid()}-planted" / "notes"
        planted.parent.mkdir(0o700)
        make(planted)
        before = {*folder.rglob("*")}
        found = Suspects()
        assert found.notes == {ONE}
        found.clear(ONE)
        assert {*folder.rglob("*")} == before - {path, path.parent}

    @pytest.mark.parametrize("kind", ["mode", "link", "fifo", "file", "owner"])
    def test_a_folder_that_others_can_enter_is_not_used(self, folder: Path, kind: str) -> None:
        skip_unless(kind != "owner" or os.getuid() == 0, "only root makes files of another user")
        kill_over(ONE)
        home, elsewhere = notes_files(folder)[0].parent, folder / "elsewhere"
        if kind == "mode":
            home.chmod(0o755)
        elif kind == "owner":
            os.chown(home, 65534, 65534)
        else:
            home.rename(elsewhere)
            {"link": lambda: home.symlink_to(elsewhere), "fifo": lambda: os.mkfifo(home)}.get(
                kind, home.touch
            )()
        assert Suspects().notes == frozenset()
        before = {*folder.iterdir()}
        kill_over(TWO)
        assert Suspects().notes == {TWO}
        [made] = {*folder.iterdir()} - before
        assert made.stat().st_mode & 0o777 == 0o700

    def test_without_a_folder_for_temporary_files_no_notes_are_taken(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
        own = InFlight(8)
        own.end(own.begin(ONE))
        assert Suspects().notes == frozenset()

    def test_any_number_of_threads_leave_notes_one_after_the_other(self) -> None:
        """A place that a thread gave back is for the next one."""
        places = []
        with in_flight(1) as own:
            for _ in range(300):
                thread = Thread(target=lambda: places.append(own.begin(ONE)) or own.end(places[-1]))
                thread.start()
                thread.join()
        assert places == [0] * 300


class TestHangs:
    def test_one_image_for_too_long_is_a_decoder_that_hangs(self) -> None:
        with in_flight() as own:
            at = own.begin(ONE)
            assert [own.has_hung(10) for _ in range(5)] == [False] * 4 + [True]
            own.end(at)
            assert not any(own.has_hung(10) for _ in range(9))
            # Other images in between are no hang.
            for number in range(20):
                at = own.begin(image_note("1.jpg", number))
                assert not any(own.has_hung(10) for _ in range(3))
                own.end(at)

    @staticmethod
    def watched(hang: Callable[[], object]) -> int:
        """A process that watches itself, and has decoded an image for too long."""
        child = os.fork()
        if child == 0:
            own = InFlight(8)
            own.patience = 0.1
            Thread(target=own.watch, daemon=True).start()
            own.begin(ONE)
            hang()
            os._exit(0)
        return child

    @pytest.mark.slow
    @pytest.mark.parametrize("hang", [signal.pause, lambda: re.match("(a*)*b", 100 * "a")])
    def test_a_process_ends_itself(
        self, hang: Callable[[], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
            assert not isinstance(raised.value, DecoderFailure)
        assert child.started == 1

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
    def test_what_ends_the_process_costs_the_image(
        self, child: DecodingChild, number: signal.Signals
    ) -> None:
        with pytest.raises(DecoderFailure) as raised:
            child.call(BUDGET, signal.raise_signal, number)
        assert raised.value.reason is Reason.DECODER_CRASH
        assert raised.value.detail == f"a decoder crashes with {number.name}"
        assert (child.call(BUDGET, len, b"on"), child.started) == (2, 2)

    @pytest.mark.parametrize(
        ("budget", "call", "message"),
        [
            (Budget(100 << 20, 60), (bytes, 200 << 20), "takes more than 100 MB of memory"),
            # All of its tags point at the same megabyte, which Pillow copies for each.
            (
                Budget(512 << 20, 60),
                (Image.open, io.BytesIO(tag_bomb(4000, 1 << 20))),
                "takes more than 512 MB of memory",
            ),
            (Patient(1 << 30, 0.2), (sum, range(10**12)), "of CPU time"),
            (Budget(1 << 30, 0.2), (time.sleep, 60), "does not end within 1 s"),
        ],
        ids=["memory", "tags", "processor", "clock"],
    )
    def test_limits(
        self, child: DecodingChild, budget: Budget, call: tuple[Any, Any], message: str
    ) -> None:
        with pytest.raises(DecoderFailure, match=message) as raised:
            child.call(budget, *call)
        assert raised.value.reason is Reason.TOO_COSTLY

    def test_each_call_has_its_own(self, child: DecodingChild) -> None:
        budget = Budget(100 << 20, 10)
        for _ in range(2):
            with pytest.raises(DecoderFailure, match="memory"):
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

    def test_what_libraries_print_is_no_answer(
        self, child: DecodingChild, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert child.call(BUDGET, os.write, 1, b"noise") == 5
        assert capfd.readouterr() == ("", "noise")

    def test_a_folder_of_the_same_name_is_not_imported(
        self, child: DecodingChild, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(folder)
        os.makedirs("transforms/images")
        assert child.call(BUDGET, len, b"on") == 2

    def test_a_picture_of_a_million_pixels_needs_no_more_than_its_budget(
        self, child: DecodingChild
    ) -> None:
        data = saved(Image.effect_noise((1000, 1000), 40), "PNG")
        assert child.call(BUDGET, check_image, data, limits=LIMITS).height == 1000

    @pytest.mark.parametrize(
        ("pixels", "seconds"), [(1, 60), (178_956_970, 60), (357_913_940, 120), (2**63, 3600)]
    )
    def test_the_budget_grows_with_the_pixels(self, pixels: int, seconds: float) -> None:
        budget = Budget.of_pixels(pixels)
        assert budget.seconds == seconds
        assert 512 << 20 <= budget.bytes <= (1 << 50)


def note(number: int) -> bytes:
    return image_note(f"{number}.jpg", 1)


def check(guard: DecoderGuard, number: int, data: bytes = PHOTO) -> str:
    return guard.call(note(number), check_image, data, limits=LIMITS).format


class TestGuard:
    """An image that was decoded when a process died is decoded in a child, until it is sound."""

    def test_after_ten_kills_one_child_decodes_what_was_in_flight_once(
        self, child: DecodingChild, folder: Path
    ) -> None:
        for kill in range(10):
            kill_over(note(2 * kill), note(2 * kill + 1))
        assert len(Suspects().notes) == 20
        for _ in range(2):
            guard = DecoderGuard(LIMITS.max_pixels)
            for number in range(100):
                assert check(guard, number) == "jpeg"
            # Nothing is left of them for the next run.
            assert child.started == 1
            assert Suspects().notes == frozenset()
            child.close()
        # But that of this process.
        assert len([*folder.rglob("notes")]) <= 1

    def test_an_image_that_is_rejected_soundly_is_cleared(self, child: DecodingChild) -> None:
        kill_over(note(1))
        guard = DecoderGuard(LIMITS.max_pixels)
        for _ in range(2):
            with pytest.raises(RejectedImageError) as raised:
                check(guard, 1, b"text")
            assert raised.value.reason is Reason.NOT_AN_IMAGE
        assert child.started == 1
        assert Suspects().notes == frozenset()

    def test_an_image_that_ends_the_child_stays_a_suspect(self, child: DecodingChild) -> None:
        kill_over(note(1), note(2))
        with pytest.raises(DecoderFailure, match="SIGSEGV"):
            DecoderGuard(10**6).call(note(1), signal.raise_signal, signal.SIGSEGV)
        assert Suspects().notes == {note(1), note(2)}

    def test_threads_that_wait_take_no_note(self) -> None:
        guard = DecoderGuard(LIMITS.max_pixels)
        go_on, decoding = threading.Event(), threading.Semaphore(0)

        def decode() -> None:
            decoding.release()
            go_on.wait()

        with in_flight(2) as own:
            guard._in_flight = own
            threads = [Thread(target=guard.call, args=(note(at), decode)) for at in range(32)]
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

    def test_without_a_death_no_child_is_started(self, child: DecodingChild) -> None:
        assert check(DecoderGuard(LIMITS.max_pixels), 1) == "jpeg"
        assert child.started == 0
