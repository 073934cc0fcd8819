"""What a user may not read or write is a wrong input: exit code 2, one line, nothing done."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.commands import convert
from tests.pipeline.right_command import check_usage, right_flags, write_inputs
from tests.privileges import without_privileges


class TestPermissions:
    @pytest.fixture
    def readable(self, shared_folder: Path) -> Iterator[Path]:
        """The files of a command that is right, readable by everyone."""
        before = os.umask(0o022)
        try:
            write_inputs(shared_folder)
            yield shared_folder
        finally:
            os.umask(before)

    @pytest.mark.usefixtures("no_run")
    @pytest.mark.parametrize(
        ("locked", "says"),
        [
            ("photos", "no permission to read the folder"),
            ("labels.csv", "cannot read --labels"),
            ("names.txt", "cannot read --class_names"),
        ],
    )
    def test_what_cannot_be_read(self, locked: str, says: str, readable: Path) -> None:
        (readable / "names.txt").write_text("cat\ndog\n")
        (readable / "out").mkdir()
        (readable / "out").chmod(0o777)
        flags = {**right_flags(readable), "class_names": readable / "names.txt"}
        (readable / locked).chmod(0)
        with without_privileges():
            ran = convert(**flags)
        check_usage(ran, says, str(readable / locked))
        assert os.listdir(readable / "out") == []

    @pytest.mark.usefixtures("no_run")
    @pytest.mark.parametrize("flag", ["images", "labels"])
    def test_a_folder_instead_of_a_file(self, flag: str, readable: Path) -> None:
        """A dataset of --images, too."""
        flags = {**right_flags(readable), flag: readable / "photos"}
        (readable / "photos").chmod(0)
        with without_privileges():
            ran = convert(**flags)
        check_usage(ran, f"no permission to read the folder '{readable}/photos'")

    @pytest.mark.usefixtures("no_run")
    @pytest.mark.parametrize("exists", [True, False])
    def test_an_output_that_cannot_be_written(self, exists: bool, readable: Path) -> None:
        flags = right_flags(readable)
        if exists:
            (readable / "out").mkdir()
        readable.chmod(0o555)
        with without_privileges():
            # Should the folder above be out of reach, the test would show nothing.
            assert (readable / "labels.csv").read_bytes()
            ran = convert(**flags)
        readable.chmod(0o755)
        check_usage(ran, f"cannot write to --output {readable}/out: Permission denied")
        assert not exists or os.listdir(readable / "out") == []

    @pytest.mark.usefixtures("no_run")
    def test_an_output_that_cannot_be_listed(self, readable: Path) -> None:
        (readable / "out").mkdir()
        (readable / "out").chmod(0)
        with without_privileges():
            ran = convert(**right_flags(readable))
        check_usage(ran, f"cannot read --output {readable}/out: Permission denied")


def test_a_disk_without_room_for_the_images_is_said_before_the_start(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out")
    assert ran.code == 2
    assert re.search(r"the images have at least [\d.]+ KB, but its disk has 1.0 KB free", ran.err)
    assert not (tmp_path / "out").exists()
    smaller = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", resize="longer=2")
    assert smaller.code == 0
