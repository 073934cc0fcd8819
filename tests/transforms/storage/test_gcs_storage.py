"""`transforms.storage.gcs_storage` against a real server on loopback."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import pytest

from tests.servers.gcs import GcsServer, requester_pays
from transforms.core.messages import FinalError
from transforms.dataset.output_names import ForeignNameError
from transforms.storage import gcs_storage
from transforms.storage.gcs_requests import read_object
from transforms.storage.gcs_storage import GcsStorage

STORAGE = GcsStorage()

ODD_NAMES = [
    "a b.jpg",
    "a#1.jpg",
    "a?.jpg",
    "100%25.jpg",
    "한강.jpg",
    "a+b.jpg",
    "[1].jpg",
    "é/1.jpg",
]


@pytest.fixture
def bucket(gcs: GcsServer) -> str:
    """A new bucket, `gs://photos`."""
    gcs.make_bucket("photos")
    return "gs://photos"


def test_odd_names_are_listed_and_read(gcs: GcsServer, bucket: str) -> None:
    for name in ODD_NAMES:
        gcs.put("photos", f"in/{name}", name.encode())
    found = list(STORAGE.list_files(f"{bucket}/in/**"))
    assert [file.uri for file in found] == sorted(f"{bucket}/in/{name}" for name in ODD_NAMES)
    for file in found:
        data = read(file.uri, generation=file.version)
        assert data.decode() == file.uri.removeprefix(f"{bucket}/in/")
        assert len(data) == file.size


def read(uri: str, *, generation: int | None = None) -> bytes:
    """The object's bytes."""
    if generation is None:
        return STORAGE.read_bytes(uri)
    return STORAGE.read_listed(uri, size=0, version=generation, max_bytes=1 << 30)


def test_reading_is_one_request_an_object(gcs: GcsServer, bucket: str) -> None:
    for number in range(10):
        gcs.put("photos", f"{number}.jpg", b"x")
    gcs.reset()
    for file in STORAGE.list_files(f"{bucket}/*"):
        read(file.uri, generation=file.version)
    assert gcs.counts() == {"GET list": 1, "GET media": 10}


def test_listing_asks_for_its_prefix_and_few_fields(gcs: GcsServer, bucket: str) -> None:
    for name in ("a/1.jpg", "ab/2.jpg", "b/3.jpg", "a/", "a/.hidden.jpg", "a/c/4.jpg"):
        gcs.put("photos", name, b"x")
    gcs.reset()
    assert [file.uri for file in STORAGE.list_files(f"{bucket}/a*/*.jpg")] == [
        f"{bucket}/a/1.jpg",
        f"{bucket}/ab/2.jpg",
    ]
    [(_, request)] = gcs.log()
    assert "prefix=a&" in request
    assert "fields=items%28name%2Csize%2Cgeneration%29%2CnextPageToken" in request


def test_placeholders_of_folders_are_no_files(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "in/", b"")
    gcs.put("photos", "in/cats/", b"")
    assert list(STORAGE.list_files(f"{bucket}/in/**")) == []


def test_an_object_that_was_overwritten_is_not_read(gcs: GcsServer, bucket: str) -> None:
    generation = gcs.put("photos", "1.jpg", b"old")
    gcs.put("photos", "1.jpg", b"new")
    with pytest.raises(OSError, match="overwritten"):
        read(f"{bucket}/1.jpg", generation=generation)


def test_gzip_encoding_is_undone_within_bounds(gcs: GcsServer, bucket: str) -> None:
    plain = b"0" * 100_000
    gcs.put("photos", "1.jpg", gzip.compress(plain), content_encoding="gzip")
    uri = f"{bucket}/1.jpg"
    assert read_object(uri, None, max_bytes=100_000) == plain
    with pytest.raises(OSError, match="--max_bytes"):
        read_object(uri, None, max_bytes=99_999)
    zipped = gzip.compress(plain)
    gcs.put("photos", "2.jpg", zipped)
    assert read(f"{bucket}/2.jpg") == zipped


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 403}, "no permission"),
        ({"status": 404}, "no such object"),
        (requester_pays("photos"), "requester-pays"),
    ],
)
def test_failures_are_reported_in_one_line(
    gcs: GcsServer, bucket: str, fault: dict[str, object], message: str
) -> None:
    gcs.put("photos", "1.jpg", b"x")
    gcs.set_faults([{"kind": "media", **fault}])
    with pytest.raises(OSError) as raised:
        read(f"{bucket}/1.jpg")
    assert re.search(message, str(raised.value.strerror))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "list_all",
    [STORAGE.list_files, STORAGE.names_below, STORAGE.stored_below],
    ids=["list_files", "names_below", "stored_below"],
)
@pytest.mark.usefixtures("gcs")
def test_a_bucket_that_is_not_there(list_all: Callable[[str], Iterable[object]]) -> None:
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        list(list_all("gs://nowhere/x"))


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.usefixtures("dropped_sockets", "no_waiting")
def test_passing_faults_are_repeated(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "1.jpg", b"x" * 1000)
    gcs.set_faults([{"status": 503, "count": 2}, {"drop": True, "count": 1}])
    assert read(f"{bucket}/1.jpg") == b"x" * 1000
    assert gcs.counts()["GET media"] == 4


@pytest.mark.usefixtures("no_waiting")
def test_the_text_of_an_error_is_not_compared_with_the_size_of_an_object(
    gcs: GcsServer, bucket: str
) -> None:
    with pytest.raises(FileNotFoundError):
        STORAGE.read_bytes(f"{bucket}/1.txt", max_bytes=1)
    gcs.put("photos", "1.txt", b"x")
    gcs.set_faults([{"status": 503, "count": 1}])
    assert STORAGE.read_bytes(f"{bucket}/1.txt", max_bytes=1) == b"x"


def test_bytes_that_were_damaged_on_their_way_are_asked_for_again(
    gcs: GcsServer, bucket: str
) -> None:
    gcs.put("photos", "1.jpg", b"x" * 1000)
    gcs.set_faults([{"kind": "media", "damage": True, "count": 1}])
    assert read(f"{bucket}/1.jpg") == b"x" * 1000
    assert gcs.counts()["GET media"] == 2


def test_bytes_that_are_damaged_in_the_same_way_are_not_asked_for_again(
    gcs: GcsServer, bucket: str
) -> None:
    """No network does that: retries would take two minutes."""
    gcs.put("photos", "1.jpg", b"x" * 1000)
    gcs.set_faults([{"kind": "media", "damage": True}])
    with pytest.raises(FinalError, match="its bytes are not those of its checksum"):
        read(f"{bucket}/1.jpg")
    assert gcs.counts()["GET media"] == 2


def test_a_moved_object_takes_the_place_of_another(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "new", b"new")
    gcs.put("photos", "old", b"old")
    STORAGE.rename(f"{bucket}/new", f"{bucket}/old")
    assert gcs.names("photos") == ["old"]
    assert gcs.get("photos", "old") == b"new"


@pytest.mark.usefixtures("dropped_sockets", "no_waiting")
def test_a_move_whose_answer_is_lost_is_done_once(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "new", b"new")
    gcs.set_faults([{"kind": "rewrite", "drop": True, "late": True, "count": 1}])
    STORAGE.rename(f"{bucket}/new", f"{bucket}/target")
    assert gcs.names("photos") == ["target"]


def test_a_move_does_not_overwrite_what_another_run_wrote(
    gcs: GcsServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcs.put("photos", "new", b"new")
    copy = gcs_storage._rewrite

    def overtaken(*arguments: object) -> object:
        gcs.put("photos", "target", b"of another run")
        return copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gcs_storage, "_rewrite", overtaken)
    with pytest.raises(OSError, match="overwritten"):
        STORAGE.rename(f"{bucket}/new", f"{bucket}/target")
    assert gcs.get("photos", "target") == b"of another run"


def test_a_copy_is_one_request(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "base", b"123456789")
    copied = STORAGE.copy(f"{bucket}/base", f"{bucket}/new", size=9, crc32c="e3069283")
    assert copied and gcs.counts() == {"POST rewrite": 1}
    assert gcs.get("photos", "new") == b"123456789"
    # A retry finds it.
    assert STORAGE.copy(f"{bucket}/base", f"{bucket}/new", size=9, crc32c="e3069283")


def test_a_copy_of_other_bytes_is_removed(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "base", b"123456780")
    assert not STORAGE.copy(f"{bucket}/base", f"{bucket}/new", size=9, crc32c="e3069283")
    assert gcs.names("photos") == ["base"]
    # What is in its place stays.
    gcs.put("photos", "other", b"other")
    assert not STORAGE.copy(f"{bucket}/base", f"{bucket}/other", size=9, crc32c="e3069283")
    assert gcs.get("photos", "other") == b"other"


def test_a_new_object_is_never_replaced(gcs: GcsServer, bucket: str) -> None:
    uri = f"{bucket}/manifest.json"
    STORAGE.write_whole(uri, b"ours", generation=0)
    STORAGE.write_whole(uri, b"ours", generation=0)
    with pytest.raises(FileExistsError):
        STORAGE.write_whole(uri, b"theirs", generation=0)
    assert gcs.get("photos", "manifest.json") == b"ours"


def test_large_files_are_sent_in_parts(gcs: GcsServer, bucket: str) -> None:
    data = bytes(range(256)) * 80_000
    with STORAGE.open_writer(f"{bucket}/large") as file:
        for start in range(0, len(data), 1 << 20):
            file.write(data[start : start + (1 << 20)])
    assert gcs.get("photos", "large") == data
    assert gcs.counts() == {"POST upload": 1, "PUT upload": 2}
    with STORAGE.open_reader(f"{bucket}/large") as file:
        assert file.read() == data


def test_what_is_interrupted_leaves_no_object(gcs: GcsServer, bucket: str) -> None:
    with pytest.raises(ValueError), STORAGE.open_writer(f"{bucket}/half") as file:
        file.write(b"x" * (9 << 20))
        raise ValueError
    assert gcs.names("photos") == []


def test_an_upload_that_is_refused_leaves_no_object(gcs: GcsServer, bucket: str) -> None:
    gcs.set_faults([{"kind": "upload", "method": "PUT", "status": 403}])
    with pytest.raises(PermissionError), STORAGE.open_writer(f"{bucket}/half") as file:
        file.write(b"x")
    gcs.set_faults([])
    assert gcs.names("photos") == []


STAGED = (
    "a/outcome.json",
    f"a/train-00000-of-00001.tfrecord.{32 * '0'}.{32 * '1'}.partial/0000000",
)


def test_a_folder_goes_with_all_that_this_tool_writes_there(gcs: GcsServer, bucket: str) -> None:
    for name in (*STAGED, "ab"):
        gcs.put("photos", name, b"x")
    STORAGE.remove_staging(f"{bucket}/a")
    STORAGE.remove(f"{bucket}/none")
    assert gcs.names("photos") == ["ab"]


@pytest.mark.parametrize("name", ["a/zoo.doc", "a/b/outcome.json"])
def test_a_folder_with_something_else_in_it_stays_whole(
    gcs: GcsServer, bucket: str, name: str
) -> None:
    names = sorted([*STAGED, name])
    for each in names:
        gcs.put("photos", each, b"x")
    with pytest.raises(
        ForeignNameError, match=f"'{bucket}/{name}' is in the staging folder, but this tool"
    ):
        STORAGE.remove_staging(f"{bucket}/a")
    assert gcs.names("photos") == names


def test_a_part_of_an_object_is_one_request(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "a", bytes(range(10)))
    gcs.reset()
    assert STORAGE.read_range(f"{bucket}/a", 2, 3) == b"\2\3\4"
    assert STORAGE.open_ranges(f"{bucket}/a")(8, 5) == b"\10\11"
    assert gcs.counts() == {"GET media": 2}
    with pytest.raises(FileNotFoundError, match="no such object"):
        STORAGE.read_range(f"{bucket}/b", 0, 1)


@pytest.mark.slow
def test_a_fork_makes_connections_of_its_own(gcs: GcsServer, bucket: str) -> None:
    """Two processes with one connection would read each other's answers."""
    gcs.put("photos", "a", b"abc")
    script = """
import os, sys
from transforms.storage.files import storage_of
from transforms.storage.gcs_requests import client
from transforms.storage.gcs_requests import _connections
def read():
    return storage_of("gs://photos").read_range("gs://photos/a", 1, 2)
assert read() == b"bc" and _connections.cache_info().currsize == 1
child = os.fork()
if not child:
    is_new = not client.cache_info().currsize and not _connections.cache_info().currsize
    os._exit(0 if is_new and read() == b"bc" else 9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and read() == b"bc"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
