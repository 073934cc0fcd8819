"""The bytes of objects in Google Cloud Storage: one request for an object, or for a part of it."""

from __future__ import annotations

import base64
import errno
import functools
import os
import re
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import google_crc32c

from transforms.core.file_errors import FinalError, TooLargeError
from transforms.storage.bounded_reading import MAX_TEXT_BYTES
from transforms.storage.gcs.gcs_client import blob_of, client
from transforms.storage.gcs.gcs_errors import first_line, translate_errors
from transforms.storage.gcs.gcs_retry import retry
from transforms.storage.interface import READERS

if TYPE_CHECKING:
    from google.cloud.storage import Client

# Seconds without a byte after which a request counts as lost.
_TIMEOUT_SECONDS = 60

_GZIP_MAGIC = b"\x1f\x8b"


def read_object(
    uri: str,
    generation: int | None,
    *,
    max_bytes: int | None = None,
    max_stored: int | None = None,
) -> bytes:
    """All bytes of an object in one request; gzip content encoding is decompressed.

    Args:
        uri: the object.
        generation: the generation that it must still have, or None for any.
        max_bytes: bytes that a compressed object may grow to; by default, a gigabyte.
        max_stored: limit for its stored bytes, if it was not listed; None for no limit.

    Raises:
        TooLargeError: it has more than `max_stored`.
        OSError: it is gone, was overwritten, or cannot be read.
    """
    data: bytes
    with translate_errors(uri):
        data, encoding = retry()(get_media)(uri, generation, max_stored, damaged=set())
    if encoding == "gzip" and data.startswith(_GZIP_MAGIC):
        return _decompress(data, uri, max_bytes)
    return data


def _decompress(data: bytes, uri: str, max_bytes: int | None) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    limit = MAX_TEXT_BYTES if max_bytes is None else max_bytes
    try:
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise FinalError(errno.EIO, f"its gzip encoding is damaged ({error})", uri) from error
    if len(plain) > limit:
        named = f"{limit} bytes" if max_bytes is None else "--max_bytes"
        raise OSError(errno.EFBIG, f"its gzip encoding grows beyond {named}", uri)
    return plain


def get_media(
    uri: str,
    generation: int | None,
    max_stored: int | None = None,
    *,
    part: tuple[int, int] | None = None,
    damaged: set[bytes] | None = None,
) -> tuple[bytes, str]:
    """Fetches an object's bytes as stored, and their content encoding, in one request.

    `Blob.download_as_bytes` makes the same request and takes twice as much of a core for it, which
    is what limits reading small objects (docs/development/performance_notes.md).

    Args:
        uri: the object.
        generation: the generation that it must still have, or None for any.
        max_stored: limit for its bytes, or None.
        part: offset and length of the only bytes to fetch, or None for all.
        damaged: the checksums of former answers that were damaged; None for no former one.
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
        is_object = response.status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
        size = int(response.headers.get("Content-Length") or 0)
        # The text of an error may be longer than a small object.
        if is_object and max_stored is not None and size > max_stored:
            response.close()
            raise TooLargeError(size, max_stored, uri)
        data: bytes = response.data
    except HTTPError as error:
        raise ConnectionError(errno.EIO, first_line(error)) from error
    if not is_object:
        text = data.decode(errors="replace")
        raise from_http_status(response.status, text, response=response)
    if response.status == HTTPStatus.OK:
        # The hash is that of the whole object.
        _check_hash(data, response.headers.get("X-Goog-Hash", ""), uri, damaged)
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


def _check_hash(data: bytes, hashes: str, uri: str, damaged: set[bytes] | None) -> None:
    """Compares bytes with the CRC32C that the service sends.

    Raises:
        ConnectionError: the bytes were damaged on their way; another try may help.
        FinalError: the same bytes came before, so they were not damaged on their way.
    """
    found = re.search(r"crc32c=([A-Za-z0-9+/=]+)", hashes)
    if not found:
        return
    crc32c = google_crc32c.value(data).to_bytes(4, "big")
    if base64.b64decode(found[1]) == crc32c:
        return
    if damaged is not None and crc32c in damaged:
        raise FinalError(errno.EIO, "its bytes are not those of its checksum", uri)
    if damaged is not None:
        damaged.add(crc32c)
    raise ConnectionError(errno.EIO, "its bytes were damaged in transit")


# Two processes with one connection would read each other's answers.
os.register_at_fork(after_in_child=_connections.cache_clear)
