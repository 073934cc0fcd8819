"""What every storage does: local folders, buckets, file systems of Beam, and archives in them."""

import errno
import io
import os
from collections.abc import Callable, Iterable
from typing import Any

import google_crc32c
import pytest
from apache_beam.io.filesystems import FileSystems

from tests.marks import cases
from tests.transforms.storage.conftest import ARCHIVES, FOLDERS, Kept, in_ranges
from transforms.core.messages import ChangedError, TooLargeError, is_final
from transforms.dataset.output_names import ForeignNameError
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile, Storage, Stored

EVERY = (*FOLDERS, *ARCHIVES)


def of(*kinds: str) -> pytest.MarkDecorator:
    """Runs a test in these kinds of storage."""
    return pytest.mark.parametrize("kept", kinds, indirect=True)


def listed(kept: Kept, pattern: str) -> list[FoundFile]:
    return list(storage_of(kept.root).list_files(f"{kept.root}/{pattern}"))


def read(file: FoundFile, storage: Storage) -> bytes:
    return storage.read_listed(file.uri, size=file.size, version=file.version, max_bytes=1 << 30)


TREE = ("1.jpg", "a/2.jpg", "a/b/3.jpg", ".hidden.jpg", ".cache/4.jpg", "a/notes.txt")
SHOWN = ["1.jpg", "a/2.jpg", "a/b/3.jpg"]


GLOBS: list[tuple[str, list[str]]] = [
    ("*.jpg", ["1.jpg"]),
    ("*/*.jpg", ["a/2.jpg"]),
    ("**/*.jpg", SHOWN),
    ("a/**/*.jpg", ["a/2.jpg", "a/b/3.jpg"]),
    ("**", [*SHOWN, "a/notes.txt"]),
    ("a/?.jpg", ["a/2.jpg"]),
    ("[0-9].jpg", ["1.jpg"]),
    ("1.jpg", ["1.jpg"]),
    (".*.jpg", [".hidden.jpg"]),
    (".cache/*.jpg", [".cache/4.jpg"]),
    ("a", []),
    ("*/", []),
    ("*.png", []),
    ("none/*.jpg", []),
]


@of("local", "bucket", "zip", "tar")
def test_globs(kept: Kept) -> None:
    kept.put(dict.fromkeys(TREE, b"x"))
    for pattern, names in GLOBS:
        found = listed(kept, pattern)
        assert sorted(file.uri.removeprefix(f"{kept.root}/") for file in found) == names, pattern


@of("local", "bucket", *ARCHIVES)
def test_ranges_of_a_glob_are_all_of_it(kept: Kept, request: pytest.FixtureRequest) -> None:
    kept.put(dict.fromkeys([f"{at % 3}/{at}.jpg" for at in range(8)], b"x"))
    whole = sorted(file.uri for file in listed(kept, "**/*.jpg"))
    if "bucket" in kept.kind:
        request.getfixturevalue("gcs").set_page(3)
    assert sorted(in_ranges(f"{kept.root}/**/*.jpg")) == whole
    assert len(whole) == 8


ODD_NAMES = (
    *("[1].jpg", "a b.jpg", " .jpg", "한강.jpg", "a+b.jpg", "a#1.jpg", "a?.jpg", "100%25.jpg"),
    *("é/1.jpg", "a&b=c.jpg", "'\".jpg"),
)


@of(*EVERY)
def test_any_name_is_listed_and_read(kept: Kept) -> None:
    storage = storage_of(kept.root)
    kept.put({name: name.encode() for name in ODD_NAMES})
    found = listed(kept, "**")
    assert sorted(file.uri for file in found) == sorted(f"{kept.root}/{n}" for n in ODD_NAMES)
    assert storage.names_below(kept.root) == sorted(ODD_NAMES)
    for file in found:
        data = read(file, storage)
        assert data.decode() == file.uri.removeprefix(f"{kept.root}/")
        assert (file.size, file.problem) == (len(data), "")
        assert file.version > 0
        stored = storage.find(file.uri)
        assert stored is not None and stored[:2] == (file.size, file.version)


DATA = bytes(range(10)) * 2
CRC = f"{google_crc32c.value(DATA):08x}"


ANSWERS: list[tuple[str, dict[str, Any], object]] = [
    ("exists", {}, True),
    ("read_bytes", {}, DATA),
    ("read_bytes", {"max_bytes": 20}, DATA),
    ("read_text", {}, DATA.decode()),
    ("read_range", {"offset": 2, "length": 3}, b"\2\3\4"),
    ("read_range", {"offset": 18, "length": 5}, b"\10\11"),
    ("checksum", {"size": 20}, CRC),
    ("checksum", {"size": 19}, ""),
    ("has_checksum", {"size": 20, "crc32c": CRC}, True),
    ("has_checksum", {"size": 20, "crc32c": "00000000"}, False),
    ("has_size", {"size": 20}, True),
    ("has_size", {"size": 19}, False),
    ("is_ordinary", {}, True),
    ("is_misplaced", {}, False),
    ("is_folder", {}, False),
    ("name_problem", {}, ""),
]


@of(*EVERY)
def test_a_file(kept: Kept) -> None:
    kept.put({"a/b/1.bin": DATA})
    path = f"{kept.root}/a/b/1.bin"
    for method, given, answer in ANSWERS:
        assert getattr(storage_of(path), method)(path, **given) == answer, method


@of(*EVERY)
def test_parts_of_an_open_file(kept: Kept) -> None:
    kept.put({"a/1.bin": DATA})
    storage = storage_of(kept.root)
    read_part = storage.open_ranges(f"{kept.root}/a/1.bin")
    assert (read_part(8, 5), read_part(0, 1)) == (b"\10\11\0\1\2", b"\0")
    with storage.open_reader(f"{kept.root}/a/1.bin") as file:
        assert file.read() == DATA
        assert file.seek(-7, io.SEEK_END) == 13
        assert file.read(3) == DATA[13:16]
        file.seek(0)
        assert file.read() == DATA
    assert storage.is_folder(f"{kept.root}/a") and not storage.is_folder(f"{kept.root}/none")
    with pytest.raises(TooLargeError):
        storage.read_bytes(f"{kept.root}/a/1.bin", max_bytes=19)


@of(*EVERY)
def test_what_is_not_there(kept: Kept) -> None:
    kept.put({"1.bin": DATA})
    path = f"{kept.root}/none"
    storage = storage_of(path)
    assert storage.find(path) is storage.read_text(path) is storage.checksum(path, size=9) is None
    assert not (storage.exists(path) or storage.has_size(path, 0) or storage.is_folder(path))
    assert storage.names_below(path) == [*storage.list_files(path)] == []
    # Beam does not say what its file systems raise.
    gone = OSError if kept.kind == "beam" else FileNotFoundError
    with pytest.raises(gone):
        storage.read_bytes(path)
    with pytest.raises(gone):
        storage.read_range(path, 0, 1)
    # The version says where a member begins; none begins there.
    with pytest.raises(ChangedError if kept.kind in ARCHIVES else FileNotFoundError):
        storage.read_listed(path, size=1, version=0, max_bytes=9)


@of("local", "bucket", *ARCHIVES)
def test_what_was_overwritten_since_it_was_listed_is_not_read(kept: Kept) -> None:
    kept.put({"1.jpg": b"old", "2.jpg": b"old"})
    first, second = listed(kept, "*.jpg")
    storage = storage_of(kept.root)
    assert read(first, storage) == b"old"
    kept.put({"1.jpg": b"another", "2.jpg": b"another"})
    with pytest.raises(ChangedError, match="overwritten meanwhile"):
        read(second, storage)
    assert [read(file, storage) for file in listed(kept, "*.jpg")] == [b"another"] * 2
    assert second.version not in {file.version for file in listed(kept, "*.jpg")}


# Storages that are written to.


@of(*FOLDERS)
def test_a_file_is_written_whole_and_replaced(kept: Kept) -> None:
    storage, path = storage_of(kept.root), f"{kept.root}/a/manifest.json"
    for data in (b"former", b"new"):
        storage.make_directory(f"{kept.root}/a")
        storage.write_whole(path, data)
        assert storage.read_bytes(path) == data
        assert storage.names_below(kept.root) == ["a/manifest.json"]
    storage.write_whole(f"{kept.root}/b", b"", generation=0)
    assert storage.names_below(kept.root) == ["a/manifest.json", "b"]
    for _ in range(2):
        storage.remove(path)
        assert storage.names_below(kept.root) == ["b"]


@of(*FOLDERS)
def test_a_moved_file_takes_the_place_of_another(kept: Kept) -> None:
    storage = storage_of(kept.root)
    kept.put({"new": b"new", "old": b"old", "other": b"other"})
    storage.rename(f"{kept.root}/new", f"{kept.root}/old")
    there, former = (storage.find(f"{kept.root}/{name}") for name in ("other", "third"))
    assert isinstance(there, Stored) and former is None
    generation = storage.move(f"{kept.root}/other", f"{kept.root}/third", there, former)
    assert (generation > 0) == storage.has_generations
    assert storage.names_below(kept.root) == ["old", "third"]
    assert storage.read_text(f"{kept.root}/old") == "new"
    with pytest.raises(FileNotFoundError):
        storage.rename(f"{kept.root}/none", f"{kept.root}/old")
    assert storage.read_text(f"{kept.root}/old") == "new"


LISTED: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}


@of("local", "bucket")
def test_a_copy_has_the_listed_bytes(kept: Kept) -> None:
    storage, source, target = storage_of(kept.root), f"{kept.root}/base", f"{kept.root}/new"
    kept.put({"base": b"123456789"})
    # A retry finds it.
    for _ in range(2):
        assert storage.copy(source, target, **LISTED)
        assert storage.read_text(target) == "123456789"
    storage.remove(target)
    for data in (b"123456780", b"12345678", b"1234567890"):
        storage.remove(source)
        kept.put({"base": data})
        assert not storage.copy(source, target, **LISTED)
        assert storage.names_below(kept.root) == ["base"]
        assert storage.read_bytes(source) == data
    with pytest.raises(FileNotFoundError):
        storage.copy(f"{kept.root}/gone", target, **LISTED)


@of("beam", *ARCHIVES)
def test_elsewhere_nothing_is_copied(kept: Kept) -> None:
    kept.put({"base": b"123456789"})
    storage = storage_of(kept.root)
    assert not storage.copy(f"{kept.root}/base", f"{kept.root}/new", **LISTED)
    assert storage.names_below(kept.root) == ["base"]


STAGED = ("outcome.json", f"train-00000-of-00001.tfrecord.{32 * '0'}.{32 * '1'}.partial/0000000")


@pytest.mark.parametrize("foreign", ["", "zoo.doc", "b/outcome.json"])
@of(*FOLDERS)
def test_a_staging_folder_goes_with_what_this_tool_writes_only(kept: Kept, foreign: str) -> None:
    storage, staging = storage_of(kept.root), f"{kept.root}/.staging"
    storage.remove_staging(staging)
    names = sorted(f".staging/{name}" for name in (*STAGED, *filter(None, [foreign])))
    kept.put(dict.fromkeys([*names, ".staging_of_others"], b"x"))
    if foreign:
        # A local folder is refused as soon as a folder in it is not one of this tool's.
        name = foreign.partition("/")[0] if kept.kind == "local" else foreign
        says = f"'{staging}/{name}' is in the staging folder, but this tool did not write it"
        with pytest.raises(ForeignNameError, match=says):
            storage.remove_staging(staging)
        assert storage.names_below(kept.root) == sorted([*names, ".staging_of_others"])
    else:
        assert storage.staged_names(staging) == sorted(STAGED)
        storage.remove_staging(staging)
        assert storage.names_below(kept.root) == [".staging_of_others"]
        assert kept.kind != "local" or os.listdir(kept.root) == [".staging_of_others"]


@cases(
    lambda storage, path: storage.write_whole(path, b"x"),
    lambda storage, path: storage.remove(path),
    lambda storage, path: storage.rename(path, f"{path}.new"),
    ids=["write", "remove", "rename"],
)
@of(*ARCHIVES)
def test_an_archive_is_never_written(change: Callable[[Storage, str], object], kept: Kept) -> None:
    kept.put({"1.jpg": b"x"})
    with pytest.raises(OSError, match="only read"):
        change(storage_of(kept.root), f"{kept.root}/1.jpg")
    assert [file.uri for file in listed(kept, "**")] == [f"{kept.root}/1.jpg"]


# What a user may have to do something about.


class RefusedError(Exception):
    """An error of the client of another storage."""

    def __init__(self, code: int) -> None:
        super().__init__("the reason\nand more")
        self.code = code


@cases(
    (403, errno.EACCES, "the reason", True),
    (404, errno.ENOENT, "no such file", True),
    (500, errno.EIO, "the reason", False),
)
@of("beam")
def test_a_file_system_of_beam_that_refuses(
    code: int, number: int, says: str, final: bool, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RefusedError(code)

    kept.put({"1.jpg": b"x"})
    [file] = listed(kept, "*")
    monkeypatch.setattr(FileSystems, "open", refuse)
    with pytest.raises(OSError) as raised:
        read(file, storage_of(file.uri))
    error = raised.value
    assert (error.errno, error.strerror, error.filename) == (number, says, file.uri)
    assert is_final(error) == final


@pytest.mark.parametrize("ask", ["list_files", "names_below", "stored_below"])
@pytest.mark.usefixtures("gcs")
def test_a_bucket_that_is_not_there(ask: str) -> None:
    list_all: Callable[[str], Iterable[object]] = getattr(storage_of("gs://nowhere/x"), ask)
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        list(list_all("gs://nowhere/x"))
