"""Notes of images in flight: found after a death, cleared, and never anybody else's files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.needs import skip_unless
from tests.transforms.core.deaths import kill_over
from transforms.images import guard
from transforms.images.guard import InFlight, Suspects, image_note

ONE, TWO = image_note("1.jpg", 1), image_note("2.jpg", 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; a test that waits for somebody fails."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    former = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def notes_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_a_dead_process_left_is_found_until_it_is_cleared(folder: Path) -> None:
    kill_over(ONE, TWO)
    for _ in range(2):
        assert Suspects().notes == {ONE, TWO}
    found = Suspects()
    found.clear(ONE)
    found.clear(ONE)
    assert ONE not in found and TWO in found
    assert Suspects().notes == {TWO}
    found.clear(TWO)
    assert Suspects().notes == frozenset()
    # The file and the folder went with the last of them.
    assert list(folder.iterdir()) == []


def test_one_image_in_the_notes_of_many_is_cleared_in_all(folder: Path) -> None:
    for _ in range(5):
        kill_over(ONE)
    kill_over(TWO)
    Suspects().clear(ONE)
    assert Suspects().notes == {TWO}
    assert len(notes_files(folder)) == 1


def test_killed_between_two_images_nothing_is_left(folder: Path) -> None:
    kill_over()
    assert len(notes_files(folder)) == 1
    assert Suspects().notes == frozenset()
    assert list(folder.iterdir()) == []


@contextlib.contextmanager
def noted(own: InFlight, note: bytes) -> Iterator[None]:
    """Keeps the note of an image until the block ends."""
    at = own.begin(note)
    yield
    own.end(at)


def test_what_runs_is_not_suspected(folder: Path) -> None:
    own = InFlight(8)
    with noted(own, ONE):
        assert Suspects().notes == frozenset()
    os.close(own._descriptor)


def test_old_notes_and_files_without_any_are_removed(folder: Path) -> None:
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


def plant(folder: Path, kind: str) -> None:
    """Something else under the name of a file of notes."""
    path = folder / f"images-in-flight-{os.getuid()}-planted" / "notes"
    path.parent.mkdir(0o700)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        other = folder.parent / "other"
        other.write_bytes(ONE * 256)
        path.symlink_to(other)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(8 << 30)
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["fifo", "endless", "link", "large", "folder"])
def test_no_other_files_are_opened_followed_or_removed(folder: Path, kind: str) -> None:
    kill_over(ONE)
    [path] = notes_files(folder)
    plant(folder, kind)
    before = {*folder.rglob("*")}
    found = Suspects()
    assert found.notes == {ONE}
    found.clear(ONE)
    assert {*folder.rglob("*")} == before - {path, path.parent}


@pytest.mark.parametrize("kind", ["mode", "link", "fifo", "file"])
def test_a_folder_that_others_can_enter_is_not_used(folder: Path, kind: str) -> None:
    kill_over(ONE)
    [path] = notes_files(folder)
    home = path.parent
    if kind == "mode":
        home.chmod(0o755)
    else:
        elsewhere = home.rename(folder / "elsewhere")
        if kind == "link":
            home.symlink_to(elsewhere)
        elif kind == "fifo":
            os.mkfifo(home)
        else:
            home.touch()
    assert Suspects().notes == frozenset()
    kill_over(TWO)
    assert Suspects().notes == {TWO}


def test_the_folder_of_another_user_is_not_used(folder: Path) -> None:
    skip_unless(os.getuid() == 0, "files of another user can only be made as root")
    kill_over(ONE)
    [path] = notes_files(folder)
    os.chown(path.parent, 65534, 65534)
    assert Suspects().notes == frozenset()
    kill_over(TWO)
    assert Suspects().notes == {TWO}
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    assert set(modes.values()) == {0o700}


def test_without_a_folder_for_temporary_files_no_notes_are_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    with noted(InFlight(8), ONE):
        pass
    assert Suspects().notes == frozenset()


@pytest.fixture
def running() -> Iterator[InFlight]:
    """The notes of this process."""
    own = InFlight(8)
    own.patience = 30
    yield own
    os.close(own._descriptor)


def polled(own: InFlight, times: int) -> int:
    return sum(own.has_hung(10) for _ in range(times))


def test_one_image_for_too_long_is_a_decoder_that_hangs(running: InFlight) -> None:
    with noted(running, ONE):
        assert polled(running, 4) == 0
        assert polled(running, 1) == 1
    assert polled(running, 9) == 0


def test_other_images_in_between_are_no_hang(running: InFlight) -> None:
    for number in range(20):
        with noted(running, image_note("1.jpg", number)):
            assert polled(running, 3) == 0


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
def test_a_process_ends_itself(hang: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the decoder never lets another thread of Python run."""
    monkeypatch.setattr(guard, "_WATCH_SECONDS", 0.05)
    _, status = os.waitpid(watched(hang), 0)
    assert os.WTERMSIG(status) == guard.HANGS


@pytest.mark.slow
def test_a_process_that_is_stopped_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_WATCH_SECONDS", 0.5)
    child = watched(lambda: (os.kill(os.getpid(), signal.SIGSTOP), time.sleep(0.2)))
    os.waitpid(child, os.WUNTRACED)
    time.sleep(1.5)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_any_number_of_threads_leave_notes_one_after_the_other(folder: Path) -> None:
    """A place that a thread gave back is for the next one."""
    own = InFlight(1)

    def note_once() -> int:
        at = own.begin(ONE)
        own.end(at)
        return at

    for _ in range(300):
        thread = Thread(target=note_once)
        thread.start()
        thread.join()
    assert note_once() == 0
    os.close(own._descriptor)
