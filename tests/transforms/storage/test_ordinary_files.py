"""Only ordinary files are read: no devices, and nothing that the kernel makes up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from transforms.storage import local_storage as ordinary_files
from transforms.storage.local_storage import LocalStorage, is_ordinary

STORAGE = LocalStorage()


def test_ordinary_files_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"1")
    (tmp_path / "link.jpg").symlink_to("1.jpg")
    (tmp_path / "dangling.jpg").symlink_to("none")
    os.mkfifo(tmp_path / "fifo.jpg")
    (tmp_path / "null.jpg").symlink_to("/dev/null")
    found = {path.name: STORAGE.is_ordinary(str(path)) for path in tmp_path.iterdir()}
    assert found == {
        "1.jpg": True,
        "link.jpg": True,
        "dangling.jpg": False,
        "fifo.jpg": False,
        "null.jpg": False,
    }
    assert not STORAGE.is_ordinary("nul\0byte")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
def test_what_the_kernel_makes_up_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"1")
    for name in ("/proc/self/status", "/proc/kmsg", "/sys/kernel/notes"):
        (tmp_path / f"{Path(name).name}.jpg").symlink_to(name)
        assert not STORAGE.is_ordinary(name)
    there = [tmp_path / "1.jpg", *(p for p in tmp_path.iterdir() if not p.exists())]
    assert {file.uri for file in STORAGE.list_files(f"{tmp_path}/*.jpg")} == {
        str(path) for path in there
    }


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A list of mounts instead of the system's."""
    path = tmp_path / "mountinfo"
    monkeypatch.setattr(ordinary_files, "_MOUNTS", path)
    ordinary_files._made_up_devices.cache_clear()
    yield path
    ordinary_files._made_up_devices.cache_clear()


def test_file_systems_are_known_by_their_kind(mounts: Path) -> None:
    device = os.stat(mounts.parent).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    line = f"36 35 {number} / /mnt\\040x rw master:1 - {{}} /dev/root rw,errors=continue\n"
    for kind, expected in (("ext4", True), ("nfs4", True), ("proc", False), ("tracefs", False)):
        mounts.write_text(f"broken\n{line.format(kind)}")
        ordinary_files._made_up_devices.cache_clear()
        assert is_ordinary(mounts.stat()) is expected


def test_mounts_are_read_once_and_need_not_be_there(mounts: Path) -> None:
    status = mounts.parent.stat()
    assert not is_ordinary(status)  # a folder
    mounts.write_text("x")
    assert is_ordinary(mounts.stat())
    mounts.unlink()
    assert ordinary_files._made_up_devices.cache_info().misses <= 1
