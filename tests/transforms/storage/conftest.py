"""The same files in every kind of storage."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.images.packed import tarred, zipped
from tests.servers.gcs import GcsServer
from tests.servers.mem_filesystem import FILES, MemFileSystem
from transforms.core.records import NameRange
from transforms.storage.files import storage_of

FOLDERS = ("local", "bucket", "beam")
ARCHIVES = ("zip", "tar", "zip in a bucket")


class Kept:
    """Files in one kind of storage; an archive is made anew each time that some are put into it."""

    def __init__(self, kind: str, tmp_path: Path, gcs: GcsServer | None) -> None:
        self.kind = kind
        self._tmp_path, self._gcs = tmp_path, gcs
        self.root = {
            "local": f"{tmp_path}/in",
            "bucket": "gs://photos/in",
            "beam": "mem://photos/in",
            "zip": f"{tmp_path}/a.zip!",
            "tar": f"{tmp_path}/a.tar!",
            "zip in a bucket": "gs://photos/a.zip!",
        }[kind]

    def put(self, files: Mapping[str, bytes]) -> None:
        """Stores files, without the code that is tested."""
        if self.root.endswith("!"):
            packed = tarred(files) if self.kind == "tar" else zipped(files)
            self._put(self.root.rstrip("!"), packed)
        for name, data in files.items() if self.kind in FOLDERS else ():
            self._put(f"{self.root}/{name}", data)

    def _put(self, path: str, data: bytes) -> None:
        if path.startswith("gs:"):
            assert self._gcs is not None
            self._gcs.put("photos", path.removeprefix("gs://photos/"), data)
        elif path.startswith("mem:"):
            with MemFileSystem(None).create(path, compression_type="uncompressed") as file:
                file.write(data)
        else:
            Path(path).parent.mkdir(exist_ok=True, parents=True)
            Path(path).write_bytes(data)


def in_ranges(pattern: str) -> Iterator[str]:
    """The files of a glob of which each range is listed by another worker."""
    storage, todo = storage_of(pattern), [NameRange(pattern)]
    while todo:
        for found in storage.list_range(todo.pop(), 1):
            if isinstance(found, NameRange):
                # It crosses a shuffle.
                json.dumps(found).encode()
                todo.append(found)
            else:
                yield found.uri


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """An empty folder or archive of the kind that the test is parametrized with."""
    gcs: GcsServer | None = None
    if "bucket" in request.param:
        gcs = request.getfixturevalue("gcs")
        gcs.make_bucket("photos")
    yield Kept(request.param, tmp_path, gcs)
    FILES.clear()


@pytest.fixture
def bucket(gcs: GcsServer) -> str:
    """A new bucket, `gs://photos`."""
    gcs.make_bucket("photos")
    return "gs://photos"
