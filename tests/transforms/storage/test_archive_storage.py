"""What is special to archives: their directories, versions of members, and texts in them."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.images.packed import tarred, with_flag, zipped
from tests.marks import cases
from tests.servers.gcs import GcsServer
from tests.spies import memory_below, paths_given
from transforms.core.messages import (
    ChangedError,
    FinalError,
    LabelsError,
    MemberError,
    TooLargeError,
)
from transforms.core.records import NameRange
from transforms.storage import archive_storage
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile
from transforms.storage.local_storage import LocalStorage

FILES = {
    "cat/1.jpg": b"one",
    "cat/.hidden.jpg": b"three",
    "__MACOSX/cat/._1.jpg": b"four",
    "top.png": b"five",
}


def listed(pattern: str) -> list[FoundFile]:
    return list(storage_of(pattern).list_files(pattern))


def read(file: FoundFile) -> bytes:
    storage = storage_of(file.uri)
    return storage.read_listed(file.uri, size=file.size, version=file.version, max_bytes=1 << 20)


@pytest.fixture(params=["zip", "tar"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"a.{request.param}"
    path.write_bytes(zipped(FILES) if request.param == "zip" else tarred(FILES))
    return path


def test_a_glob_names_files_of_several_archives(archive: Path) -> None:
    assert [file.uri.partition("!/")[2] for file in listed(f"{archive}!/**")] == [
        "cat/1.jpg",
        "top.png",
    ]
    assert storage_of(f"{archive}!").names_below(f"{archive}!/__MACOSX") == ["cat/._1.jpg"]
    for name in "bc":
        (archive.parent / f"{name}{archive.suffix}").write_bytes(archive.read_bytes())
    found = {file.uri for file in listed(f"{archive.parent}/[ab]{archive.suffix}!/*.png")}
    assert found == {f"{archive.parent}/{name}{archive.suffix}!/top.png" for name in "ab"}


def touched(archive: Path) -> None:
    os.utime(archive, ns=(1, 1))


@cases(
    (touched, ChangedError, "its archive was overwritten"),
    (os.unlink, FileNotFoundError, "its archive is gone"),
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "while it is read"])
def test_an_archive_that_changes_is_noticed(
    change: Callable[[Path], None],
    kind: type[OSError],
    says: str,
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    [found] = listed(f"{archive}!/*.png")
    opened = LocalStorage.open_ranges

    def changed(*arguments: Any, **options: Any) -> Any:
        read_range = opened(*arguments, **options)
        change(archive)
        return read_range

    if is_late:
        monkeypatch.setattr(LocalStorage, "open_ranges", changed)
        kind, says = ChangedError, "its archive was overwritten"
    else:
        change(archive)
    with pytest.raises(kind, match=says):
        read(found)
    monkeypatch.undo()
    assert [read(file) for file in listed(f"{archive}!/*.png")] == [b"five"] * archive.exists()


def test_the_directories_of_the_last_archives_are_kept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(archive_storage, "_MAX_MEMBERS", 2 * len(FILES))
    opened = paths_given(monkeypatch, LocalStorage, "open_ranges")
    storage = archive_storage.ArchiveStorage(LocalStorage(), "zip")
    for at, name in enumerate("abcbaab"):
        path = tmp_path / f"{name}.zip"
        if at in (0, 1, 2, 5):
            # The sixth one replaces an archive that is kept.
            path.write_bytes(zipped({**FILES, "top.png": b"x" * at}))
        assert storage.find(f"{path}!/top.png") is not None
    assert [Path(path).stem for path in opened] == ["a", "b", "c", "a", "a"]


def test_the_directory_is_read_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = paths_given(monkeypatch, LocalStorage, "open_ranges")
    storage = storage_of(f"{archive}!/x")
    for _ in range(3):
        assert storage.find(f"{archive}!/top.png") is not None
        assert storage.find(f"{archive}!/absent.png") is None
        assert len(listed(f"{archive}!/**/*.jpg")) == 1
    assert opened == [str(archive)]
    # For eight pictures of a report, or 4,000 tables of labels, the directory took a minute.
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert [storage.read_range(f"{archive}!/top.png", at, 4) for at in (0, 1)] == [b"five", b"ive"]
    assert storage.open_reader(f"{archive}!/top.png").read() == b"five"


def test_an_archive_stays_open(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300,000 empty files in a zip took two minutes."""
    other = archive.rename(archive.with_name(f"other-{archive.name}"))
    shutil.copy(other, archive)
    [first], [second] = (listed(f"{path}!/*") for path in (archive, other))
    opened = paths_given(monkeypatch, LocalStorage, "open_ranges")
    monkeypatch.setattr(archive_storage, "_MAX_OPEN", 1)
    assert {read(file) for file in (first, first, second, second, first)} == {b"five"}
    assert opened == [str(archive), str(other), str(archive)]


def test_what_is_said_of_a_file_that_cannot_be_read_is_in_no_estimate(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(with_flag(zipped(FILES), "top.png", 1))
    file = next(file for file in listed(f"{tmp_path}/a.zip!/**/*") if file.problem)
    assert "encrypted" in file.problem and file.size == 0


def test_the_last_of_two_files_with_one_name_counts(tmp_path: Path) -> None:
    """As after unpacking: `tar -r` appends a new version."""
    path = tmp_path / "a.zip"
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.jpg", b"old")
        archive.writestr("1.jpg", b"new!")
    assert storage_of(f"{path}!/1.jpg").read_text(f"{path}!/1.jpg") == "new!"
    assert [file.size for file in listed(f"{path}!/*")] == [4]


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_of_files_that_cannot_be_read_is_refused(
    pack: Callable[[dict[str, bytes]], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zip of 600,000 took 74 s to reject each."""
    monkeypatch.setattr(archive_storage, "_MOST_UNREAD", 1)
    texts = {"3.txt": b"", "4.txt": b""}
    path = tmp_path / ("a.zip" if pack is zipped else "a.tar")
    path.write_bytes(pack({"1.jpg": b"", "../2.jpg": b"x" * 16, "3.jpg": b"x" * 16, **texts}))
    assert [len(listed(f"{path}!/{name}")) for name in ("*", "*.txt", "1.jpg")] == [5, 2, 1]
    says = f"{path}: 2 of 3 files in it cannot be read, such as '1.jpg': it has 0 bytes"
    with pytest.raises(FinalError, match=says):
        listed(f"{path}!/*.jpg")


@cases({f"{'n' * 400}{n}": b"" for n in range(9)}, {"1.cls": b"x" * 1500, "1.jpg": b"x"})
def test_an_archive_of_long_names_and_labels_is_refused(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9,000 names of 4,000 characters took 2.2 GB."""
    path = tmp_path / "a.tar"
    path.write_bytes(tarred(files))
    monkeypatch.setattr(archive_storage, "_MOST_TEXT", 2000)
    assert len(listed(f"{path}!/*")) == len(files)
    monkeypatch.setattr(archive_storage, "_TEXT_OF_FILE", 100)
    says = rf"{path}: names and labels of its {len(files)} files have \d{{4}} characters: shorten"
    with pytest.raises(FinalError, match=says):
        listed(f"{path}!/*")


def test_a_zip_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 93 MB had images of 18 GB, of which none grew more than any may."""
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({f"{at}.bmp": bytes(10_000) for at in range(9)}, zipfile.ZIP_DEFLATED))
    monkeypatch.setattr(archive_storage, "_MOST_GROWN", 50_000)
    assert len(listed(f"{path}!/[0-4].bmp")) == 5
    with pytest.raises(FinalError, match="a.zip: its 9 files would have 90000 bytes, far more"):
        listed(f"{path}!/*")


def test_tables_in_a_zip_grow_together(tmp_path: Path) -> None:
    """2,000 of 200 bytes with 25,000 rows took minutes, and 1,000 of VOC."""
    tables = {"0.csv": b"0,a\n" * 20_000, "1.csv": b"0,a\n" * 20_000, "2.xml": b"<object/>" * 9_000}
    (tmp_path / "a.zip").write_bytes(zipped(tables, zipfile.ZIP_DEFLATED))
    first, *others = (f"{tmp_path}/a.zip!/{name}" for name in tables)
    for other in others:
        for _ in range(3):
            assert storage_of(first).open_reader(first).read() == tables["0.csv"]
        with pytest.raises(LabelsError, match="[12].* holds more than 200 times its size: unpack"):
            storage_of(first).open_reader(other).read()


def test_a_text_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"1.txt": bytes(10_000)}, zipfile.ZIP_DEFLATED))
    storage = storage_of(f"{path}!/1.txt")
    assert storage.read_bytes(f"{path}!/1.txt", max_bytes=10_000) == bytes(10_000)
    monkeypatch.setattr(LocalStorage, "open_ranges", None)
    with pytest.raises(TooLargeError):
        storage.read_bytes(f"{path}!/1.txt", max_bytes=9_999)


def test_paths_stay_below_their_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    path = f"{archive.name}!/cat/1.jpg"
    assert storage_of(path).absolute(path) == f"{archive}!/cat/1.jpg"
    assert f"./{path}" in storage_of(path).spellings(path)


def test_a_folder_with_the_name_of_an_archive_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "z.zip!").mkdir()
    (tmp_path / "z.zip!/1.jpg").write_bytes(b"x")
    [file] = listed(f"{tmp_path}/z.zip!/*.jpg")
    assert file.uri == f"{tmp_path}/z.zip!/1.jpg"
    assert storage_of(file.uri).read_bytes(file.uri) == b"x"


# Archives in a bucket.


def test_a_member_in_a_bucket_is_one_request(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "in/a.zip", zipped({f"{n}.jpg": bytes([n]) * 999 for n in range(20)}))
    gcs.reset()
    found = listed(f"{bucket}/in/*.zip!/*.jpg")
    assert gcs.media_gets() == {"in/a.zip": 1}
    assert [read(file) for file in found] == [bytes([n]) * 999 for n in range(20)]
    assert gcs.media_gets() == {"in/a.zip": 21}
    # The generation that all of them name was found by the first.
    assert gcs.counts().get("get", 0) <= 3


def test_several_archives_in_a_bucket_are_handed_on(gcs: GcsServer, bucket: str) -> None:
    """Each is listed by one worker."""
    for name in "ab":
        gcs.put("photos", f"{name}.tar", tarred({f"{name}.jpg": b"x"}))
    pattern = f"{bucket}/*.tar!/*.jpg"
    storage = storage_of(pattern)
    parts = list(storage.list_range(NameRange(pattern), 1000))
    assert gcs.media_gets() == {}
    found: list[Any] = []
    for part in parts:
        assert isinstance(part, NameRange) and part.glob == pattern
        found += storage.list_range(part, 1000)
    assert [file.uri for file in found] == [f"{bucket}/{name}.tar!/{name}.jpg" for name in "ab"]


# Files of labels.


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_label_file_in_an_archive_is_read_in_parts(tmp_path: Path, kind: str) -> None:
    lines = b"".join(b"%d,cat\n" % at for at in range(150_000))
    files, path = {"a.csv": lines}, tmp_path / f"a.{kind}"
    path.write_bytes(zipped(files, zipfile.ZIP_DEFLATED) if kind == "zip" else tarred(files))
    with storage_of(f"{path}!/a.csv").open_reader(f"{path}!/a.csv") as file:
        with memory_below(len(lines) // 3):
            assert sum(len(line) for line in file) == len(lines)
        assert file.seek(0) == 0
        assert file.read() == lines


LINES = zipped({"a.csv": os.urandom(5000)}, zipfile.ZIP_DEFLATED)
GROWS = "a.csv holds more than 200 times its size: unpack"


@cases(
    # 20 million rows, or a gigabyte, are a zip of a few kilobytes.
    (zipped({"a.csv": b"p0,c\n" * 200_000}, zipfile.ZIP_DEFLATED), LabelsError, GROWS),
    (zipped({"a.csv": bytes(12_000_000)}, zipfile.ZIP_DEFLATED), LabelsError, GROWS),
    (LINES[:2000] + b"\0\0\0" + LINES[2003:], MemberError, "its checksum is wrong"),
    (with_flag(LINES, "a.csv", 1), MemberError, "it is encrypted"),
    ids=["rows", "zeros", "damaged", "encrypted"],
)
def test_refused_label_files(data: bytes, kind: type[Exception], says: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    path = f"{tmp_path}/a.zip!/a.csv"
    with pytest.raises(kind, match=says):
        storage_of(path).open_reader(path).read()
