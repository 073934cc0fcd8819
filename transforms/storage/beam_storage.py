"""Files of every other scheme (`s3://`, `hdfs://`, `azfs://`), through Beam's FileSystems."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any, BinaryIO

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Lineage

from transforms.core.messages import first_line
from transforms.core.records import NameRange
from transforms.labels.keys import WILDCARD, archive_path, literal_prefix
from transforms.storage.gcs_requests import SCHEME, split_uri
from transforms.storage.interface import FoundFile, Storage, Stored

_AS_STORED = CompressionTypes.UNCOMPRESSED

# The extras of Beam, by the schemes that need them.
_EXTRAS = {
    "s3": ("aws", "boto3"),
    "hdfs": ("hadoop", "hdfs"),
    "azfs": ("azure", "azure.storage.blob"),
    "abfs": ("azure", "azure.storage.blob"),
    "abfss": ("azure", "azure.storage.blob"),
}


class BeamStorage(Storage):
    """Storages that Beam supports by scheme. Some have folders (HDFS); Beam cannot say which."""

    # Beam does not promise that any of them can seek without reading up to the position.
    reads_ranges = False

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile]:
        for found in FileSystems.match([part.glob])[0].metadata_list:
            yield FoundFile(found.path, found.size_in_bytes, _version(found))

    def find(self, path: str) -> Stored | None:
        if not self.exists(path):
            return None
        found = FileSystems.get_filesystem(path).metadata(path)
        return Stored(found.size_in_bytes, _version(found))

    def exists(self, path: str) -> bool:
        return bool(FileSystems.exists(path))

    def open_reader(self, path: str) -> AbstractContextManager[BinaryIO]:
        stream: AbstractContextManager[BinaryIO]
        stream = FileSystems.open(path, compression_type=_AS_STORED)
        return stream

    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        """The bytes of a file; translates whatever the file system's client raises.

        Raises:
            OSError: with an errno that `is_final` understands.
        """
        try:
            return self.read_bytes(uri)
        except Exception as error:
            code = getattr(error, "code", None)
            if code == HTTPStatus.FORBIDDEN:
                raise PermissionError(errno.EACCES, first_line(error), uri) from error
            if code == HTTPStatus.NOT_FOUND or not self.exists(uri):
                raise FileNotFoundError(errno.ENOENT, "no such file", uri) from error
            raise OSError(errno.EIO, first_line(error), uri) from error

    def open_writer(self, path: str) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = FileSystems.create(path, compression_type=_AS_STORED)
        return stream

    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        # Before the target is removed: another attempt may have moved it there.
        if not self.exists(source):
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        # Hadoop does not rename onto an existing file.
        self.remove(target)
        FileSystems.rename([source], [target])

    def remove(self, path: str, *, generation: int | None = None) -> None:
        if self.exists(path):
            try:
                FileSystems.delete([path])
            except OSError:
                if self.exists(path):
                    raise

    def name_problem(self, path: str) -> str:
        """Reports a scheme whose package is not installed; Beam would call the path unknown."""
        scheme, _, name = path.partition("://")
        if scheme.lower() == "file":
            return f"is the URL of a local file: write {name!r}"
        extra, package = _EXTRAS.get(scheme.lower(), ("", ""))
        try:
            if package:
                importlib.import_module(package)
        except ImportError:
            return f"needs an extra of Beam: pip install 'apache-beam[{extra}]'"
        # Web addresses have a message of their own.
        if not package and scheme.lower() not in ("http", "https"):
            try:
                FileSystems.get_filesystem(path)
            except ValueError:
                return "has a scheme that no installed file system of Beam reads"
        return ""

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            try:
                FileSystems.mkdirs(path)
            except OSError:
                if not self.exists(path):
                    raise

    def remove_staging(self, staging: str) -> None:
        super().remove_staging(staging)
        # On storages with folders, empty ones would stay.
        self.remove(staging)


def _version(found: FileMetadata) -> int:
    return int((found.last_updated_in_seconds or 0) * 1_000_000)


# What a job reads and writes, in Beam's metrics for lineage.
#
# The steps here open files without Beam's IO, so they also report them. Dataflow shows the lineage
# of jobs with `--dataflow_service_options=enable_lineage=true`.


def report_source(path: str) -> None:
    """Reports an input of the job from a step that reads it: a file, a folder or a glob.

    A glob is reported as the folder above its first wildcard, as Beam reports many files.
    """
    _report(path, Lineage.sources())


def report_sink(folder: str) -> None:
    """Reports the folder of a dataset from the step that publishes it."""
    _report(folder, Lineage.sinks())


def _report(path: str, lineage: Lineage) -> None:
    asset = _asset(path)
    if asset.startswith(SCHEME):
        # Buckets are read here without Beam's file system for them, which may not be there.
        lineage.add("gcs", *filter(None, split_uri(asset)), last_segment_sep="/")
    else:
        FileSystems.get_filesystem(asset).report_lineage(asset, lineage)


def _asset(path: str) -> str:
    """The name of what is reported.

    >>> _asset("gs://bucket/photos/2024-*/*.jpg")
    'gs://bucket/photos'
    >>> _asset("gs://bucket/*.jpg")
    'gs://bucket/'
    >>> _asset("gs://bucket/photos.zip!/cat/*.jpg")
    'gs://bucket/photos.zip'
    """
    if parts := archive_path(path):
        path = parts.archive
    if WILDCARD.search(path):
        folder, slash, _ = literal_prefix(path).rpartition("/")
        path = folder or slash
    scheme, separator, rest = path.rpartition("://")
    if separator:
        rest = rest.rstrip("/")
        # Beam knows a bucket by its slash.
        return f"{scheme}{separator}{rest}" + "/" * ("/" not in rest)
    return os.path.abspath(path)
