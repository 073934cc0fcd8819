"""The process's client of Google Cloud Storage, and handles of objects.

Packages of Google are imported when the first `gs://` path is met. `STORAGE_EMULATOR_HOST` is
honoured (https://cloud.google.com/python/docs/reference/storage).
"""

from __future__ import annotations

import errno
import functools
import os
from typing import TYPE_CHECKING

from transforms.storage.gcs.gcs_errors import translate_errors
from transforms.storage.interface import READERS

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

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
