"""Local files: globs, ranges, copies, and what is no ordinary file."""

from __future__ import annotations

import errno
import glob
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import rest_slow
from tests.transforms.beam import convert, make_config, make_images
from transforms.core.records import Count, JoinSide, Kind, NameRange
from transforms.core.rejections import Rejection, RejectionLimit
from transforms.input_readers import ImageFinder
from transforms.labels.label_rules import PathRules
from transforms.storage import local_storage
from transforms.storage import local_storage as ordinary_files
from transforms.storage.interface import FoundFile
from transforms.storage.local_storage import LocalStorage, is_ordinary

# Globs find what the standard library's find, with sizes and versions, and nothing else.

STORAGE = LocalStorage()

FOLDERS = PathRules("directory")
LATIN_1 = os.fsdecode(b"caf\xe9.jpg")


def listed(pattern: str, folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(file.uri, folder) for file in STORAGE.list_files(f"{folder}/{pattern}")
    )


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.jpg", ["1.jpg"]),
        ("*/*.jpg", ["a/2.jpg"]),
        ("**/*.jpg", ["1.jpg", "a/2.jpg", "a/b/3.jpg"]),
        ("a/**/*.jpg", ["a/2.jpg", "a/b/3.jpg"]),
        ("**", ["1.jpg", "a/2.jpg", "a/b/3.jpg", "a/notes.txt"]),
        ("a/?.jpg", ["a/2.jpg"]),
        ("[0-9].jpg", ["1.jpg"]),
        ("1.jpg", ["1.jpg"]),
        (".*.jpg", [".hidden.jpg"]),
        (".cache/*.jpg", [".cache/4.jpg"]),
        ("a", []),
        ("*/", []),
        ("*.png", []),
        ("none/*.jpg", []),
    ],
)
def test_globs(tmp_path: Path, pattern: str, names: list[str]) -> None:
    for name in ("1.jpg", "a/2.jpg", "a/b/3.jpg", ".hidden.jpg", ".cache/4.jpg", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert listed(pattern, tmp_path) == names


@pytest.mark.parametrize(
    "name", ["[1].jpg", "two\nlines.jpg", " .jpg", "한강.jpg", "*?.jpg", LATIN_1]
)
def test_any_name_is_listed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"12345")
    [file] = STORAGE.list_files(f"{tmp_path}/*.jpg")
    assert (file.uri, file.size) == (f"{tmp_path}/{name}", 5)


def test_the_version_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "1.jpg"
    path.write_bytes(b"1")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert list(STORAGE.list_files(str(path))) == [
        FoundFile(str(path), 1, 1_700_000_000_123_456_789)
    ]


def test_only_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "folder.jpg").mkdir()
    os.mkfifo(tmp_path / "fifo.jpg")
    (tmp_path / "file.jpg").touch()
    (tmp_path / "link.jpg").symlink_to("file.jpg")
    (tmp_path / "folder_link.jpg").symlink_to("folder.jpg")
    assert listed("*.jpg", tmp_path) == ["file.jpg", "link.jpg"]


def test_a_dangling_link_is_listed_for_the_reader_to_reject(tmp_path: Path) -> None:
    (tmp_path / "link.jpg").symlink_to("nowhere")
    assert list(STORAGE.list_files(f"{tmp_path}/*")) == [FoundFile(f"{tmp_path}/link.jpg", 0, 0)]


def find(folder: Path, pattern: str, **changes: Any) -> list[Any]:
    options = {"root": str(folder), "key": "path", "rules": FOLDERS, **changes}
    return list(ImageFinder(**options).find(NameRange(f"{folder}/{pattern}")))


def test_find_images(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for name in ("cat/1.jpg", LATIN_1):
        (tmp_path / name).write_bytes(b"123")
        os.utime(tmp_path / name, ns=(7, 7))
    shown = "caf\\xe9.jpg"
    detail = f"the name holds bytes that are not UTF-8: {shown}"
    *found, count = find(tmp_path, "**/*.jpg")
    assert sorted(found, key=len) == [
        ("cat/1.jpg", JoinSide("cat/1.jpg", 3, 7, "cat", "", kind=Kind.IMAGE)),
        Rejection("image", "name_not_utf8", detail, shown, ""),
    ]
    assert count == Count("images_found", 2)


def test_labels_of_folders_only_where_asked(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/1.jpg").touch()
    [(key, side), count] = find(tmp_path, "**/*.jpg", rules=PathRules(), key="stem")
    assert (key, side.path, side.label) == ("1", "cat/1.jpg", "")
    assert count == Count("images_found", 1)
    assert find(tmp_path, "*.png") == [Count("images_found", 0)]


def test_one_folder_named_by_the_glob_is_a_class(tmp_path: Path) -> None:
    for name in ("cat/1.jpg", "stray.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    finder = ImageFinder(root=f"{tmp_path}/cat", key="stem", rules=FOLDERS)
    [(_, side), _] = finder.find(NameRange(f"{tmp_path}/cat/*.jpg"))
    assert side.label == "cat"
    labels = [result[1].label for result in find(tmp_path, "**/*.jpg")[:-1]]
    assert sorted(labels) == ["", "cat"]


@pytest.mark.parametrize("pattern", ["**/*.jpg", "*/*/*.jpg", "**"])
def test_one_stat_a_file_and_one_listing_a_folder(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        path = tmp_path / f"{number % 2}/{number % 10}/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    counts: Counter[str] = Counter()
    top = len(tmp_path.parts)
    for name in ("stat", "lstat", "scandir", "listdir"):
        original = getattr(os, name)

        def counted(path: str, *, name: str = name, original: Any = original, **rest: Any) -> Any:
            # The folders above are looked at once.
            counts[name] += len(Path(path).parts) >= top
            return original(path, **rest)

        monkeypatch.setattr(os, name, counted)
    found = list(STORAGE.list_files(f"{tmp_path}/{pattern}"))
    assert len(found) == 50
    assert counts["scandir"] == 13
    assert counts["listdir"] == 0
    assert counts["stat"] == 50
    assert counts["lstat"] <= 1


def test_links_to_folders_are_followed_but_not_for_ever(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/1.jpg").touch()
    (tmp_path / "a/b/back").symlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    assert listed("**/*.jpg", tmp_path) == ["a/b/1.jpg", "link/1.jpg"]


@pytest.mark.parametrize(("folders", "ways"), rest_slow([(6, 50), (12, 1000)]))
def test_links_in_circles_are_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: int, ways: int
) -> None:
    """A dozen folders that link to each other have 12! ways through them."""
    monkeypatch.setattr(local_storage, "_MAX_WAYS", ways)
    names = [f"{number}" for number in range(folders)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").touch()
        for other in set(names) - {name}:
            (tmp_path / name / f"to{other}").symlink_to(tmp_path / other)
    with pytest.raises(OSError, match=f"more than {ways} paths with links lead to it"):
        for _ in STORAGE.list_files(f"{tmp_path}/**/*.jpg"):
            pass


def make_nested(folder: Path, depth: int) -> int:
    """Makes folders `d` in each other, too deep for any path; gives the last one, open."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    return descriptor


@pytest.mark.parametrize("depth", [1500, 2500])
def test_folders_are_listed_however_deep(shared_folder: Path, depth: int) -> None:
    """What is too deep for a path is an error: its images are not missed in silence."""
    descriptor = make_nested(shared_folder, depth)
    os.close(os.open("1.jpg", os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    try:
        for pattern in ("**", "d/" * depth):
            if depth < 2000:
                assert len(list(STORAGE.list_files(f"{shared_folder}/{pattern}/*.jpg"))) == 1
                continue
            with pytest.raises(OSError, match="File name too long"):
                list(STORAGE.list_files(f"{shared_folder}/{pattern}/*.jpg"))
    finally:
        # It is too deep for Python, too.
        subprocess.run(["rm", "-r", shared_folder / "d"], check=True)


@given(
    st.lists(st.sampled_from(["a", "b1", "*", "**", "?", "[ab]*", ".h", "x.jpg", "*.jpg", ".*"]))
)
def test_matches_what_glob_matches(parts: list[str]) -> None:
    pattern = "/".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x.jpg", "a/x.jpg", "a/b1/x.jpg", "b1/.h/x.jpg", ".h/y.jpg", "a/.x.jpg"):
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).touch()
        expected = {
            os.path.normpath(path)
            for path in glob.glob(f"{folder}/{pattern}", recursive=True)
            if os.path.isfile(path)
        }
        found = [os.path.normpath(file.uri) for file in STORAGE.list_files(f"{folder}/{pattern}")]
        assert set(found) == expected
        ranges = [os.path.normpath(uri) for uri in in_ranges(f"{folder}/{pattern}")]
        assert sorted(ranges) == sorted(found)


def in_ranges(pattern: str) -> Iterator[str]:
    """The files of a glob of which each folder is listed by another worker."""
    todo = [NameRange(pattern)]
    while todo:
        for found in STORAGE.list_range(todo.pop(), 1):
            if isinstance(found, NameRange):
                # It crosses a shuffle.
                json.dumps(found).encode()
                todo.append(found)
            else:
                yield found.uri


def test_folders_after_a_number_of_files_are_ranges(tmp_path: Path) -> None:
    for number in range(900):
        path = tmp_path / f"{number % 300}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    part = NameRange(f"{tmp_path}/*/*.jpg")
    assert not [each for each in STORAGE.list_range(part, 0) if isinstance(each, NameRange)]
    found = list(STORAGE.list_range(part, 30))
    ranges = [each for each in found if isinstance(each, NameRange)]
    assert len(found) - len(ranges) == 30
    # As many as for a bucket, of almost the same number of folders.
    assert len(ranges) == 64
    listed = [sum(1 for _ in STORAGE.list_range(each, 0)) for each in ranges]
    assert sum(listed) == 900 - 30
    assert max(listed) - min(listed) <= 3
    again = list(STORAGE.list_range(ranges[0], 3))
    assert [type(each) for each in again] == [FoundFile] * 3 + [NameRange] * (listed[0] // 3 - 1)


def test_links_are_followed_in_ranges_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in/a/b").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for name in ("in/0.jpg", "in/a/1.jpg", f"in/a/b/{LATIN_1}", "out/2.jpg"):
        (tmp_path / name).touch()
    (tmp_path / "in/a/b/back").symlink_to(tmp_path / "in/a")
    (tmp_path / "in/a/up").symlink_to(tmp_path)
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / os.fsdecode(b"caf\xe9")).symlink_to(tmp_path / "in/a/b")
    monkeypatch.chdir(tmp_path)
    for pattern in (f"{tmp_path}/in/**/*.jpg", "**", "*/**/*.jpg", "in/**/**"):
        whole = sorted(file.uri for file in STORAGE.list_files(pattern))
        assert len(whole) >= 6
        assert sorted(in_ranges(pattern)) == whole


def test_folders_in_a_folder_share_what_is_above(tmp_path: Path) -> None:
    """A set for each of a million folders would take more memory than their names."""
    for name in "abc":
        (tmp_path / name).mkdir()
    begin = local_storage._in_tree(local_storage.Place(f"{tmp_path}/", 0))
    below = [*local_storage._expand_tree(["**", "*.jpg"], begin, Counter())]
    assert len(below) == 3
    assert len({id(place.above) for place in below if isinstance(place, local_storage.Place)}) == 1


def test_overlapping_globs_find_an_image_once(tmp_path: Path) -> None:
    images = tmp_path / "images"
    make_images(images, ["a/1.jpg", "a/2.jpg", "b/3.jpg"])
    globs = tuple(f"{images}/{pattern}" for pattern in ("**/*.jpg", "a/*.jpg", "a/1.jpg"))
    convert(make_config(images, tmp_path / "out", images=globs))
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["ledger"]["images_matched"] == manifest["ledger"]["records_written"] == 3


def test_a_name_that_is_not_utf8_is_rejected_and_the_rest_written(tmp_path: Path) -> None:
    images, output = tmp_path / "images", tmp_path / "out"
    make_images(images, ["a/1.jpg", f"a/{LATIN_1}", "a/two\nlines.jpg"])
    convert(make_config(images, output, max_rejected=RejectionLimit.parse("1")))
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["rejected"] == {"name_not_utf8": 1}
    assert manifest["ledger"]["records_written"] == 2
    [line] = (output / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["path"] == f"{images}/a/caf\\xe9.jpg"


def test_parts_of_a_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(10)))
    read = STORAGE.open_ranges(str(path))
    assert (read(2, 3), read(8, 5), read(20, 1)) == (b"\2\3\4", b"\10\11", b"")
    # A network file system may return less at once.
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, 2), at))
    assert read(1, 7) == bytes(range(1, 8))


def test_a_copy_is_a_link_with_the_listed_bytes(tmp_path: Path) -> None:
    storage, source, target = LocalStorage(), tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"123456789")
    target.write_bytes(b"of a killed run")
    listed: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}
    assert storage.copy(str(source), str(target), **listed)
    assert target.stat().st_ino == source.stat().st_ino
    for data in (b"123456780", b"12345678", b"1234567890"):
        source.unlink()
        source.write_bytes(data)
        assert not storage.copy(str(source), str(target), **listed)
        assert not target.exists() and source.read_bytes() == data
    (tmp_path / "link").symlink_to(source)
    assert not storage.copy(str(tmp_path / "link"), str(target), **listed)
    with pytest.raises(FileNotFoundError):
        storage.copy(str(tmp_path / "gone"), str(target), **listed)


@pytest.mark.parametrize("problem", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_links_are_impossible_nothing_is_copied(
    problem: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(problem, "no")

    (tmp_path / "a").write_bytes(b"123456789")
    monkeypatch.setattr(os, "link", refused)
    listed: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}
    assert not LocalStorage().copy(str(tmp_path / "a"), str(tmp_path / "b"), **listed)
    assert not (tmp_path / "b").exists()


def test_what_is_written_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with STORAGE.open_writer(str(tmp_path / "a")) as stream:
        stream.write(b"123")
    assert synced == [3]


def test_a_copy_is_no_link_to_a_file_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns it could change the copy later."""
    (tmp_path / "a").write_bytes(b"123456789")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    listed: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}
    assert not LocalStorage().copy(str(tmp_path / "a"), str(tmp_path / "b"), **listed)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (
            errno.ENOSPC,
            r"cannot write .*/a: the disk is full \(.* free\): make room, and run",
        ),
        (errno.EDQUOT, r"cannot write .*/a: your quota is full"),
    ],
)
def test_a_full_disk_is_said_with_what_to_do(
    number: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    storage = LocalStorage()
    with pytest.raises(OSError, match=says) as raised, storage.open_writer(f"{tmp_path}/a") as file:
        file.write(b"x")
    assert raised.value.errno == number


def test_a_name_that_is_too_long_is_said_with_its_length(tmp_path: Path) -> None:
    storage = LocalStorage()
    with (
        pytest.raises(OSError, match=r"its path of \d+ bytes, or a name in it, is too long"),
        storage.open_writer(f"{tmp_path}/{'a' * 300}"),
    ):
        pass


# Only ordinary files are read: no devices, and nothing that the kernel makes up.


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
