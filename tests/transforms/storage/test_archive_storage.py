"""`transforms.storage.archive_storage` above local files and a real server."""

from __future__ import annotations

import os
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.images.packed import tarred, with_flag, zipped
from tests.servers.gcs import GcsServer
from tests.spies import paths_given
from transforms.core.messages import ChangedError, LabelsError, MemberError, TooLargeError
from transforms.core.records import NameRange
from transforms.storage.archive_storage import ArchiveStorage
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile
from transforms.storage.local_storage import LocalStorage

FILES = {
    "cat/1.jpg": b"one",
    "cat/한강.jpg": b"two",
    "cat/.hidden.jpg": b"three",
    "__MACOSX/cat/._1.jpg": b"four",
    "top.png": b"five",
}


def listed(pattern: str) -> list[FoundFile]:
    return list(storage_of(pattern).list_files(pattern))


def names(pattern: str) -> list[str]:
    return [file.uri.partition("!/")[2] for file in listed(pattern)]


def read(file: FoundFile) -> bytes:
    storage = storage_of(file.uri)
    return storage.read_listed(file.uri, size=file.size, version=file.version, max_bytes=1 << 20)


@pytest.fixture(params=["zip", "tar"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"a.{request.param}"
    path.write_bytes(zipped(FILES) if request.param == "zip" else tarred(FILES))
    return path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.jpg", ["cat/1.jpg", "cat/한강.jpg"]),
        ("cat/한*", ["cat/한강.jpg"]),
        ("*", ["top.png"]),
        ("cat/.hidden.jpg", ["cat/.hidden.jpg"]),
        ("absent/*", []),
    ],
)
def test_globs_match_as_in_a_folder(archive: Path, pattern: str, found: list[str]) -> None:
    assert names(f"{archive}!/{pattern}") == found
    for name, data in FILES.items():
        path = archive.parent / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder = f"{archive.parent}/folder"
    below = storage_of(folder).list_files(f"{folder}/{pattern}")
    assert sorted(file.uri.removeprefix(f"{folder}/") for file in below) == sorted(found)


def test_members_are_read_as_listed(archive: Path) -> None:
    found = listed(f"{archive}!/**/*.*")
    assert [read(file) for file in found] == [b"one", b"two", b"five"]
    assert [file.size for file in found] == [3, 3, 4]
    assert len({file.version for file in found}) == 3
    assert all(file.version > 0 for file in found)


def test_several_archives_are_one_glob(archive: Path) -> None:
    for name in ("b", "c"):
        (archive.parent / f"{name}{archive.suffix}").write_bytes(archive.read_bytes())
    found = listed(f"{archive.parent}/[ab]{archive.suffix}!/*.png")
    assert {file.uri for file in found} == {
        f"{archive.parent}/{name}{archive.suffix}!/top.png" for name in "ab"
    }


def test_a_changed_archive_changes_every_version(archive: Path) -> None:
    [before] = listed(f"{archive}!/*.png")
    os.utime(archive, ns=(1, 1))
    [after] = listed(f"{archive}!/*.png")
    assert before.version != after.version
    with pytest.raises(ChangedError, match="its archive was overwritten"):
        read(before)
    assert read(after) == b"five"


def test_a_missing_archive_matches_nothing_and_is_gone(archive: Path) -> None:
    [found] = listed(f"{archive}!/*.png")
    archive.unlink()
    assert listed(f"{archive}!/*.png") == []
    with pytest.raises(FileNotFoundError, match="its archive is gone"):
        read(found)


def test_the_directory_is_read_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = paths_given(monkeypatch, LocalStorage, "open_ranges")
    storage = storage_of(f"{archive}!/x")
    for _ in range(3):
        assert storage.find(f"{archive}!/top.png") is not None
        assert storage.find(f"{archive}!/absent.png") is None
        assert len(listed(f"{archive}!/**/*.jpg")) == 2
    assert opened == [str(archive)]


def test_the_last_of_two_files_with_one_name_counts(tmp_path: Path) -> None:
    """As after unpacking: `tar -r` appends a new version."""
    path = tmp_path / "a.zip"
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.jpg", b"old")
        archive.writestr("1.jpg", b"new!")
    with storage_of(f"{path}!/1.jpg").open_reader(f"{path}!/1.jpg") as file:
        assert file.read() == b"new!"
    assert max(listed(f"{path}!/*"), key=lambda each: each.version).size == 4


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_flag(zipped({"1.jpg": b"x", "../2.jpg": b"y"}), "1.jpg", 1))
    problems = {file.uri.rpartition("/")[2]: file.problem for file in listed(f"{path}!/**/*.jpg")}
    assert problems["1.jpg"] == "it is encrypted: decrypt the archive"
    assert problems["2.jpg"] == "its name '../2.jpg' leads out of the archive"
    with pytest.raises(MemberError, match="encrypted"):
        storage_of(f"{path}!/1.jpg").open_reader(f"{path}!/1.jpg")


def test_a_text_in_an_archive_is_read_as_any_other(archive: Path) -> None:
    storage = storage_of(f"{archive}!/top.png")
    assert storage.read_text(f"{archive}!/top.png") == "five"
    assert storage.read_text(f"{archive}!/absent") is None
    assert storage.read_range(f"{archive}!/top.png", 1, 2) == b"iv"
    assert storage.exists(f"{archive}!/cat/1.jpg")
    assert storage.names_below(f"{archive}!/__MACOSX") == ["cat/._1.jpg"]


def test_a_text_above_the_limit_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"1.txt": bytes(10_000)}, zipfile.ZIP_DEFLATED))
    storage = storage_of(f"{path}!/1.txt")
    assert storage.read_bytes(f"{path}!/1.txt", max_bytes=10_000) == bytes(10_000)
    monkeypatch.setattr(ArchiveStorage, "_read", None)
    with pytest.raises(TooLargeError):
        storage.read_bytes(f"{path}!/1.txt", max_bytes=9_999)


def test_paths_stay_below_their_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    path = f"{archive.name}!/cat/1.jpg"
    storage = storage_of(path)
    assert storage.absolute(path) == f"{archive}!/cat/1.jpg"
    assert f"./{path}" in storage.spellings(path)


def test_an_archive_is_never_written(archive: Path) -> None:
    path, before = f"{archive}!/new.jpg", archive.read_bytes()
    storage = storage_of(path)
    with pytest.raises(OSError, match="only read"):
        storage.write_whole(path, b"x")
    with pytest.raises(OSError, match="only read"):
        storage.remove(path)
    with pytest.raises(OSError, match="only read"):
        storage.rename(path, f"{archive}!/other.jpg")
    assert archive.read_bytes() == before


def test_a_member_in_a_bucket_is_one_request(gcs: GcsServer) -> None:
    gcs.make_bucket("photos")
    gcs.put("photos", "in/a.zip", zipped({f"{n}.jpg": bytes([n]) * 999 for n in range(20)}))
    gcs.reset()
    found = listed("gs://photos/in/*.zip!/*.jpg")
    assert gcs.media_gets() == {"in/a.zip": 1}
    assert [read(file) for file in found] == [bytes([n]) * 999 for n in range(20)]
    assert gcs.media_gets() == {"in/a.zip": 21}
    # The generation that all of them name was found by the first.
    assert gcs.counts().get("get", 0) <= 3


def test_an_overwritten_archive_in_a_bucket_is_noticed(gcs: GcsServer) -> None:
    gcs.make_bucket("photos")
    gcs.put("photos", "a.tar", tarred({"1.jpg": b"x", "2.jpg": b"x"}))
    first, second = listed("gs://photos/a.tar!/*.jpg")
    assert read(first) == b"x"
    gcs.put("photos", "a.tar", tarred({"1.jpg": b"y", "2.jpg": b"y"}))
    with pytest.raises(ChangedError):
        read(second)
    assert [read(file) for file in listed("gs://photos/a.tar!/*.jpg")] == [b"y", b"y"]


def test_several_archives_in_a_bucket_are_handed_on(gcs: GcsServer) -> None:
    """Each is listed by one worker."""
    gcs.make_bucket("photos")
    for name in "ab":
        gcs.put("photos", f"{name}.tar", tarred({f"{name}.jpg": b"x"}))
    pattern = "gs://photos/*.tar!/*.jpg"
    storage = storage_of(pattern)
    parts = list(storage.list_range(NameRange(pattern), 1000))
    assert all(isinstance(part, NameRange) and part.glob == pattern for part in parts)
    assert gcs.media_gets() == {}
    found = [file for part in parts for file in storage.list_range(part, 1000)]  # type: ignore[arg-type]
    assert [file.uri for file in found] == [  # type: ignore[union-attr]
        "gs://photos/a.tar!/a.jpg",
        "gs://photos/b.tar!/b.jpg",
    ]


def test_a_folder_with_the_name_of_an_archive_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "z.zip!"
    folder.mkdir()
    (folder / "1.jpg").write_bytes(b"x")
    [file] = listed(f"{folder}/*.jpg")
    assert file.uri == f"{folder}/1.jpg"
    assert storage_of(file.uri).read_bytes(file.uri) == b"x"


def test_an_archive_that_is_overwritten_while_it_is_read_is_noticed(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = listed(f"{archive}!/*.png")
    opened = LocalStorage.open_ranges

    def overwritten(*arguments: Any, **options: Any) -> Any:
        read_range = opened(*arguments, **options)
        os.utime(archive, ns=(1, 1))
        return read_range

    monkeypatch.setattr(LocalStorage, "open_ranges", overwritten)
    with pytest.raises(ChangedError, match="its archive was overwritten"):
        read(file)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_label_file_in_an_archive_is_read_in_parts(tmp_path: Path, kind: str) -> None:
    lines = b"".join(b"%d,cat\n" % at for at in range(300_000))
    packed = (
        zipped({"a.csv": lines}, zipfile.ZIP_DEFLATED)
        if kind == "zip"
        else tarred({"a.csv": lines})
    )
    path = f"{tmp_path}/a.{kind}"
    Path(path).write_bytes(packed)
    with storage_of(f"{path}!/a.csv").open_reader(f"{path}!/a.csv") as file:
        tracemalloc.start()
        assert sum(len(line) for line in file) == len(lines)
        assert tracemalloc.get_traced_memory()[1] < len(lines) / 3
        tracemalloc.stop()
        assert file.seek(0) == 0
        assert file.read() == lines
        assert file.seek(-7, 2) == len(lines) - 7
        assert file.read(3) == lines[-7:-4]


def test_a_label_file_in_a_zip_holds_no_more_than_its_size_allows(tmp_path: Path) -> None:
    """20 million rows, or a gigabyte, are a zip of a few kilobytes."""
    path = f"{tmp_path}/a.zip"
    for name, part in (("rows.csv", b"p0,c\n" * 200_000), ("zeros.csv", bytes(12_000_000))):
        Path(path).write_bytes(zipped({name: part}, zipfile.ZIP_DEFLATED))
        wanted = f"{path}!/{name} holds more than 200 times its size: unpack the archive"
        with pytest.raises(LabelsError, match=re.escape(wanted)):
            storage_of(path + "!/x").open_reader(f"{path}!/{name}").read()


def test_a_damaged_label_file_in_a_zip_says_so(tmp_path: Path) -> None:
    path = f"{tmp_path}/a.zip"
    data = bytearray(zipped({"a.csv": os.urandom(5000)}, zipfile.ZIP_DEFLATED))
    data[2000] ^= 1
    Path(path).write_bytes(data)
    with pytest.raises(MemberError, match="its compressed data is damaged"):
        storage_of(f"{path}!/a.csv").open_reader(f"{path}!/a.csv").read()
