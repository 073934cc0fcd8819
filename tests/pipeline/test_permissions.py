"""What a user may not read or write is a wrong input: exit code 2, one line, nothing done."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marks import cases
from tests.pipeline.commands import convert
from tests.pipeline.right_command import check_usage, right_flags, write_inputs
from tests.privileges import without_privileges

DENIED = "--output {0}/out: Permission denied"


@pytest.fixture
def readable(shared_folder: Path) -> Iterator[Path]:
    """The files of a command that is right, and an output folder, for everyone."""
    before = os.umask(0o022)
    write_inputs(shared_folder)
    (shared_folder / "names.txt").write_text("cat\ndog\n")
    (shared_folder / "out").mkdir()
    (shared_folder / "out").chmod(0o777)
    yield shared_folder
    shared_folder.chmod(0o755)
    os.umask(before)


@pytest.mark.usefixtures("no_run")
@cases(
    ("photos", {}, ["no permission to read the folder", "{0}/photos"]),
    ("labels.csv", {}, ["cannot read --labels", "{0}/labels.csv"]),
    ("names.txt", {}, ["cannot read --class_names", "{0}/names.txt"]),
    # A folder instead of a file; a dataset of --images, too.
    *(
        ("photos", {flag: "{0}/photos"}, ["no permission to read the folder '{0}/photos'"])
        for flag in ("images", "labels")
    ),
    ("out", {}, [f"cannot read {DENIED}"]),
)
def test_what_cannot_be_read(
    locked: str, flags: dict[str, str], says: list[str], readable: Path
) -> None:
    given = {**right_flags(readable), "class_names": readable / "names.txt"}
    given |= {name: value.format(readable) for name, value in flags.items()}
    (readable / locked).chmod(0)
    with without_privileges():
        ran = convert(**given)
    check_usage(ran, *(each.format(readable) for each in says))
    assert os.listdir(readable / "out") == []


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("exists", [True, False])
def test_an_output_that_cannot_be_written(exists: bool, readable: Path) -> None:
    (readable / "out").chmod(0o755)
    if not exists:
        (readable / "out").rmdir()
    readable.chmod(0o555)
    with without_privileges():
        # Should the folder above be out of reach, the test would show nothing.
        assert (readable / "labels.csv").read_bytes()
        ran = convert(**right_flags(readable))
    check_usage(ran, f"cannot write to {DENIED}".format(readable))
    assert not exists or os.listdir(readable / "out") == []


def test_a_disk_without_room_for_the_images_is_said_before_the_start(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out"}
    ran = convert(**flags)
    assert ran.code == 2
    assert re.search(r"the images have at least [\d.]+ KB, but its disk has 1.0 KB free", ran.err)
    assert not (tmp_path / "out").exists()
    assert convert(**flags, resize="longer=2").code == 0
