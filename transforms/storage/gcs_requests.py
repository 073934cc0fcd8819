"""Requests to Google Cloud Storage: client, errors, retries, media."""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import os
import random
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import google_crc32c

from transforms.core.messages import ChangedError, FinalError, TooLargeError
from transforms.storage.interface import MAX_TEXT_BYTES, READERS

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client


# Translates errors of Google's packages to an `OSError` that says in one line what to do.

# Seconds for which failed requests are retried, with growing pauses.
RETRY_SECONDS = 120

# Seconds for which a request is sent again that the service refuses because there are too many.
THROTTLED_SECONDS = 600

# Client errors (4xx) for which a retry may still help.
_MAY_PASS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@contextlib.contextmanager
def translate_errors(uri: str, *, missing: str = "no such object") -> Iterator[None]:
    """Turns errors of Google's packages into an `OSError` of one line."""
    from google.api_core.exceptions import GoogleAPIError, from_http_response
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse
    from requests import RequestException

    try:
        yield
    except InvalidResponse as error:
        raise _as_os_error(from_http_response(error.response), uri, missing) from error
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        raise _as_os_error(error, uri, missing) from error


def _as_os_error(error: Exception, uri: str, missing: str) -> OSError:
    from google.api_core import exceptions
    from google.auth.exceptions import DefaultCredentialsError, RefreshError

    text = first_line(error)
    if isinstance(error, exceptions.NotFound):
        is_bucket = "bucket does not exist" in text.lower()
        return FileNotFoundError(errno.ENOENT, "no such bucket" if is_bucket else missing, uri)
    if isinstance(error, exceptions.PreconditionFailed):
        return ChangedError(errno.ESTALE, "it was overwritten meanwhile", uri)
    if isinstance(error, (exceptions.Forbidden, exceptions.Unauthorized)):
        return PermissionError(errno.EACCES, f"no permission: {text}", uri)
    if isinstance(error, (DefaultCredentialsError, RefreshError)) and not error.retryable:
        # Without an errno: the error is not about the object, and a retry does not help.
        return OSError("no Google credentials: run `gcloud auth application-default login`")
    if isinstance(error, exceptions.RetryError):
        if status_of(error.cause) == HTTPStatus.TOO_MANY_REQUESTS:
            minutes = THROTTLED_SECONDS // 60
            detail = f"the bucket refused requests (429) for {minutes} minutes: try fewer workers"
            return OSError(errno.EBUSY, detail, uri)
        detail = f"no answer in {RETRY_SECONDS} s of retries: {first_line(error.cause)}"
        return OSError(errno.ETIMEDOUT, detail, uri)
    if isinstance(error, exceptions.ClientError) and error.code not in _MAY_PASS:
        # The service understood the request and will refuse it again.
        return FinalError(errno.EIO, text, uri)
    return OSError(errno.EIO, text, uri)


def status_of(error: BaseException | None) -> int:
    """The HTTP status of an exception of Google's packages, 0 if it has none."""
    response = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(response, "status_code", None)
    return status if isinstance(status, int) else 0


def first_line(error: BaseException | None) -> str:
    """The message of a service, without the request."""
    text = str(getattr(error, "message", None) or error)
    if "requester pays" in text.lower():
        return "the bucket is requester-pays: copy the objects to a bucket of your own"
    return text.splitlines()[0] if text else type(error).__name__


# The process's client of Google Cloud Storage, and handles of objects.
#
# Packages of Google are imported when the first `gs://` path is met. `STORAGE_EMULATOR_HOST` is
# honored (https://cloud.google.com/python/docs/reference/storage).

SCHEME = "gs://"


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


# Two processes with one connection would read each other's answers.
os.register_at_fork(after_in_child=client.cache_clear)


# Retries requests to Google Cloud Storage, and slows all threads of the process down together.
#
# A failed request is retried with growing pauses. After 429 (too many requests) all threads of the
# process pause: if each thread only backed off for its own requests, the others would continue,
# and the service would refuse more and more of them. A bucket takes minutes to allow more, and
# with many workers a request may be refused several times: its pauses after 429 are no part of the
# time for which other failures are retried.

# Seconds of the first and of the longest pause after another failure, at most.
_FIRST_RETRY = 0.2
_LONGEST_RETRY = 20.0

# Seconds of the first pause after 429, and of the longest. Each wave of refusals doubles it.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 32.0


class ThrottleGate:
    """Pauses the requests of all threads while a service refuses them.

    Attributes:
        shut_seconds: how long it was shut during the life of the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opens = 0.0
        self._pause = 0.0
        self._changed = 0.0
        self.shut_seconds = 0.0

    def wait(self) -> float:
        """Waits until requests may be sent.

        Returns:
            the time, for `refused` and `accepted`.
        """
        now = time.monotonic()
        while now < self._opens:
            # If all continued at once, they would be refused again.
            time.sleep(self._opens - now + random.random() * self._pause)
            now = time.monotonic()
        return now

    def refused(self, sent: float, retry_after: float = 0.0) -> None:
        """Shuts the gate, for longer each time.

        Args:
            sent: when the request was sent; concurrent requests count once.
            retry_after: seconds that the service requests.
        """
        with self._lock:
            if sent < self._changed:
                return
            now = time.monotonic()
            doubled = max(2 * self._pause, _FIRST_PAUSE, retry_after)
            self._pause = min(doubled, _LONGEST_PAUSE)
            self.shut_seconds += now + self._pause - max(self._opens, now)
            self._opens = now + self._pause
            self._changed = now

    def accepted(self, sent: float) -> None:
        """Makes the next pause shorter."""
        if self._pause:
            with self._lock:
                if sent >= self._changed:
                    self._pause = self._pause / 2 if self._pause > _FIRST_PAUSE else 0.0
                    self._changed = time.monotonic()


GATE = ThrottleGate()
"""Of this process."""


@contextlib.contextmanager
def throttling_counted() -> Iterator[None]:
    """Counts how long the gate is shut in a block, also by requests of other threads.

    It counts for the step that this thread runs. Dataflow's autoscaler reads the count while a
    step runs: more workers would be refused, too.
    """
    before = GATE.shut_seconds
    try:
        yield
    finally:
        if GATE.shut_seconds > before:
            # Readers of a dataset come without Beam.
            from transforms.storage.metrics import count_throttled

            count_throttled(GATE.shut_seconds - before)


def retry(request: Callable[..., Any]) -> Callable[..., Any]:
    """A request that passes the gate, and is sent again after failures that may pass.

    Google's client gets it as its retry policy, too: every request of this package names a
    generation or is idempotent. Refusals are retried for `THROTTLED_SECONDS`, and others for
    `RETRY_SECONDS`, to which the pauses of the gate do not count. Then it raises a `RetryError`
    with the last failure.
    """
    from google.api_core.exceptions import RetryError
    from google.cloud.storage.retry import DEFAULT_RETRY

    @functools.wraps(request)
    def send(*arguments: Any, **keywords: Any) -> Any:
        begun = sent = GATE.wait()
        paused, longest = 0.0, _FIRST_RETRY
        while True:
            try:
                result = request(*arguments, **keywords)
            except Exception as error:
                if not DEFAULT_RETRY._predicate(error):
                    raise
                now = time.monotonic()
                if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:
                    GATE.refused(sent, _retry_after(error))
                    pause, lasting, most = 0.0, now - begun, THROTTLED_SECONDS
                else:
                    pause, longest = random.uniform(0, longest), min(2 * longest, _LONGEST_RETRY)
                    lasting, most = now + pause - begun - paused, RETRY_SECONDS
                if lasting > most:
                    raise RetryError(f"failed for {most} s", error) from error
                if pause:
                    time.sleep(pause)
                sent = GATE.wait()
                paused += sent - now - pause
                continue
            GATE.accepted(sent)
            return result

    return send


def _retry_after(error: Exception) -> float:
    """The seconds that the service requests in `Retry-After`."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    seconds = headers.get("Retry-After", "")
    # A date is allowed too; GCS sends seconds.
    return float(seconds) if seconds.isdecimal() else 0.0


# The bytes of objects in Google Cloud Storage: one request for an object, or for a part of it.

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
        data, encoding = retry(get_media)(uri, generation, max_stored, damaged=set())
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
    damaged: set[bytes],
) -> tuple[bytes, str]:
    """Fetches an object's bytes as stored, and their content encoding, in one request.

    `Blob.download_as_bytes` makes the same request and takes twice as much of a core for it, which
    is what limits reading small objects (docs/development/performance_notes.md).

    Args:
        uri: the object.
        generation: the generation that it must still have, or None for any.
        max_stored: limit for its bytes, or None.
        part: offset and length of the only bytes to fetch, or None for all.
        damaged: the checksums of former answers that were damaged; takes that of this one.
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


def _check_hash(data: bytes, hashes: str, uri: str, damaged: set[bytes]) -> None:
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
    if crc32c in damaged:
        raise FinalError(errno.EIO, "its bytes are not those of its checksum", uri)
    damaged.add(crc32c)
    raise ConnectionError(errno.EIO, "its bytes were damaged in transit")


# Two processes with one connection would read each other's answers.
os.register_at_fork(after_in_child=_connections.cache_clear)
