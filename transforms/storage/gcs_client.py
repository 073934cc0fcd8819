"""The process's client of Google Cloud Storage: buckets, objects, and their bytes in one request.

Packages of Google are imported when the first `gs://` path is met. `STORAGE_EMULATOR_HOST` is
honoured (https://cloud.google.com/python/docs/reference/storage).
"""

from __future__ import annotations

import base64
import errno
import functools
import os
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import google_crc32c

from transforms.core.file_errors import TooLargeError
from transforms.storage.gcs_errors import first_line, translate_errors
from transforms.storage.interface import READERS

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

SCHEME = "gs://"

# Seconds without a byte after which a request counts as lost.
_TIMEOUT_SECONDS = 60


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
    # Its tracing would request the bucket's metadata in addition to the first requests.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    with translate_errors("Google Cloud Storage"):
        made = storage.Client()
    for scheme in ("https://", "http://"):
        made._http.mount(scheme, HTTPAdapter(pool_maxsize=2 * READERS))
    return made


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


def get_media(
    uri: str,
    generation: int | None,
    max_stored: int | None = None,
    *,
    part: tuple[int, int] | None = None,
) -> tuple[bytes, str]:
    """Fetches an object's bytes as stored, and their content encoding, in one request.

    `Blob.download_as_bytes` makes the same request and takes twice as much of a core for it, which
    is what limits reading small objects (docs/development/performance_notes.md).

    Args:
        uri: the object.
        generation: the generation that it must still have, or None for any.
        max_stored: limit for its bytes, or None.
        part: offset and length of the only bytes to fetch, or None for all.
    """
    from google.api_core.exceptions import from_http_status
    from urllib3.exceptions import HTTPError

    condition = "" if generation is None else f"&ifGenerationMatch={generation}"
    headers = {"Accept-Encoding": "gzip"}
    if part is not None:
        headers["Range"] = f"bytes={part[0]}-{sum(part) - 1}"
    url = f"{client().api_endpoint}/download/storage/v1{blob_of(uri).path}?alt=media{condition}"
    try:
        response = _connections(client()).urlopen(
            "GET",
            url,
            headers=headers,
            # Decoded by urllib3, it could grow without bounds.
            decode_content=False,
            retries=False,
            timeout=_TIMEOUT_SECONDS,
            # Check the size before reading the bytes.
            preload_content=max_stored is None,
        )
        size = int(response.headers.get("Content-Length") or 0)
        if max_stored is not None and size > max_stored:
            response.close()
            raise TooLargeError(size, max_stored, uri)
        data: bytes = response.data
    except HTTPError as error:
        raise ConnectionError(errno.EIO, first_line(error)) from error
    if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        text = data.decode(errors="replace")
        raise from_http_status(response.status, text, response=response)
    if response.status == HTTPStatus.OK:
        # The hash is that of the whole object.
        _check_hash(data, response.headers.get("X-Goog-Hash", ""))
        # A server may ignore the range.
        data = data if part is None else data[part[0] : sum(part)]
    return data, response.headers.get("Content-Encoding", "")


@functools.lru_cache(maxsize=1)
def _connections(made: Client) -> Any:
    """A session with a client's credentials and a connection for each reader."""
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
    """Compares bytes with the CRC32C that the service sends.

    Raises:
        ConnectionError: the bytes were damaged on their way; another try may help.
    """
    found = re.search(r"crc32c=([A-Za-z0-9+/=]+)", hashes)
    if found and base64.b64decode(found[1]) != google_crc32c.value(data).to_bytes(4, "big"):
        raise ConnectionError(errno.EIO, "its bytes were damaged in transit")


def _forget_connections() -> None:
    """Leaves open connections to the process that opened them."""
    _connections.cache_clear()
    client.cache_clear()


# Two processes with one connection would read each other's answers.
os.register_at_fork(after_in_child=_forget_connections)
