"""Objects of Google Cloud Storage: list, read, write, move; one client for a process.

Beam's own file system asks for an object's metadata before every read and lists without saying
which fields it wants. Here a read is one request, pinned to the generation that was listed, and
every failure is an `OSError` that says in one line what to do. Imported packages of Google are
imported when the first `gs://` path is met.

`STORAGE_EMULATOR_HOST` is honoured (https://cloud.google.com/python/docs/reference/storage).
"""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import os
import re
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import google_crc32c

from transforms.core.file_errors import ChangedError, FinalError, TooLargeError
from transforms.core.globs import glob_regex, literal_prefix
from transforms.storage.gcs_errors import first_line, translate_errors
from transforms.storage.gcs_retry import retry as _retry

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

SCHEME = "gs://"

# Reads of one process that wait at the same time.
READERS = 32

# One part of an upload or of a download that is streamed; a multiple of 256 KiB.
_CHUNK = 8 << 20

# Seconds without a byte after which a request counts as lost.
_TIMEOUT_SECONDS = 60

_GZIP_MAGIC = b"\x1f\x8b"

# What a file of ours, such as a manifest, may grow to when it is stored with gzip encoding.
_MAX_INFLATED = 1 << 30


class GcsObject(NamedTuple):
    """An object as listed."""

    uri: str
    size: int
    generation: int


class Stored(NamedTuple):
    """An object's size in bytes, its generation, and its CRC32C as 8 hexadecimal digits."""

    size: int
    generation: int
    crc32c: str


def is_gcs(uri: str) -> bool:
    """Whether `uri` is an object of Google Cloud Storage."""
    return uri.startswith(SCHEME)


def split_uri(uri: str) -> tuple[str, str]:
    """Bucket and object name.

    >>> split_uri("gs://bucket/a/b c#1?.jpg")
    ('bucket', 'a/b c#1?.jpg')
    """
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    return bucket, name


@functools.lru_cache(maxsize=1)
def client() -> Client:
    """The process's client, with a connection for each reader and as many for writers.

    Raises:
        OSError: there are no credentials.
    """
    # Its tracing would ask for the bucket's metadata beside the first requests.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    with translate_errors("Google Cloud Storage"):
        made = storage.Client()
    for scheme in ("https://", "http://"):
        made._http.mount(scheme, HTTPAdapter(pool_maxsize=2 * READERS))
    return made


def list_objects(pattern: str) -> Iterator[GcsObject]:
    """The objects that a glob matches, in the order of their names.

    Placeholders of folders, whose names end with a slash, are none.

    Raises:
        OSError: the bucket cannot be listed.
    """
    bucket, glob = split_uri(pattern)
    if not bucket:
        raise FileNotFoundError(errno.ENOENT, "no such bucket", pattern)
    matches = glob_regex(glob).fullmatch
    with translate_errors(pattern, missing="no such bucket"):
        blobs = client().list_blobs(
            bucket,
            prefix=literal_prefix(glob),
            fields="items(name,size,generation),nextPageToken",
            retry=_retry(),
        )
        for blob in blobs:
            if matches(blob.name) and not blob.name.endswith("/"):
                yield GcsObject(f"{SCHEME}{bucket}/{blob.name}", blob.size or 0, blob.generation)


def find(uri: str) -> Stored | None:
    """What is known of an object, or None when there is none. One request."""
    try:
        with translate_errors(uri):
            blob = blob_of(uri)
            blob.reload(retry=_retry())
    except FileNotFoundError:
        return None
    return stored(blob)


def md5(uri: str, *, generation: int | None = None) -> str | None:
    """The MD5 of an object's bytes, 32 hexadecimal digits. One request.

    None when the bucket does not know it (of objects composed of others), or knows that of the
    compressed bytes.

    Raises:
        OSError: it is gone, was overwritten, or cannot be asked for.
    """
    with translate_errors(uri):
        blob = blob_of(uri)
        blob.reload(if_generation_match=generation, retry=_retry())
    if blob.md5_hash is None or blob.content_encoding == "gzip":
        return None
    return base64.b64decode(blob.md5_hash).hex()


def read(
    uri: str,
    *,
    generation: int | None = None,
    max_bytes: int | None = None,
    max_stored: int | None = None,
) -> bytes:
    """All bytes of an object in one request; what is stored with gzip encoding is decompressed.

    Args:
        uri: the object.
        generation: the generation that it must still have, or None for any.
        max_bytes: bytes that a compressed object may grow to; by default, a gigabyte.
        max_stored: bytes that it may have as stored, for what was not listed; None for any number.

    Raises:
        TooLargeError: it has more than `max_stored`.
        OSError: it is gone, was overwritten, or cannot be read.
    """
    data: bytes
    with translate_errors(uri):
        data, encoding = _retry()(_get_media)(uri, generation, max_stored)
    if encoding == "gzip" and data.startswith(_GZIP_MAGIC):
        return _decompress(data, uri, max_bytes)
    return data


def read_range(uri: str, offset: int, length: int) -> bytes:
    """A part of an object as stored, in one request; fewer bytes where it ends.

    Raises:
        OSError: it is gone, ends before `offset`, or cannot be read.
    """
    with translate_errors(uri):
        return bytes(
            blob_of(uri).download_as_bytes(
                start=offset,
                end=offset + length - 1,
                raw_download=True,
                checksum=None,
                retry=_retry(),
            )
        )


def _get_media(
    uri: str, generation: int | None, max_stored: int | None = None
) -> tuple[bytes, str]:
    """One request for an object's bytes as stored, and their content encoding.

    `Blob.download_as_bytes` makes the same request and takes twice as much of a core for it, which
    is what limits reading small objects (docs/performance.md).
    """
    from google.api_core.exceptions import from_http_status
    from urllib3.exceptions import HTTPError

    condition = "" if generation is None else f"&ifGenerationMatch={generation}"
    url = f"{client().api_endpoint}/download/storage/v1{blob_of(uri).path}?alt=media{condition}"
    try:
        response = _connections(client()).urlopen(
            "GET",
            url,
            headers={"Accept-Encoding": "gzip"},
            # Decoded by urllib3, it could grow without bounds.
            decode_content=False,
            retries=False,
            timeout=_TIMEOUT_SECONDS,
            # Its size is seen before its bytes are read.
            preload_content=max_stored is None,
        )
        size = int(response.headers.get("Content-Length") or 0)
        if max_stored is not None and size > max_stored:
            response.close()
            raise TooLargeError(size, max_stored, uri)
        data: bytes = response.data
    except HTTPError as error:
        raise ConnectionError(errno.EIO, first_line(error)) from error
    if response.status != HTTPStatus.OK:
        text = data.decode(errors="replace")
        raise from_http_status(response.status, text, response=response)
    _check_hash(data, response.headers.get("X-Goog-Hash", ""))
    return data, response.headers.get("Content-Encoding", "")


@functools.lru_cache(maxsize=1)
def _connections(made: Client) -> Any:
    """A client's credentials on a connection for each reader, as the environment asks for."""
    from google.auth.transport.urllib3 import AuthorizedHttp
    from requests.utils import get_environ_proxies, select_proxy
    from urllib3 import PoolManager, ProxyManager

    proxy = select_proxy(made.api_endpoint, get_environ_proxies(made.api_endpoint))
    certificates = os.environ.get("REQUESTS_CA_BUNDLE")
    http = (
        ProxyManager(proxy, maxsize=READERS, ca_certs=certificates)
        if proxy
        else PoolManager(maxsize=READERS, ca_certs=certificates)
    )
    return AuthorizedHttp(made._credentials, http=http)


def _check_hash(data: bytes, hashes: str) -> None:
    """Compares with the CRC32C that the service sends along.

    Raises:
        ConnectionError: the bytes were damaged on their way; another try may help.
    """
    found = re.search(r"crc32c=([A-Za-z0-9+/=]+)", hashes)
    if found and base64.b64decode(found[1]) != google_crc32c.value(data).to_bytes(4, "big"):
        raise ConnectionError(errno.EIO, "its bytes were damaged on their way")


def write(uri: str, data: bytes, *, generation: int | None = None) -> int:
    """Writes an object; readers see all of it or nothing.

    Args:
        uri: the object.
        data: its bytes.
        generation: the generation to replace, 0 for a new object, None for any.

    Returns:
        the generation that was written.

    Raises:
        FileExistsError: another run wrote other bytes meanwhile.
        OSError: it cannot be written.
    """
    blob = blob_of(uri)
    try:
        with translate_errors(uri):
            blob.upload_from_string(
                data,
                # What a browser may show; everything else it saves.
                content_type="text/html" if uri.endswith(".html") else "application/octet-stream",
                if_generation_match=generation,
                retry=_retry(),
            )
        return int(blob.generation)
    except ChangedError as error:
        # A retry of our own finds what its first try wrote.
        there = find(uri)
        if there is None or read(uri, generation=there.generation) != data:
            raise FileExistsError(errno.EEXIST, "another run wrote it", uri) from error
        return there.generation


def remove(uri: str, *, generation: int | None = None) -> None:
    """Removes an object, or only one generation of it; nothing there is fine."""
    with contextlib.suppress(FileNotFoundError, ChangedError), translate_errors(uri):
        blob_of(uri).delete(if_generation_match=generation, retry=_retry())


def names_below(folder: str) -> list[str]:
    """The names of all objects below a folder, relative to it, sorted."""
    bucket, name = split_uri(folder)
    prefix, fields = f"{name}/", "items(name),nextPageToken"
    with translate_errors(folder, missing="no such bucket"):
        below = client().list_blobs(bucket, prefix=prefix, fields=fields, retry=_retry())
        return [blob.name.removeprefix(prefix) for blob in below]


def stored(blob: Blob) -> Stored:
    """What the service said of an object."""
    crc32c = base64.b64decode(blob.crc32c).hex()
    return Stored(int(blob.size or 0), int(blob.generation), crc32c)


@contextlib.contextmanager
def open_reader(uri: str) -> Iterator[BinaryIO]:
    """A stream of an object's bytes as stored, fetched in parts.

    Raises:
        OSError: it cannot be read.
    """
    with translate_errors(uri):
        blob = blob_of(uri)
        blob.reload(retry=_retry())
        with blob.open(
            "rb",
            chunk_size=_CHUNK,
            raw_download=True,
            if_generation_match=blob.generation,
            retry=_retry(),
        ) as stream:
            yield stream


@contextlib.contextmanager
def open_writer(uri: str) -> Iterator[Any]:
    """A stream to a new object, sent in parts; nothing appears when the body raises."""
    with translate_errors(uri):
        stream = blob_of(uri).open(
            "wb",
            chunk_size=_CHUNK,
            ignore_flush=True,
            content_type="application/octet-stream",
            if_generation_match=0,
            retry=_retry(),
        )
        try:
            yield stream
            stream.close()
        except BaseException:
            # A stream that is only dropped uploads what it has when it is collected.
            stream.terminate()
            raise


def blob_of(uri: str) -> Blob:
    """The client's handle of an object; no request.

    Raises:
        OSError: it has no name.
    """
    bucket, name = split_uri(uri)
    if not (bucket and name):
        # Google's client would fail in its own way.
        raise FileNotFoundError(errno.ENOENT, "no such object", uri)
    return client().bucket(bucket).blob(name)


def _decompress(data: bytes, uri: str, max_bytes: int | None) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    limit = _MAX_INFLATED if max_bytes is None else max_bytes
    try:
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise FinalError(errno.EIO, f"its gzip encoding is damaged ({error})", uri) from error
    if len(plain) > limit:
        named = f"{limit} bytes" if max_bytes is None else "--max_bytes"
        raise OSError(errno.EFBIG, f"its gzip encoding grows beyond {named}", uri)
    return plain
