"""What is special to local files: links, devices, deep folders, ranges of folders, full disks."""

import errno
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cases, rest_slow
from tests.transforms.beam import convert, make_config, make_images
from tests.transforms.storage.conftest import in_ranges
from transforms.core import machine
from transforms.core.messages import FinalError
from transforms.core.records import Count, Kind, NameRange
from transforms.core.rejections import RejectionLimit
from transforms.embed_images import files_digest
from transforms.input_readers import ImageFinder
from transforms.labels.label_rules import PathRules
from transforms.storage import local_storage
from transforms.storage.interface import FoundFile
from transforms.storage.local_storage import LocalStorage, is_ordinary

STORAGE = LocalStorage()
FOLDERS = PathRules("directory")
LATIN_1 = os.fsdecode(b"caf\xe9.jpg")
LISTED: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}


def touch(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def listed(pattern: str, folder: Path) -> list[str]:
    found = STORAGE.list_files(f"{folder}/{pattern}")
    return sorted(os.path.relpath(file.uri, folder) for file in found)


# Globs find what the standard library's find, with sizes and versions, and nothing else.


def test_links_to_folders_are_followed_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, ["a/b/1.jpg"])
    (tmp_path / "a/b/back").symlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    monkeypatch.setattr(os, "lstat", pytest.fail)  # for each of 1,500 folders above, for example
    assert listed("**/*.jpg", tmp_path) == ["a/b/1.jpg", "link/1.jpg"]


@pytest.mark.parametrize("pattern", ["{}/in/**/*.jpg", "**", "*/**/*.jpg", "in/**/**"])
def test_ranges_follow_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    touch(tmp_path, ["in/0.jpg", "in/a/1.jpg", f"in/a/b/{LATIN_1}", "out/2.jpg"])
    for link, target in (("a/b/back", "in/a"), ("a/up", "."), ("link", "out"), (LATIN_1, "in/a/b")):
        (tmp_path / "in" / link).symlink_to(tmp_path / target)
    monkeypatch.chdir(tmp_path)
    whole = sorted(file.uri for file in STORAGE.list_files(pattern.format(tmp_path)))
    assert len(whole) >= 6
    assert sorted(in_ranges(pattern.format(tmp_path))) == whole


@pytest.mark.parametrize(("folders", "ways"), rest_slow([(6, 50), (12, 1000)]))
def test_links_in_circles_are_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: int, ways: int
) -> None:
    """A dozen folders that link to each other have 12! ways through them."""
    monkeypatch.setattr(local_storage, "_MAX_WAYS", ways)
    names = [f"{number}" for number in range(folders)]
    touch(tmp_path, [f"{name}/1.jpg" for name in names])
    for name in names:
        for other in set(names) - {name}:
            (tmp_path / name / f"to{other}").symlink_to(tmp_path / other)
    with pytest.raises(OSError, match=f"more than {ways} paths with links lead to it"):
        listed("**/*.jpg", tmp_path)


@cases(
    ("**", "d", 1010),
    ("**", "d" * 200, 25),
    ("named", "d" * 200, 25),
    ids=["deep", "too deep", "too deep and named"],
)
def test_deep_folders_are_listed(pattern: str, name: str, depth: int, shared_folder: Path) -> None:
    """What is too deep for a path is an error: its images are not missed in silence."""
    descriptor = os.open(shared_folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("1.jpg", os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    inner = f"{name}/" * depth if pattern == "named" else "**"
    try:
        if name == "d":
            assert len(listed(f"{inner}/*.jpg", shared_folder)) == 1
        else:
            with pytest.raises(OSError, match="File name too long"):
                listed(f"{inner}/*.jpg", shared_folder)
    finally:
        # It is too deep for Python, too.
        subprocess.run(["rm", "-r", shared_folder / name], check=True)


@pytest.mark.parametrize("pattern", ["**/*.jpg", "*/*/*.jpg", "**"])
def test_one_stat_for_a_file(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, [f"{number % 2}/{number % 10}/{number}.jpg" for number in range(50)])
    counts: Counter[str] = Counter()
    top = len(tmp_path.parts)
    for name in ("stat", "lstat", "scandir", "listdir"):
        original = getattr(os, name)

        def counted(path: str, *, name: str = name, original: Any = original, **rest: Any) -> Any:
            # The folders above are looked at once.
            counts[name] += len(Path(path).parts) >= top
            return original(path, **rest)

        monkeypatch.setattr(os, name, counted)
    assert len(list(STORAGE.list_files(f"{tmp_path}/{pattern}"))) == 50
    counts["stat"] -= 13 * ("**" in pattern)  # folders from which links may lead back
    assert counts == Counter(stat=50, scandir=13)


def test_folders_after_a_number_of_files_are_ranges(tmp_path: Path) -> None:
    touch(tmp_path, [f"{number % 300}/{number}.jpg" for number in range(900)])
    part = NameRange(f"{tmp_path}/*/*.jpg")
    assert not [each for each in STORAGE.list_range(part, 0) if isinstance(each, NameRange)]
    found = list(STORAGE.list_range(part, 30))
    ranges = [each for each in found if isinstance(each, NameRange)]
    # As many as for a bucket, of almost the same number of folders.
    assert (len(found) - len(ranges), len(ranges)) == (30, 64)
    sizes = [sum(1 for _ in STORAGE.list_range(each, 0)) for each in ranges]
    assert sum(sizes) == 900 - 30
    assert max(sizes) - min(sizes) <= 3
    again = list(STORAGE.list_range(ranges[0], 3))
    assert [type(each) for each in again] == [FoundFile] * 3 + [NameRange] * (sizes[0] // 3 - 1)


# Images that are found.


@cases(
    (".", "**/*.jpg", FOLDERS, {"1": "cat", "stray": ""}),
    (".", "**/*.jpg", PathRules(), {"1": "", "stray": ""}),
    # One folder that the glob names is a class.
    ("cat", "*.jpg", FOLDERS, {"1": "cat"}),
    (".", "*.png", FOLDERS, {}),
)
def test_images_are_found_with_the_labels_of_their_folders(
    root: str, pattern: str, rules: PathRules, labels: dict[str, str], tmp_path: Path
) -> None:
    for name in ("cat/1.jpg", "stray.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"123")
        os.utime(tmp_path / name, ns=(7, 7))
    folder = tmp_path / root
    finder = ImageFinder(root=str(folder), key="stem", rules=rules)
    *found, count = finder.find(NameRange(f"{folder}/{pattern}"))
    assert {key: side.label for key, side in found} == labels
    assert {(side.size, side.version, side.kind) for _, side in found} <= {(3, 7, Kind.IMAGE)}
    assert count == Count("images_found", len(labels))


def test_overlapping_globs_find_an_image_once_and_none_but_utf8_is_kept(tmp_path: Path) -> None:
    images, output = tmp_path / "images", tmp_path / "out"
    make_images(images, ["a/1.jpg", f"a/{LATIN_1}", "b/two\nlines.jpg"])
    globs = tuple(f"{images}/{pattern}" for pattern in ("**/*.jpg", "b/*.jpg", "a/1.jpg"))
    limit = RejectionLimit.parse("1")
    convert(make_config(images, output, images=globs, max_rejected=limit))
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["rejected"] == {"name_not_utf8": 1}
    assert manifest["ledger"]["images_matched"] == 3
    assert manifest["ledger"]["records_written"] == 2
    [line] = map(json.loads, (output / "rejected.jsonl").read_text().splitlines())
    assert line["path"] == f"{images}/a/caf\\xe9.jpg"
    assert line["detail"] == "the name holds bytes that are not UTF-8: a/caf\\xe9.jpg"


# Only ordinary files are read, as listed: no devices, and nothing that the kernel makes up.


def read(path: Path, *, size: int = 1, version: int = 0) -> bytes:
    return STORAGE.read_listed(str(path), size=size, version=version, max_bytes=1)


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An image that is a file, a folder, a FIFO, or a link to what the parameter names."""
    path = tmp_path / "1.jpg"
    (tmp_path / "a file").write_bytes(b"1")
    match request.param:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case target:
            if target[0] == "/" and not os.path.exists(target):
                pytest.skip(f"there is no {target}")
            path.symlink_to(target)
    return path


@pytest.mark.parametrize(
    ("made", "is_listed", "is_ordinary"),
    [
        ("a file", True, True),
        # Whoever reads it says that it is gone.
        ("nowhere", True, False),
        *(("folder", False, False), (".", False, False), ("fifo", False, False)),
        *(("/dev/zero", False, False), ("/dev/null", False, False)),
        *(("/proc/self/status", False, False), ("/proc/kmsg", False, False)),
        ("/sys/kernel/mm/transparent_hugepage/enabled", False, False),
    ],
    indirect=["made"],
)
def test_only_ordinary_files_are_read(made: Path, is_listed: bool, is_ordinary: bool) -> None:
    found = list(STORAGE.list_files(f"{made.parent}/*.jpg"))
    assert [file.uri for file in found] == [str(made)] * is_listed
    assert STORAGE.is_ordinary(str(made)) == is_ordinary
    assert (STORAGE.find(str(made)) is not None) == is_ordinary
    if is_ordinary:
        assert [(file.size, read(made)) for file in found] == [(1, b"1")]
    elif is_listed:
        assert found == [FoundFile(str(made), 0, 0)]
        with pytest.raises(FileNotFoundError):
            read(made)
    else:
        # Those of /proc say that they are empty, those of /sys that they have 4,096 bytes.
        status = made.stat()
        kind = IsADirectoryError if made.is_dir() else OSError
        with pytest.raises(kind, match="no longer a regular file|Is a directory"):
            read(made, size=status.st_size, version=status.st_mtime_ns)
        # A FIFO that is waited for has its test with a limit in tests/hostile.
        if not made.is_fifo():
            with pytest.raises(OSError, match="it is not a regular file"):
                STORAGE.open_reader(str(made))


def test_only_regular_files_of_a_dataset_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.jpg")
    with open(os.open(tmp_path / "1.jpg", os.O_RDWR), "wb", buffering=0) as writer:
        writer.write(b"5")
        with pytest.raises(OSError, match="no longer a regular file"):
            read(tmp_path / "1.jpg")
    assert not STORAGE.is_ordinary("nul\0byte")
    (tmp_path / "a").write_bytes(b"123456789")
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(OSError, match="it is a link, not a file of the dataset"):
        LocalStorage(follow_links=False).read_bytes(f"{tmp_path}/link")
    assert STORAGE.read_bytes(f"{tmp_path}/link") == b"123456789"
    assert not STORAGE.has_checksum(f"{tmp_path}/link", LISTED["crc32c"], 9)
    assert not STORAGE.copy(f"{tmp_path}/link", f"{tmp_path}/b", **LISTED)


def test_a_file_that_is_not_as_listed(tmp_path: Path) -> None:
    path = tmp_path / "1.jpg"
    path.write_bytes(b"12345")
    os.utime(path, ns=(7, 7))
    assert read(path, size=5, version=7) == read(path, size=5) == b"12345"
    for size, version in ((4, 7), (6, 7), (0, 7), (5, 8), (5, 1)):
        with pytest.raises(OSError, match="it was overwritten meanwhile"):
            read(path, size=size, version=version)


def test_a_file_system_that_returns_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(10)))
    pread, read_some = os.pread, os.read
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, 2), at))
    monkeypatch.setattr(os, "read", lambda file, size: read_some(file, min(size, 2)))
    assert STORAGE.read_range(str(path), 1, 7) == bytes(range(1, 8))
    assert read(path, size=10) == bytes(range(10))


@cases(STORAGE.open_ranges, files_digest, lambda path: read(path, size=1 << 27))
def test_a_file_of_holes_is_not_read(opened: Any, tmp_path: Path) -> None:
    """400 images in a tar of a megabyte had 20 GB."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * (1 << 20))
    os.truncate(path, 1 << 27)
    with pytest.raises(FinalError, match="the disk has 10[0-9]* of its 134217728 bytes"):
        opened(str(path))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_file_is_open_when_python_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is cleared before it."""
    (tmp_path / "a").write_bytes(b"123")
    before = os.listdir("/proc/self/fd")
    part_of = STORAGE.open_ranges(f"{tmp_path}/a")
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    monkeypatch.setattr(local_storage, "os", None)
    del part_of
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A list of mounts instead of the system's."""
    path = tmp_path / "self" / "mountinfo"
    path.parent.mkdir()
    monkeypatch.setattr(machine, "PROC", tmp_path)
    local_storage._made_up_devices.cache_clear()
    yield path
    local_storage._made_up_devices.cache_clear()


@cases(("ext4", True), ("nfs4", True), ("proc", False), ("tracefs", False))
def test_file_systems_are_known_by_their_kind(kind: str, expected: bool, mounts: Path) -> None:
    device = os.stat(mounts.parent).st_dev
    line = (
        f"36 35 {os.major(device)}:{os.minor(device)} / /mnt\\040x rw master:1 - {kind} /dev/a rw"
    )
    mounts.write_text(f"broken\n{line},errors=continue\n")
    assert is_ordinary(mounts.stat()) is expected


def test_mounts_are_read_once_and_need_not_be_there(mounts: Path) -> None:
    status = mounts.parent.stat()
    assert not is_ordinary(status)  # a folder
    mounts.write_text("x")
    assert is_ordinary(mounts.stat())
    mounts.unlink()
    assert local_storage._made_up_devices.cache_info().misses <= 1


# What is written.


def test_a_copy_is_a_link_in_place_of_what_a_killed_run_left(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"123456789")
    target.write_bytes(b"of a killed run")
    assert STORAGE.copy(str(source), str(target), **LISTED)
    assert target.stat().st_ino == source.stat().st_ino


def fail_with(number: int) -> Any:
    """A system call that fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@cases(
    *(("link", fail_with(problem)) for problem in (errno.EXDEV, errno.EPERM, errno.EMLINK)),
    # Who owns the file could change the copy later.
    ("geteuid", lambda: os.getuid() + 1),
    ids=["another disk", "not allowed", "too many", "another user"],
)
def test_where_a_link_is_wrong_nothing_is_copied(
    call: str, instead: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"123456789")
    monkeypatch.setattr(os, call, instead)
    assert not STORAGE.copy(str(tmp_path / "a"), str(tmp_path / "b"), **LISTED)
    assert not (tmp_path / "b").exists()


def test_what_is_written_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with STORAGE.open_writer(str(tmp_path / "a")) as stream:
        stream.write(b"123")
    assert synced == [3]
    STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "b"), is_synced=False)
    assert synced == [3]
    STORAGE.rename(str(tmp_path / "b"), str(tmp_path / "c"))
    assert len(synced) == 2


@cases(
    (errno.ENOSPC, "a", r"/a: the disk is full \(.* free\): make room, and run"),
    (errno.EDQUOT, "a", r"/a: your quota is full"),
    (errno.EFBIG, "a", r"/a: no file may have that size: raise the limit \(ulimit -f\)"),
    (errno.ENAMETOOLONG, "a" * 300, r"its path of \d+ bytes, or a name in it, is too long"),
)
def test_what_a_user_can_remove_is_said_with_what_to_do(
    number: int, name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(number))
    with pytest.raises(OSError, match=f"cannot write .*{says}") as raised:
        with STORAGE.open_writer(f"{tmp_path}/{name}") as file:
            file.write(b"x")
    assert raised.value.errno == number
