"""What is special to a bucket: requests, generations, encodings, and faults on the way."""

import gzip
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.marks import cases
from tests.servers.gcs import GcsServer
from transforms.core.messages import FinalError
from transforms.storage import gcs_storage
from transforms.storage.gcs_requests import read_object
from transforms.storage.gcs_storage import GcsStorage

STORAGE = GcsStorage()
LISTED: dict[str, Any] = {"size": 9, "crc32c": "e3069283"}


def read(name: str) -> bytes:
    return STORAGE.read_bytes(f"gs://photos/{name}")


def test_reading_is_one_request_an_object_or_a_part_of_it(gcs: GcsServer, bucket: str) -> None:
    for number in range(10):
        gcs.put("photos", f"{number}.jpg", b"0123456789")
    gcs.reset()
    for file in STORAGE.list_files(f"{bucket}/*"):
        STORAGE.read_listed(file.uri, size=0, version=file.version, max_bytes=10)
    assert gcs.counts() == {"GET list": 1, "GET media": 10}
    gcs.reset()
    assert STORAGE.read_range(f"{bucket}/1.jpg", 2, 3) == b"234"
    assert STORAGE.open_ranges(f"{bucket}/1.jpg")(8, 5) == b"89"
    assert gcs.counts() == {"GET media": 2}


def test_listing_asks_for_its_prefix_and_few_fields(gcs: GcsServer, bucket: str) -> None:
    for name in ("a/1.jpg", "ab/2.jpg", "b/3.jpg", "a/", "a/.hidden.jpg", "a/c/4.jpg"):
        gcs.put("photos", name, b"x")
    gcs.reset()
    found = [file.uri for file in STORAGE.list_files(f"{bucket}/a*/*.jpg")]
    assert found == [f"{bucket}/a/1.jpg", f"{bucket}/ab/2.jpg"]
    [(_, request)] = gcs.log()
    assert "prefix=a&" in request
    assert "fields=items%28name%2Csize%2Cgeneration%29%2CnextPageToken" in request


def test_placeholders_of_folders_are_no_files(gcs: GcsServer, bucket: str) -> None:
    for name in ("in/", "in/cats/"):
        gcs.put("photos", name, b"")
    assert list(STORAGE.list_files(f"{bucket}/in/**")) == []


def test_gzip_encoding_is_undone_within_bounds(gcs: GcsServer, bucket: str) -> None:
    plain = b"0" * 100_000
    zipped = gzip.compress(plain)
    gcs.put("photos", "1.jpg", zipped, content_encoding="gzip")
    assert read_object(f"{bucket}/1.jpg", None, max_bytes=100_000) == plain
    with pytest.raises(OSError, match="--max_bytes"):
        read_object(f"{bucket}/1.jpg", None, max_bytes=99_999)
    gcs.put("photos", "2.jpg", zipped)
    assert read("2.jpg") == zipped


# Faults on the way.


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@cases(
    ([{"status": 503, "count": 2}, {"drop": True, "count": 1}], 4),
    ([{"kind": "media", "damage": True, "count": 1}], 2),
    ids=["no answer", "damaged"],
)
@pytest.mark.usefixtures("bucket", "dropped_sockets", "no_waiting")
def test_passing_faults_are_repeated(faults: list[Any], gets: int, gcs: GcsServer) -> None:
    gcs.put("photos", "1.jpg", b"x" * 1000)
    gcs.set_faults(faults)
    assert read("1.jpg") == b"x" * 1000
    assert gcs.counts()["GET media"] == gets


@pytest.mark.usefixtures("bucket")
def test_bytes_that_are_damaged_in_the_same_way_are_not_asked_for_again(gcs: GcsServer) -> None:
    """No network does that: retries would take two minutes."""
    gcs.put("photos", "1.jpg", b"x" * 1000)
    gcs.set_faults([{"kind": "media", "damage": True}])
    with pytest.raises(FinalError, match="its bytes are not those of its checksum"):
        read("1.jpg")
    assert gcs.counts()["GET media"] == 2


@pytest.mark.usefixtures("no_waiting")
def test_the_text_of_an_error_is_not_compared_with_a_size(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "1.txt", b"x")
    gcs.set_faults([{"status": 503, "count": 1}])
    assert STORAGE.read_bytes(f"{bucket}/1.txt", max_bytes=1) == b"x"


# Moves, copies and writes name the generation that they replace.


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


def test_a_copy_is_one_request_and_replaces_nothing(gcs: GcsServer, bucket: str) -> None:
    gcs.put("photos", "base", b"123456789")
    assert STORAGE.copy(f"{bucket}/base", f"{bucket}/new", **LISTED)
    assert gcs.counts() == {"POST rewrite": 1}
    gcs.put("photos", "other", b"other")
    assert not STORAGE.copy(f"{bucket}/base", f"{bucket}/other", **LISTED)
    assert gcs.get("photos", "other") == b"other"


def test_a_new_object_is_never_replaced(gcs: GcsServer, bucket: str) -> None:
    uri = f"{bucket}/manifest.json"
    first, again = (STORAGE.write_whole(uri, b"ours", generation=0) for _ in range(2))
    assert first == again == int(gcs.metadata("photos", "manifest.json")["generation"])
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


@cases(
    ([], ValueError),
    ([{"kind": "upload", "method": "PUT", "status": 403}], PermissionError),
    ids=["interrupted", "refused"],
)
def test_what_is_not_written_to_its_end_leaves_no_object(
    faults: list[Any], error: type[Exception], gcs: GcsServer, bucket: str
) -> None:
    gcs.set_faults(faults)
    with pytest.raises(error), STORAGE.open_writer(f"{bucket}/half") as file:
        file.write(b"x" * (1 if faults else 9 << 20))
        if not faults:
            raise ValueError
    gcs.set_faults([])
    assert gcs.names("photos") == []


@pytest.mark.slow
def test_a_fork_makes_connections_of_its_own(gcs: GcsServer, bucket: str) -> None:
    """Two processes with one connection would read each other's answers."""
    gcs.put("photos", "a", b"abc")
    script = """
import os
from transforms.storage.files import storage_of
from transforms.storage.gcs_requests import _connections, client
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
