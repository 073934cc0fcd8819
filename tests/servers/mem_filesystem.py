"""`mem://`: a Beam FileSystem in this process's memory, to stand for those without code of ours.

Where they differ it is the strictest of them: like object stores it has no folders and deletes
single objects, like Hadoop it renames onto nothing that is there.
"""

import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem

SCHEME = "mem"


class _Stored(NamedTuple):
    data: bytes
    written: int


FILES: dict[str, _Stored] = {}
_CLOCK = itertools.count(1)


class _Writer(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            FILES[self._path] = _Stored(self.getvalue(), next(_CLOCK))
        super().close()


class MemFileSystem(FileSystem):  # type: ignore[misc]
    """Files by their whole URL."""

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def has_dirs(self) -> bool:
        return False

    def mkdirs(self, path: str) -> None:
        """There are no folders."""

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        return (self.metadata(path) for path in sorted(FILES) if path.startswith(dir_or_prefix))

    def create(
        self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO
    ) -> Any:
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return _Writer(path)

    def open(
        self, path: str, mime_type: str = "", compression_type: str = CompressionTypes.AUTO
    ) -> Any:
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return io.BytesIO(self._stored(path).data)

    def copy(self, source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        raise NotImplementedError

    def rename(
        self, source_file_names: Sequence[str], destination_file_names: Sequence[str]
    ) -> None:
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            if target in FILES:
                raise BeamIOError("Rename operation failed", {(source, target): "target exists"})
            FILES[target] = self._stored(source)
            del FILES[source]

    def exists(self, path: str) -> bool:
        return path in FILES

    def size(self, path: str) -> int:
        return len(self._stored(path).data)

    def last_updated(self, path: str) -> float:
        return self._stored(path).written

    def checksum(self, path: str) -> str:
        return str(self.size(path))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._stored(path)
            del FILES[path]

    @staticmethod
    def _stored(path: str) -> _Stored:
        try:
            return FILES[path]
        except KeyError:
            raise BeamIOError("Open operation failed", {path: FileNotFoundError(path)}) from None
